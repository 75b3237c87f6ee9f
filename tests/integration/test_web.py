"""`sm web` with a real daemon: acts and their lines in the audit log, crashes and logins."""

import contextlib
import json
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.instance import Instance
from tests.tls import tls_file
from tests.waits import until_async
from tests.web_server import Browser, WebServer, browser, logged_in, web_server


@pytest.fixture
def server(instance: Instance) -> Iterator[WebServer]:
    instance.sm("all")
    with web_server(instance, "--name", "phone") as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


def audited(instance: Instance, what: str) -> list[dict[str, Any]]:
    path = instance.state / "log" / "audit.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["what"] == what]


async def live_button(tab: Browser, key: str) -> dict[str, Any]:
    """Wait until the request can be decided on: it has been shown for half a second."""

    def need() -> dict[str, Any] | None:
        return next((need for need in tab.board["needs"] if need["key"] == key), None)

    await tab.until(need)
    found = need()
    assert found is not None
    return found


async def decided(tab: Browser, action: str, need: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Decide as soon as the button is alive."""
    answer: dict[str, Any] = {}

    async def try_it() -> bool:
        nonlocal answer
        answer = await tab.act(action, need=need["key"], shown=need["digest"], **fields)
        return not answer["words"].startswith("too early")

    await until_async(try_it, "a live button")
    return answer


async def test_acts_reach_the_daemon_and_the_audit_log_names_the_login(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    token = (await logged_in(http, server.origin, server.code))["token"]
    async with browser(http, server.origin, token) as tab:
        await tab.until(lambda: agent in tab.rows)
        assert (await tab.act("kill", session=agent))["words"] == f"done: sm kill {agent}"
        await tab.until(lambda: not tab.rows[agent]["live"])
        archived = await tab.act("archive", session=agent)
        assert archived["undo"] == "unarchive"
        await tab.until(lambda: agent not in tab.rows)
        assert (await tab.act("unarchive", session=agent))["ok"]
        await tab.until(lambda: agent in tab.rows)
        again = await tab.act("unarchive", session=agent)
        assert (again["ok"], again["words"]) == (False, "not possible: it is not archived")
    assert [line["who"] for line in audited(instance, "kill")] == ["operator (web: phone)"]
    assert [line["who"] for line in audited(instance, "archive")] == ["operator (web: phone)"] * 2


async def test_request_is_decided_once_and_with_the_shown_words(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login", "--lifecycle", "supervised")["session_id"]
    token = (await logged_in(http, server.origin, server.code))["token"]
    async with browser(http, server.origin, token) as tab, browser(http, server.origin, token) as other:
        instance.sm("complete", "built it", env=instance.as_session(agent))
        key = instance.json("requests")[0]["request_id"]
        need, same = await live_button(tab, key), await live_button(other, key)
        assert any("built it" in line for line in need["lines"])
        possible = [name for name, why in need["actions"].items() if why is None]
        assert possible == ["approve", "deny", "attach", "interrupt"]
        assert need["actions"]["answer"] == "select an open question"
        changed = await tab.act("deny", need=key, shown="0" * 32)
        assert changed["code"] == "shown_changed"
        assert (await decided(tab, "deny", need, text="tests fail"))["ok"]
        settled = await other.frame("settled", key=key)
        assert settled["words"] == f"{key}: denied by operator: tests fail"
        late = await other.act("approve", need=key, shown=same["digest"])
        assert (late["ok"], late["code"]) == (False, "illegal_state")
    assert instance.json("requests", "--all")[0]["answer"]["approved"] is False


async def test_tab_is_greyed_while_the_daemon_is_killed_and_comes_back(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    token = (await logged_in(http, server.origin, server.code))["token"]
    async with browser(http, server.origin, token) as tab:
        await tab.until(lambda: agent in tab.rows)
        await tab.send(t="open", channel="screen", session=agent)
        await tab.frame("screen", over=False)
        instance.kill_daemon()
        await tab.until(lambda: tab.board["lost_since"])
        assert tab.rows.keys() == {agent}
        refused = await tab.act("kill", session=agent)
        assert (refused["ok"], refused["words"]) == (
            False,
            "there is no daemon: what is shown is not up to date",
        )
        instance.start_daemon()
        await tab.until(lambda: tab.board["lost_since"] is None)
        assert tab.rows.keys() == {agent}
        assert len([frame for frame in tab.frames if frame.get("snapshot")]) == 1, "no snapshot for the page"
        await tab.until(
            lambda: tab.board["screen"]["trouble"] is None and len(tab.board["screen"]["rows"]) > 0
        )
        assert (await tab.act("kill", session=agent))["ok"]
        await tab.until(lambda: not tab.rows[agent]["live"])


async def test_login_survives_a_killed_server(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    token = (await logged_in(http, server.origin, server.code))["token"]
    async with browser(http, server.origin, token) as tab:
        before = tab.hello["instance"]
        server.kill()
        while (await tab.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
    with web_server(instance) as again:
        async with browser(http, again.origin, token) as tab:
            assert tab.hello["instance"] != before
            assert tab.rows.keys() == {agent}
        with pytest.raises(AssertionError, match="used or too old"):
            await logged_in(http, again.origin, server.code)


async def test_revoked_login_closes_its_tab(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    token = (await logged_in(http, server.origin, server.code))["token"]
    listed = instance.json("web", "logins")
    assert [(login["name"], login["scope"]) for login in listed] == [("phone", "all")]
    async with browser(http, server.origin, token) as tab:
        assert instance.sm("web", "revoke", "phone") == "ended the login phone\n"
        while (await tab.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
        assert tab.socket.close_code == 4401
    assert instance.json("web", "logins") == []
    assert "no such login" in instance.refused("web", "revoke", "phone", exit_code=3)


async def test_link_for_a_running_server_grants_its_scope(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x")["session_id"]
    link = instance.sm("web", "link", "--scope", "look", "--name", "wall").strip()
    assert link.startswith(f"{server.origin}/#")
    login = await logged_in(http, server.origin, link.partition("#")[2])
    assert (login["name"], login["scope"]) == ("wall", "look")
    async with browser(http, server.origin, login["token"]) as tab:
        await tab.until(lambda: agent in tab.rows)
        refused = await tab.act("send", session=agent, text="hello")
        assert (refused["code"], refused["words"]) == (
            "not_permitted",
            "this login may not send: it needs the scope answer",
        )
    assert audited(instance, "send") == []
    assert "a login named wall exists" in instance.refused("web", "link", "--name", "wall", exit_code=2)


async def test_routes_of_the_list_are_passed_on(
    instance: Instance, server: WebServer, http: aiohttp.ClientSession
) -> None:
    agent = instance.spawn("Sleeper", "x", "--name", "login")["session_id"]
    token = (await logged_in(http, server.origin, server.code))["token"]
    headers = {"Authorization": f"Bearer {token}", "Sec-Fetch-Site": "same-origin"}

    async def got(path: str) -> tuple[int, Any]:
        async with http.get(f"{server.origin}/api{path}", headers=headers) as answer:
            return answer.status, await answer.json()

    for path in (
        "/v1/usage?by=minute",
        "/v1/timeline",
        "/v1/events?limit=5",
        "/v1/requests?all=1",
        f"/v1/messages?session={agent}",
        "/v1/agents",
        "/v1/sessions?archived=1",
        f"/v1/sessions/{agent}/output?lines=5",
        f"/v1/sessions/{agent}/why",
        f"/v1/sessions/{agent}/progress",
        f"/v1/sessions/{agent}/actions",
        f"/v1/sessions/{agent}/checkpoints",
        f"/v1/sessions/{agent}/children",
    ):
        status, _ = await got(path)
        assert status == 200, path
    assert (await got("/v1/sessions/sleeper-login"))[1]["session_id"] == agent
    status, body = await got("/v1/sessions/none")
    assert (status, body["error"]["code"]) == (404, "not_found")
    assert (await got("/v1/usage?by=century"))[0] == 400
    assert (await got("/v1/sessions/%2e%2e%2fhealth"))[0] == 404


def test_server_runs_once_and_its_commands_say_when_it_does_not(instance: Instance) -> None:
    assert "sm web is not running" in instance.refused("web", "link", exit_code=7)
    assert "name the logins to end" in instance.refused("web", "revoke", exit_code=2)
    instance.sm("all")
    with web_server(instance) as server:
        error = instance.refused("web", exit_code=7)
        assert f"sm web already runs on port {server.address.port} (pid {server.process.pid})" in error
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait() == 0
    assert "sm web is not running" in instance.refused("web", "link", exit_code=7)


def test_server_says_that_its_port_is_in_use(instance: Instance) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"cannot listen on port {port}" in instance.refused("web", "--port", str(port), exit_code=9)


async def test_server_with_a_certificate_speaks_https(instance: Instance) -> None:
    cert, key = tls_file(instance.home, "cert.pem"), tls_file(instance.home, "key.pem")
    agent = instance.spawn("Sleeper", "x")["session_id"]
    trust = ssl.create_default_context(cafile=str(cert))
    with web_server(instance, "--cert", str(cert), "--key", str(key)) as server:
        assert server.link.startswith(f"https://127.0.0.1:{server.address.port}/#")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as http:
            token = (await logged_in(http, server.origin, server.code))["token"]
            async with browser(http, server.origin, token) as tab:
                await tab.until(lambda: agent in tab.rows)
            plain = server.origin.replace("https", "http")
            with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
                await http.ws_connect(f"{server.origin}/ws", headers={"Origin": plain})
            assert raised.value.status == 403
            with pytest.raises(aiohttp.ClientError):
                await http.get(plain)
        assert instance.sm("web", "link").startswith(f"{server.origin}/#")


async def test_page_answers_during_1100_requests_that_are_half_sent(
    instance: Instance, http: aiohttp.ClientSession
) -> None:
    """The server may open 1,024 files, which is the usual limit."""
    instance.sm("all")
    output = instance.work / "web.log"
    launcher = ("sh", "-c", 'ulimit -n 1024 && exec "$@" 2>>"$0"', str(output))
    with web_server(instance, launcher=launcher) as server, contextlib.ExitStack() as stack:
        for _ in range(1100):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", server.address.port)))
            stranger.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        async with http.get(server.origin) as answer:
            assert answer.status == 200
        async with browser(
            http, server.origin, (await logged_in(http, server.origin, server.code))["token"]
        ) as tab:
            assert tab.hello["scope"] == "all"
        descriptors = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        assert descriptors < 200
    assert len(output.read_text().splitlines()) <= 3, output.read_text()[:2000]


def test_another_address_is_refused_without_a_certificate(instance: Instance) -> None:
    error = instance.refused("web", "--bind", "0.0.0.0", exit_code=2)
    assert "sm web listens on 0.0.0.0 only with --cert and --key" in error
    assert "tunnel" in error
    instance.config.write_text(instance.config.read_text() + "web: {bind: 192.0.2.1}\n")
    assert "sm web listens on 192.0.2.1 only with" in instance.refused("web", exit_code=2)
    cert, key = tls_file(instance.home, "cert.pem"), tls_file(instance.home, "key.pem")
    error = instance.refused("web", "--cert", str(cert), "--key", str(key), exit_code=9)
    assert "cannot listen on 192.0.2.1: cannot assign requested address" in error


def test_link_for_a_phone_leads_to_the_configured_host(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "web: {port: 0, hosts: [sm.example.net]}\n")
    with web_server(instance, "--phone") as server:
        assert server.link.startswith("https://sm.example.net/#")
        assert instance.json("web", "logins") == []
