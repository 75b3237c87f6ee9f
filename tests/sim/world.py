"""A simulation: the world of the daemon, with its clocks, processes, terminals, programs and people."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from aiohttp import client_reqrep, web_protocol, web_ws

from sm.daemon import lock
from sm.linux.inotify import replaced_notices
from sm.linux.kernel import replaced_kernel
from sm.paths import InstancePaths
from sm.store import Store, connection
from tests.sim.clocks import Clocks, PlayedModules
from tests.sim.containers import played_client
from tests.sim.daemon import Daemon, DaemonOptions, Surroundings
from tests.sim.database import played_threads
from tests.sim.disk import Disk
from tests.sim.engine import PlayedEngine
from tests.sim.file_events import PlayedNotices
from tests.sim.guards import guarded
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedKernel
from tests.sim.programs import Programs
from tests.sim.replacing import encoded, environment, replaced
from tests.sim.settling import settled
from tests.sim.template import inspect_or_copy
from tests.sim.terminals import PlayedServer
from tests.sim.watchdog import watchdog
from tests.sim.wire import Caller, Switchboard

CONFIG = """
default_trust: direct
commands:
  Sleeper: {command: [sleep, "1000000"], prompt: file}
"""
_AIOHTTP = client_reqrep, web_protocol, web_ws
_SYS_OF_AIOHTTP = SimpleNamespace(**{**vars(sys), "version_info": (3, 11)})
"""With a newer version, aiohttp starts tasks without the loop, which then can neither number nor drop them."""
_MEMORY = "/dev/shm"
_WITHIN_S = 120.0
_KEPT = ("PYTEST_", "COVERAGE_", "SM_LONG", "SM_SEED", "DOCKER_HOST", "TMPDIR")
"""The beginnings of the variables of this process that a daemon gets. Each command gives all others up for a while."""
_LOG_ROOM_BYTES = 1 << 16
"""No file system has to grow: the megabytes of the real daemon would only be written and copied."""
T = TypeVar("T")


class World:
    """Everything but the daemon. It outlives each of its daemons."""

    def __init__(self, directory: Path, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.clocks = Clocks(loop)
        self.modules = PlayedModules(self.clocks, seed)
        self.kernel = PlayedKernel(loop)
        self.server = PlayedServer(loop, self.kernel, self.clocks.wall)
        self.board = Switchboard(loop)
        self.disk = Disk(str(directory))
        self.home = directory
        self.work = directory / "work"
        self.paths = InstancePaths(str(directory / "config.yaml"), str(directory / "state"))
        self.file_events = PlayedNotices()
        self.engine = PlayedEngine(loop, self.kernel, self.board, directory / "engine")
        """The container engine, which does not run until `engine.start`."""
        self.programs = Programs(self.server, self.kernel, self.board, self.paths.socket)
        self.programs.engine = self.engine
        self.environ = {
            "HOME": str(directory),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SM_HOME": str(directory),
        }
        self.shell = self.kernel.start(("bash",), self.environ, str(self.work), tty=self.kernel.new_tty())
        """The shell of the operator."""
        self.operator = self.programs.caller(self.shell)
        """Requests of the operator, from a shell."""
        self.daemon_options = DaemonOptions()
        """The options of the daemons that start from now on."""
        self._daemons: list[Daemon] = []
        self._drops_next: int | None = None

    # The daemon

    @property
    def daemon(self) -> Daemon:
        """The daemon that runs."""
        return self._daemons[-1]

    @property
    def store(self) -> Store:
        """The store of the newest daemon that has opened one."""
        return next(daemon.store for daemon in reversed(self._daemons) if hasattr(daemon, "store"))

    async def start(self, *, new_database: bool = False) -> Daemon:
        """Start a daemon, and return it when it serves requests or was dropped."""
        assert not self._daemons or not self._daemons[-1].is_running, "a daemon runs already"
        around = Surroundings(
            self.loop,
            self.clocks,
            self.kernel,
            self.board,
            self.server,
            self.engine,
            self.file_events,
            self.paths,
            self.modules.cover,
        )
        daemon = Daemon(around, self.daemon_options, new_database=new_database)
        self._daemons.append(daemon)
        if self._drops_next is not None:
            self.loop.interrupt_after(self._drops_next, daemon.drop)
            self._drops_next = None
        await daemon.start()
        return daemon

    async def launch(self, *, new_database: bool = False) -> None:
        """Return when a daemon serves, perhaps one that another command started: as `launch` of start_daemon.py."""
        while self._daemons and self.daemon.is_running:
            if not self.daemon.is_stopping:
                await self.daemon.wait_started()
                return
            await self.daemon.wait_ended()
        await self.start(new_database=new_database)

    async def restart(self) -> Daemon:
        """Drop the daemon without a word, and start the next one from its files."""
        self.daemon.drop()
        return await self.start()

    def drop_after(self, steps: int) -> "asyncio.Future[None]":
        """Drop the daemon between two callbacks, that many steps from now. The result comes after the drop."""
        dropped, daemon = self.loop.create_future(), self.daemon

        def drop() -> None:
            daemon.drop()
            dropped.set_result(None)

        self.loop.interrupt_after(steps, drop)
        return dropped

    def drop_next_after(self, steps: int) -> None:
        """Drop the next daemon that many steps after it begins to start."""
        self._drops_next = steps

    def forget_drops(self) -> None:
        """Drop no daemon, and end no process, of which `drop_next_after` or the loop still knows."""
        self._drops_next = None
        self.loop.forget_interruptions()

    async def settled(self, within_s: float = _WITHIN_S) -> None:
        """Wait until the daemon has nothing left to do but to wait."""
        await settled(self.daemon, self.loop, self.clocks, within_s)

    def end_daemon(self) -> None:
        if self._daemons and self._daemons[-1].is_running:
            self._daemons[-1].drop(keeps_files=False)

    # Sessions

    async def spawn(
        self, agent_type: str, prompt: str = "work", *, by: Caller | None = None, **more: Any
    ) -> str:
        """Spawn a session as `sm spawn` does. Returns its id."""
        body: dict[str, object] = {"agent_type": agent_type, "prompt": prompt, "cwd": str(self.work), **more}
        body.setdefault("environment", dict(self.environ))
        answer = await (by or self.operator).post("/v1/sessions", body)
        return str(answer["session_id"])

    async def session(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.operator.get(f"/v1/sessions/{session_id}")
        return found

    async def in_status(self, session_id: str, status: str) -> dict[str, Any]:
        return await self.until(
            lambda: self.session(session_id), lambda found: found["status"] == status, status
        )

    async def until(
        self,
        look: Callable[[], Awaitable[T]],
        is_it: Callable[[T], object] = bool,
        what: str = "the answer",
        within_s: float = _WITHIN_S,
    ) -> T:
        """Look again and again until the result is right, for `within_s` of virtual time."""
        until_s = self.loop.time() + within_s
        while True:
            found = await look()
            if is_it(found):
                return found
            assert self.loop.time() < until_s, (
                f"not within {within_s:g} virtual seconds: {what}; last: {found!r}"
            )
            await asyncio.sleep(0.05)


_worlds: list[World] = []
"""The world that sm lives in now: at most one."""


@contextmanager
def world_on(loop: VirtualLoop, config: str, seed: int, *, in_memory: bool = True) -> Iterator[World]:
    """A world without a daemon. While the context is open, sm reads its clocks and asks its kernel.

    `in_memory`: the files are in a memory file system, from which no container may mount anything.
    """
    assert not _worlds, "another world has not ended: give its fixture the scope of a function"
    with ExitStack() as stack:
        # No commit waits for a disk there.
        memory = _MEMORY if in_memory and os.access(_MEMORY, os.W_OK) else None
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="sm-", dir=memory or "/tmp"))
        world = World(Path(directory), loop, seed)
        world.work.mkdir()
        Path(world.paths.config).write_text(config, encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
        stack.enter_context(environment(encoded({**kept, **world.environ})))  # of the daemon
        stack.enter_context(played_threads(world.disk))
        stack.enter_context(played_client())
        stack.enter_context(
            replaced(
                (lock, "_listener", world.board.listener),
                (connection, "inspect", inspect_or_copy),
                (connection, "_LOG_ROOM_BYTES", _LOG_ROOM_BYTES),
            )
        )
        stack.enter_context(replaced(*((module, "sys", _SYS_OF_AIOHTTP) for module in _AIOHTTP)))
        stack.enter_context(replaced_kernel(world.kernel))
        stack.enter_context(replaced_notices(world.file_events))
        stack.enter_context(world.modules.covered())
        stack.callback(world.kernel.close)
        _worlds.append(world)
        stack.callback(_worlds.clear)
        stack.enter_context(watchdog().watched(loop))
        guards = guarded(
            world.clocks.sleep, world.kernel.kill, world.kernel.open_pidfd, world.disk.check_open
        )
        stack.enter_context(guards)
        loop.on_skip = world.modules.cover
        try:
            yield world
        finally:
            world.end_daemon()
            loop.on_skip = lambda: None


@asynccontextmanager
async def simulation(
    config: str = CONFIG, *, seed: int = 1, starts: bool = True, in_memory: bool = True
) -> AsyncIterator[World]:
    """A world with a daemon that has the configuration. All that runs in it, and its files, end with the context."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), "mark the test with @pytest.mark.simulation"
    with world_on(loop, config, seed, in_memory=in_memory) as world:
        try:
            if starts:
                await world.start()
            yield world
        finally:
            await world.programs.end()
