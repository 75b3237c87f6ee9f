"""Warnings through the real command: told once, ended by themselves, kept over a crash of the daemon. Played claude."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.integration.played_claude import BOX, Agent, Stage
from tests.load import until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
daemon: {ignore_evidence: [screen, title]}
"""

stage = context_fixture("module", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Iterator[Agent]:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    stage.in_status(agent.id, "running")
    yield agent
    stage.sm("kill", agent.id)


def call(
    agent: Agent, number: int, command: str = "make", error: str | None = "no rule", text: str = "ok"
) -> None:
    """Let the agent call Bash, and write the result."""
    use = {
        "type": "tool_use",
        "id": f"toolu_{agent.id}_{number}",
        "name": "Bash",
        "input": {"command": command},
    }
    agent.write_message({"role": "assistant", "content": [use]})
    agent.write_tool_result(use["id"], text if error is None else error, is_error=error is not None)


def warnings(stage: Stage, agent: Agent) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = stage.json("events", agent.id, "--type", "warning")
    return [event["metadata"] for event in events if "kind" in event["metadata"]]


def nudges(stage: Stage, agent: Agent) -> list[str]:
    return [text for text in stage.messages(agent) if "repeat yourself" in text]


def inbox(stage: Stage, agent: Agent) -> int:
    """The number of notices about the agent in the operator's inbox."""
    return str(stage.json("log")).count(f"({agent.id}) repeats itself")


def test_agent_that_fails_again_and_again_is_told_first_and_then_the_operator(
    stage: Stage, agent: Agent
) -> None:
    call(agent, 1)
    call(agent, 2)
    assert stage.session(agent.id)["warnings"] == []
    call(agent, 3)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    (found,) = stage.session(agent.id)["warnings"]
    assert (found["kind"], found["value"], found["limit"]) == ("loop", 3, 3)
    assert found["evidence"] == "Bash: make failed 3 times with: no rule"
    assert len(nudges(stage, agent)) == 1
    call(agent, 4)
    call(agent, 5)
    call(agent, 6)
    until(lambda: inbox(stage, agent) == 1, "the operator is told")
    call(agent, 7)
    assert len(nudges(stage, agent)) == 1
    call(agent, 8, "make all", error=None)
    until(lambda: not stage.session(agent.id)["warnings"], "the loop has ended")
    assert [w["ended"] for w in warnings(stage, agent)] == [False, True]
