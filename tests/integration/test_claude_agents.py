"""An agent type from a file, as the real Claude Code gets it."""

from collections.abc import Iterator

import pytest

from tests.claude_instance import ClaudeInstance
from tests.scripted_api import Request, ScriptedApi

REVIEWER = """---
description: reviews
tools: Read, Bash, Nonsense, mcp__none__such
disallowedTools: Write
---
You are the strictest of reviewers.
"""


@pytest.fixture(scope="module")
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as made:
        yield made


@pytest.fixture(scope="module")
def claudes(api: ScriptedApi) -> Iterator[ClaudeInstance]:
    made = ClaudeInstance(api)
    yield made
    made.end()


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
