"""The limits of spawns and texts apply to calls of tools, and a refused call has no effect."""

from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.stage import Instance

TASK: dict[str, Any] = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}
BAD = {"NUL": "a\x00b", "escape": "a\x1b[201~b", "C1": "a\x9bb", "bidirectional": "a\u202eb", "CR": "a\rb"}
instance = context_fixture("function", Instance, CONFIG)


@pytest.fixture
def parent(instance: Instance) -> McpSession:
    return McpSession(instance)


def test_ten_creates_at_once_make_ten_children_and_the_eleventh_is_refused(instance: Instance) -> None:
    parent = McpSession(instance)
    calls = [parent.client().start_call("create_session", **TASK) for _ in range(10)]
    created = [call.result() for call in calls]
    children = instance.json("children", parent.id)
    assert {child["session_id"] for child in children} == {child["session_id"] for child in created}
    assert len(children) == 10
    error = parent.refused("create_session", **TASK)
    assert (error["code"], error["message"]) == (
        "limit_reached",
        f"session {parent.id} already has 10 live children, at most 10 are allowed",
    )
    assert "[tool wait_for_sessions]" in error["hint"]
    assert "retry_after_s" not in error
    parent.call("control_session", session_id=children[0]["session_id"], action="kill")
    assert parent.call("create_session", **TASK)["status"] == "running"


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_text_with_a_control_character_is_refused(instance: Instance, parent: McpSession, bad: str) -> None:
    child = parent.call("create_session", **TASK)["session_id"]
    calls = [
        ("create_session", {**TASK, "title": bad}),
        ("create_session", {**TASK, "initial_message": bad}),
        ("send_message", {"session_id": child, "message": bad}),
        ("ask", {"question": bad}),
        ("ask", {"question": "x", "options": [bad]}),
    ]
    taken = [(tool, values) for tool, values in calls if not _is_refused(parent, tool, values)]
    # A carriage return alone or before a line feed is a line break, which texts of several lines may have.
    assert all(bad == BAD["CR"] for _, _ in taken), taken
    (entry,) = parent.call("broadcast", message=bad)["sent"] if bad != BAD["CR"] else ({"error": {}},)
    assert entry["error"].get("code", "text_refused") == "text_refused"
    parent.call("control_session", session_id=child, action="kill")


def _is_refused(session: McpSession, tool: str, values: dict[str, Any]) -> bool:
    answer = session.request("tools/call", {"name": tool, "arguments": values})["result"]
    shown = answer["structuredContent"]
    assert not answer["isError"] or shown["error"]["code"] in ("text_refused", "usage"), shown
    return bool(answer["isError"])
