"""The tools with which a session reports about itself."""

import json
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpClient, McpSession
from tests.sim.stage import Instance

instance = context_fixture("function", Instance, CONFIG)
supervised = context_fixture("function", Instance, f"{CONFIG}child_agents: {{mode: supervised}}\n")


def test_report_note_shows_in_the_progress_of_the_caller(instance: Instance) -> None:
    session = McpSession(instance)
    assert set(session.call("report_note", text="running the tests")) == {"timestamp"}
    assert session.call("get_progress")["current_activity"] == "running the tests"
    assert McpClient(instance).call("get_progress", session_id=session.id)["current_activity"] == (
        '"running the tests"'
    )


def test_report_is_normalized_and_the_answer_says_so(instance: Instance) -> None:
    session = McpSession(instance)
    noted = session.call("report_note", text="a\x1b[201~b\nc" + "x" * 300)
    assert noted["warnings"] == [
        "note: left out control characters",
        "note: put on one line",
        "note: cut to 200 characters",
    ]
    assert session.call("get_progress")["current_activity"] == "ab c" + "x" * 195 + "\N{HORIZONTAL ELLIPSIS}"
    made = session.call("report_checkpoint", message="y" * 60_000)
    assert made["warnings"] == ["message: cut to 50,000 characters"]
    done = session.call("complete_session", message="z\x07" * 10_000)
    assert done["warnings"] == ["message: left out control characters"]
    assert instance.session(session.id)["completion_message"] == "z" * 10_000


def test_report_with_the_same_key_is_made_once(instance: Instance) -> None:
    session = McpSession(instance)
    session.call("report_note", key="first", text="one")
    session.call("report_note", text="two")
    session.call("report_note", key="first", text="one")
    assert session.call("get_progress")["current_activity"] == "two"
    assert session.refused("report_note", key="first", text="other")["code"] == "usage"


@pytest.mark.parametrize(
    ("tool", "path", "body"),
    [
        ("report_note", "note", {"text": "tests"}),
        ("report_checkpoint", "checkpoints", {"message": "half", "metadata": {"tests": 12}}),
        ("report_checkpoint", "checkpoints", {"message": "half", "metadata": {}}),
        ("complete_session", "complete", {"message": "done", "status": "completed"}),
    ],
)
def test_report_with_the_key_of_a_request_is_the_same_report(
    instance: Instance, tool: str, path: str, body: dict[str, Any]
) -> None:
    arguments = {name: value for name, value in body.items() if value != {}}
    for tool_first in (True, False):
        session = McpSession(instance)
        if tool_first:
            session.call(tool, key="k", **arguments)
        session.send(f"/v1/sessions/me/{path}", body, key="k")
        session.call(tool, key="k", **arguments)
        kinds = [event["type"] for event in instance.events(session.id)]
        assert sum(kinds.count(kind) for kind in ("note", "checkpoint", "completed")) == 1, kinds


def test_report_checkpoint_is_part_of_the_progress(instance: Instance) -> None:
    session = McpSession(instance)
    made = session.call("report_checkpoint", message="half (1/2 tasks)", metadata={"tests": 12})
    (point,) = session.call("get_progress")["checkpoints"]
    assert (point["timestamp"], point["metadata"]) == (made["timestamp"], {"tests": "12"})


def test_progress_of_another_session_is_quoted(instance: Instance) -> None:
    parent = McpSession(instance)
    child = McpSession(instance, "--parent", parent.id)
    child.call("report_checkpoint", message="half\nof it", metadata={"tests": 12})
    shown = parent.call("get_progress", session_id=child.id, output_lines=5)
    (point,) = shown["checkpoints"]
    assert (point["message"], point["metadata"]) == ('"half of it"', {"tests": '"12"'})
    assert isinstance(shown["last_output"], list)


def test_whole_number_may_have_a_fraction_of_zero(instance: Instance) -> None:
    assert isinstance(McpSession(instance).call("get_progress", output_lines=5.0)["last_output"], list)


def test_complete_session_ends_the_caller_and_warns_of_live_children(instance: Instance) -> None:
    session = McpSession(instance)
    child = McpSession(instance, "--parent", session.id)
    done = session.call("complete_session", message="All 26 tests pass")
    assert done["status"] == "completed"
    assert instance.session(child.id)["name"] in done["warnings"][0]
    assert instance.session(session.id)["completion_message"] == "All 26 tests pass"
    assert session.refused("complete_session", message="again")["code"] == "illegal_transition"


def test_complete_session_proposes_in_supervised_mode(supervised: Instance) -> None:
    session, operator = McpSession(supervised), McpClient(supervised)
    done = session.call("complete_session", message="done")
    assert done["status"] == "proposed"
    (request,) = operator.call("list_requests", session_id=session.id)["requests"]
    assert (request["request_id"], request["kind"]) == (done["request_id"], "completion")
    answered = operator.call("answer_request", request_id=done["request_id"], approve=True)
    assert (answered["state"], answered["answer"]["approved"]) == ("answered", True)
    assert supervised.session(session.id)["status"] == "completed"
    error = operator.refused("answer_request", request_id=done["request_id"], approve=False)
    assert error["code"] == "illegal_state"


def test_every_changing_call_is_in_the_audit_log_with_its_tool(instance: Instance) -> None:
    session = McpSession(instance)
    session.call("report_note", text="now")
    session.refused("send_message", session_id="0bad0bad", message="x")
    lines = (instance.state / "log" / "audit.jsonl").read_text().splitlines()
    written = {(e["what"], e["decision"]) for e in map(json.loads, lines) if session.id in e["who"]}
    assert {("report_note", "allowed"), ("send_message", "refused")} <= written
