"""Sums of usage over trees and reports of usage, through the real command. The test plays the hooks of agents."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.integration.played_claude import BOX, Agent, Stage
from tests.load import until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
  progress: {snapshot_interval: 1}
daemon: {ignore_evidence: [screen, title]}
"""
OPUS = "claude-opus-4-8"
stage = context_fixture("module", Stage, SETTINGS, BOX)


def usage(number: int, output: int, model: str = OPUS, **more: int) -> dict[str, Any]:
    counts = {"input_tokens": 10, "output_tokens": output} | more
    return {"id": f"msg_{number}", "model": model, "content": [], "usage": counts}


def spend(agent: Agent, number: int, output: int, model: str = OPUS, **more: int) -> None:
    """Write the usage of one message of the agent, and wait until it is counted."""
    before = used(agent)
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"p{number}")
    agent.write_message(usage(number, output, model, **more))
    until(lambda: used(agent) != before, "the usage is counted")


def used(agent: Agent) -> Any:
    return agent.stage.json("progress", agent.id)["tokens"]


def below(stage: Stage, parent: Agent) -> Agent:
    child = stage.agent("Plain")
    stage.sm("reparent", child.id, parent.id)
    return child


def tree(stage: Stage, agent: Agent) -> Any:
    return stage.json("progress", agent.id, "--tree")["tree"]


def end(stage: Stage, agent: Agent) -> None:
    stage.sm("kill", agent.id, "--force")
    until(lambda: stage.session(agent.id)["exit_signal"] is not None, "the process has ended")


@pytest.fixture
def family(stage: Stage) -> list[Agent]:
    """A session, its child and its grandchild, which have used 100, 20 and 3 tokens of output."""
    top = stage.agent("Plain")
    child = below(stage, top)
    grandchild = below(stage, child)
    for number, (agent, output) in enumerate(((top, 100), (child, 20), (grandchild, 3))):
        spend(agent, number, output, cache_read_input_tokens=1000, cache_creation_input_tokens=7)
    return [top, child, grandchild]


def test_tree_has_the_usage_of_descendants_beside_the_own_share(stage: Stage, family: list[Agent]) -> None:
    top, child, _ = family
    progress = stage.json("progress", top.id, "--tree")
    assert progress["tokens"]["output"] == 100
    assert progress["tree"]["tokens"] == {"input": 30, "output": 123, "cache_read": 3000, "cache_write": 21}
    assert progress["tree"]["cost_usd"] == pytest.approx(3 * progress["cost_usd"], rel=0.5)
    assert (progress["tree"]["sessions"], progress["tree"]["live"], progress["tree"]["removed"]) == (3, 3, 0)
    assert not progress["tree"]["cost_partial"]
    assert stage.json("progress", top.id)["tree"] is None
    assert "Tree: 3 sessions, 3 live" in stage.sm("progress", top.id, "--tree")
    (shown,) = [s for s in stage.json("children", "--recursive") if s["session_id"] == top.id]
    assert shown["sums"]["tree"] == progress["tree"]
    assert shown["sums"]["own"]["tokens"] == progress["tokens"]
    (nested,) = shown["children"]
    assert nested["session_id"] == child.id
    assert nested["sums"]["tree"]["tokens"]["output"] == 23
    assert nested["children"][0]["sums"]["tree"]["tokens"]["output"] == 3
    assert "own 110" in stage.sm("children", "--recursive")


def test_removed_children_stay_in_the_sums_of_their_ancestors(stage: Stage, family: list[Agent]) -> None:
    top, child, grandchild = family
    before = tree(stage, top)
    for number, agent in enumerate((grandchild, child), 1):
        end(stage, agent)
        stage.sm("rm", agent.id, "--yes")
        after = tree(stage, top)
        assert (after["tokens"], after["cost_usd"]) == (before["tokens"], before["cost_usd"])
        assert (after["sessions"], after["removed"]) == (3 - number, number)
    stage.restart()
    assert {**tree(stage, top), "minutes": None} == {**after, "minutes": None}


def test_sums_follow_a_session_to_its_new_parent(stage: Stage, family: list[Agent]) -> None:
    top, child, grandchild = family
    other = stage.agent("Plain")
    end(stage, grandchild)
    stage.sm("rm", grandchild.id, "--yes")
    stage.sm("reparent", child.id, other.id)
    assert tree(stage, top)["tokens"]["output"] == 100
    assert (tree(stage, other)["tokens"]["output"], tree(stage, other)["removed"]) == (23, 1)


def test_report_groups_by_type_model_day_and_tree(stage: Stage, family: list[Agent]) -> None:
    top = family[0]
    spend(top, 9, 5, "gpt-unknown")
    by_tree = stage.json("usage", "--by", "tree")
    (group,) = [g for g in by_tree["groups"] if g["key"] == top.id]
    assert group["tokens"] == tree(stage, top)["tokens"]
    assert (group["sessions"], group["cost_partial"]) == (3, True)
    by_model = {g["key"]: g for g in stage.json("usage", "--by", "model")["groups"]}
    assert by_model["gpt-unknown"]["cost_usd"] is None
    assert by_model["gpt-unknown"]["cost_partial"]
    assert by_model[OPUS]["cost_usd"] > 0
    by_day = stage.json("usage", "--by", "day")
    assert datetime.now().astimezone().date().isoformat() in [g["key"] for g in by_day["groups"]]
    assert by_day["total"]["tokens"] == by_tree["total"]["tokens"]
    assert by_day["prices_as_of"] is not None
    by_type = stage.json("usage")
    assert "Plain" in [g["key"] for g in by_type["groups"]]
    assert by_type["total"]["endings"]["killed"] >= 0
    assert stage.sm("usage").startswith("TYPE")
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    assert stage.run("usage", "--since", tomorrow).returncode == 2
