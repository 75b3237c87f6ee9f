"""The daemon in the process of the test: the real parts, with the start and the end of the real daemon."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from sm.api.auth import Containment
from sm.api.middleware import KernelIdentifier
from sm.api.sockets import AGENT_SOCKET_LIMITS, SOCKET_LIMITS, Listener, Site, listen
from sm.config import load
from sm.core.models import Exit
from sm.core.programs import engine_of
from sm.daemon.database import open_database
from sm.daemon.foundation import HostParts
from sm.daemon.front_doors import DaemonLife
from sm.daemon.lock import InstanceLock, instance_lock
from sm.daemon.main import make_directories, write_command
from sm.daemon.sandboxing import SandboxParts
from sm.daemon.start import catch_up, run_until_one_ends, running_parts
from sm.daemon.wiring import DaemonParts
from sm.monitor.program_checks import RunCheck
from sm.paths import InstancePaths
from sm.sandboxes import make_engine
from sm.sandboxes.docker.parts import DockerEngine
from sm.sandboxes.docker.program import PROGRAM
from sm.sandboxes.engine import ContainerEngine, EngineContext
from sm.store import Store
from sm.store.audit import Audit
from tests.sim.clocks import Clocks
from tests.sim.docker_client import PlayedDockerClient
from tests.sim.engine import PlayedAccess, PlayedEngine
from tests.sim.file_events import PlayedNotices
from tests.sim.lives import Life
from tests.sim.log import LifeLog
from tests.sim.loop import VirtualLoop
from tests.sim.memory import Memory
from tests.sim.processes import PlayedKernel, PlayedProcess
from tests.sim.programs import WAY_IN
from tests.sim.terminals import PlayedServer
from tests.sim.wire import Switchboard


async def no_check(provider: str, path: str) -> None:
    """Check no program, so that it has no outcome."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a daemon: its loop, clocks, kernel, connections, terminals and files."""

    loop: VirtualLoop
    clocks: Clocks
    kernel: PlayedKernel
    board: Switchboard
    server: PlayedServer
    engine: PlayedEngine
    file_events: PlayedNotices
    paths: InstancePaths
    cover: Callable[[], None]


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """The arguments of `sm.daemon.main.main` that a test may set for each daemon."""

    containment: Containment | None = None
    check_program: RunCheck = no_check
    """No real program runs in a simulation."""
    memory: Memory = field(default_factory=Memory)


def played_engine(access: PlayedAccess, context: EngineContext) -> ContainerEngine:
    """Make the engine that the configuration names. Docker is played."""
    if engine_of(context.config.sandbox.engine) is PROGRAM:
        return DockerEngine(context, access)
    return make_engine(context)


