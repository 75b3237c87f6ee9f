"""The connection to the Docker engine of this machine.

Each call of the SDK runs in a thread and has a time limit. A ping on the event loop comes first, so a call to an engine
that hangs takes no thread, and a daemon on a machine without an engine never imports the SDK.
"""

import asyncio
import contextlib
import grp
import os
import pwd
import re
import shutil
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sm.errors import EngineMissing, SandboxUnavailable, SandboxUnreachable
from sm.linux.processes import open_files_max, program_name
from sm.sandboxes.containers import Container
from sm.sandboxes.engine import EngineFacts

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")

DEFAULT_URL: Final = "unix:///var/run/docker.sock"
PING_S: Final = 15.0
"""An engine that does not answer a ping in this time hangs. A busy one has needed more than 5 s."""
CALL_S: Final = 60.0
"""A limit for a call of an engine that answers pings: a busy one has needed more than 20 s."""
_THREADS_MAX: Final = 8
_LINE_MAX_BYTES: Final = 1 << 20
_PODMAN: Final = re.compile(rb"^Libpod-Api-Version: *([0-9.]{1,20})", re.IGNORECASE | re.MULTILINE)
"""A header of every answer of Podman's service (podman-system-service(1))."""
_START_HINT: Final = "sudo systemctl start docker"


