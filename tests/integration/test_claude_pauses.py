"""Pauses of the real Claude Code: all its work stops, also background agents, and goes on when it resumes."""

from typing import Any

from sm.core.next_process import TOLD
from sm.core.pauses import GO_ON
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.claude_spenders import launch, spend, spender
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module", spender)
claudes = claude_instance("module")
LONG = "echo a; sleep 100"
"""A command that runs until it is interrupted. Later claudes refuse a lone sleep."""


def paused(claudes: ClaudeInstance, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = claudes.session(session_id)["paused"]
    return found


def test_agent_paused_in_the_middle_of_a_tool_goes_on_when_it_resumes(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, f"paused-1 {tool('Bash', command=LONG)}[[then]][[text:never]]")
    until(lambda: claudes.progress(session_id)["current_activity"] == f"Bash: {LONG}", "the tool runs")
    assert claudes.sm("pause", session_id, "--wait", PATIENT).startswith("Paused ")
    claudes.idle(session_id)
    claudes.sm("send", session_id, "held [[text:got it]]")
    assert not api.turns("held")
    assert claudes.session(session_id)["paused"]["by"] == "operator"
    claudes.sm("resume", session_id)
    for words in (GO_ON, "held"):
        api.wait_for(lambda words=words: bool(api.turns(words)), words)  # type: ignore[misc]
    claudes.idle(session_id)
    arrived = [m for m in claudes.json("log", session_id) if m["status"] in ("submitted", "acknowledged")]
    assert len(arrived) == 2
    claudes.sm("kill", session_id)


def test_turn_that_claude_begins_during_a_pause_is_interrupted(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.sm("pause", session_id)
    claudes.prompt(session_id, f"typed-1 {tool('Bash', command=LONG)}[[then]][[text:never]]")

    def moves() -> list[str]:
        types = [event["type"] for event in claudes.events(session_id)]
        return types[types.index("paused") :]

    until(lambda: moves()[-1] == "idle", "the turn is interrupted")
    assert moves() == ["paused", "running", "idle"]
    claudes.sm("kill", session_id)


def test_pause_stops_background_agents_also_over_a_crash_of_the_daemon(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, launch(3, "paused"))
    api.wait_for(lambda: len(spend(api, "paused")) >= 9, "three background agents spend")
    first = claudes.run("pause", session_id, "--wait", "0")
    assert first.returncode == 10 and first.stdout.startswith("Pausing ")
    claudes.kill_daemon()
    claudes.start_daemon()
    until(lambda: paused(claudes, session_id)["state"] == "paused", "it is seen to spend nothing")
    assert paused(claudes, session_id)["held"] == "told"
    spent = len(spend(api, "paused"))
    assert claudes.sm("pause", session_id, "--wait", "0").startswith("Paused ")
    claudes.sm("resume", session_id)
    api.wait_for(lambda: bool(api.turns(GO_ON)), "claude goes on")
    claudes.idle(session_id)
    assert len(spend(api, "paused")) == spent
    claudes.sm("kill", session_id)


def test_pause_of_an_account_stops_the_background_agents_of_its_sessions(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    (account,) = claudes.json("accounts")
    claudes.prompt(session_id, launch(3, "account"))
    api.wait_for(lambda: len(spend(api, "account")) >= 9, "three background agents spend")
    said = claudes.sm("pause", "--account", account["name"], "--wait", "60")
    assert said == f"Paused account {account['name']}: it starts no new turn, 1 session paused\n"
    spent = len(spend(api, "account"))
    assert paused(claudes, session_id)["reason"] == f"account {account['name']} was paused"
    assert claudes.sm("resume", "--account", account["name"]) == f"Resumed account {account['name']}\n"
    api.wait_for(lambda: bool(api.turns(GO_ON)), "claude goes on")
    claudes.idle(session_id)
    assert len(spend(api, "account")) == spent
    claudes.sm("kill", session_id)


def test_background_agents_that_ignore_the_keys_are_frozen_or_end_with_the_process(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    bindings = claudes.claude_home / "keybindings.json"
    bindings.write_text('{"bindings": [{"context": "Chat", "bindings": {"ctrl+x ctrl+k": null}}]}')
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, launch(3, "deaf"))
    api.wait_for(lambda: len(spend(api, "deaf")) >= 9, "three background agents spend")
    pid = claudes.session(session_id)["pid"]
    shown = claudes.sm("pause", session_id, "--wait", PATIENT)
    held = paused(claudes, session_id)["held"]
    assert held in (("ended",) if claudes.container else ("frozen", "ended"))  # sm freezes no container
    assert ("its process was ended" in shown) == (held == "ended")
    spent = len(spend(api, "deaf"))
    bindings.unlink()
    claudes.kill_daemon()
    claudes.start_daemon()
    assert paused(claudes, session_id)["state"] == "paused"
    assert len(spend(api, "deaf")) == spent
    claudes.sm("resume", session_id)
    if held == "frozen":
        assert claudes.session(session_id)["pid"] == pid
        api.wait_for(lambda: len(spend(api, "deaf")) > spent, "the agents go on")
    else:
        words = TOLD.partition("(")[0]
        api.wait_for(lambda: bool(api.turns(words)), "claude goes on in its conversation")
        assert claudes.session(session_id)["pid"] != pid
    claudes.sm("kill", session_id)
