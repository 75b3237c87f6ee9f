"""JSON-RPC over `POST /v1/mcp`: handshake, versions, wrong messages, cancellation."""

import json
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, VERSION, McpClient, McpSession
from tests.sim.stage import Instance

instance = context_fixture("module", Instance, CONFIG)
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def session(instance: Instance) -> McpSession:
    return McpSession(instance)


def test_initialize_negotiates_the_version_of_the_client(session: McpSession) -> None:
    client = session.client(version=None)
    result = client.request("initialize", HELLO)["result"]
    assert result["protocolVersion"] == VERSION
    assert result["serverInfo"]["name"] == "sm"
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert 0 < len(result["instructions"]) <= 600


def test_initialize_offers_the_newest_version_for_an_unknown_one(session: McpSession) -> None:
    client = session.client(version=None)
    result = client.request("initialize", {**HELLO, "protocolVersion": "1999-01-01"})["result"]
    assert result["protocolVersion"] == VERSION


def test_notification_is_accepted_without_a_body(session: McpSession) -> None:
    answer = session.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (answer.status, answer.body) == (202, "")


def test_response_is_accepted_without_a_body(session: McpSession) -> None:
    assert session.post({"jsonrpc": "2.0", "id": 1, "result": {}}).status == 202


@pytest.mark.parametrize(
    "text", ["cut \ud83d", "\ude00 cut", "whole \ud83d\ude00 and half \ud83d", "\\ud83d"]
)
def test_half_a_character_is_taken_as_a_question_mark(session: McpSession, text: str) -> None:
    session.call("report_note", text=text)
    kept = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "?")
    assert session.call("get_progress")["current_activity"] == kept


@pytest.mark.parametrize(
    "value", [b'["\\ud83d", NaN]', b'["\\ud83d"', b"[" * 5000 + b'"\\ud83d"' + b"]" * 5000]
)
def test_half_a_character_makes_no_other_mistake_valid(session: McpSession, value: bytes) -> None:
    (answer,) = session.post(
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ' + value + b"}}"
    ).messages
    assert answer["error"]["code"] in (-32700, -32600)


def test_ping_is_answered_before_initialize(session: McpSession) -> None:
    assert session.client(version=None).request("ping")["result"] == {}


def test_tool_call_is_refused_before_initialize(session: McpSession) -> None:
    client = session.client(version=None)
    for method, params in (("tools/call", {"name": "get_progress"}), ("tools/list", {}), ("no/such", {})):
        error = client.request(method, params)["error"]
        assert error == {"code": -32600, "message": f"{method} must wait until initialize is answered"}


def test_unknown_protocol_version_in_the_header_is_refused(session: McpSession) -> None:
    client = session.client(version="1999-01-01")
    assert "1999-01-01" in client.request("tools/list")["error"]["message"]


def test_discover_is_answered_in_the_modern_era(session: McpSession) -> None:
    client = session.client(version=None)
    result = client.request("server/discover", {"_meta": ENVELOPE})["result"]
    assert result["supportedVersions"] == ["2026-07-28"]


def test_tools_are_the_same_in_both_eras(session: McpSession) -> None:
    modern = session.client(version=None).request("tools/list", {"_meta": ENVELOPE})["result"]
    assert modern["tools"] == session.request("tools/list")["result"]["tools"]
    assert modern["resultType"] == "complete"


def test_tool_is_called_in_the_modern_era(session: McpSession) -> None:
    params = {"name": "get_progress", "arguments": {}, "_meta": ENVELOPE}
    result = session.client(version=None).request("tools/call", params)["result"]
    assert result["structuredContent"]["session_id"] == session.id


def test_unknown_method_is_refused(session: McpSession) -> None:
    assert session.request("prompts/list")["error"]["code"] == -32601


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"NaN"])
def test_message_that_is_not_json_is_refused(session: McpSession, body: bytes) -> None:
    (answer,) = session.post(body).messages
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    "message",
    [
        [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
        5,
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": "x" * 1001, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []},
        {"jsonrpc": "2.0", "id": 1},
        json.loads(
            '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + '{"a":' * 101 + "1" + "}" * 102
        ),
    ],
    ids=lambda message: str(message)[:60],
)
def test_message_that_is_no_request_is_refused(session: McpSession, message: Any) -> None:
    (answer,) = session.post(message).messages
    assert answer["error"]["code"] == -32600


@pytest.mark.parametrize("request_id", ["x" * 100, "", 0, -5, "ü"])
def test_response_repeats_the_id_of_its_request(session: McpSession, request_id: object) -> None:
    (answer,) = session.post({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).messages
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize("request_id", [99, None, [], 1.5, "never"])
def test_cancellation_of_an_unknown_request_is_ignored(session: McpSession, request_id: object) -> None:
    params = {"requestId": request_id}
    assert (
        session.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).status == 202
    )


def test_message_of_four_mebibytes_and_a_byte_is_refused(session: McpSession) -> None:
    answer = session.post(b" " * (4 * 1024 * 1024 + 1))
    assert answer.status == 413
    assert answer.messages[0]["error"]["code"] == "limit_reached"


def test_only_a_session_is_asked_to_report_that_it_has_read_its_tools(
    instance: Instance, session: McpSession
) -> None:
    def asked(client: McpClient, method: str, params: object = None) -> bool:
        message = {"jsonrpc": "2.0", "id": next(client.ids), "method": method}
        return client.post(message if params is None else {**message, "params": params}).asks_for_report

    client, operator = session.client(), McpClient(instance)
    assert asked(client, "tools/list")
    assert asked(client, "tools/list", {"_meta": ENVELOPE})
    assert not asked(client, "ping")
    assert not asked(session.client(version=None), "tools/list"), "it is refused before initialize"
    assert not asked(operator, "tools/list")


def test_operator_has_no_tools_that_report(instance: Instance, session: McpSession) -> None:
    def names(client: McpClient) -> set[str]:
        return {tool["name"] for tool in client.request("tools/list")["result"]["tools"]}

    operator = McpClient(instance)
    assert "report_note" in names(session)
    assert "report_note" not in names(operator)
    assert operator.invalid("report_note", {"text": "x"})["code"] == -32602
