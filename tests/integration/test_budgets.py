"""Budgets through the real command: what they count, whom they stop, and what lets the sessions go on.

The test plays the hooks and the transcripts of agents.
"""

import itertools
from typing import Any

import pytest

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


# What a budget counts


def test_usage_of_a_message_counts_once_and_never_shrinks(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=100,tokens=1M")
    agent.write_message(message(100, 10, id="same"))
    agent.write_message(message(100, 400, id="same"))
    agent.write_message(message(0, 400, id="same"))
    agent.write_message(message(-5, 10**30, id="absurd"))
    agent.write_message(message(1, 0, id="last"))
    until(lambda: budget_of(stage, agent.id)["spent"]["tokens"] == 501, "the tokens are counted")


def test_spending_of_a_child_counts_after_its_end_its_removal_and_a_move(stage: Stage) -> None:
    top = stage.agent("Plain", "--budget", "usd=100")
    child = stage.agent("Plain", "--parent", top.id)
    spend(child, 2)
    stage.sm("kill", child.id)
    stage.sm("rm", child.id)
    moved = stage.agent("Plain", "--parent", top.id)
    spend(moved, 1)
    until(lambda: budget_of(stage, top.id)["spent"]["usd"] == 3, "the cost is counted")


def test_budget_of_a_running_session_begins_with_what_was_spent(stage: Stage) -> None:
    top = stage.agent("Plain")
    child = stage.agent("Plain", "--parent", top.id)
    spend(top, 1)
    spend(child, 2)
    answer = stage.run("budget", top.id, "--set", "usd=2")
    assert "it binds at once" in answer.stderr
    stopped = in_state(stage, top.id, "stopped")
    assert stopped["spent"]["usd"] == 3
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"
    assert requests_of(stage, top.id)[0]["arguments"]["more"] == {"usd": 2}


def test_children_of_an_ended_session_stay_bound_by_its_budget(stage: Stage) -> None:
    lead = stage.agent("Plain")
    top = stage.agent("Plain", "--parent", lead.id, "--budget", "usd=5")
    child = stage.agent("Plain", "--parent", top.id)
    stage.sm("kill", top.id)
    until(lambda: stage.session(child.id)["parent_session_id"] == lead.id, "the child is adopted")
    assert "has a budget that binds live sessions" in stage.refused("rm", top.id, exit_code=4)
    spend(child, 5)
    in_state(stage, top.id, "stopped")
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"
    assert paused(stage, lead.id) is None
    (request,) = requests_of(stage, top.id)
    stage.sm("approve", request["request_id"], "usd=1")
    assert paused(stage, child.id) is None


def test_unknown_price_is_reported_and_tokens_still_bind(stage: Stage) -> None:
    spawned = stage.run(
        "spawn", "Plain", "work", "--model", "mystery-1", "--budget", "usd=1,tokens=1000", "--json"
    )
    assert "the price of model mystery-1 is unknown" in spawned.stdout
    agent = stage.agent("Plain", "--budget", "usd=1,tokens=1000")
    agent.write_message(message(500, 100, model="mystery-1"))
    until(lambda: budget_of(stage, agent.id)["unpriced_tokens"] == 600, "the usage is counted")
    assert "without a known price do not count" in stage.run("budget", agent.id).stderr
    agent.write_message(message(500, 100, model="mystery-1"))
    in_state(stage, agent.id, "stopped")


def test_minutes_are_spent_by_all_sessions_at_work(stage: Stage) -> None:
    top = stage.agent("Plain", "--budget", "minutes=0.02")
    child = stage.agent("Plain", "--parent", top.id)
    for agent in (top, child):
        begin_turn(agent)
    stopped = in_state(stage, top.id, "stopped")
    assert stopped["spent"]["minutes"] >= 0.02
    assert paused(stage, child.id)["reason"] == f"budget of {top.id} reached"


# What is told, and when


def test_soft_limit_is_told_once_to_the_agent_its_parent_and_the_operator(stage: Stage) -> None:
    parent = stage.agent("Plain")
    agent = stage.agent("Plain", "--parent", parent.id, "--budget", "usd=10")
    spend(agent, 8)
    in_state(stage, agent.id, "soft")
    spend(agent, 1)
    until(lambda: budget_of(stage, agent.id)["spent"]["usd"] == 9, "the cost is counted")
    assert sum("80% of your budget is spent" in text for text in texts_to(stage, agent.id)) == 1
    told = f"({agent.id}) has spent 80% of its budget"
    until(lambda: [t for t in texts_to(stage, parent.id) if told in t], "the parent is told")
    assert sum(told in text for text in texts_to(stage, parent.id)) == 1
    assert sum(told in m["text"] for m in stage.json("inbox")) == 1
    events = [e for e in stage.json("events", agent.id) if e["type"] == "budget"]
    assert [e["metadata"]["state"] for e in events] == ["soft"]


def test_message_waits_for_the_budget_but_the_order_to_report_does_not(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=1")
    begin_turn(agent)
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    agent.write_interruption()
    assert "queued" in stage.sm("send", agent.id, "hello", "--no-wait")
    held = next(m for m in stage.json("log", agent.id) if m["text"] == "hello")
    assert held["status"] == "queued"


# Changes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("usd=0", "not between"),
        ("usd=-1", "not a positive number"),
        ("usd=nan", "not a positive number"),
        ("usd=inf", "not a positive number"),
        ("usd=1e400", "not a positive number"),
        ("usd=99999999999", "not between"),
        ("tokens=1.5", "not a whole number"),
        ("hours=3", "not one of"),
        ("usd=1,usd=2", "named twice"),
        ("", "not one of"),
    ],
)
def test_invalid_budget_is_refused(stage: Stage, text: str, words: str) -> None:
    assert words in stage.refused("spawn", "Plain", "x", "--budget", text, exit_code=2)


