"""Tokens that a new release names in another way are unknown in every view, and not 0. The test plays the agents."""

from typing import Any

import pytest

from sm.core.usage import UNREAD
from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2}
daemon: {ignore_evidence: [screen, title]}
"""
MODEL = "claude-opus-4-8"
stage = context_fixture("function", Stage, SETTINGS, BOX)
daily = context_fixture("function", Stage, f"{SETTINGS}budgets: {{daily_usd: 3}}\n", BOX)


def write(agent: Agent, number: int, used: dict[str, int]) -> None:
    """Write an answer of the model, and wait until its usage is stored."""
    before = agent.stage.json("progress", agent.id)
    message = {"id": f"msg_{number}", "model": MODEL, "role": "assistant", "content": [], "usage": used}
    agent.write_message(message)
    until(lambda: agent.stage.json("progress", agent.id) != before, "the usage is stored")


READABLE = {"input_tokens": 10, "output_tokens": 200}
RENAMED = {"fresh": 10, "written": 200}


@pytest.fixture
def agent(stage: Stage) -> Agent:
    """A session with an answer whose usage can be read, and one whose usage cannot."""
    agent = stage.agent("Plain", "--budget", "usd=5,tokens=2k")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, READABLE)
    assert stage.json("progress", agent.id)["tokens_used"] == 210
    write(agent, 2, RENAMED)
    return agent


def sums(stage: Stage, agent: Agent) -> Any:
    return stage.json("progress", agent.id, "--tree")["tree"]


def test_progress_has_no_tokens_and_no_cost_when_one_answer_cannot_be_read(
    stage: Stage, agent: Agent
) -> None:
    shown = stage.json("progress", agent.id)
    assert (shown["tokens_used"], shown["tokens"], shown["cost_usd"]) == (None, None, None)
    assert (shown["context_tokens"], shown["context_percent"]) == (None, None)
    assert shown["tokens_partial"]
    assert "Tokens: unknown" in stage.sm("progress", agent.id)
    # The next answer can be read again: its tokens are known, and the sum stays unknown.
    write(agent, 3, READABLE)
    assert stage.json("progress", agent.id)["tokens_used"] is None
    assert stage.json("progress", agent.id)["context_tokens"] == 210


def test_sums_are_marked_as_too_low_when_one_answer_cannot_be_read(stage: Stage, agent: Agent) -> None:
    tree = sums(stage, agent)
    assert (tree["tokens"]["output"], tree["tokens_partial"], tree["cost_partial"]) == (200, True, True)
    assert "210+ tokens, $0.01+" in stage.sm("children", "--recursive")
    for by in ("type", "model", "day"):
        total = stage.json("usage", "--by", by)["total"]
        assert (total["tokens"]["output"], total["tokens_partial"], total["cost_partial"]) == (
            200,
            True,
            True,
        )
    assert [group["key"] for group in stage.json("usage", "--by", "model")["groups"]] == [MODEL]
    assert " 210+ " in stage.sm("usage")


def test_model_stays_known_when_an_answer_does_not_name_it(stage: Stage) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, READABLE)
    agent.write_message({"id": "msg_2", "role": "assistant", "content": [], "usage": READABLE})
    until(lambda: stage.json("progress", agent.id)["tokens_partial"], "the usage is stored")
    assert stage.json("ls", "-a")[0]["model"] == MODEL
    groups = stage.json("usage", "--by", "model")["groups"]
    assert {group["key"]: group["tokens_partial"] for group in groups} == {MODEL: False, None: True}


def test_sums_are_unknown_when_no_answer_can_be_read(stage: Stage) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, RENAMED)
    tree = sums(stage, agent)
    assert (tree["tokens"], tree["tokens_partial"], tree["cost_usd"]) == (None, True, None)
    assert "? tokens, ?" in stage.sm("children", "--recursive")
    assert UNREAD not in str(stage.session(agent.id)["model"])
    stage.sm("kill", agent.id, "--force")
    stage.sm("rm", agent.id, "--yes")
    total = stage.json("usage")["total"]
    assert (total["tokens"], total["tokens_partial"], total["cost_partial"]) == (None, True, True)


def test_person_is_told_once_that_the_sums_and_budgets_are_too_low(stage: Stage, agent: Agent) -> None:
    write(agent, 3, RENAMED)
    stage.settle()
    said = [e["message"] for e in stage.json("events", agent.id) if e["type"] == "warning"]
    assert len(said) == 1, said
    assert "the tokens of an answer cannot be read" in said[0]
    assert "budgets count too little" in said[0]
    assert "tokens of some answers cannot be read" in stage.sm("why", agent.id)
    shown = stage.run("budget", agent.id)
    assert "more was spent than this budget counts" in shown.stderr
    stage.restart()
    assert "tokens of some answers cannot be read" in stage.sm("why", agent.id)


def test_readable_line_of_an_answer_counts_whatever_its_other_lines_say(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "tokens=2k")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, READABLE)
    for number, lines in ((1, (RENAMED,)), (2, (RENAMED, READABLE, RENAMED)), (3, (READABLE,))):
        for used in lines:
            agent.write_message(
                {"id": f"msg_{number}", "model": MODEL, "role": "assistant", "content": [], "usage": used}
            )
    until(lambda: stage.json("progress", agent.id)["tokens_used"] == 630, "three answers are counted")
    assert not stage.json("progress", agent.id)["tokens_partial"]
    assert stage.run("budget", agent.id).stderr == ""
    assert "630 tokens" in stage.sm("children", "--recursive")
    stage.restart()
    assert stage.json("progress", agent.id)["tokens_used"] == 630


def test_budget_of_minutes_counts_all_when_tokens_cannot_be_read(stage: Stage) -> None:
    agent = stage.agent("Plain", "--budget", "minutes=5")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, RENAMED)
    assert stage.run("budget", agent.id).stderr == ""


def test_child_whose_tokens_cannot_be_read_marks_the_budget_of_its_parent(stage: Stage) -> None:
    parent = stage.agent("Plain", "--budget", "tokens=2k")
    child = stage.agent("Plain")
    stage.sm("reparent", child.id, parent.id)
    child.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    assert "more was spent" not in stage.run("budget", parent.id).stderr
    write(child, 1, RENAMED)
    assert "more was spent than this budget counts" in stage.run("budget", parent.id).stderr
    stage.sm("kill", child.id, "--force")
    stage.sm("rm", child.id, "--yes")
    assert "more was spent than this budget counts" in stage.run("budget", parent.id).stderr


def test_daily_budget_says_that_it_counts_too_little(daily: Stage) -> None:
    assert "more was spent" not in daily.run("budget", "daily").stderr
    agent = daily.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    write(agent, 1, RENAMED)
    assert "more was spent than this budget counts" in daily.run("budget", "daily").stderr
