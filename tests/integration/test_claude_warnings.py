"""Warnings of the real Claude Code: it repeats a failing command, is nudged, and then the operator is told."""

import json
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module")
claudes = claude_instance("module")

FAILS = tool("Bash", command="sm status nowhere")


def warnings(claudes: ClaudeInstance, session_id: str) -> list[tuple[str, Any]]:
    events = claudes.events(session_id)
    metadata = [event["metadata"] for event in events if event["type"] == "warning"]
    return [(found["kind"], found["ended"]) for found in metadata if "ended" in found]


@pytest.mark.claude_core
def test_loop_of_one_failing_command_is_nudged_and_told_once(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    row = "[[then]]".join([FAILS] * 3)
    script = f"loop-1 {row}[[then]][[hold:three]]{row}[[then]]{FAILS}[[then]][[hold:end]][[text:I give up.]]"
    claudes.prompt(session_id, script)
    until(lambda: warnings(claudes, session_id) == [("loop", False)], "the loop is found")
    (found,) = claudes.session(session_id)["warnings"]
    assert (found["value"], found["limit"]) == (3, 3)
    assert found["evidence"].startswith("Bash: sm status nowhere failed 3 times with: ")

    def nudges() -> list[str]:
        return [
            m["status"]
            for m in claudes.get("/v1/messages", session=session_id)
            if "repeat yourself" in m["text"]
        ]

    until(lambda: nudges() in (["submitted"], ["acknowledged"]), "claude has the nudge")
    assert str(claudes.get("/v1/messages")).count(f"({session_id}) repeats itself") == 0
    api.release("three")
    until(
        lambda: str(claudes.get("/v1/messages")).count(f"({session_id}) repeats itself") == 1,
        "the operator is told",
    )
    api.release("end")
    claudes.idle(session_id)
    until(lambda: warnings(claudes, session_id) == [("loop", False), ("loop", True)], "the loop has ended")
    assert len(nudges()) == 1
    assert str(claudes.get("/v1/messages")).count(f"({session_id}) repeats itself") == 1
    claudes.sm("kill", session_id)


def test_agent_whose_hooks_and_tools_do_not_reach_sm_is_two_warnings(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        instance.write_settings('{"disableAllHooks": true}')
        file = instance.claude_home / ".claude.json"
        answers = json.loads(file.read_text())
        answers.setdefault("projects", {}).setdefault(str(instance.work), {})["disabledMcpServers"] = ["sm"]
        file.write_text(json.dumps(answers))
        session_id = instance.spawn("Plain", "unlinked-1 [[text:x]]")["session_id"]

        def kinds() -> set[str]:
            return {warning["kind"] for warning in instance.get(f"/v1/sessions/{session_id}")["warnings"]}

        until(lambda: kinds() == {"hooks_missing", "tools_missing"}, "both are warnings")
        assert not any(
            name.startswith("mcp__sm__") for turn in api.turns("unlinked-1") for name in turn.tools
        )
