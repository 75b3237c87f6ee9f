"""Agent types from files with the real Claude Code."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.check.scripted_api.script import tool
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi

MORE = """    Default: {args: ["--permission-mode", "default"]}
limits: {spawn_interval_s: 0}
"""
FOOTERS = {
    "default": "? for shortcuts", "acceptEdits": "accept edits on", "bypassPermissions": "bypass permissions",
}  # fmt: skip

REVIEWER = """---
description: reviews
tools: Read, Bash, Nonsense, mcp__none__such
disallowedTools: Write
---
You are the strictest of reviewers.
"""

api = scripted_api("module")
claudes = claude_instance("module", more=MORE, claude_more='    IS_SANDBOX: "1"')


def turn_request(api: ScriptedApi, words: str) -> Request:
    """Wait for the API request of the turn with this prompt."""
    return api.wait_for(lambda: next(iter(api.turns(words)), None), words)


def tools(request: Request) -> set[str]:
    """The tools of claude itself. Those of the server `sm` are there once it is connected."""
    names = {tool["name"] for tool in request.body.get("tools", ())}
    return {name for name in names if not name.startswith(("mcp__sm__", "DeferredTool"))}


def test_claude_gets_the_prompt_and_only_the_tools_of_its_definition(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    agents = claudes.home / ".claude" / "agents"
    agents.mkdir()
    (agents / "reviewer.md").write_text(REVIEWER)
    session_id = claudes.spawn("reviewer", "defined-1 [[text:x]]")["session_id"]
    request = turn_request(api, "defined-1")
    assert "You are the strictest of reviewers." in request.system
    assert "reviewer (reviews)" in request.system
    assert tools(request) == {"Read", "Bash"}
    claudes.idle(session_id)

    claudes.spawn("Plain", "defined-2 [[text:x]]")
    plain = turn_request(api, "defined-2")
    assert "strictest" not in plain.system
    assert {"Read", "Bash", "Edit", "Write"} < tools(plain)

    claudes.json("fork", session_id, "--name", "copy")
    claudes.idle("reviewer-copy")
    copy = claudes.session("reviewer-copy")["session_id"]
    claudes.prompt(copy, "defined-3 [[text:x]]")
    forked = turn_request(api, "defined-3")
    assert calling_session(forked) == copy  # claude would repeat the prompt of the original
    assert "You are the strictest of reviewers." in forked.system
    assert tools(forked) == {"Read", "Bash"}


def test_claude_gets_no_tools_when_the_definition_lists_none(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    (claudes.home / "agents").mkdir()
    (claudes.home / "agents" / "talker.md").write_text("---\ntools: []\n---\n")
    claudes.spawn("talker", "defined-4 [[text:x]]")
    assert not tools(turn_request(api, "defined-4"))


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_project_settings_decide_no_permission_mode(claudes: ClaudeInstance, mode: str) -> None:
    """Without an option claude reads `permissions.defaultMode` from the settings of the project or the user."""
    project = claudes.work / f"with-{mode}"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": mode}}))
    parent = claudes.spawn("Default", "--working-dir", str(project))["session_id"]
    children = [
        claudes.spawn(kind, env={"SM_SESSION_ID": parent})["session_id"] for kind in ("Plain", "Editor")
    ]
    free = claudes.spawn("Plain", "--working-dir", str(project))["session_id"]
    for session_id in (parent, *children, free):
        claudes.idle(session_id)
        claudes.redraw(session_id)
        until(lambda: shows_mode(claudes, session_id, "default"), f"{session_id} is in the default mode")  # noqa: B023 - called in this iteration


def test_settings_of_the_user_decide_the_permission_mode_of_a_type_without_one(
    claudes: ClaudeInstance,
) -> None:
    user = claudes.other_home("editing-user")
    settings = Path(user["CLAUDE_CONFIG_DIR"], "settings.json")
    settings.write_text(json.dumps({"permissions": {"defaultMode": "acceptEdits"}}))
    plain = claudes.spawn("Plain", env=user)["session_id"]
    typed = claudes.spawn("Default", env=user)["session_id"]
    for session_id, mode in ((plain, "acceptEdits"), (typed, "default")):
        claudes.idle(session_id)
        claudes.redraw(session_id)
        until(lambda: shows_mode(claudes, session_id, mode), f"{session_id} is in mode {mode}")  # noqa: B023 - called in this iteration


def test_mode_that_a_person_chooses_at_the_terminal_is_an_event_and_binds_children(
    claudes: ClaudeInstance,
) -> None:
    parent = claudes.spawn("Default")["session_id"]
    claudes.idle(parent)
    claudes.keys(parent, "BTab")
    until(lambda: shows_mode(claudes, parent, "acceptEdits"), "the person has changed the mode")
    claudes.prompt(parent, "tab-1 [[text:x]]")
    events = until(
        lambda: claudes.get("/v1/events", session=parent, type="permission_mode")["events"],
        "sm knows the mode",
    )
    assert [event["metadata"]["permission_mode"] for event in events] == ["acceptEdits"]
    # The keys came from no terminal that the operator has on the screen: an agent could have pressed them.
    child = claudes.spawn("Bypass", env={"SM_SESSION_ID": parent})
    assert child["permission_mode"] == "manual"


def test_claude_in_plan_mode_asks_for_a_command_that_changes_files(claudes: ClaudeInstance) -> None:
    """Later versions would ask a model, and no hook would report the dialog behind a gateway."""
    command = tool("Bash", command="touch planned", description="scripted")
    session_id = claudes.spawn("Planner", f"plan-1 {command}")["session_id"]
    until(lambda: claudes.get("/v1/requests"), "the agent asks")
    (request,) = claudes.json("requests")
    assert (request["session_id"], request["kind"]) == (session_id, "permission")
    claudes.sm("deny", request["request_id"])
    claudes.idle(session_id)
    assert not (claudes.work / "planned").exists()


def shows_mode(claudes: ClaudeInstance, session_id: str, mode: str) -> bool:
    """True if the footer below the input box, or a first question, is that of this mode."""
    screen = claudes.screen(session_id).lower()
    return FOOTERS[mode] in screen and not any(FOOTERS[m] in screen for m in FOOTERS.keys() - {mode})
