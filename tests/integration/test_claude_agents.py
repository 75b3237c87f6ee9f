"""An agent type from a file, as the real Claude Code gets it."""

import json

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
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


def asked(api: ScriptedApi, words: str) -> Request:
    """The request of the turn with this prompt."""
    return api.wait_for(lambda: next(iter(api.turns(words)), None), words)


def tools(request: Request) -> set[str]:
    return {each["name"] for each in request.body["tools"]}


def test_prompt_of_a_definition_is_told_and_its_tools_are_all_there_are(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    agents = claudes.home / ".claude" / "agents"
    agents.mkdir()
    (agents / "reviewer.md").write_text(REVIEWER)
    session_id = claudes.spawn("reviewer", "defined-1 [[text:x]]")["session_id"]
    request = asked(api, "defined-1")
    assert "You are the strictest of reviewers." in request.system
    assert "reviewer (reviews)" in request.system
    assert tools(request) == {"Read", "Bash"}
    claudes.idle(session_id)

    claudes.spawn("Plain", "defined-2 [[text:x]]")
    plain = asked(api, "defined-2")
    assert "strictest" not in plain.system
    assert {"Read", "Bash", "Edit", "Write"} < tools(plain)

    claudes.json("fork", session_id, "--name", "copy")
    claudes.idle("reviewer-copy")
    claudes.prompt(claudes.session("reviewer-copy")["session_id"], "defined-3 [[text:x]]")
    forked = asked(api, "defined-3")
    assert "You are the strictest of reviewers." in forked.system
    assert tools(forked) == {"Read", "Bash"}


def test_definition_without_tools_has_none(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    (claudes.home / "agents").mkdir()
    (claudes.home / "agents" / "talker.md").write_text("---\ntools: []\n---\n")
    claudes.spawn("talker", "defined-4 [[text:x]]")
    assert not asked(api, "defined-4").body.get("tools")


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_settings_that_agents_can_write_give_a_child_no_more_than_its_parent(
    claudes: ClaudeInstance, mode: str
) -> None:
    """Without an option claude takes `permissions.defaultMode` of the project's settings, or of the user's."""
    project = claudes.home / f"with-{mode}"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": mode}}))
    parent = claudes.spawn("Default", "--working-dir", str(project))["session_id"]
    children = [
        claudes.spawn(kind, env={"SM_SESSION_ID": parent})["session_id"] for kind in ("Plain", "Editor")
    ]
    free = claudes.spawn("Plain", "--working-dir", str(project))["session_id"]
    until(lambda: shows(claudes, free, mode), f"the settings hold where nothing caps them: {mode}", 60)
    for each in (parent, *children):
        claudes.idle(each)
        until(lambda: shows(claudes, each, "default"), f"{each} is in no such mode", 60)  # noqa: B023 - in this turn


def shows(claudes: ClaudeInstance, session_id: str, mode: str) -> bool:
    """Whether its screen is that of a claude in this mode: what stands below the input box, or a first question."""
    shown = claudes.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:").lower()
    return FOOTERS[mode] in shown and not any(FOOTERS[m] in shown for m in FOOTERS.keys() - {mode})