class Daemon:
    """One life of the daemon: `start`, then `stop` or `drop`."""

    store: Store
    parts: DaemonParts

    def __init__(
        self, around: Surroundings, options: DaemonOptions | None = None, *, new_database: bool = False
    ) -> None:
        self._around = around
        self._options = options or DaemonOptions()
        self._new_database = new_database
        argv, environ = (sys.executable, "-m", "sm.daemon"), {"SM_HOME": os.path.dirname(around.paths.state)}
        self.process: PlayedProcess = around.kernel.start(argv, environ, "/")
        self.life = Life("daemon", self.process.pid)
        self._log = LifeLog(self.life)
        self._ready: asyncio.Future[None] = around.loop.create_future()
        self._dropped: asyncio.Future[None] = around.loop.create_future()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lock: InstanceLock | None = None
        self._audit: Audit | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done() and not self.life.is_dropped

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def start(self) -> None:
        """Return when it serves requests, or is dropped before. Raises what keeps it from starting."""
        self._task = self._around.loop.create_task(self._run(), context=self.life.context)
        self._task.add_done_callback(lambda _: self._end(Exit(0)))
        await self.wait_started()
        if self._task.done():
            try:
                self._task.result()
            except BaseException:
                self.drop()  # its process ends, and with it all that it has open
                raise

    async def wait_started(self) -> None:
        """Return when it serves requests, has ended or was dropped."""
        assert self._task is not None
        await asyncio.wait([self._task, self._ready, self._dropped], return_when=asyncio.FIRST_COMPLETED)

    async def wait_ended(self) -> None:
        assert self._task is not None
        await asyncio.wait([self._task])

    def _end(self, exit: Exit) -> None:
        """Let others see the end of its process."""
        self._log.close()
        self._around.kernel.end(self.process, exit)
        self._around.kernel.reap(self.process)

    async def stop(self) -> None:
        """As `sm daemon stop`."""
        assert self._task is not None
        self._stopping.set()
        await self._task

    def drop(self, *, keeps_files: bool = True) -> None:
        """End it without a word, as SIGKILL does. Idempotent. `keeps_files`: another daemon may read its database."""
        if self.life.is_dropped:
            return
        around = self._around
        self._dropped.set_result(None)
        for fd in around.loop.drop(self.life):
            around.file_events.close_watched(fd)
        around.board.close(self.life)
        # Not on the disk of the daemon, which may be full.
        aside = os.path.dirname(around.paths.config) + ".dropped"
        with ExitStack() as stack:
            if keeps_files:
                for end in ("", "-wal"):
                    stack.enter_context(_unchanged(around.paths.database + end, aside))
            for connection in self.life.connections:
                connection.close()
        if self._lock is not None:
            self._lock.close()
        if self._audit is not None:
            self._audit.close()
        self._end(Exit(signal=signal.SIGKILL))

    async def _run(self) -> None:
        paths = self._around.paths
        make_directories(paths)
        with instance_lock(paths) as self._lock:
            try:
                await self._serve()
            finally:
                self._lock = None  # closed with the block

    async def _serve(self) -> None:
        around, paths = self._around, self._around.paths
        write_command(paths)
        loaded = load(paths.config)
        around.cover()
        self._log.begin(paths, loaded.config.daemon.log_level)
        memory = self._options.memory
        unseen_days = memory.unseen_s / 86_400
        opened = await open_database(
            paths, new=self._new_database, unseen_days=unseen_days, lately_s=memory.lately_s
        )
        async with opened as store:
            terminals = around.server.client(store.instance, self.life)
            self.store = store
            engine = around.engine
            access = PlayedAccess(
                engine, around.loop, around.board, self.life, lambda: PlayedDockerClient(engine)
            )
            self.parts = parts = DaemonParts(
                paths,
                loaded,
                store,
                terminals,
                DaemonLife(around.clocks.steady(), self._stopping),
                AGENT_SOCKET_LIMITS,
                HostParts(
                    self._options.containment,
                    SandboxParts(
                        loaded.config,
                        paths,
                        store,
                        way_in=WAY_IN,
                        make_engine=partial(played_engine, access),
                    ),
                    around.clocks.wall,
                    around.clocks.steady,
                    self._options.check_program,
                ),
            )
            self._audit = parts.base.audit
            sock = listen(paths.socket)
            around.board.keep(sock, self.life)
            processes = parts.base.sandboxing.session_processes
            agents = processes._agents
            looks = SkippedLooks(processes.look, lambda: (around.kernel.changes, dict(agents())))
            processes.look = looks.look  # type: ignore[method-assign]
            later = await catch_up(paths, loaded, store, parts, terminals)
            runner = web.AppRunner(parts.doors.server.app(), shutdown_timeout=2.0)
            await runner.setup()
            identify = KernelIdentifier(parts.watch.identity).identify
            await Site(runner, Listener("sm.sock", SOCKET_LIMITS, identify), sock).start()
            await parts.doors.agent_sockets.serve()
            self._ready.set_result(None)
            running = {
                **running_parts(paths, store, parts, later),
                "stop": self._stopping.wait(),
                "memory": memory.limit(store),
            }
            try:
                await run_until_one_ends(running, parts, runner)
            finally:
                around.board.close(self.life)
                parts.watch.observer.close()
                with suppress(FileNotFoundError):
                    os.unlink(paths.socket)
                await parts.base.sandboxing.close()
                parts.base.audit.close()


class SkippedLooks:
    """Skips looks at a world that is as it was at the last two: they find nothing, and take a third of the time."""

    def __init__(self, look: Callable[[], None], world: Callable[[], object]) -> None:
        self._look = look
        self._world = world
        self._seen: list[object] = []

    def look(self) -> None:
        now = self._world()
        if self._seen == [now, now]:
            return
        self._look()
        self._seen = [*self._seen[-1:], now]


class _unchanged:  # noqa: N801 - a context manager
    """Puts a file back as it was: the end of the last connection writes what a killed process leaves unwritten."""

    def __init__(self, path: str, aside: str) -> None:
        self._path = path
        self._aside = aside + os.path.basename(path)

    def __enter__(self) -> None:
        with suppress(FileNotFoundError):
            shutil.copyfile(self._path, self._aside)

    def __exit__(self, *_: object) -> None:
        with suppress(FileNotFoundError):
            os.replace(self._aside, self._path)
