"""The application in this process, on a port of its own, without a daemon unless a test tells its hub some news."""

import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
from aiohttp import web

from sm.web.app import HUB, web_app
from sm.web.connections import STRANGERS_MAX, WebSite
from sm.web.hosts import HostRules
from sm.web.hub import Hub
from sm.web.login_store import LoginStore
from sm.web.logins import WebScope


class ServedApp:
    def __init__(self, origin: str, hub: Hub, store: LoginStore, http: aiohttp.ClientSession) -> None:
        self.origin = origin
        self.hub = hub
        self.store = store
        self.http = http

    def code(self, scope: WebScope = WebScope.ALL, name: str | None = None) -> str:
        return self.store.add_code(name, scope, time.time())[0]

    def token(self, scope: WebScope = WebScope.ALL, name: str | None = None) -> str:
        traded = self.store.redeem(self.code(scope, name), time.time())
        assert traded is not None
        return traded[0]


def own_port() -> socket.socket:
    """A socket of a free port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


@contextlib.asynccontextmanager
async def served_app(
    home: Path,
    *,
    certificate: ssl.SSLContext | None = None,
    strangers_max: int = STRANGERS_MAX,
    socket_of: Callable[[], socket.socket] = own_port,
) -> AsyncIterator[ServedApp]:
    """`socket_of`: makes the socket for its connections, which is closed at the end."""
    store = LoginStore(str(home / "web"))
    with socket_of() as listener:
        port = listener.getsockname()[1]
        scheme = "https" if certificate else "http"
        rules = HostRules(port, ("sm.example.net",), is_secure=certificate is not None)
        async with web_app(str(home / "sm.sock"), store, rules) as app:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
            await runner.setup()
            site = WebSite(
                runner, listener, certificate=certificate, backlog=256, strangers_max=strangers_max
            )
            await site.start()
            try:
                async with aiohttp.ClientSession() as http:
                    yield ServedApp(f"{scheme}://127.0.0.1:{port}", app[HUB], store, http)
            finally:
                await runner.cleanup()
