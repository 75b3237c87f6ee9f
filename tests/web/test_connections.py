"""The limits of connections without a login: nobody can keep the operator out or use up the descriptors."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from sm.web.connections import BrowserConnection, ConnectionTable
from tests.board.samples import row_data
from tests.tls import tls_file
from tests.waits import until_async
from tests.web.board_hub import board_of
from tests.web.served_app import ServedApp, served_app
from tests.web_server import browser

MAX = 16
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path, strangers_max=MAX) as app:
        board_of(app.hub, [row_data("a")])
        yield app


@contextlib.contextmanager
def half_open(origin: str, number: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent half of a head."""
    address = urlsplit(origin)
    assert address.hostname is not None and address.port is not None
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            connection = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            connection.sendall(HALF_HEAD)
            connection.setblocking(False)
            opened.append(connection)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def until_closed(connections: list[socket.socket], number: int) -> None:
    async def enough() -> bool:
        return sum(map(is_closed, connections)) >= number

    await until_async(enough)


async def test_page_answers_when_strangers_hold_all_connections(
    app: ServedApp, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), half_open(app.origin, 5 * MAX) as strangers:
        async with app.http.get(app.origin) as answer:
            assert answer.status == 200
        await until_closed(strangers, 4 * MAX)
        assert not is_closed(strangers[-1]), "the newest one was closed"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1, lines
    assert f"{MAX} connections without a login are open: closed the oldest ones" in lines[0]


async def test_socket_with_a_login_outlives_a_flood_of_strangers(app: ServedApp) -> None:
    async with browser(app.http, app.origin, app.token()) as tab:
        with half_open(app.origin, 3 * MAX) as strangers:
            await until_closed(strangers, 2 * MAX)
            assert not tab.socket.closed
            # As many sockets without a login again, each after its handshake.
            headers = {"Origin": app.origin}
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(2 * MAX):
                    await stack.enter_async_context(app.http.ws_connect(f"{app.origin}/ws", headers=headers))
                async with browser(app.http, app.origin, app.token()) as second:
                    assert second.hello["scope"] == "all"


async def test_connection_that_showed_a_right_code_is_not_closed_for_strangers(app: ServedApp) -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as http:
        content, headers = {"code": app.code()}, {"Origin": app.origin}
        async with http.post(f"{app.origin}/login", json=content, headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
        with half_open(app.origin, 2 * MAX) as strangers:
            await until_closed(strangers, MAX)
            async with http.get(app.origin) as page:
                assert page.status == 200
            assert len(connector._conns) == 1, "the connection was opened anew"


async def test_invalid_http_leaves_no_line_in_the_log(
    app: ServedApp, caplog: pytest.LogCaptureFixture
) -> None:
    address = urlsplit(app.origin)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"\x16\x03\x01 not http\r\n\r\n")
    assert (await reader.read()).partition(b"\r\n")[0].endswith(b" 400 Bad Request")
    writer.close()
    assert caplog.records == []


async def test_oldest_handshake_is_cut_for_a_new_one(tmp_path: Path) -> None:
    certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load_cert_chain(tls_file(tmp_path, "cert.pem"), tls_file(tmp_path, "key.pem"))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with served_app(tmp_path, certificate=certificate, strangers_max=MAX) as app:
        with contextlib.ExitStack() as stack:
            address = urlsplit(app.origin)
            assert address.hostname is not None
            silent = [
                stack.enter_context(socket.create_connection((address.hostname, address.port or 0)))
                for _ in range(3 * MAX)
            ]
            for connection in silent:
                connection.setblocking(False)
            await until_closed(silent, 2 * MAX)
            async with app.http.get(app.origin, ssl=trusting) as answer:
                assert answer.status == 200


async def test_accept_without_a_free_descriptor_closes_a_stranger_and_goes_on(
    app: ServedApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = [OSError(24, "Too many open files")] * 2
    accept = socket.socket.accept

    def accept_later(listener: socket.socket) -> tuple[socket.socket, object]:
        if full:
            raise full.pop()
        return accept(listener)

    with half_open(app.origin, 3) as strangers:
        async with app.http.get(app.origin) as answer:
            assert answer.status == 200
        monkeypatch.setattr(socket.socket, "accept", accept_later)
        async with aiohttp.ClientSession() as http, http.get(app.origin) as answer:
            assert answer.status == 200
        assert sum(map(is_closed, strangers)) == 2
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "cannot accept connections: Too many open files" in lines[0], lines


async def test_table_reports_once_a_minute_how_many_it_closed(caplog: pytest.LogCaptureFixture) -> None:
    times = [0.0, 1.0, 2.0, 59.9, 61.0]
    table = ConnectionTable(lambda: times[0], strangers_max=1)
    server = web.Server(lambda request: web.Response())  # type: ignore[arg-type, return-value]  # never called
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        while times:
            accepted, peer = socket.socketpair()
            stack.enter_context(accepted)
            stack.enter_context(peer)
            table.add(BrowserConnection(server, table, accepted, loop))
            del times[0]
    counts = [record.args[1] for record in caplog.records if isinstance(record.args, tuple)]
    assert counts == [1, 3]
