"""Budgets through the real command: what they count, whom they stop, and what lets the sessions go on.

The test plays the hooks and the transcripts of agents.
"""

import itertools
from typing import Any

from tests.fixtures import context_fixture
from tests.integration.played_claude import BOX, Agent, Stage
from tests.load import until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2}
budgets: {grace_s: 0.2}
daemon: {ignore_evidence: [screen, title]}
"""
MODEL = "claude-haiku-4-5"
DOLLAR = 200_000
"""Output tokens of MODEL for one US dollar."""

stage = context_fixture("module", Stage, SETTINGS, BOX)
numbers = itertools.count(1)


def message(input: int = 0, output: int = 0, model: str = MODEL, id: str | None = None) -> dict[str, Any]:
    usage = {"input_tokens": input, "output_tokens": output}
    name = f"msg_{next(numbers)}" if id is None else id
    return {"id": name, "model": model, "role": "assistant", "content": [], "usage": usage}


def spend(agent: Agent, dollars: float) -> None:
    agent.write_message(message(output=round(dollars * DOLLAR)))


def begin_turn(agent: Agent) -> None:
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"p{next(numbers)}")


def end_turn(agent: Agent, text: str = "Reading on.") -> None:
    agent.send_event("Stop", last_assistant_message=text)


def budget_of(stage: Stage, session_id: str) -> Any:
    return stage.json("budget", session_id)["budget"]


def in_state(stage: Stage, session_id: str, state: str) -> Any:
    def look() -> Any:
        budget = budget_of(stage, session_id)
        return budget if budget is not None and budget["state"] == state else None

    return until(look, f"the budget is {state}")


def paused(stage: Stage, session_id: str) -> Any:
    return stage.session(session_id)["paused"]


def requests_of(stage: Stage, session_id: str) -> list[dict[str, Any]]:
    return [r for r in stage.json("requests") if r["session_id"] == session_id]


def texts_to(stage: Stage, session_id: str) -> list[str]:
    return [m["text"] for m in stage.json("log", session_id) if m["session_id"] == session_id]


def test_grandchild_that_reaches_a_budget_is_paused_and_goes_on_after_an_approval(stage: Stage) -> None:
    top = stage.agent("Plain", "--budget", "usd=5")
    child = stage.agent("Plain", "--parent", top.id)
    grandchild = stage.agent("Plain", "--parent", child.id)
    for agent in (top, child, grandchild):
        begin_turn(agent)
    spend(grandchild, 5)
    stopped = in_state(stage, top.id, "stopped")
    assert (stopped["spent"]["usd"], stopped["percent"]) == (5.0, 100)
    for agent in (top, child, grandchild):
        assert paused(stage, agent.id)["reason"] == f"budget of {top.id} reached"
        assert sum("is spent. You will be stopped" in text for text in texts_to(stage, agent.id)) == 1
        agent.write_interruption()
    (request,) = requests_of(stage, top.id)
    assert (request["kind"], request["arguments"]["more"]) == ("budget", {"usd": 5.0})
    assert "no agent can start" in stage.refused("spawn", "Plain", "x", "--parent", child.id, exit_code=4)
    assert "sm approve" in stage.refused("resume", child.id, exit_code=4)
    stage.sm("approve", request["request_id"])
    assert budget_of(stage, top.id)["limits"]["usd"] == 10
    assert [paused(stage, agent.id) for agent in (top, child, grandchild)] == [None, None, None]
    assert "was answered" in stage.refused("approve", request["request_id"], exit_code=4)
