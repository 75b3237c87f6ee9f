"""Builds the parts that run agents in containers, and connects them."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sm.api.auth import Containment
from sm.config import Config, sandbox_for
from sm.core.models import Process, Workspace
from sm.core.sightings import Sighting
from sm.core.states import TrustLevel
from sm.daemon.client_files import write_client
from sm.errors import SandboxUnavailable, SmError
from sm.paths import InstancePaths
from sm.sandboxes import Sandboxes, make_engine
from sm.sandboxes.engine import EngineContext, MakeEngine
from sm.sandboxes.host import HostSandbox
from sm.sandboxes.seen_processes import SeenProcesses
from sm.sandboxes.session_processes import SessionProcesses
from sm.sessions.writable_paths import WritablePaths
from sm.store import Store

log = logging.getLogger(__name__)

_ADOPT_WITHIN_S = 3.0
_LOOK_EVERY_S = 3.0


class SandboxParts:
    """The parts of both sandboxes. The constructor starts nothing: the engine is asked when a session needs it.

    `way_in`: the argv that runs a launch script on this host. By default it is found with the first session.
    `make_engine`: makes the engine, by default the one that the configuration names.
    """

    def __init__(
        self,
        config: Config,
        paths: InstancePaths,
        store: Store,
        *,
        way_in: tuple[str, ...] | None = None,
        make_engine: MakeEngine = make_engine,
    ) -> None:
        self._store = store
        self._config = config
        self.writable = WritablePaths(store, lambda workspace: sandbox_for(config, workspace))
        self.engine = make_engine(
            EngineContext(
                config,
                paths,
                store.instance,
                self._workspace,
                lambda: write_client(paths),
                self.writable.record,
                partial(self._remember, Sighting.ENGINE),
                partial(self._remember, Sighting.IMAGE),
            )
        )
        containers = self.engine.containers
        self.session_processes = SessionProcesses(
            store.instance,
            paths.launch,
            self._agents,
            lambda pid: containers.of_pid(pid) is not None,
            containers.first_processes,
            seen=SeenProcesses(paths.seen_processes),
        )
        self._host = HostSandbox(paths, self.session_processes, way_in=way_in)
        self.sandboxes = Sandboxes(self._host, self.engine.make_sandbox(self.session_processes))
        self.containment = Containment(self._contains, self._user)

    def _agents(self) -> dict[str, Process | None]:
        return {s.id: s.process for s in list(self._store.sessions.values()) if s.exit is None}

    async def watch_processes(self) -> None:
        """Move the agents of an earlier daemon into the cgroups of their sessions, and look at the processes of agents.

        Never returns. A look that fails is repeated: the daemon must not end because it has no free file descriptor.
        """
        await self._try_look(self.session_processes.enter_all)
        is_failing = False
        while True:
            is_failing = not await self._try_look(self.session_processes.look, is_failing=is_failing)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _try_look(self, look: Callable[[], None], *, is_failing: bool = False) -> bool:
        """Run `look` in a thread. Returns False if it failed, which is logged unless the one before failed too."""
        try:
            await asyncio.to_thread(look)
        except OSError as error:
            if not is_failing:
                log.warning("could not look at the processes of agents: %s", error)
            return False
        return True

    async def _remember(self, met: Sighting) -> None:
        try:
            await self._store.remember_met(met)
        except SmError as error:  # such as a full disk; the next answer is remembered
            log.warning("could not record that a sandbox was met: %s", error.message)

    def _workspace(self, slug: str) -> Workspace | None:
        found = self._store.workspaces.get(slug)
        return None if found is None or found.deleted_at is not None else found

    def _contains(self, pid: int, workspace: str | None) -> bool:
        container = self.engine.containers.of_pid(pid)
        return container is not None and container.workspace == workspace

    def _user(self, workspace: str | None) -> tuple[int, int] | None:
        container = self.engine.containers.find(workspace)
        return None if container is None else (container.uid, container.gid)

    async def has_program(self, workspace: Workspace | None, program: str) -> bool | None:
        """As `ProgramCheck` in sessions.container. Starts the container, which the caller's session needs anyway."""
        try:
            container = await self.engine.containers.ensure(workspace)
        except SandboxUnavailable:  # the start of the session reports it
            return None
        return await asyncio.to_thread(self.engine.has_program, container, program)

    def image_version(self, workspace: Workspace | None, program: str) -> str | None:
        """Find the version of an agent CLI in the image of a container (`ImageVersion`)."""
        image = self.engine.images.seen(sandbox_for(self._config, workspace).image)
        return None if image is None else image.version_of(program)

    async def adopt(self) -> None:
        """Find the containers of live sandboxed sessions. Returns soon, also while the engine does not answer."""
        sandboxed = [s for s in self._store.sessions.values() if s.effective_mode is TrustLevel.SANDBOXED]
        if sandboxed or await self._store.writable.of_sessions():
            # Also without a live one: its container is idle, and the last daemon's timer that stops it is gone.
            self.engine.containers.expect()
        if all(s.exit is not None for s in sandboxed):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_ADOPT_WITHIN_S):
                try:
                    await self.engine.containers.adopt()
                except SandboxUnavailable as error:
                    log.warning("could not find the containers: %s", error.message)

    async def close(self) -> None:
        """Agents and containers go on."""
        await self.engine.close()
        self._host.close()
        self.session_processes.close()
