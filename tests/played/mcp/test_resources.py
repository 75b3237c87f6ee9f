"""Resources are read by their addresses, and announced only with `mcp.resources`."""

import json
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, VERSION, McpClient, McpSession
from tests.sim.stage import Instance

instance = context_fixture("function", Instance, f"{CONFIG}mcp: {{resources: true, tools: [get_progress]}}\n")
silent = context_fixture("function", Instance, CONFIG)
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def session(instance: Instance) -> McpSession:
    session = McpSession(instance, "--title", "The lead")
    client = McpClient(instance)
    assert client.request("ping")["result"] == {}
    return session


def read(client: McpClient, uri: str) -> Any:
    (content,) = client.request("resources/read", {"uri": uri})["result"]["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "application/json")
    return json.loads(content["text"])


def test_resources_are_announced_when_the_configuration_says_so(session: McpSession) -> None:
    assert "resources" in session.request("initialize", HELLO)["result"]["capabilities"]


def test_resources_are_read_unannounced_when_the_configuration_does_not_say_so(silent: Instance) -> None:
    hidden = McpSession(silent)
    assert "resources" not in hidden.request("initialize", HELLO)["result"]["capabilities"]
    assert read(hidden, "sm://sessions")["session_count"] == 1


def test_every_listed_resource_and_template_is_read(session: McpSession) -> None:
    listed = [r["uri"] for r in session.request("resources/list")["result"]["resources"]]
    assert listed == ["sm://sessions", "sm://agents", "sm://requests"]
    templates = session.request("resources/templates/list")["result"]["resourceTemplates"]
    assert [t["uriTemplate"].removeprefix("sm://sessions/{id}") for t in templates] == [
        "",
        "/progress",
        "/checkpoints",
    ]
    read(session, "sm://agents")
    assert read(session, "sm://requests") == {"requests": []}
    (own,) = read(session, "sm://sessions")["sessions"]
    assert read(session, f"sm://sessions/{session.id}") == own
    assert read(session, f"sm://sessions/{session.id}/progress")["session_id"] == session.id
    assert read(session, f"sm://sessions/{session.id}/checkpoints") == {"checkpoints": []}


def test_unknown_resource_is_not_found(session: McpSession) -> None:
    paths = ("sm://nothing", "sm://sessions/", "sm://sessions/0bad0bad", "sm://sessions/a/b")
    for uri in (*paths, "file:///etc/passwd"):
        assert session.request("resources/read", {"uri": uri})["error"]["data"]["code"] == "not_found", uri


def test_only_the_tools_of_the_configuration_exist(session: McpSession) -> None:
    assert [t["name"] for t in session.request("tools/list")["result"]["tools"]] == ["get_progress"]
    assert session.invalid("report_note", {"text": "x"})["data"]["allowed"] == ["get_progress"]


def test_switched_off_server_refuses_every_message() -> None:
    with Instance(f"{CONFIG}mcp: {{enabled: false}}\n") as instance:
        session = McpSession(instance)
        answer = session.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status == 403
        assert answer.messages[0]["error"]["code"] == "not_permitted"
