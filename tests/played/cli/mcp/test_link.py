"""`sm mcp` while its daemon restarts or is away: what was in flight is repeated, and reports are spooled."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SESSION
from tests.cli.mcp.client import ROUTE, by_method, echo, notification, request, response, stream
from tests.cli.peer import HANG_UP, SILENCE, Answer, chunked, error
from tests.played.cli.mcp.client import PumpClient
from tests.played.cli.peer import Peer
from tests.sim.stage import Instance, until

BUSY = error("limit_reached", "this socket already has 64 connections", 503)
REPORT = {"report_checkpoint": "checkpoint", "report_note": "note", "complete_session": "complete"}


@pytest.fixture
def path(state: Path) -> str:
    return str(state / "run" / "sm.sock")


@pytest.fixture
def spool(state: Path) -> Path:
    return state / "spool" / SESSION


@pytest.mark.parametrize(
    "cut",
    [
        HANG_UP,
        b"HTTP/1.1 200 OK\r\nSM-Proto",
        b'HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 100\r\n\r\n{"jsonrpc": "2.0", "id": 1',
        chunked(b'{"jsonrpc": "2.0"', end=False),
        stream(end=False),
        error("daemon_unavailable", "the daemon is stopping", 503),
        BUSY,
    ],
    ids=["nothing", "half a head", "half a body", "half of the chunks", "no event", "stopping", "busy"],
)
def test_call_is_repeated_with_its_key_until_it_is_answered(peer: Peer, pump: PumpClient, cut: bytes) -> None:
    peer.script(ROUTE, cut, cut, cut, echo)
    pump.call("create_session", 1, title="x")
    assert pump.read()["result"]["arguments"] == {"title": "x"}
    tries = {(received.key, received.body) for received in peer.received}
    assert len(peer.received) == 4
    assert len(tries) == 1


def test_call_in_flight_is_repeated_when_another_daemon_listens(
    instance: Instance, path: str, pump: PumpClient
) -> None:
    first = request("initialize", 0, {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x"}})
    with Peer(instance, path) as peer:
        peer.script(ROUTE, by_method({"tools/call": SILENCE}))
        pump.send(first)
        pump.read()
        pump.call("wait_for_sessions", 1)
        pump.call("create_session", 2)
        peer.wait_received(3)
        keys = {received.json["id"]: received.headers.get("idempotency-key") for received in peer.received}
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        assert {pump.read()["id"], pump.read()["id"]} == {1, 2}
        greeting, initialized, *calls = peer.received
    assert greeting.json == first
    assert initialized.json == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert {received.json["id"]: received.key for received in calls} == {1: keys[1], 2: keys[2]}
    assert len({received.headers["mcp-client"] for received in peer.received}) == 1


def test_idle_pump_shakes_hands_with_another_daemon_once(
    instance: Instance, path: str, pump: PumpClient
) -> None:
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        pump.send(request("initialize", 0, {}))
        pump.read()
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        for number in (1, 2):
            pump.send(request("ping", number))
            assert pump.read()["id"] == number
        methods = [received.json["method"] for received in peer.received]
    assert methods == ["initialize", "notifications/initialized", "ping", "ping"]


def test_refused_initialize_is_not_repeated(instance: Instance, path: str, pump: PumpClient) -> None:
    with Peer(instance, path) as peer:
        peer.script(ROUTE, error("not_permitted", "MCP is switched off", 403))
        pump.send(request("initialize", 0, {}))
        assert "error" in pump.read()
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        pump.send(request("ping"))
        assert pump.read()["id"] == 1
        assert len(peer.received) == 1


def test_call_fails_when_the_daemon_stays_away(state: Path, start: Callable[..., PumpClient]) -> None:
    pump = start(AWAY_S=0.3)
    pump.call("create_session", 1)
    result = pump.read()["result"]
    assert result["isError"] is True
    assert result["structuredContent"] == {
        "error": {
            "code": "daemon_unavailable",
            "message": "the daemon is away; outcome unknown",
            "hint": "look with list_workspace_sessions",
        }
    }
    pump.send(notification("notifications/roots/list_changed"))
    pump.send(request("tools/list", 2))
    refused = pump.read()
    assert (refused["id"], refused["error"]["code"]) == (2, -32000)
    assert pump.end() == (0, "")
    assert not (state / "spool").exists()


def test_cancelled_call_is_not_repeated(instance: Instance, path: str, pump: PumpClient) -> None:
    with Peer(instance, path) as peer:
        peer.script(ROUTE, by_method({"tools/call": SILENCE}))
        pump.call("create_session", 1)
        peer.wait_received(1)
        pump.send(notification("notifications/cancelled", requestId=1))
        peer.wait_received(2)
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        pump.send(request("ping", 2))
        assert pump.read()["id"] == 2
        assert pump.end() == (0, "")
        # The first daemon may have gone before its answer to the cancellation was read.
        assert {received.json["method"] for received in peer.received} <= {"notifications/cancelled", "ping"}


CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("report_checkpoint", {"message": "half"}, {"message": "half", "metadata": {}}),
    ("report_checkpoint", {"message": "x", "metadata": {"a": 1}}, {"message": "x", "metadata": {"a": 1}}),
    ("report_note", {"text": "tests"}, {"text": "tests"}),
    ("complete_session", {"message": "done"}, {"message": "done", "status": "completed"}),
    ("complete_session", {"message": "no", "status": "error"}, {"message": "no", "status": "error"}),
]


@pytest.mark.parametrize(("tool", "arguments", "body"), CALLS)
def test_report_is_spooled_while_the_daemon_is_away(
    spool: Path, start: Callable[..., PumpClient], tool: str, arguments: Any, body: Any
) -> None:
    pump = start(REPORT_AWAY_S=0.2)
    pump.call(tool, 1, **arguments)
    result = pump.read()["result"]
    assert result["isError"] is False
    assert "recorded" in result["structuredContent"]["warnings"][0]
    (file,) = spool.iterdir()
    report = json.loads(file.read_text())
    assert (report["action"], report["body"], report["token"]) == (REPORT[tool], body, "0" * 64)


def test_spooled_report_is_removed_when_the_daemon_answers(
    instance: Instance, path: str, spool: Path, start: Callable[..., PumpClient]
) -> None:
    pump = start(REPORT_AWAY_S=1000)
    pump.call("report_note", 1, text="tests")
    (file,) = until(lambda: [*spool.glob("[!.]*")], "the report")
    key = json.loads(file.read_text())["key"]
    with Peer(instance, path) as peer:
        peer.script(ROUTE, echo)
        assert pump.read()["result"]["arguments"] == {"text": "tests"}
        assert peer.received[0].key == key
    until(lambda: not [*spool.iterdir()], "the report to be removed")


def test_report_survives_the_end_of_the_pump(spool: Path, pump: PumpClient) -> None:
    pump.call("complete_session", 1, message="done")
    until(lambda: [*spool.glob("[!.]*")], "the report")
    pump.kill()
    assert [*spool.iterdir()]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("report_note", {}),
        ("report_note", {"text": 5}),
        ("report_note", {"text": "x", "other": 1}),
        ("report_checkpoint", {"message": None}),
        ("report_checkpoint", {"metadata": {"a": 1}}),
        ("report_checkpoint", {"message": "x", "metadata": []}),
        ("complete_session", {"message": "x", "status": "killed"}),
        ("complete_session", {"message": "x", "status": []}),
    ],
)
def test_report_that_the_daemon_would_refuse_is_not_spooled(
    spool: Path, start: Callable[..., PumpClient], tool: str, arguments: Any
) -> None:
    pump = start(AWAY_S=0.2, REPORT_AWAY_S=0.1)
    pump.call(tool, 1, **arguments)
    assert pump.read()["result"]["isError"] is True
    assert not spool.exists() or not [*spool.iterdir()]


def test_report_fails_when_the_spool_is_full(spool: Path, start: Callable[..., PumpClient]) -> None:
    spool.mkdir(parents=True)
    (spool / "1-0.json").write_bytes(b"x" * (1 << 20))
    pump = start("--verbose", AWAY_S=0.2)
    pump.call("report_note", 1, text="tests")
    assert pump.read()["result"]["isError"] is True
    assert os.listdir(spool) == ["1-0.json"]
    assert "the spool of session" in pump.end()[1]


SLOW: Answer = stream(notification("notifications/progress", progress=1), end=False)


def test_stream_that_breaks_is_repeated_and_answered_once(peer: Peer, pump: PumpClient) -> None:
    done = stream(response({"id": 1}, "done"))
    peer.script(ROUTE, SLOW, SLOW, done)
    pump.call("wait_for_sessions", 1)
    assert [pump.read().get("method") for _ in range(2)] == ["notifications/progress"] * 2
    assert pump.read()["result"] == "done"
    assert pump.end() == (0, "")
    assert len(peer.received) == 3
