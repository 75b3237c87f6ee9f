"""WebSockets of tabs: logins, frames that are too large or invalid, slow readers, and many tabs."""

import asyncio
import base64
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from sm.web.logins import WebScope
from tests.board.samples import row_data, update
from tests.waits import until_async
from tests.web.board_hub import board_of, tell
from tests.web.served_app import ServedApp, served_app
from tests.web_server import Browser, browser, merge


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[ServedApp]:
    async with served_app(tmp_path) as app:
        board_of(app.hub, [row_data("a")])
        yield app


class RawSocket:
    """A WebSocket whose bytes a test writes itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, app: ServedApp, client: socket.socket | None = None) -> "RawSocket":
        """`client`: an own socket, with options of the test."""
        host = app.origin.removeprefix("http://")
        name, _, port = host.partition(":")
        if client is None:
            reader, writer = await asyncio.open_connection(name, int(port))
        else:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (name, int(port)))
            reader, writer = await asyncio.open_connection(sock=client)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: {host}\r\nOrigin: {app.origin}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in head, head
        return cls(reader, writer)

    def send(self, content: bytes, *, announced: int | None = None) -> None:
        """Write a text frame. `announced`: the length in its head."""
        length = len(content) if announced is None else announced
        mask = bytes(4)
        self.writer.write(struct.pack("!BBQ", 0x81, 0x80 | 127, length) + mask + content)

    async def frame(self) -> tuple[int, bytes]:
        """The opcode and the content of the next frame."""
        first, second = await self.reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 0xF, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        while True:
            opcode, content = await self.frame()
            if opcode == 8:
                return int.from_bytes(content[:2], "big")


def auth(token: str) -> bytes:
    return orjson.dumps({"t": "auth", "token": token, "revision": None})


async def closed_with(app: ServedApp, first: str | bytes) -> int | None:
    async with app.http.ws_connect(f"{app.origin}/ws", headers={"Origin": app.origin}) as opened:
        if isinstance(first, bytes):
            await opened.send_bytes(first)
        else:
            await opened.send_str(first)
        message = await opened.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        return opened.close_code


@pytest.mark.parametrize("origin", [None, "null", "http://localhost:3000", "http://evil.example"])
async def test_socket_of_another_origin_is_refused(app: ServedApp, origin: str | None) -> None:
    headers = {"Sec-Fetch-Site": "same-origin"} if origin is None else {"Origin": origin}
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        await app.http.ws_connect(f"{app.origin}/ws", headers=headers)
    assert raised.value.status == 403


async def test_socket_needs_a_right_token_in_its_first_frame(app: ServedApp) -> None:
    token = app.token()
    async with browser(app.http, app.origin, token) as tab:
        assert (tab.hello["scope"], tab.hello["login"]) == ("all", "browser-1")
        assert tab.rows.keys() == {"a"}
    assert await closed_with(app, f'{{"t":"auth","token":"{token}x"}}') == 4401
    for first in ("", "{}", "[]", '{"t":"view"}', f'{{"t":"auth","token":"{token}","x":1}}', '{"t":"auth"}'):
        assert await closed_with(app, first) == 4400, first
    assert await closed_with(app, auth(token)) == 4400


async def test_token_in_the_url_of_the_socket_does_nothing(app: ServedApp) -> None:
    url = f"{app.origin}/ws?token={app.token()}"
    async with app.http.ws_connect(url, headers={"Origin": app.origin}) as opened:
        await opened.send_str('{"t":"view"}')
        await opened.receive()
        assert opened.close_code == 4400


async def test_wrong_tokens_of_sockets_are_limited(app: ServedApp) -> None:
    codes = [await closed_with(app, f'{{"t":"auth","token":"wrong{n}"}}') for n in range(7)]
    assert codes == [4401] * 5 + [4429] * 2


async def test_login_that_ends_closes_its_tabs_and_no_other_ones(app: ServedApp) -> None:
    phone, wall = app.token(name="phone"), app.token(WebScope.LOOK, "wall")
    async with browser(app.http, app.origin, phone) as one, browser(app.http, app.origin, wall) as two:
        app.store.revoke("phone")
        while (message := await one.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
        assert (message.type, one.socket.close_code) == (aiohttp.WSMsgType.CLOSE, 4401)
        tell(app.hub, update([row_data("b")]))
        await two.until(lambda: "b" in two.rows)


async def test_act_of_an_ended_login_is_not_carried_out(app: ServedApp) -> None:
    async with browser(app.http, app.origin, app.token(name="phone")) as tab:
        app.store.revoke("phone")
        await tab.send(t="act", n=1, action="kill", session="a")
        while (message := await tab.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            assert orjson.loads(message.data)["t"] != "done"
        assert tab.socket.close_code == 4401


@pytest.mark.parametrize(
    "frame",
    [
        "no JSON",
        "{}",
        '{"t":"spawn"}',
        '{"t":"view","sort":"size"}',
        '{"t":"view","extra":1}',
        '{"t":"view","filter":1}',
        '{"t":"open","channel":"terminal","session":"a"}',
        '{"t":"open","channel":"screen","session":"../health"}',
        '{"t":"select","session":"a/b"}',
        '{"t":"act","n":-1,"action":"kill"}',
        '{"t":"act","n":1}',
        '{"t":"auth","token":"x"}',
    ],
)
async def test_invalid_frame_closes_the_socket(app: ServedApp, frame: str) -> None:
    async with browser(app.http, app.origin, app.token()) as tab:
        await tab.socket.send_str(frame)
        while (await tab.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
        assert tab.socket.close_code == 4400


@pytest.mark.parametrize("is_logged_in", [False, True])
async def test_frame_of_100_mb_is_refused_before_it_is_read(app: ServedApp, is_logged_in: bool) -> None:
    raw = await RawSocket.open(app)
    if is_logged_in:
        raw.send(auth(app.token()))
        await raw.frame()
    raw.send(b"x" * 1000, announced=100 * 1024 * 1024)
    assert await raw.close_code() == 1009
    raw.writer.close()


async def test_socket_that_sends_nothing_is_closed(app: ServedApp) -> None:
    raw = await RawSocket.open(app)
    assert await raw.close_code() == 4408
    raw.writer.close()


async def test_stalled_reader_gets_the_newest_state(app: ServedApp) -> None:
    hub, words = app.hub, "宽" * 290
    board_of(hub, [row_data(f"s{number}", name=words, note=words) for number in range(2500)])
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        raw = await RawSocket.open(app, client)
        raw.send(auth(app.token()))
        assert orjson.loads((await raw.frame())[1])["t"] == "hello"
        # The snapshot does not fit into the buffers of the kernel: from here on the server waits for the reader.
        for number in range(30):
            tell(hub, update([row_data("s7", name="x", note=f"note {number}"), row_data("new")]))
            await asyncio.sleep(0)
        page: dict[str, Any] = {}
        notes = list[str]()
        while page.get("rows", {}).get("s7", {}).get("task") != "note 29":
            opcode, content = await raw.frame()
            if opcode == 1 and (frame := orjson.loads(content))["t"] == "board":
                merge(page, frame)
                notes += [frame["rows"]["s7"]["task"]] if "s7" in frame["rows"] else []
        assert len(page["rows"]) == 2501
        assert len(notes) < 10
        raw.writer.close()
        await raw.writer.wait_closed()


async def shows(tab: Browser, session_id: str) -> None:
    await tab.until(lambda: session_id in tab.rows)


async def test_200_tabs_get_each_change(app: ServedApp) -> None:
    token, tabs = app.token(), list[Browser]()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        while len(tabs) < 200:  # a part at a time, because few sockets may wait for a login
            opening = (http.ws_connect(f"{app.origin}/ws", headers={"Origin": app.origin}) for _ in range(40))
            new = [Browser(opened) for opened in await asyncio.gather(*opening)]
            for tab in new:
                await tab.send(t="auth", token=token)
            await asyncio.gather(*(shows(tab, "a") for tab in new))
            tabs += new
        tell(app.hub, update([row_data("b")]))
        await asyncio.gather(*(shows(tab, "b") for tab in tabs))
        assert len(app.hub.tabs) == 200
        await asyncio.gather(*(tab.socket.close() for tab in tabs))


async def test_tab_that_closes_is_forgotten(app: ServedApp) -> None:
    async with browser(app.http, app.origin, app.token()) as tab:
        await tab.send(t="view", archived=True)
        await tab.frame("board", snapshot=True)
        assert len(app.hub.tabs) == 1

    async def are_closed() -> bool:
        return not app.hub.tabs

    await until_async(are_closed, "the tab is forgotten")