class EngineError(SandboxUnavailable):
    """The engine refused a request. `status`: the HTTP status of its answer, such as 404 or 409; 0 if unknown."""

    def __init__(self, message: str, hint: str | None = None, *, status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class EngineAccess(Protocol):
    """The way to an engine: its socket, the SDK and the command docker."""

    async def connect(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the socket at `path`. Raises OSError."""

    def make_client(self, url: str, timeout_s: float) -> "DockerClient":
        """Make a client of the SDK. The caller closes it. Raises DockerException. Blocks."""

    def start_thread(self, work: Callable[[], None]) -> None:
        """Run `work` apart from the event loop."""

    def find_command(self) -> str | None:
        """Look up the command docker on the PATH. Returns its path; None when it is not there."""


class LocalAccess:
    """`EngineAccess` on this machine."""

    async def connect(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(path, limit=_LINE_MAX_BYTES)

    def make_client(self, url: str, timeout_s: float) -> "DockerClient":
        import docker

        _close_failed_connections()
        return docker.DockerClient(base_url=url, timeout=timeout_s)  # type: ignore[arg-type]  # takes a float

    def start_thread(self, work: Callable[[], None]) -> None:
        # A daemon thread: unlike the threads of an executor, it never delays the end of the process.
        threading.Thread(target=work, name="docker", daemon=True).start()

    def find_command(self) -> str | None:
        return shutil.which("docker")


class Engine:
    """One engine. Every method except `close` raises SandboxUnavailable when the engine does not serve it.

    It is SandboxUnreachable when an engine runs and its answer does not come.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        ping_s: float = PING_S,
        answered: Callable[[], Awaitable[None]] | None = None,
        access: EngineAccess | None = None,
    ) -> None:
        """`url`: None for the engine that DOCKER_HOST names, or the engine of this machine.

        `answered` is awaited after each answer to a ping. `access`: by default that of this machine.
        """
        self.url: Final = url or os.environ.get("DOCKER_HOST") or DEFAULT_URL
        self._ping_s = ping_s
        self._answered = answered
        self._threads = asyncio.Semaphore(_THREADS_MAX)
        self._access = access or LocalAccess()
        self._clients = _Clients(self.url, self._access)
        self._facts: tuple[int, EngineFacts] | None = None

    @property
    def socket_path(self) -> str:
        """Raises SandboxUnavailable for an engine on another machine."""
        path = self.url.removeprefix("unix://")
        if not path.startswith("/"):
            raise SandboxUnavailable(
                f"the Docker engine {self.url} is not on this machine: the daemon must see the processes of its agents",
                f"sm config edit, and set sandbox.engine to {DEFAULT_URL}",
            )
        return path

    async def call(self, work: "Callable[[DockerClient], T]", *, timeout_s: float = CALL_S) -> T:
        """Run `work` in a thread, and return its result.

        No other thread uses the client of `work` meanwhile. After the time limit, or when the caller is cancelled, the
        thread goes on until its socket times out. Raises EngineError when the engine refuses.
        """
        pid = await self.ping()
        async with self._within(timeout_s):
            await self._threads.acquire()
            return await self._start_thread(partial(self._clients.run, work, pid, timeout_s))

    async def ping(self) -> int:
        """Return the pid of the process that listens on the engine's socket."""
        async with self._within(self._ping_s), self._connection() as (reader, writer):
            self._refuse_podman(await _request(reader, writer, "/_ping"))
            pid = _peer_pid(writer)
        if self._answered is not None:
            await self._answered()
        return pid

    def _refuse_podman(self, head: bytes) -> None:
        """Raise SandboxUnavailable for an engine that builds images for minutes and then refuses our containers."""
        if podman := _PODMAN.search(head):
            raise SandboxUnavailable(
                f"the engine at {self.url} is Podman {podman[1].decode()}, and containers of sm need Docker",
                f"sudo apt install docker.io, then sm config edit, and set sandbox.engine to {DEFAULT_URL}",
            )

    async def facts(self) -> EngineFacts:
        """The facts, which are read once for each process of the engine."""
        pid = await self.ping()
        if self._facts is None or self._facts[0] != pid:
            self._facts = pid, _facts_of(await self.call(_info), pid)
        return self._facts[1]

    def command(self) -> str:
        """The absolute path of the command docker. Raises SandboxUnavailable."""
        found = self._access.find_command()
        if found is None:
            raise SandboxUnavailable(
                "the command docker is not on the daemon's PATH",
                "install it (on Debian: sudo apt install docker.io), then: sm daemon restart",
            )
        return os.path.abspath(found)

    def enter_command(
        self, container: Container, directory: str, variables: Sequence[str], argv: Sequence[str]
    ) -> list[str]:
        """The command that runs `argv` in a container at a person's terminal. `variables`: NAME, or NAME=VALUE."""
        return [
            *("docker", "-H", self.url, "exec", "-it"),
            *(word for variable in variables for word in ("-e", variable)),
            *("--user", f"{container.uid}:{container.gid}", "--workdir", directory, container.id),
            *argv,
        ]

    def close(self) -> None:
        """Close idle connections, without a word to the engine. Threads in calls end later. Idempotent."""
        self._clients.close()

    @contextlib.asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[asyncio.StreamReader]:
        """The body of a GET request without an end, such as of `/events`."""
        async with contextlib.AsyncExitStack() as stack:
            async with self._within(self._ping_s):
                reader, writer = await stack.enter_async_context(self._connection())
                await _request(reader, writer, target)
            yield reader

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        try:
            reader, writer = await self._access.connect(self.socket_path)
        except PermissionError:
            raise _not_permitted(self.socket_path) from None
        except FileNotFoundError:
            # Only here: an engine that crashed leaves its socket, and one that hangs still accepts connections.
            raise EngineMissing(
                f"no Docker engine runs: {self.socket_path} does not exist", _START_HINT
            ) from None
        except OSError as error:
            raise SandboxUnavailable(
                f"no Docker engine listens on {self.socket_path}: {error.strerror or error}", _START_HINT
            ) from None
        try:
            yield reader, writer
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise SandboxUnreachable(
                f"the Docker engine at {self.url} closed the connection: {error}"
            ) from None
        finally:
            writer.transport.abort()

    @contextlib.asynccontextmanager
    async def _within(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise SandboxUnreachable(
                f"the Docker engine at {self.url} does not respond: no answer within {timeout_s:g} s",
                "sudo systemctl restart docker",
            ) from None

    def _start_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: Exception | None) -> None:
            self._threads.release()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # a result without an error is a T

        def run() -> None:
            outcome: tuple[T | None, Exception | None]
            try:
                outcome = work(), None
            except Exception as error:  # noqa: BLE001  # passed to the caller of `call`
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(finish, *outcome)

        self._access.start_thread(run)
        return answer


class _Clients:
    """Idle clients of the SDK: making one takes 10 ms. A thread takes one out while it uses it."""

    def __init__(self, url: str, access: EngineAccess) -> None:
        self._url = url
        self._access = access
        self._idle: list[tuple[int, DockerClient]] = []
        self._closed = False

    def run(self, work: "Callable[[DockerClient], T]", pid: int, timeout_s: float) -> T:
        """`pid`: the process of the engine. A client of an engine before it is not used any more."""
        import requests
        import urllib3
        from docker.errors import APIError, DockerException

        client = None
        try:
            client = self._take(pid, timeout_s)
            result = work(client)
        except APIError as error:
            status = error.status_code or 0
            raise EngineError(
                f"the Docker engine refused: {error.explanation or error}", status=status
            ) from error
        except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise SandboxUnreachable(f"the Docker engine at {self._url} did not answer: {error}") from error
        else:
            if not self._closed:
                self._idle.append((pid, client))
                client = None
            return result
        finally:
            if client is not None:
                client.close()

    def _take(self, pid: int, timeout_s: float) -> "DockerClient":
        while (idle := self._pop()) is not None:
            made_for, client = idle
            if made_for == pid:
                client.api.timeout = timeout_s  # type: ignore[assignment]  # takes a float
                return client
            client.close()
        return self._access.make_client(self._url, timeout_s)

    def _pop(self) -> "tuple[int, DockerClient] | None":
        with contextlib.suppress(IndexError):  # another thread may have taken the last one
            return self._idle.pop()
        return None

    def close(self) -> None:
        self._closed = True
        while (idle := self._pop()) is not None:
            idle[1].close()


def _close_failed_connections() -> None:
    """Close the socket of a connection that fails. The SDK (7.2) leaves it open until it is collected."""
    from docker.transport import unixconn

    def connect(connection: Any) -> None:
        with contextlib.ExitStack() as failed:
            made = failed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            made.settimeout(connection.timeout)
            made.connect(connection.unix_socket)
            failed.pop_all()
        connection.sock = made

    unixconn.UnixHTTPConnection.connect = connect  # type: ignore[method-assign,assignment]


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> bytes:
    """Send a GET request, and return the head of the answer. HTTP 1.0: the body comes without chunks."""
    writer.write(f"GET {target} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(maxsplit=2)[1])
    if status != 200:
        body = (await reader.read(_LINE_MAX_BYTES)).decode(errors="replace").strip()
        raise EngineError(f"the Docker engine refused: {body or status}", status=status)
    return head


def _peer_pid(writer: asyncio.StreamWriter) -> int:
    credentials = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return int(struct.unpack("3i", credentials)[0])


def _not_permitted(path: str) -> SandboxUnavailable:
    group = _group_of(path)
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
        hint = f"sudo usermod -aG {group} {user}, log in again, and type sm daemon restart"
    except KeyError:  # usermod needs a name
        user = str(os.geteuid())
        hint = f"start the daemon with group {group}, which owns the socket: sm daemon restart"
    return SandboxUnavailable(f"user {user} may not use the Docker engine: permission denied on {path}", hint)


def _group_of(path: str) -> str:
    """The group whose members may use a socket; the engine's usual group if it is unknown or that of root."""
    with contextlib.suppress(OSError, KeyError):
        if gid := os.stat(path).st_gid:
            return grp.getgrgid(gid).gr_name
    return "docker"


def _info(client: "DockerClient") -> dict[str, Any]:
    return dict(client.info())


def _facts_of(info: dict[str, Any], pid: int) -> EngineFacts:
    """The facts in an answer of `/info`. `pid`: the engine's process."""
    security = [str(option) for option in info.get("SecurityOptions") or ()]
    return EngineFacts(
        version=str(info.get("ServerVersion", "")),
        cgroup_version=int(info.get("CgroupVersion") or 1),
        storage_driver=str(info.get("Driver", "")),
        seccomp=any(option.startswith("name=seccomp") for option in security),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        data_root=str(info.get("DockerRootDir", "")),
        memory=int(info.get("MemTotal") or 0),
        # Another process, such as systemd, may hold the engine's socket.
        nofile_max=open_files_max(pid) if program_name(pid) == "dockerd" else None,
    )
