"""Slash commands sent as messages to the real Claude Code: who may send them, and when they have arrived."""

from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import Kind, ScriptedApi
from tests.waits import PATIENT

pytestmark = pytest.mark.processes

ARRIVED = ("submitted", "acknowledged")

api = scripted_api("module")
claudes = claude_instance("module")


@pytest.fixture
def editor(claudes: ClaudeInstance) -> str:
    """An idle session with a conversation."""
    session_id: str = claudes.spawn("Editor", "[[text:one]]")["session_id"]
    claudes.idle(session_id)
    claudes.sm("send", session_id, "[[text:two]]", "--wait", PATIENT)
    claudes.idle(session_id)
    return session_id


def compactions(api: ScriptedApi, words: str = "") -> int:
    return sum(r.kind is Kind.COMPACTION and r.over for r in api.requests)


def found(claudes: ClaudeInstance, session_id: str, number: int) -> dict[str, Any]:
    return next(m for m in claudes.get("/v1/messages", session=session_id) if m["message_id"] == number)


@pytest.mark.parametrize("text", ["/compact", "/compact keep the numbers"])
def test_compact_that_the_operator_sends_is_carried_out_once_and_confirmed(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str, text: str
) -> None:
    before = compactions(api)
    sent = claudes.json("send", editor, text, "--wait", PATIENT)
    assert (sent["status"], sent["mode"]) == ("submitted", "command")
    claudes.says(editor, "idle", "the conversation was compacted")
    number = sent["message_id"]
    until(lambda: found(claudes, editor, number)["evidence"] == "its transcript", "the transcript has it")
    assert compactions(api) == before + 1
    # The box is empty, and the next message is a text.
    assert claudes.json("send", editor, "[[text:goes on]]", "--wait", PATIENT)["mode"] == "auto"
    until(lambda: "goes on" in claudes.screen(editor), "the next turn")
    assert not [turn for turn in api.turns("/compact") if "[sm] from" in turn.prompt]


def test_clear_that_the_operator_sends_begins_a_new_conversation(
    claudes: ClaudeInstance, editor: str
) -> None:
    sent = claudes.json("send", editor, "/clear\n", "--wait", PATIENT)
    assert sent["status"] == "submitted"
    claudes.says(editor, "idle", "the conversation was cleared")


def test_command_waits_until_the_agent_is_idle(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    claudes.sm("send", editor, "work [[hold:work]][[text:done]]", "--wait", PATIENT)
    api.wait_for_hold("work")
    sent = claudes.json("send", editor, "/compact", "--no-wait")
    assert sent["reason"] == "held until the session is idle: it is running"
    api.release("work")
    until(lambda: found(claudes, editor, sent["message_id"])["status"] in ARRIVED, "it arrives")
    claudes.says(editor, "idle", "the conversation was compacted")


def test_agents_may_send_no_command_except_a_parent_that_compacts_its_child(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    child = claudes.spawn("Editor", "[[text:child]]", "--parent", editor)["session_id"]
    claudes.idle(child)
    claudes.sm("send", child, "[[text:more]]", "--wait", PATIENT)
    claudes.idle(child)
    parent, stranger = claudes.as_session(editor), claudes.as_session(child)
    before = compactions(api)
    for text in ("/clear", "/context"):
        refused = claudes.refused("send", child, text, exit_code=5, env=parent)
        assert "may not send commands to session" in refused
    refused = claudes.refused("send", editor, "/compact", exit_code=5, env=stranger)
    assert "may not send commands to session" in refused
    assert compactions(api) == before
    assert claudes.json("send", child, "/compact", "--wait", PATIENT, env=parent)["status"] == "submitted"
    claudes.says(child, "idle", "the conversation was compacted")


@pytest.mark.parametrize("text", ["/exit", "/permissions", "/model sonnet", "/compact one\ntwo"])
def test_other_slash_commands_are_not_executed(claudes: ClaudeInstance, editor: str, text: str) -> None:
    if "\n" in text:
        assert "one line" in claudes.refused("send", editor, text, exit_code=2)
        return
    sent = claudes.json("send", editor, text, "--wait", PATIENT)
    assert (sent["status"] in ARRIVED, sent["mode"]) == (True, "auto")
    claudes.idle(editor)


def test_urgent_command_is_refused(claudes: ClaudeInstance, editor: str) -> None:
    assert "sm interrupt" in claudes.refused("send", editor, "/compact", "--urgent", exit_code=2)
