"""Runs the server in the foreground, once for each instance, and tells other commands its address."""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import orjson
from aiohttp import web

from sm.client.http import Client
from sm.errors import AlreadyRunning, ExternalError
from sm.linux.files import read_or_empty, replace_private
from sm.web.app import web_app
from sm.web.hosts import HostRules
from sm.web.login_store import LoginStore

_FILE_MAX_BYTES = 4096
_SHUTDOWN_S = 2.0
_BACKLOG = 256


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The address of a running server."""

    pid: int
    port: int
    hosts: tuple[str, ...]
    """Of the configuration that the server read."""

    def link(self, code: str, *, host: str | None = None) -> str:
        """The link that logs in a browser. The code is in the fragment, which a browser does not send."""
        origins = HostRules(self.port, self.hosts).origins
        known = next(
            (origin for name, origin in origins.items() if host in (name, name.partition(":")[0])), None
        )
        return f"{known or f'http://127.0.0.1:{self.port}'}/#{code}"


def running_server(directory: str) -> WebAddress | None:
    """The address of the server of an instance; None: no server runs."""
    with suppress(FileNotFoundError):
        descriptor = os.open(_lock_path(directory), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _address(directory)
        finally:
            os.close(descriptor)
    return None


def serve(
    client: Client,
    directory: str,
    port: int,
    hosts: Sequence[str],
    ready: Callable[[WebAddress, LoginStore], None],
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP. `port` 0: any free one. `ready` is called when browsers can connect.

    Raises AlreadyRunning if another process serves the instance, and ExternalError if the port is in use.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with _lock(directory), _listen(port) as listener:
        address = WebAddress(os.getpid(), listener.getsockname()[1], tuple(hosts))
        content = orjson.dumps({"pid": address.pid, "port": address.port, "hosts": address.hosts})
        replace_private(f"{directory}/server.json", content)
        asyncio.run(_serve(client, LoginStore(directory), address, listener, ready))


async def _serve(
    client: Client,
    store: LoginStore,
    address: WebAddress,
    listener: socket.socket,
    ready: Callable[[WebAddress, LoginStore], None],
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    async with web_app(client, store, HostRules(address.port, address.hosts)) as app:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            await web.SockSite(runner, listener, backlog=_BACKLOG).start()
            ready(address, store)
            await ended.wait()
        finally:
            await runner.cleanup()


def _address(directory: str) -> WebAddress | None:
    try:
        data = orjson.loads(read_or_empty(f"{directory}/server.json", _FILE_MAX_BYTES))
        return WebAddress(data["pid"], data["port"], tuple(data["hosts"]))
    except (ValueError, KeyError, TypeError):
        return None


def _lock_path(directory: str) -> str:
    return f"{directory}/server.lock"


@contextmanager
def _lock(directory: str) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(_lock_path(directory), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        address = _address(directory)
        where = "" if address is None else f" on port {address.port} (pid {address.pid})"
        raise AlreadyRunning(f"sm web already runs{where}", "for another link: sm web link") from None
    finally:
        os.close(descriptor)


@contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    """Listen on 127.0.0.1 only."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise ExternalError(
                f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}",
                "choose another port: sm web --port 0",
            ) from None
        yield listener
