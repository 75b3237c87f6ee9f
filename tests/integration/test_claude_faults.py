"""Failed turns of the real Claude Code: who is told, and the dialog that it opens at its usage limit."""

import time
from typing import Any

import pytest

from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi

pytestmark = pytest.mark.processes

ONE_TRY = '    CLAUDE_CODE_MAX_RETRIES: "1"\n    TZ: UTC\n'
LOGIN = f"{ONE_TRY}    CLAUDE_CODE_OAUTH_TOKEN: sk-ant-oat01-none-of-any-account"
FULL = f'{ONE_TRY}    DISABLE_AUTO_COMPACT: "1"'

api = scripted_api("module")


def instance(api: ScriptedApi, claude_more: str) -> Any:
    claudes = ClaudeInstance(api, claude_more=claude_more)
    if claude_more is LOGIN:
        del claudes.env["ANTHROPIC_API_KEY"]
    return claudes


@pytest.fixture
def claudes(api: ScriptedApi, request: pytest.FixtureRequest) -> Any:
    started = instance(api, getattr(request, "param", LOGIN))
    yield started
    started.end()


def told(claudes: ClaudeInstance) -> list[str]:
    """The texts in the operator's inbox about turns that do not go on."""
    texts = [message["text"] for message in claudes.json("inbox")]
    return [line for text in texts for line in text.split("\n") if "does not go on" in line]


def faults(claudes: ClaudeInstance, session_id: str) -> list[str]:
    return [e["metadata"]["fault"] for e in claudes.events(session_id) if "fault" in e["metadata"]]


def test_usage_limit_is_told_once_and_its_dialog_is_closed(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    resets_at = int(time.time()) + 6 * 3600
    clock = time.strftime("%H:%M", time.localtime(resets_at // 60 * 60 + 60))
    limit = f"[[limit:five_hour:{resets_at}]]"
    session_id = claudes.spawn("Editor", f"first {limit}")["session_id"]
    claudes.says(session_id, "idle", f"session limit, resets {clock}")
    until(lambda: "/rate-limit-options" in claudes.screen(session_id), "claude has opened its dialog")
    until(lambda: "What do you want to do?" not in claudes.screen(session_id), "the dialog is closed")
    claudes.says(session_id, "idle", f"session limit, resets {clock}")
    assert len(told(claudes)) == 1
    assert "session limit" in told(claudes)[0]
    assert faults(claudes, session_id) == ["quota"]
    # No option of the dialog was chosen, and the box is empty.
    claudes.prompt(session_id, "second [[text:it works again]]")
    until(lambda: "it works again" in claudes.screen(session_id), "the next turn")
    assert [turn.status for turn in api.turns("first")] == [429]


def test_parent_and_operator_are_told_of_an_api_that_failed_for_good(claudes: ClaudeInstance) -> None:
    parent = claudes.spawn("Editor", "[[text:ready]]")["session_id"]
    claudes.idle(parent)
    child = claudes.spawn("Editor", "[[error:500:*]]", "--parent", parent)["session_id"]
    claudes.says(child, "idle", "the turn failed: the API failed")
    until(lambda: any("does not go on" in turn for turn in prompts(claudes.api)), "the parent is told")
    assert len(told(claudes)) == 1
    assert faults(claudes, child) == ["server"]
    claudes.idle(parent)
    assert sum("does not go on" in turn for turn in prompts(claudes.api)) == 1


def prompts(api: ScriptedApi) -> list[str]:
    return [turn.prompt for turn in api.turns("does not go on")]


def test_login_that_is_not_accepted_is_told_with_the_command_to_type(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Editor", "[[refuse:401:OAuth token has expired]]")["session_id"]
    claudes.says(session_id, "idle", "not logged in")
    (line,) = told(claudes)
    assert "type /login" in line
    assert faults(claudes, session_id) == ["login"]


@pytest.mark.parametrize("claudes", [FULL], indirect=True)
def test_full_context_that_no_hook_reports_is_told(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn(
        "Editor", "[[text:x]][[usage:input=199500]]", "--model", "claude-haiku-4-5-20251001"
    )["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "one more [[text:y]]")
    claudes.says(session_id, "idle", "the context is full")
    (line,) = told(claudes)
    assert "/compact" in line
    assert faults(claudes, session_id) == ["context_full"]


def test_limit_message_in_an_answer_is_no_fault(claudes: ClaudeInstance) -> None:
    words = "You've hit your session limit \u00b7 resets 5:59am (UTC)"
    session_id = claudes.spawn("Editor", f"[[text:{words}]]")["session_id"]
    claudes.says(session_id, "idle", "the turn ended")
    assert told(claudes) == []
    assert faults(claudes, session_id) == []
