"""Runs the server in the foreground, once for each instance."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from sm.errors import ExternalError
from sm.web.address import WebAddress, server_lock, write_address
from sm.web.app import web_app
from sm.web.binding import WebBinding
from sm.web.connections import WebSite
from sm.web.login_store import LoginStore

_SHUTDOWN_S = 2.0
_BACKLOG = 256


def serve(
    socket_path: str,
    directory: str,
    binding: WebBinding,
    ready: Callable[[WebAddress, LoginStore], None],
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP. `ready` is called when browsers can connect.

    Raises AlreadyRunning if another process serves the instance, and ExternalError if the port is in use.
    """
    with server_lock(directory), _listen(binding) as listener:
        address = WebAddress(
            os.getpid(),
            listener.getsockname()[1],
            binding.hosts,
            binding.address,
            binding.certificate is not None,
        )
        write_address(directory, address)
        asyncio.run(_serve(socket_path, LoginStore(directory), address, binding, listener, ready))


async def _serve(
    socket_path: str,
    store: LoginStore,
    address: WebAddress,
    binding: WebBinding,
    listener: socket.socket,
    ready: Callable[[WebAddress, LoginStore], None],
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    async with web_app(socket_path, store, address.rules) as app:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            await WebSite(runner, listener, certificate=binding.certificate, backlog=_BACKLOG).start()
            ready(address, store)
            await ended.wait()
        finally:
            await runner.cleanup()


@contextmanager
def _listen(binding: WebBinding) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in binding.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((binding.address, binding.port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if error.errno == errno.EADDRNOTAVAIL:
                raise ExternalError(
                    f"cannot listen on {binding.address}: {reason}", "list the addresses: ip address"
                ) from None
            raise ExternalError(
                f"cannot listen on port {binding.port}: {reason}", "choose another port: sm web --port 0"
            ) from None
        yield listener
