"""The terminal of `sm web`, with real agents and tmux: typing, sizes, ends, refusals, and browsers that misbehave."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import WSCloseCode

from sm.linux.processes import command_line, environment
from tests.fixtures import context_fixture
from tests.instance import Instance
from tests.waits import until_async
from tests.web_server import SHELL, WebServer, logged_in, web_server

WINDOW_BYTES = 256 * 1024


instance = context_fixture("module", Instance)
own_instance = context_fixture("function", Instance)
"""For the tests that end the daemon, the server or a login, and the one that counts terminals."""


@pytest.fixture(scope="module")
def server(instance: Instance) -> Iterator[WebServer]:
    yield from served(instance)


@pytest.fixture
def own_server(own_instance: Instance) -> Iterator[WebServer]:
    yield from served(own_instance)


def served(instance: Instance) -> Iterator[WebServer]:
    instance.sm("all")
    with web_server(instance, "--name", "desk") as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


class AttachedPage:
    """A terminal page of a browser. It draws what it gets at once, unless `draws` is False."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.output = b""
        self.draws = True

    async def send(self, **frame: Any) -> None:
        await self.socket.send_str(orjson.dumps(frame).decode())

    async def type(self, text: str) -> None:
        await self.socket.send_bytes(text.encode())

    async def frame(self) -> dict[str, Any] | None:
        """The next frame that is not output, or None if the socket is closed."""
        while True:
            message = await self.socket.receive()
            if message.type is aiohttp.WSMsgType.BINARY:
                await self._take(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                frame: dict[str, Any] = orjson.loads(message.data)
                return frame
            else:
                return None

    async def _take(self, output: bytes) -> None:
        self.output += output
        if self.draws:
            await self.send(t="shown", bytes=len(output))

    async def shows(self, text: str) -> None:
        while text.encode() not in self.output:
            await self.more()

    async def more(self) -> None:
        message = await self.socket.receive()
        assert message.type is aiohttp.WSMsgType.BINARY, (message, self.output)
        await self._take(message.data)

    async def close_code(self) -> int | None:
        """The code with which the server closes the socket."""
        while await self.frame() is not None:
            pass
        return self.socket.close_code


@contextlib.asynccontextmanager
async def terminal_page(
    http: aiohttp.ClientSession, server: WebServer, token: str, session: str, **size: int
) -> AsyncIterator[AttachedPage]:
    url, headers = f"{server.origin}/attach/ws", {"Origin": server.origin}
    async with http.ws_connect(url, headers=headers, max_msg_size=0) as socket:
        page = AttachedPage(socket)
        await page.send(t="auth", token=token)
        await page.send(t="attach", session=session, **{"columns": 100, "rows": 30, **size})
        yield page


_tokens: dict[WebServer, str] = {}


async def token_of(http: aiohttp.ClientSession, server: WebServer) -> str:
    """The token of the login `desk`, whose link works once."""
    if server not in _tokens:
        _tokens[server] = str((await logged_in(http, server.origin, server.code))["token"])
    return _tokens[server]


def clients(instance: Instance) -> list[int]:
    """The pids of the tmux clients of people: all but the connection of the daemon."""
    lines = instance.tmux("list-clients", "-F", "#{client_control_mode} #{client_pid}").splitlines()
    return [int(pid) for mode, pid in map(str.split, lines) if mode == "0"]


async def no_client_is_left(instance: Instance) -> None:
    async def none() -> bool:
        return not clients(instance)

    await until_async(none, "the tmux client has ended")


async def window_has(instance: Instance, agent: str, size: str) -> None:
    async def has() -> bool:
        shown = "#{window_width} #{window_height}"
        return instance.tmux("display-message", "-p", "-t", f"=command-{agent}:", shown) == f"{size}\n"

    await until_async(has, f"the window has {size}")


async def test_keys_reach_the_agent_and_the_audit_log_names_the_login(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sh", SHELL, "--name", "shell")["session_id"]
    instance.tmux("set-environment", "-t", f"=command-{agent}:", "SSH_AUTH_SOCK", "/of/the/agent")
    before = instance.tmux("show-environment", "-t", f"=command-{agent}:")
    async with terminal_page(http, server, await token_of(http, server), agent) as page:
        attached = await page.frame()
        assert attached is not None
        assert (attached["t"], attached["session"]) == ("attached", agent)
        await page.type("echo $((6 * 7))typed\r")
        await page.shows("42typed")
        await window_has(instance, agent, "100 29")
        (client,) = clients(instance)
        assert environment(client) == {
            "PATH": instance.env["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        assert not {word for word in command_line(client) if len(word) > 40 and "/" not in word}
        assert instance.tmux("show-environment", "-t", f"=command-{agent}:") == before
    await no_client_is_left(instance)
    assert instance.session(agent)["status"] == "running"
    lines = map(json.loads, (instance.state / "log" / "audit.jsonl").read_text().splitlines())
    found = [line["who"] for line in lines if (line["what"], line["target"]) == ("attach", agent)]
    assert found == ["operator (web: desk)"]


async def test_newest_of_many_sizes_reaches_the_agent(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sh", SHELL)["session_id"]
    async with terminal_page(http, server, await token_of(http, server), agent) as page:
        await page.frame()
        for columns in range(60, 160):
            await page.send(t="resize", columns=columns, rows=40)
        await page.send(t="resize", columns=133, rows=33)
        await window_has(instance, agent, "133 32")


async def test_page_is_told_while_its_agent_is_frozen(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sh", SHELL)["session_id"]
    if instance.json("pause", agent)["paused"]["held"] != "frozen":
        pytest.skip("no cgroup can be made here, so no session is frozen")
    async with terminal_page(http, server, await token_of(http, server), agent) as page:
        attached, held = await page.frame(), await page.frame()
        assert attached is not None and attached["t"] == "attached"
        words = "The session is paused: its processes are frozen until sm resume."
        assert held == {"t": "held", "words": words}
        instance.sm("resume", agent)
        assert await page.frame() == {"t": "held", "words": ""}
        await page.type("echo $((6 * 7))ready\r")
        await page.shows("42ready")


@pytest.mark.parametrize("how", ["detach", "exit", "kill"])
async def test_page_is_told_why_its_terminal_ended(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession, how: str
) -> None:
    agent = instance.spawn("Sh", SHELL)["session_id"]
    # tmux ignores the prefix in keys that come within a millisecond, as from a paste. This page types so fast.
    instance.tmux("set-option", "-g", "assume-paste-time", "0")
    async with terminal_page(http, server, await token_of(http, server), agent) as page:
        await page.frame()
        await page.type("echo $((6 * 7))ready\r")
        await page.shows("42ready")
        if how == "kill":
            instance.sm("kill", agent, "--force")
        else:
            await page.type("\x02d" if how == "detach" else "exit\r")
        ended = await page.frame()
        words = "Detached. The agent keeps running." if how == "detach" else "The session has ended."
        assert ended == {"t": "ended", "words": words}
        assert await page.close_code() == 1000
    await no_client_is_left(instance)
    assert (instance.session(agent)["status"] == "running") is (how == "detach")


async def test_revoked_login_loses_its_terminal(
    own_instance: Instance, own_server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = own_instance.spawn("Sh", SHELL)["session_id"]
    async with terminal_page(http, own_server, await token_of(http, own_server), agent) as page:
        await page.frame()
        own_instance.sm("web", "revoke", "desk")
        assert await page.close_code() == 4401
    await no_client_is_left(own_instance)
    assert own_instance.session(agent)["status"] == "running"


async def test_login_with_a_smaller_scope_cannot_attach(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sh", SHELL)["session_id"]
    for scope in ("look", "answer"):
        code = instance.sm("web", "link", "--scope", scope).strip().partition("#")[2]
        token = (await logged_in(http, server.origin, code))["token"]
        async with terminal_page(http, server, token, agent) as page:
            assert await page.frame() is None
            assert page.socket.close_code == 4403
    assert clients(instance) == []


async def test_session_that_has_ended_or_does_not_exist_is_refused(
    own_instance: Instance, own_server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = own_instance.spawn("Sh", "exit 0")["session_id"]
    own_instance.ended(agent)
    own_instance.sm("archive", agent)
    token = await token_of(http, own_server)
    async with terminal_page(http, own_server, token, "00000000") as page:
        refused = await page.frame()
        assert refused is not None
        assert (refused["t"], "no such session" in refused["words"]) == ("refused", True)
        assert await page.close_code() == 4404
    own_instance.kill_daemon()
    async with terminal_page(http, own_server, token, agent) as page:
        refused = await page.frame()
        assert refused is not None
        assert (refused["t"], refused["hint"]) == ("refused", "sm daemon start")
        assert await page.close_code() == 4404


async def test_terminal_stays_while_the_daemon_is_away(
    own_instance: Instance, own_server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = own_instance.spawn("Sh", SHELL)["session_id"]
    async with terminal_page(http, own_server, await token_of(http, own_server), agent) as page:
        await page.frame()
        own_instance.kill_daemon()
        await page.type("echo $((6 * 7))alone\r")
        await page.shows("42alone")
    await no_client_is_left(own_instance)


async def test_invalid_frames_close_the_terminal(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sh", SHELL)["session_id"]
    token = await token_of(http, server)
    for frame in (
        "",
        "[]",
        '{"t":"attach","session":"x","columns":80,"rows":24}',
        '{"t":"resize","columns":19,"rows":24}',
        '{"t":"resize","columns":501,"rows":24}',
        '{"t":"resize","columns":80,"rows":4}',
        '{"t":"resize","columns":80,"rows":201}',
        '{"t":"resize","columns":"80","rows":24}',
        '{"t":"shown","bytes":999999999}',
        '{"t":"shown","bytes":-1}',
    ):
        async with terminal_page(http, server, token, agent) as page:
            await page.frame()
            await page.socket.send_str(frame)
            assert await page.close_code() == 4400, frame
    async with terminal_page(http, server, token, agent) as page:
        await page.frame()
        # The server closes before it has read the whole frame. Its reason is lost if the rest arrives later, and the
        # rest finds a closed connection.
        with contextlib.suppress(aiohttp.ClientConnectionResetError):
            await page.socket.send_bytes(b"x" * (64 * 1024 + 1))
        assert await page.close_code() in (WSCloseCode.MESSAGE_TOO_BIG, WSCloseCode.ABNORMAL_CLOSURE)
    async with terminal_page(http, server, token, agent, columns=19) as page:
        assert await page.close_code() == 4400
    await no_client_is_left(instance)


async def test_terminal_is_not_read_while_the_browser_does_not_draw(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    got = instance.work / "got"
    script = f'(while :; do seq 100000; done) & read -r line; echo "$line" >{got}; exec sleep 1000'
    agent = instance.spawn("Sh", script)["session_id"]
    async with terminal_page(
        http, server, await token_of(http, server), agent, columns=200, rows=100
    ) as page:
        await page.frame()
        page.draws = False
        while len(page.output) < WINDOW_BYTES:
            await page.more()
        await page.type("stalled\r")

        async def has_it() -> bool:
            return got.exists() and got.read_text() == "stalled\n"

        await until_async(has_it, "typed input still reaches the agent")
        behind = len(page.output)
        assert behind < WINDOW_BYTES + 64 * 1024
        await page.send(t="shown", bytes=behind)
        await page.more()
        page.output = b""
        await page.socket.send_str("")
        assert await page.close_code() == 4400
        assert len(page.output) < WINDOW_BYTES + 64 * 1024
    await no_client_is_left(instance)


async def test_number_of_terminals_is_limited(
    own_instance: Instance, own_server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = own_instance.spawn("Sh", SHELL)["session_id"]
    token = await token_of(http, own_server)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(16):
            page = await stack.enter_async_context(terminal_page(http, own_server, token, agent))
            attached = await page.frame()
            assert attached is not None
            assert attached["t"] == "attached"
        page = await stack.enter_async_context(terminal_page(http, own_server, token, agent))
        refused = await page.frame()
        assert refused is not None
        assert refused["words"] == "too many terminals are open in browsers"
    await no_client_is_left(own_instance)


async def test_terminal_of_another_origin_is_refused(server: WebServer, http: aiohttp.ClientSession) -> None:
    for origin in (None, "null", "http://localhost:3000", "http://evil.example"):
        headers = {"Sec-Fetch-Site": "same-origin"} if origin is None else {"Origin": origin}
        with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
            await http.ws_connect(f"{server.origin}/attach/ws", headers=headers)
        assert raised.value.status == 403


async def test_killed_server_leaves_no_tmux_client(
    own_instance: Instance, own_server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = own_instance.spawn("Sh", SHELL)["session_id"]
    async with terminal_page(http, own_server, await token_of(http, own_server), agent) as page:
        await page.frame()
        await page.type("echo $((6 * 7))attached\r")
        await page.shows("42attached")  # `attached` comes before the client of tmux has started
        assert len(clients(own_instance)) == 1
        own_server.kill()
        await no_client_is_left(own_instance)
    assert own_instance.session(agent)["status"] == "running"
