"""Pauses of the real Claude Code: its turn is interrupted, and goes on when it resumes."""

from sm.core.pauses import GO_ON
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.load import option
from tests.scripted_api import ScriptedApi, tool

api = scripted_api("module")
claudes = claude_instance("module")


def test_agent_paused_in_the_middle_of_a_tool_goes_on_when_it_resumes(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", *option("--wait", 60))["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, f"paused-1 {tool('Bash', command='sleep 100')}[[then]][[text:never]]")
    until(lambda: claudes.progress(session_id)["current_activity"] == "Bash: sleep 100", "the tool runs")
    claudes.sm("pause", session_id)
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
    session_id = claudes.spawn("Editor", *option("--wait", 60))["session_id"]
    claudes.idle(session_id)
    claudes.sm("pause", session_id)
    claudes.prompt(session_id, f"typed-1 {tool('Bash', command='sleep 100')}[[then]][[text:never]]")

    def moves() -> list[str]:
        types = [event["type"] for event in claudes.events(session_id)]
        return types[types.index("paused") :]

    until(lambda: moves()[-1] == "idle", "the turn is interrupted")
    assert moves() == ["paused", "running", "idle"]
    claudes.sm("kill", session_id)
