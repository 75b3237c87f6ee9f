"""`sm mcp` against a scripted daemon: messages in both directions, bounds, and bad input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sm.wire import BODY_MAX_BYTES
from tests.cli.mcp.client import (
    ROUTE,
    VERSION,
    by_method,
    echo,
    notification,
    request,
    response,
    stream,
)
from tests.cli.peer import SILENCE, Open, answer, error
from tests.played.cli.command import Sm
from tests.played.cli.mcp.client import PumpClient
from tests.played.cli.peer import Peer
from tests.sim.stage import until

PING = request("ping", 7)


def test_token_is_read_again_for_each_message(peer: Peer, pump: PumpClient, state: Path) -> None:
    peer.script(ROUTE, echo)
    pump.send(PING)
    pump.read()
    (state / "token").write_text("1" * 64)
    pump.send(PING)
    pump.read()
    assert [received.headers["authorization"][-1] for received in peer.received] == ["0", "1"]


def test_notification_and_response_are_posted_and_print_nothing(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.send(notification("notifications/roots/list_changed"))
    pump.send({"jsonrpc": "2.0", "id": 3, "result": {}})
    peer.wait_received(2)
    pump.send(PING)
    assert pump.read()["id"] == 7


def test_protocol_version_of_the_handshake_is_sent_with_later_messages(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.send(request("initialize", 0, {"protocolVersion": "2099-01-01"}))
    pump.read()
    pump.send(PING)
    pump.read()
    first, second = peer.received
    assert "mcp-protocol-version" not in first.headers
    assert second.headers["mcp-protocol-version"] == VERSION
    assert first.headers["mcp-client"] == second.headers["mcp-client"]


def test_call_of_a_tool_has_a_key_of_its_own(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, echo)
    pump.call("create_session", 1)
    pump.call("create_session", 2)
    meta = {"claudecode/toolUseId": "toolu_01Ab"}
    for number in (3, 4):
        pump.send(request("tools/call", number, {"name": "create_session", "_meta": meta}))
    for strange in ("ä", "x" * 200, 7, ""):
        params = {"name": "x", "_meta": {"claudecode/toolUseId": strange}}
        pump.send(request("tools/call", f"s{strange}", params))
    for _ in range(8):
        pump.read()
    keys = {received.json["id"]: received.key for received in peer.received}
    assert keys.pop(3) == keys.pop(4) == "mcp-toolu_01Ab"
    assert len(set(keys.values())) == 6
    assert all(key.isascii() and len(key) <= 128 for key in keys.values())


def test_calls_are_answered_in_any_order(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, by_method({"slow": SILENCE}))
    for number in range(20):
        pump.send(request("slow", f"s{number}"))
    pump.send(PING)
    assert pump.read()["id"] == 7
    peer.wait_received(21)


def test_stream_prints_progress_at_once_and_the_response_once(peer: Peer, pump: PumpClient) -> None:
    progress = notification("notifications/progress", progressToken="t", progress=1)
    whole = stream(progress, response(PING, {"text": "a\u2028b\nc"}), PING, end=False)
    peer.script(ROUTE, Open(stream(progress, end=False)), whole, echo)
    pump.send(request("tools/call"))
    assert pump.read() == progress
    pump.send(PING)
    assert pump.read() == progress
    assert pump.read() == response(PING, {"text": "a\u2028b\nc"})
    pump.send(request("ping", 8))
    assert pump.read()["id"] == 8, "nothing after the response"


def test_end_of_stdin_ends_the_pump_while_a_call_is_held(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, SILENCE)
    pump.call("wait_for_sessions")
    peer.wait_received(1)
    assert pump.end() == (0, "")


def test_line_may_come_in_pieces_and_be_as_long_as_a_body(peer: Peer, pump: PumpClient) -> None:
    peer.script(ROUTE, lambda received: answer(response(received.json, len(received.body))))
    line = json.dumps(request("x", 1, {"text": ""})).encode()
    line = line.replace(b'""', b'"%b"' % (b"x" * (BODY_MAX_BYTES - len(line))))
    assert len(line) == BODY_MAX_BYTES
    for piece in (b"\n \n" + line[:10], line[10:11], line[11:2_000_000], line[2_000_000:], b"\n"):
        pump.write(piece)
    assert pump.read() == response(PING | {"id": 1}, BODY_MAX_BYTES)


BIG = b'"' + b'x\\"' * (BODY_MAX_BYTES // 2) + b'"'


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"id":6,"a":%b}}', 5),
        (
            b'{"method":"tools/call","params":{"id":6,"a":%b},"jsonrpc":"2.0","id":"x \\"id\\":7}"}',
            'x "id":7}',
        ),
        (b'{"method":"tools/call","params":{"a":%b,"id":6}}', None),
        (b'{"method":"tools/call","params":{"a":%b,"b":",\\"id\\":6}"}}', None),
        (b"%b", None),
    ],
    ids=["id first", "id last", "inner id", "id in a text", "no object"],
)
def test_line_that_is_too_long_is_refused_by_its_id(
    peer: Peer, pump: PumpClient, line: bytes, number: object
) -> None:
    peer.script(ROUTE, echo)
    pump.write(line % BIG + b"\n")
    refused = pump.read()
    assert (refused["id"], refused["error"]["code"]) == (number, -32600)
    assert "4,194,304 bytes" in refused["error"]["message"]
    pump.send(PING)
    assert pump.read()["id"] == 7


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b'{"jsonrpc": "2.0"', -32700),
        (b'{"id": 1} {"id": 2}', -32700),
        (b"\xff\xfe{}", -32700),
        (b"\x00", -32700),
        (b"[" * 100_000, -32700),
        (b'{"id": ' + b"9" * 5_000 + b"}", -32700),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"null", -32600),
        (b'"text"', -32600),
    ],
)
def test_line_that_is_no_message_gets_a_json_rpc_error(
    peer: Peer, pump: PumpClient, line: bytes, code: int
) -> None:
    peer.script(ROUTE, echo)
    pump.write(line + b"\n")
    refused = pump.read()
    assert (refused["id"], refused["error"]["code"]) == (None, code)
    assert peer.received == []
    pump.send(PING)
    assert pump.read()["id"] == 7


@pytest.mark.parametrize("number", [None, 1.5, True, [1], {"a": 1}, "x" * 1001, float("nan")])
def test_id_that_is_not_valid_is_left_to_the_daemon(peer: Peer, pump: PumpClient, number: object) -> None:
    refused = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "id"}}
    peer.script(ROUTE, answer(refused))
    pump.send(request("ping", number))
    assert pump.read() == refused


@pytest.mark.parametrize(
    "number", ["", "x" * 1000, -1, 2**63, "\u202e\x1b[31m\ud83d"], ids=["empty", "long", "-1", "2**63", "odd"]
)
def test_refusal_of_the_daemon_is_a_tool_error_for_the_id(peer: Peer, pump: PumpClient, number: Any) -> None:
    peer.script(ROUTE, error("unauthenticated", "missing or invalid session token", 401, "run sm inside"))
    pump.call("create_session", number)
    refused = pump.read()
    told = {"code": "unauthenticated", "message": "missing or invalid session token", "hint": "run sm inside"}
    assert refused["id"] == number
    assert refused["result"]["isError"] is True
    assert refused["result"]["structuredContent"] == {"error": told}
    assert json.loads(refused["result"]["content"][0]["text"]) == {"error": told}


def test_refusal_of_another_request_is_a_json_rpc_error(peer: Peer, pump: PumpClient) -> None:
    limited = answer(
        {"error": {"code": "rate_limited", "message": "m", "hint": None, "retry_after_s": 0.5}}, 429
    )
    peer.script(ROUTE, limited)
    pump.send(request("tools/list"))
    refused = pump.read()["error"]
    assert (refused["code"], refused["message"]) == (-32000, "m")
    assert refused["data"] == {"code": "rate_limited", "message": "m", "retry_after_s": 0.5}


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 500 X\r\nSM-Protocol: 1\r\nContent-Length: 4\r\n\r\noops",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        answer({}, protocol=None),
        answer({}, protocol="2"),
        b"HTTP/1.1 200 OK\r\nSM-Protocol: 1\r\nContent-Length: 3\r\n\r\n{{{",
        answer([1]),
        stream().replace(b"0\r\n", b"9\r\ndata: {{\n\r\n1\r\n\n\r\n0\r\n"),
    ],
    ids=["500", "no http", "no protocol", "protocol 2", "no json", "a list", "an event that is no json"],
)
def test_answer_that_is_not_json_rpc_never_reaches_stdout(
    peer: Peer, pump: PumpClient, broken: bytes
) -> None:
    peer.script(ROUTE, broken)
    pump.call("create_session", 5)
    refused = pump.read()
    assert refused["id"] == 5
    assert refused["result"]["isError"] is True


def test_requests_beyond_the_limit_are_refused_while_cancellation_passes(
    peer: Peer, start: Callable[..., PumpClient]
) -> None:
    pump = start(CALLS_MAX=3)
    peer.script(ROUTE, by_method({"tools/call": SILENCE}))
    for number in range(3):
        pump.call("wait_for_sessions", number)
    peer.wait_received(3)
    pump.send(PING)
    refused = pump.read()
    assert (refused["id"], refused["error"]["code"]) == (7, -32000)
    pump.send(notification("notifications/cancelled", requestId=1))
    peer.wait_received(4)

    def is_answered() -> bool:
        pump.send(PING)
        return "result" in pump.read()

    until(is_answered, "room for another request")


def test_verbose_pump_logs_without_any_content(peer: Peer, start: Callable[..., PumpClient]) -> None:
    pump = start("--verbose")
    peer.script(ROUTE, error("usage", "m"), echo)
    pump.call("create_session", 1, title="a secret")
    pump.read()
    code, log = pump.end()
    assert (code, log) == (0, "sm mcp: the daemon refused tools/call: HTTP status 400\n")


def test_pump_outside_a_session_ends_with_5(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/me", error("not_found", "the operator is no session", 404))
    done = run("mcp", code=5)
    assert done.out == ""
    assert "sm mcp --operator" in done.err
