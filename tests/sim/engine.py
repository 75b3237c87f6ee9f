"""The played container engine: its process, its containers and its events. It outlives the daemon, and can go away."""

import asyncio
import errno
import itertools
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from sm.core.models import Exit
from tests.sim.containers import Cgroups, PlayedContainer, PlayedImage
from tests.sim.lives import Life
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedKernel, PlayedProcess
from tests.sim.wire import Switchboard

if TYPE_CHECKING:
    from docker import DockerClient

SOCKET = "/played/docker.sock"
ENGINE_URL = f"unix://{SOCKET}"
IMAGE = "sm-sandbox:work"
PROGRAMS = ("sh", "sleep", "cat", "python3", "sm")
_CALL_S = 0.004
_STOP_S = 0.05


class PlayedEngine:
    """One engine of the machine. It does not run until `start`. Its socket has no file on this machine."""

    def __init__(self, loop: VirtualLoop, kernel: PlayedKernel, board: Switchboard, directory: Path) -> None:
        self._loop = loop
        self._kernel = kernel
        self._board = board
        self._directory = directory
        self._ids = itertools.count(1)
        self._followers: list[_Connection] = []
        self._waiting: list[tuple[Callable[[], None], Context]] = []
        """Calls that the engine has not answered, because it hangs."""
        self._life: Life | None = None
        self.process: PlayedProcess | None = None
        self.has_socket = False
        """The file of the socket exists: a crash leaves it."""
        self.is_live_restoring = False
        """Containers go on while no engine runs."""
        self.url = ENGINE_URL
        self.containers: dict[str, PlayedContainer] = {}
        """By id."""
        self.images: dict[str, PlayedImage] = {}
        """By name."""
        self.networks: dict[str, dict[str, Any]] = {}
        self.clients: set[asyncio.Future[int]] = set()
        """The connections of `docker exec`: each gets the exit code of the command."""

    def new_id(self) -> str:
        return f"{next(self._ids):064x}"

    # Its life

    def start(self) -> None:
        """Start if it does not run. Without live restore, the containers of its predecessor end."""
        if self.process is not None:
            return
        if str(self._directory / "cgroup") not in self._kernel.file_systems:
            Cgroups(self._directory / "cgroup", self._kernel, self.containers)
            self.images.setdefault(IMAGE, PlayedImage(f"sha256:{self.new_id()}", PROGRAMS))
        for container in self._running():
            if not self.is_live_restoring:
                self._end(container, signal.SIGKILL)
        self.process = self._kernel.start(("dockerd",), {}, "/")
        self.process.start += 1  # an engine needs longer than a tick: no agent of its predecessor is as young
        self._life, self.has_socket = Life("engine", self.process.pid), True
        self._board.listen(SOCKET, self._life, lambda: _Connection(self))

    def kill(self) -> None:
        """End as a crash does: its containers go on, and the commands that talk to it end."""
        if self.process is None:
            return
        process, self.process = self.process, None
        self._kernel.end(process, Exit(signal=int(signal.SIGKILL)))
        self._kernel.reap(process)
        assert self._life is not None
        self._board.close(self._life)
        self._followers.clear()
        for client in tuple(self.clients):
            _set(client, 1)
        self._answer_waiting()

    def stop(self) -> None:
        """End in order: without live restore, it stops its containers first. Its socket is removed."""
        for container in self._running():
            if not self.is_live_restoring:
                self._end(container, signal.SIGTERM)
        self.kill()
        self.has_socket = False

    def hang(self) -> None:
        """Accept connections and answer nothing."""
        assert self.process is not None
        self._kernel.signal(self.process, signal.SIGSTOP)

    def resume(self) -> None:
        if self.process is not None:
            self._kernel.signal(self.process, signal.SIGCONT)
            self._answer_waiting()

    @property
    def hangs(self) -> bool:
        return self.process is not None and self.process.is_stopped

    def ask(self, answer: Callable[[], None]) -> None:
        """Call `answer` in the present context, as soon as the engine does not hang."""
        if self.hangs:
            self._waiting.append((answer, copy_context()))
        else:
            answer()

    def _answer_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for answer, context in waiting:
            self._loop.call_soon(answer, context=context)

    # Containers

    def find(self, name: str) -> PlayedContainer | None:
        """By name, id, or the beginning of the id."""
        for container in self.containers.values():
            if container.name == name or (name and container.id.startswith(name)):
                return container
        return None

    def _running(self) -> list[PlayedContainer]:
        return [container for container in self.containers.values() if container.is_running]

    def add(
        self, name: str, labels: Mapping[str, str], user: str, image: PlayedImage, settings: Mapping[str, Any]
    ) -> PlayedContainer:
        id, place = self.new_id(), self._directory / "containers"
        made = PlayedContainer(
            id, name, labels, user, image.id, settings, place / id, self._directory / "cgroup"
        )
        self.containers[id] = made
        return made

    def run(self, container: PlayedContainer) -> None:
        """Start the processes of a container that does not run."""
        init = self._kernel.start(("docker-init", "--", "sleep", "infinity"), {}, "/", place=container)
        image = next((i for i in self.images.values() if i.id == container.image), None)
        container.begin(init, PROGRAMS if image is None else image.programs)
        command = self._kernel.start(("sleep", "infinity"), {}, "/", parent=init.pid)
        # `docker-init` passes on signals, and ends with its command.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            init.handlers[number] = lambda number=number: self._kernel.signal(command, number)  # type: ignore[misc]
        command.on_end.append(lambda: self._kernel.end(init, _passed_on(command)))
        init.on_end.append(lambda: self._notice_end(container, init))
        self._tell("start", container)

    def run_foreign(self, name: str, labels: Mapping[str, str] | None = None) -> PlayedContainer:
        """Run a container that sm did not make, as `docker run`."""
        made = self.add(name, labels or {}, "", self.images[IMAGE], {"NetworkMode": "none"})
        self.run(made)
        return made

    def _notice_end(self, container: PlayedContainer, init: PlayedProcess) -> None:
        """The first process has ended, and the kernel ends all others."""
        inhabitants = self._kernel.inhabitants(container)
        container.finish(_code(init.exit or Exit()))
        for process in inhabitants:
            self._kernel.end(process, Exit(signal=int(signal.SIGKILL)))
        for process in [p for p in self._kernel.processes.values() if p.place is container]:
            self._kernel.reap(process)
        self._tell("die", container, exitCode=str(container.exit_code))

    def _end(self, container: PlayedContainer, number: int) -> None:
        if container.init is None:
            return
        self._tell("kill", container, signal=str(int(number)))
        if container.is_frozen:
            self.unpause(container)
        self._kernel.end(container.init, Exit(signal=int(number)))

    def kill_container(self, container: PlayedContainer, number: int = signal.SIGKILL) -> None:
        """As `docker kill`, and as `docker stop` with SIGTERM."""
        self._end(container, number)

    def remove(self, container: PlayedContainer) -> None:
        """As `docker rm -f`."""
        self._end(container, signal.SIGKILL)
        del self.containers[container.id]
        container.forget()
        self._tell("destroy", container)

    def pause(self, container: PlayedContainer) -> None:
        container.state = "paused"
        self._tell("pause", container)

    def unpause(self, container: PlayedContainer) -> None:
        container.state = "running"
        self._kernel.thaw(container)
        self._tell("unpause", container)

    def end_for_lack_of_memory(self, container: PlayedContainer, process: PlayedProcess) -> None:
        """End a process of a container as the kernel does when the memory is used up."""
        container.oom_kills += 1
        container.oom_killed = True
        self._kernel.end(process, Exit(signal=int(signal.SIGKILL)))
        self._tell("oom", container)

    # Events

    def _tell(self, kind: str, container: PlayedContainer, **more: str) -> None:
        attributes = {**container.labels, **more}
        event = {"Action": kind, "Actor": {"ID": container.id, "Attributes": attributes}}
        if self.process is None:
            return
        for follower in tuple(self._followers):
            if follower.wants(kind, container.labels):
                self._loop.call_later(_CALL_S, follower.send, json.dumps(event).encode() + b"\n")

    def follow(self, connection: "_Connection") -> None:
        self._followers.append(connection)

    def lose(self, connection: "_Connection") -> None:
        if connection in self._followers:
            self._followers.remove(connection)


