"""Sums of usage over trees and reports of usage, through the command. The test plays the hooks of agents."""

from datetime import timedelta
from typing import Any

import pytest

from sm.client.http import Client
from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until
from tests.sim.team import PlayedTeam

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
  progress: {snapshot_interval: 1}
daemon: {ignore_evidence: [screen, title]}
"""
OPUS = "claude-opus-4-8"
stage = context_fixture("function", Stage, SETTINGS, BOX)


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
    # The minutes go on between the two requests.
    assert {**shown["sums"]["tree"], "minutes": None} == {**progress["tree"], "minutes": None}
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
    assert stage.now().astimezone().date().isoformat() in [g["key"] for g in by_day["groups"]]
    assert by_day["total"]["tokens"] == by_tree["total"]["tokens"]
    assert by_day["prices_as_of"] is not None
    by_type = stage.json("usage")
    assert "Plain" in [g["key"] for g in by_type["groups"]]
    assert by_type["total"]["endings"]["killed"] >= 0
    assert stage.sm("usage").startswith("TYPE")
    tomorrow = (stage.now() + timedelta(days=2)).date().isoformat()
    assert stage.run("usage", "--since", tomorrow).returncode == 2


def test_known_part_of_a_cost_is_shown_where_the_price_of_a_model_is_unknown(stage: Stage) -> None:
    agent = stage.agent("Plain")
    spend(agent, 1, 40_000)
    known = stage.json("progress", agent.id)["cost_usd"]
    spend(agent, 2, 1, "gpt-unknown")
    progress = stage.json("progress", agent.id, "--tree")
    assert (progress["cost_usd"], progress["own"]["cost_usd"], progress["own"]["cost_partial"]) == (
        None,
        known,
        True,
    )
    assert stage.json("progress", agent.id)["own"] is None
    assert f"Own share: 40,021 tokens, ${known:.2f}+" in stage.sm("progress", agent.id, "--tree")
    (tree,) = [t for t in stage.json("digest")["spending"] if t["session_id"] == agent.id]
    assert (tree["cost_usd"], tree["known_cost_usd"]) == (None, known)
    assert f"${known:.2f}+, 40,021 tokens" in stage.sm("digest")


def complete(stage: Stage, agent: Agent) -> None:
    stage.sm("complete", "done", env=stage.as_session(agent.id))
    stage.in_status(agent.id, "completed")


def test_completed_sessions_of_the_type_and_model_give_an_estimate(stage: Stage) -> None:
    for number in range(5):
        agent = stage.agent("Ruled")
        dated = f"{OPUS}-20260101" if number % 2 else OPUS
        spend(agent, number, 100 * (number + 1), dated)
        (shown,) = [t for t in stage.json("agents")["agents"] if t["name"] == "Ruled"]
        assert shown["estimate"] is None
        complete(stage, agent)
    (shown,) = [t for t in stage.json("agents")["agents"] if t["name"] == "Ruled"]
    estimate = shown["estimate"]
    assert estimate["tokens"] == {"p50": 310, "p90": 510}
    assert (estimate["samples"], estimate["basis"]) == (5, "sessions")
    assert estimate["cost_usd"]["p90"] > estimate["cost_usd"]["p50"] > 0
    assert "5 completed sessions" in stage.sm("agents")
    agent = stage.agent("Ruled")
    spend(agent, 7, 390)
    progress = stage.json("progress", agent.id)
    assert progress["estimate"]["tokens"] == {"p50": 400, "p90": 510}  # not below the 400 that are used
    assert progress["estimate"]["samples"] == 5
    assert "Estimate: " in stage.sm("progress", agent.id)
    spend(agent, 8, 990, "unknown-model")
    assert stage.json("progress", agent.id)["cost_usd"] is None
    stage.sm("checkpoint", "parsed (2/5 tasks)", env=stage.as_session(agent.id))
    by_tasks = stage.json("progress", agent.id)["estimate"]
    assert by_tasks["tokens"] == {"p50": 3500, "p90": 3500}  # 1,400 for 2 of 5
    assert (by_tasks["samples"], by_tasks["basis"], by_tasks["cost_usd"]) == (2, "tasks", None)
    complete(stage, agent)
    assert stage.json("progress", agent.id)["estimate"] is None


def test_negative_and_absurd_usage_of_a_transcript_counts_nothing(stage: Stage) -> None:
    parent = stage.agent("Plain")
    agent = below(stage, parent)
    spend(agent, 1, 10)
    for number, count in enumerate((-5, 10**30, 10**9, 1e400, "7", None), 2):
        counts = {"input_tokens": count, "output_tokens": count, "cache_read_input_tokens": count}
        agent.write_message({"id": f"msg_{number}", "model": OPUS, "content": [], "usage": counts})
    agent.write_message(usage(9, 10))
    known = {"input": 20, "output": 20, "cache_read": 0, "cache_write": 0}
    until(lambda: tree(stage, parent)["tokens"] == known, "the usage is counted")
    assert tree(stage, parent)["tokens_partial"]
    assert used(agent) is None


def test_removal_counts_once_when_the_daemon_is_killed_at_once(stage: Stage, family: list[Agent]) -> None:
    top, _, grandchild = family
    before = tree(stage, top)["tokens"]
    end(stage, grandchild)
    removing = stage.start_command("rm", grandchild.id, "--yes")
    stage.restart()
    removing.communicate(timeout=60)
    left = {s["session_id"] for s in stage.json("all")}
    assert tree(stage, top)["tokens"] == before
    assert tree(stage, top)["removed"] == (0 if grandchild.id in left else 1)


def test_endings_reminders_and_removed_sessions_are_in_the_report(stage: Stage, family: list[Agent]) -> None:
    top, child, grandchild = family
    grandchild.send_event("Stop", last_assistant_message="I read the file.")
    report = stage.json("usage", "--by", "tree")
    until(lambda: group_of(stage, top)["reminders"] >= 1, "the reminder")
    end(stage, grandchild)
    stage.sm("rm", grandchild.id, "--yes")
    complete(stage, child)
    group = group_of(stage, top)
    assert (group["sessions"], group["live"], group["removed"]) == (3, 1, 1)
    assert (group["endings"]["killed"], group["endings"]["completed"]) == (1, 1)
    assert group["tokens"]["output"] == 123
    assert group["reminders"] >= 1
    assert group["seconds_each"]["p50"] >= 0
    assert group["cost_usd_each"]["p90"] > 0
    assert report["total"]["tokens"] is not None
    since = (stage.now() - timedelta(hours=1)).isoformat()
    assert {g["key"] for g in stage.json("usage", "--since", since)["groups"]} >= {"Plain"}
    # A list with sums has the same numbers as the progress.
    listed = Client(str(stage.socket)).get("/v1/sessions", {"sums": 1})
    (shown,) = [s for s in listed if s["session_id"] == top.id]
    assert shown["sums"]["tree"]["tokens"] == group["tokens"]
    assert "sums" not in stage.json("all")[0]


def group_of(stage: Stage, top: Agent) -> Any:
    (group,) = [g for g in stage.json("usage", "--by", "tree")["groups"] if g["key"] == top.id]
    return group


def test_session_gets_the_usage_of_itself_and_its_descendants_only() -> None:
    team = PlayedTeam()
    try:
        report = team.client("parent").get("/v1/usage/report")
        assert (report["total"]["sessions"], report["total"]["removed"]) == (2, 0)
        assert team.client("sibling").get("/v1/usage/report")["total"]["sessions"] == 1
        assert team.client("parent").refused("GET", "/v1/usage/report?workspace=bank") == (404, "not_found")
        assert team.client("banker", "bank").get("/v1/usage/report?by=tree")["total"]["sessions"] == 1
        assert team.client("parent").refused("GET", "/v1/usage/report?by=owner") == (400, "usage")
        assert team.client("parent").refused("GET", "/v1/usage/report?since=soon") == (400, "usage")
        team.instance.sm("kill", team.ids["child"], "--force")
        team.instance.sm("rm", team.ids["child"], "--yes")
        report = team.client("parent").get("/v1/usage/report?by=tree")
        assert (report["total"]["sessions"], report["total"]["removed"]) == (2, 1)
        assert report["total"]["endings"]["killed"] == 1
        assert team.client("sibling").get("/v1/usage/report")["total"]["removed"] == 0
        progress = team.client("parent").get("/v1/sessions/me/progress?tree=1")
        assert (progress["tree"]["sessions"], progress["tree"]["removed"]) == (1, 1)
        # A sandboxed session does not see the direct ones of its team, also not in sums.
        team.instance.run("reparent", team.ids["direct"], team.ids["parent"])
        listed = team.client("parent").get("/v1/sessions?sums=1")
        assert {s["session_id"] for s in listed} == {team.ids["parent"], team.ids["sibling"]}
        assert team.instance.json("usage")["total"]["removed"] == 1
    finally:
        team.end()


def test_usage_of_an_agent_that_ends_while_the_disk_is_full_is_counted(stage: Stage) -> None:
    agent = stage.agent("Plain")
    spend(agent, 1, 100)
    stage.world.disk.is_full = True
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p2")
    agent.append_message(usage(2, 20))  # a hook would wait for room behind the observer
    stage.wait(1)  # the observer has read the line, and waits for room
    stage.world.kernel.signal(stage.world.programs.running[agent.id].process, 9)
    stage.wait(30)
    stage.world.disk.is_full = False
    until(lambda: stage.session(agent.id)["exit_signal"] == 9, "its end is recorded")
    until(lambda: used(agent)["output"] == 120, "its last usage is counted")