def test_budget_of_a_child_is_at_most_what_is_left_above(stage: Stage) -> None:
    top = stage.agent("Plain", "--budget", "usd=5")
    spend(top, 1)
    until(lambda: budget_of(stage, top.id)["spent"]["usd"] == 1, "the cost is counted")
    env = stage.as_session(top.id)
    refusal = stage.refused("spawn", "Plain", "x", "--budget", "usd=5", exit_code=2, env=env)
    assert "usd=4 left" in refusal
    child = stage.agent("Plain", "--budget", "usd=4", env=env)
    refusal = stage.refused("budget", child.id, "--set", "usd=4.5", exit_code=2, env=env)
    assert "usd=4 left" in refusal
    stage.sm("budget", child.id, "--set", "usd=3", env=env)
    stage.sm("budget", child.id, "--add", "usd=1", env=env)
    assert budget_of(stage, child.id)["limits"]["usd"] == 4
    report = stage.json("budget", child.id, env=stage.as_session(child.id))
    assert report["above"][0]["left"]["usd"] == 4
    assert "limits" not in report["above"][0]


def test_session_lowers_its_own_budget_and_never_raises_it(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=5,tokens=1M")
    env = stage.as_session(agent.id)
    for change in (("--add", "usd=1"), ("--set", "usd=6"), ("--set", "none"), ("--set", "tokens=none")):
        assert "cannot raise" in stage.refused("budget", agent.id, *change, exit_code=5, env=env)
    stage.sm("budget", agent.id, "--set", "usd=4,minutes=9", env=env)
    assert budget_of(stage, agent.id)["limits"] == {"usd": 4, "tokens": 1_000_000, "minutes": 9}
    other = stage.agent("Plain", "--budget", "usd=5")
    assert stage.refused("budget", other.id, exit_code=5, env=env)
    assert stage.session(other.id)["budget"]["limits"]["usd"] == 5


def test_parent_approves_only_within_what_is_left_above(stage: Stage) -> None:
    top = stage.agent("Plain", "--budget", "usd=10")
    env = stage.as_session(top.id)
    child = stage.agent("Plain", "--budget", "usd=2", env=env)
    spend(child, 2)
    in_state(stage, child.id, "stopped")
    (request,) = requests_of(stage, child.id)
    name = request["request_id"]
    assert "usd=10 left" in stage.refused("approve", name, "usd=9", exit_code=2, env=env)
    assert "was answered" not in stage.sm("approve", name, "usd=8", env=env)
    assert budget_of(stage, child.id)["limits"]["usd"] == 10


def test_rejected_request_leaves_the_sessions_paused_until_the_budget_is_raised(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=1")
    spend(agent, 1.5)
    in_state(stage, agent.id, "stopped")
    (request,) = requests_of(stage, agent.id)
    assert "add more" in stage.refused("approve", request["request_id"], "usd=0.25", exit_code=2)
    stage.sm("reject", request["request_id"])
    assert paused(stage, agent.id) is not None
    stage.sm("budget", agent.id, "--add", "usd=1")
    assert paused(stage, agent.id) is None


def test_change_of_the_budget_closes_its_request(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "usd=1")
    spend(agent, 1)
    in_state(stage, agent.id, "stopped")
    (request,) = requests_of(stage, agent.id)
    stage.sm("budget", agent.id, "--set", "none")
    assert paused(stage, agent.id) is None
    assert stage.json("requests", request["request_id"])["state"] == "cancelled"
    assert stage.session(agent.id)["budget"] is None