class _Connection(asyncio.Protocol):
    """The engine's end of a connection to its socket."""

    def __init__(self, engine: PlayedEngine) -> None:
        self._engine = engine
        self._head = b""
        self._filters: dict[str, list[str]] = {}
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self._head.endswith(b"\r\n\r\n"):
            self._engine.ask(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._engine.lose(self)

    def _answer(self) -> None:
        target = urlsplit(self._head.split()[1].decode())
        self.send(b"HTTP/1.0 200 OK\r\nServer: played\r\n\r\n")
        if target.path == "/events":
            self._filters = json.loads(parse_qs(target.query)["filters"][0])
            self._engine.follow(self)
        elif self._transport is not None:
            self.send(b"OK")
            self._transport.close()

    def wants(self, kind: str, labels: Mapping[str, str]) -> bool:
        own = {f"{name}={value}" for name, value in labels.items()}
        return kind in self._filters["event"] and own.issuperset(self._filters["label"])

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._engine.ask(lambda: None if self._transport is None else self._transport.write(data))


class PlayedAccess:
    """`EngineAccess` of one life of the daemon to the played engine."""

    def __init__(
        self, engine: PlayedEngine, loop: VirtualLoop, board: Switchboard, life: Life, make: Callable[[], Any]
    ) -> None:
        """`make`: makes a client of the SDK."""
        self._engine = engine
        self._loop = loop
        self._board = board
        self._life = life
        self._make = make

    async def connect(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if path != SOCKET or not self._engine.has_socket:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self._engine.process is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        reader = asyncio.StreamReader(limit=1 << 20, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport = self._board.connect(path, protocol, self._life.pid, self._life)
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    def make_client(self, url: str, timeout_s: float) -> "DockerClient":
        return cast("DockerClient", self._make())

    def start_thread(self, work: Callable[[], None]) -> None:
        """Call the engine after a while, as a thread would: the daemon may have been dropped before."""
        self._loop.call_later(_CALL_S, self._engine.ask, work)

    def find_command(self) -> str | None:
        return "/usr/bin/docker"


def _set(future: "asyncio.Future[int]", code: int) -> None:
    if not future.done():
        future.set_result(code)


def _code(exit: Exit) -> int:
    return (exit.code or 0) if exit.signal is None else 128 + exit.signal


def _passed_on(command: PlayedProcess) -> Exit:
    return Exit(_code(command.exit or Exit()))
