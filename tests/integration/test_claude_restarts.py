"""Restarts of the real Claude Code: it goes on in its conversation, and is told how its process ended."""

import json
import os
import signal
from pathlib import Path

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module")
claudes = claude_instance("module")
TOLD = "Your process ended (signal 9), and sm started it again."


def conversation(claudes: ClaudeInstance, session_id: str) -> str:
    """The conversation id, from the state file that claude writes."""
    state = claudes.state_file(claudes.session(session_id)).read_text()
    return str(json.loads(state)["sessionId"])


def test_claude_killed_in_its_turn_goes_on_in_its_conversation(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--restart", "on-failure", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "first-1 blue")
    api.wait_for(lambda: bool(api.turns("first-1")), "the first turn")
    # claude writes its first turn to its transcript with a delay.
    until(lambda: claudes.progress(session_id)["tokens"], "the transcript has the first turn")
    claudes.idle(session_id)
    claudes.prompt(session_id, f"crash-1 {tool('Bash', command='echo a; sleep 100')}[[then]][[text:never]]")
    until(
        lambda: claudes.progress(session_id)["current_activity"] == "Bash: echo a; sleep 100", "the tool runs"
    )
    before = claudes.session(session_id)
    conversation_id = conversation(claudes, session_id)
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: claudes.session(session_id)["restarts"]["next_at"], "it waits for its restart")
    claudes.sm("send", session_id, "held-1 [[text:got it]]", "--no-wait")
    for words in (TOLD, "held-1"):
        api.wait_for(lambda words=words: bool(api.turns(words)), words)  # type: ignore[misc]
    after = claudes.idle(session_id)
    assert after["pid"] != before["pid"]
    assert conversation(claudes, session_id) == conversation_id
    assert "first-1 blue" in json.dumps(api.turns(TOLD)[0].body["messages"])
    assert b"acceptEdits" in Path(f"/proc/{after['pid']}/cmdline").read_bytes()
    arrived = [m for m in claudes.json("log", session_id) if m["status"] in ("submitted", "acknowledged")]
    assert len(arrived) == 2
    types = [event["type"] for event in claudes.events(session_id)]
    assert not {"error", "completed", "killed"} & set(types)
    claudes.sm("kill", session_id)


def test_claude_that_has_stored_no_conversation_begins_again(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--restart", "on-failure", "--wait", PATIENT)["session_id"]
    before = claudes.idle(session_id)
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: claudes.session(session_id)["pid"] not in (None, before["pid"]), "another claude runs")
    claudes.idle(session_id)
    claudes.prompt(session_id, "later-1")
    api.wait_for(lambda: bool(api.turns("later-1")), "later-1")
    claudes.idle(session_id)
    assert claudes.session(session_id)["restarts"]["total"] == 1
    claudes.sm("kill", session_id)
