"""Opens the agent sockets: one for each workspace with sandboxed sessions, one for sessions without a workspace.

Each lies alone in a directory that is mounted into the containers of its workspace, knows the routes of agents only,
and asks for a token at every request. None is open where no session is sandboxed.
"""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress

from aiohttp import web

from sm.api.auth import Contained, Tokens
from sm.api.middleware import ByToken
from sm.api.sockets import Listener, Site, SocketLimits, listen
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import ExternalError, SmError, StorageFull
from sm.paths import Places
from sm.store import Store

log = logging.getLogger(__name__)


class AgentSockets:
    """Opens a workspace's socket before its first sandboxed agent starts, or with the daemon; closes all at its end.

    `app` makes the application of all of them, when the first is opened.
    """

    def __init__(
        self,
        places: Places,
        store: Store,
        bounds: SocketLimits,
        contained: Contained,
        app: Callable[[], web.Application],
    ) -> None:
        self._places = places
        self._store = store
        self._bounds = bounds
        self._contained = contained
        self._app = app
        self._runner: web.AppRunner | None = None
        self._open: set[str | None] = set()
        self._opening = asyncio.Lock()

    async def serve(self) -> None:
        """Open those of the sandboxed sessions whose processes may still live. Once."""
        for session in living(self._store.sessions):
            try:
                await self.ready_for(session)
            except SmError as error:  # a full disk must let a daemon start
                log.warning("%s", error.message, extra={"sm_session": session.id})

    async def ready_for(self, session: Session) -> None:
        """Return when the session can call. Raises StorageFull, InvalidPath, ExternalError."""
        if session.effective_mode is not TrustLevel.SANDBOXED or session.workspace in self._open:
            return
        async with self._opening:
            if session.workspace not in self._open:
                try:
                    await self._serve_workspace(session.workspace)
                except OSError as error:
                    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                    raise (StorageFull if full else ExternalError)(
                        f"the socket for sandboxed agents could not be opened: {error.strerror}"
                    ) from None
                self._open.add(session.workspace)

    async def _serve_workspace(self, workspace: str | None) -> None:
        path = self._places.agent_socket(workspace)
        directory = os.path.dirname(path)
        for each in (os.path.dirname(directory), directory):
            os.makedirs(each, 0o700, exist_ok=True)
            if stat.S_IMODE(os.stat(each).st_mode) != 0o700:
                os.chmod(each, 0o700)
        if self._runner is None:
            runner = web.AppRunner(self._app(), shutdown_timeout=2.0)
            await runner.setup()
            self._runner = runner
        tokens = Tokens(self._store.session_of_token, workspace, self._contained)
        name = f"{workspace or 'no workspace'} socket"
        listener = Listener(
            name, self._bounds, ByToken(tokens).identify, "what only the operator may do is not there"
        )
        await Site(self._runner, listener, listen(path)).start()

    async def close(self) -> None:
        """Idempotent. The directories stay: they are mounted into containers that go on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for workspace in self._open:
            with suppress(FileNotFoundError):
                os.unlink(self._places.agent_socket(workspace))
        self._open.clear()


def living(sessions: Mapping[str, Session]) -> list[Session]:
    """The sandboxed sessions whose processes are not known to be gone."""
    return [s for s in sessions.values() if s.exit is None and s.effective_mode is TrustLevel.SANDBOXED]
