"""The command, the HTTP API and the tools refuse the same things with the same code and words."""

import json
from itertools import pairwise
from typing import Any

import pytest

from sm.core.timestamps import epoch_s
from tests.api_client import schema
from tests.fixtures import context_fixture
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.stage import Instance

instance = context_fixture("function", Instance, CONFIG)
ESCAPE = "a\x1b[201~b"


@pytest.fixture
def team(instance: Instance) -> dict[str, McpSession]:
    """A parent, its child, and a session of another workspace. The caller is the child."""
    parent = McpSession(instance)
    directory = instance.work / "elsewhere"
    directory.mkdir()
    instance.sm("workspace", "create", "other", "--working-dir", str(directory))
    foreign = McpSession(instance, "--workspace", "other", "--trust", "direct")
    return {"parent": parent, "child": McpSession(instance, "--parent", parent.id), "foreign": foreign}


REFUSALS: dict[str, tuple[list[str], tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "message to nobody": (
        ["send", "0bad0bad", "x"],
        ("/v1/messages", {"to": "0bad0bad", "text": "x"}),
        ("send_message", {"session_id": "0bad0bad", "message": "x"}),
    ),
    "message to another workspace": (
        ["send", "FOREIGN", "x"],
        ("/v1/messages", {"to": "FOREIGN", "text": "x"}),
        ("send_message", {"session_id": "FOREIGN", "message": "x"}),
    ),
    "message with a control character": (
        ["send", "PARENT", ESCAPE],
        ("/v1/messages", {"to": "PARENT", "text": ESCAPE}),
        ("send_message", {"session_id": "PARENT", "message": ESCAPE}),
    ),
    "kill of the parent": (
        ["kill", "PARENT"],
        ("/v1/sessions/PARENT/kill", {}),
        ("control_session", {"session_id": "PARENT", "action": "kill"}),
    ),
    "unknown agent type": (
        ["spawn", "Sleper", "x"],
        ("/v1/sessions", {"agent_type": "Sleper", "prompt": "x"}),
        ("create_session", {"title": "T", "agent_name": "Sleper", "initial_message": "x"}),
    ),
    "title with a tab": (
        ["spawn", "Sleeper", "x", "--title", "a\tb"],
        ("/v1/sessions", {"agent_type": "Sleeper", "prompt": "x", "title": "a\tb"}),
        ("create_session", {"title": "a\tb", "agent_name": "Sleeper", "initial_message": "x"}),
    ),
    "answer to no request": (
        ["approve", "r99"],
        ("/v1/requests/r99/answer", {"approved": True}),
        ("answer_request", {"request_id": "r99", "approve": True}),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_is_the_same_over_command_http_and_mcp(
    instance: Instance, team: dict[str, McpSession], name: str
) -> None:
    def filled(value: Any) -> Any:
        text = json.dumps(value).replace("FOREIGN", team["foreign"].id)
        return json.loads(text.replace("PARENT", team["parent"].id))

    command, (path, body), (tool, values) = filled(REFUSALS[name])
    caller = team["child"]
    ended = instance.run(*command, "--json", env=instance.as_session(caller.id))
    over_command = json.loads(ended.stderr)["error"]
    route = path.replace(team["parent"].id, "{ref}").replace("r99", "{ref}")
    over_http = caller.refusal(path, body)
    assert not [*schema("post", route, False).iter_errors({"error": over_http})]
    over_mcp = caller.refused(tool, **values)
    hint = over_mcp.get("hint") and over_mcp["hint"].partition(" [")[0]  # the rest names tools
    facts = {(e["code"], e["message"], e.get("hint")) for e in (over_command, over_http)}
    assert facts == {(over_mcp["code"], over_mcp["message"], hint)}


def test_session_of_another_workspace_is_refused_as_one_that_does_not_exist(
    team: dict[str, McpSession],
) -> None:
    foreign = team["foreign"].id
    for tool, values in (
        ("get_progress", {}),
        ("read_session_output", {}),
        ("send_message", {"message": "x"}),
        ("wait_for_sessions", {}),
        ("control_session", {"action": "kill"}),
        ("list_requests", {}),
    ):
        errors = []
        for named in (foreign, "0bad0bad"):
            reference = {"session_ids": [named]} if tool == "wait_for_sessions" else {"session_id": named}
            error = team["child"].refused(tool, **reference, **values)
            errors.append(json.dumps(error).replace(named, "ID"))
        assert errors[0] == errors[1], tool


def test_children_of_one_step_wait_for_their_turn() -> None:
    config = CONFIG.replace("spawn_interval_s: 0", "spawn_interval_s: 2")
    values = {"title": "T", "agent_name": "Sh", "initial_message": "exit 0"}
    with Instance(config) as instance:
        session = McpSession(instance)
        calls = [session.client().start_call("create_session", **values) for _ in range(5)]
        made = {call.result()["session_id"] for call in calls}
        assert len(made) == 5
        times = sorted(epoch_s(instance.session(child)["created_at"]) for child in made)
        assert all(later - earlier >= 2 for earlier, later in pairwise(times))


def test_second_child_within_the_interval_is_told_when_to_retry() -> None:
    config = CONFIG.replace("spawn_interval_s: 0", "spawn_interval_s: 3600")
    values = {"title": "T", "agent_name": "Sh", "initial_message": "exit 0"}
    with Instance(config) as instance:
        session = McpSession(instance)
        child = session.call("create_session", **values)
        instance.ended(child["session_id"])
        error = session.refused("create_session", **values)
        assert error["code"] == "rate_limited"
        assert 0 < error["retry_after_s"] <= 3600
