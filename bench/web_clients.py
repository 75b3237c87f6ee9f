"""Readers of the WebSocket of `sm web`, and a bare server of one static page: both in processes of their own."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import aiohttp
import orjson

from bench.instance import Instance
from sm.web.page_files import STATIC
from tests.web_server import WebServer, logged_in, merge

# Authenticates, and writes everything that it receives into a file. Prints a line after the first complete state.
_READER = r"""
import json, os, socket, sys
port, token, path = sys.argv[1:]
connection = socket.create_connection(("127.0.0.1", int(port)))
host = f"127.0.0.1:{port}"
connection.sendall(
    f"GET /ws HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
)
data = b""
while b"\r\n\r\n" not in data:
    data += connection.recv(65536)
body = json.dumps({"t": "auth", "token": token}).encode()
connection.sendall(bytes((0x81, 0x80 | len(body), 0, 0, 0, 0)) + body)
out = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
os.write(out, data.partition(b"\r\n\r\n")[2])
is_loaded = False
while data := connection.recv(1 << 20):
    os.write(out, data)
    if not is_loaded and b'"loading":false' in data:
        is_loaded = True
        print("ready", flush=True)
"""
# The least that a server with aiohttp does.
_SITE = """
import asyncio, sys
from aiohttp import web

async def main():
    app = web.Application()
    app.router.add_static("/", sys.argv[1])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Site(NamedTuple):
    """A bare server of static files."""

    pid: int
    origin: str


class ReadBytes(NamedTuple):
    """The size of what a client has received, and of the changed fields in it as JSON."""

    received: int
    changed: int


def token_of(server: WebServer) -> str:
    """Log in with the link of the server."""

    async def log_in() -> str:
        async with aiohttp.ClientSession() as http:
            return str((await logged_in(http, server.origin, server.code))["token"])

    return asyncio.run(log_in())


class Readers:
    """Clients that read and keep everything."""

    def __init__(self, instance: Instance, server: WebServer, token: str, count: int) -> None:
        self._instance = instance
        self._files = [instance.home / f"reader-{number}" for number in range(count)]
        self._argv = (sys.executable, "-S", "-c", _READER, str(server.address.port), token)
        self._began = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """They have received the first state when the block begins."""
        processes = []
        try:
            for file in self._files:
                argv = (*self._argv, str(file))
                process = subprocess.Popen(argv, env=self._instance.env, stdout=subprocess.PIPE)
                processes.append(process)
                assert process.stdout is not None
                process.stdout.readline()
            self._began = self._files[0].stat().st_size
            yield
        finally:
            for process in processes:
                process.kill()
                process.communicate()

    def read(self) -> ReadBytes:
        """Everything that the first client has received since the block began."""
        content = self._files[0].read_bytes()
        state: dict[str, Any] = {}
        changed = place = 0
        while (found := _frame(content, place)) is not None:
            begin, place = place, found[1]
            frame = orjson.loads(found[0])
            if begin >= self._began and frame["t"] == "board":
                changed += len(orjson.dumps(_changes(state, frame)))
            merge(state, frame)
        return ReadBytes(len(content) - self._began, changed)


def _changes(state: dict[str, Any], frame: dict[str, Any]) -> dict[str, Any]:
    """The fields of rows, and the other keys, that are another in the frame."""
    known = state.get("rows", {})
    rows = {
        session_id: {k: v for k, v in fields.items() if known.get(session_id, {}).get(k) != v}
        for session_id, fields in frame["rows"].items()
    }
    bookkeeping = {"t", "rev", "at", "snapshot", "more", "rows"}
    return rows | {k: v for k, v in frame.items() if k not in bookkeeping and v and state.get(k) != v}


def _frame(content: bytes, place: int) -> tuple[bytes, int] | None:
    """The text frame at that place, and the place after it (RFC 6455, 5.2: from a server, without a mask)."""
    if len(content) < place + 2:
        return None
    length, begin = content[place + 1] & 0x7F, place + 2
    if length >= 126:
        size = 2 if length == 126 else 8
        length, begin = int.from_bytes(content[begin : begin + size]), begin + size
    end = begin + length
    return None if end > len(content) else (content[begin:end] or b'{"t":"ping"}', end)


@contextlib.contextmanager
def static_site(instance: Instance, html: str) -> Iterator[Site]:
    """Serve a page without its scripts, with the style sheet of `sm web`."""
    directory = instance.home / "site"
    (directory / "static").mkdir(parents=True, exist_ok=True)
    (directory / "static/app.css").write_bytes((STATIC / "app.css").read_bytes())
    (directory / "index.html").write_text(re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL))
    argv = (sys.executable, "-c", _SITE, str(directory))
    process = subprocess.Popen(argv, env=instance.env, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Site(process.pid, f"http://127.0.0.1:{int(process.stdout.readline())}/index.html")
    finally:
        process.kill()
        process.communicate()
