"""Opens the agent sockets: one for each workspace with sandboxed sessions, one for sessions without a workspace.

Each socket is alone in a directory that is mounted read-only into the container of its workspace: a process there can
connect, but neither remove nor replace the socket. The directory and the socket belong to the user of the container,
and the directories above to the daemon alone. The socket offers only the routes of agents and requires a token for
every request.
"""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from sm.api.auth import Containment, Tokens
from sm.api.middleware import TokenIdentifier
from sm.api.sockets import Listener, Site, SocketLimits, listen
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import ExternalError, SmError, StorageFull
from sm.linux.mount_points import removed_mounts
from sm.paths import INSIDE_SOCKET_DIR, InstancePaths
from sm.sessions.setup_checks import DEFAULT_CONTAINER
from sm.store import Store

log = logging.getLogger(__name__)

_KEEP_EVERY_S = 2.0
"""How often the sockets are looked for."""


class AgentSockets:
    """Opens a workspace's socket at the start of its first sandboxed agent or of the daemon, and closes all sockets.

    `app` creates the application that all sockets share, when the first socket is opened.
    """

    def __init__(
        self,
        paths: InstancePaths,
        store: Store,
        bounds: SocketLimits,
        containment: Containment,
        app: Callable[[], web.Application],
    ) -> None:
        self._paths = paths
        self._store = store
        self._bounds = bounds
        self._containment = containment
        self._app = app
        self._runner: web.AppRunner | None = None
        self._open: dict[str | None, Site] = {}
        self._opening = asyncio.Lock()

    async def serve(self) -> None:
        """Open the sockets of sandboxed sessions whose processes may still live. Call it once."""
        sessions = self._store.sessions.values()
        for session in [s for s in sessions if s.exit is None and s.effective_mode is TrustLevel.SANDBOXED]:
            try:
                await self.ready_for(session)
            except SmError as error:  # a full disk must not keep the daemon from starting
                log.warning("%s", error.message, extra={"sm_session": session.id})

    async def ready_for(self, session: Session) -> None:
        """Return when the session's socket is open, and belongs to the user of its container.

        Call it again when the container was made anew. Raises StorageFull, InvalidPath, ExternalError.
        """
        if session.effective_mode is not TrustLevel.SANDBOXED:
            return
        async with self._opening:
            try:
                if session.workspace not in self._open:
                    self._open[session.workspace] = await self._serve_workspace(session.workspace)
                self._give(session.workspace)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                failure = StorageFull if full else ExternalError
                raise failure(f"cannot open the socket for sandboxed agents: {error.strerror}") from None

    async def keep(self) -> None:
        """Make sockets anew that a cleaner of temporary files removed. Never returns."""
        while True:  # no event reports this on every file system
            await asyncio.sleep(_KEEP_EVERY_S)
            for workspace in list(self._open):
                if os.path.lexists(self._paths.agent_socket(workspace)):  # noqa: ASYNC240 - a local file
                    continue
                async with self._opening:
                    await self._serve_again(workspace)

    async def _serve_again(self, workspace: str | None) -> None:
        """Serve a new socket. Connections to the removed one go on."""
        path = self._paths.agent_socket(workspace)
        try:
            site = await self._serve_workspace(workspace)
            removed, self._open[workspace] = self._open[workspace], site
            await removed.stop()
            self._give(workspace)
            log.warning("%s was removed; it is served again", path)
        except (OSError, SmError) as error:
            log.warning("cannot serve %s again: %s", path, error)

    async def _serve_workspace(self, workspace: str | None) -> Site:
        path = self._paths.agent_socket(workspace)
        parent = os.path.dirname(path)
        for directory in (os.path.dirname(parent), parent):
            os.makedirs(directory, 0o700, exist_ok=True)
            if stat.S_IMODE(os.stat(directory).st_mode) != 0o700:
                os.chmod(directory, 0o700)
        if self._runner is None:
            runner = web.AppRunner(self._app(), shutdown_timeout=2.0)
            await runner.setup()
            self._runner = runner
        tokens = Tokens(self._store.memory.session_of_token, workspace, self._containment)
        name = f"{workspace or 'no workspace'} socket"
        listener = Listener(
            name,
            self._bounds,
            TokenIdentifier(tokens).identify,
            "this socket has no operations that only the operator may do",
        )
        site = Site(self._runner, listener, listen(path))
        await site.start()
        return site

    def _give(self, workspace: str | None) -> None:
        """Make the container's user the owner of the socket and its directory. Only a daemon of root changes it."""
        user = self._containment.user(workspace)
        if user is None or os.geteuid() != 0:
            return
        path = self._paths.agent_socket(workspace)
        for place in (path, os.path.dirname(path)):
            status = os.lstat(place)
            if (status.st_uid, status.st_gid) != user:
                os.chown(place, *user, follow_symlinks=False)

    async def close(self) -> None:
        """Idempotent. The directories stay, because they are mounted into containers that keep running."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for workspace in self._open:
            with suppress(FileNotFoundError):
                os.unlink(self._paths.agent_socket(workspace))
        self._open.clear()


def unreachable_containers(paths: InstancePaths, store: Store) -> list[str]:
    """Return a sentence for each container whose agents cannot reach the daemon, with the way back.

    A running container keeps the removed directory of its socket, in which no other socket can be made.
    """
    running = {
        session.workspace: session.process.pid
        for session in store.index.unfinished.values()
        if session.effective_mode is TrustLevel.SANDBOXED and session.exit is None and session.process
    }
    return [
        f"agents in container {name} cannot reach sm: {os.path.dirname(paths.agent_socket(workspace))} was "
        f"removed while the container ran; type sm sandbox stop {name} --force, then sm restore for each agent"
        for name, workspace in sorted((workspace or DEFAULT_CONTAINER, workspace) for workspace in running)
        if INSIDE_SOCKET_DIR in removed_mounts(running[workspace])
    ]
