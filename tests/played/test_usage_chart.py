"""The chart of usage: its groups agree with the report, and it has sessions that have ended or were removed."""

from typing import Any

import pytest

from sm.client.http import Client
from sm.core.timestamps import later
from sm.errors import NotFound, UsageError
from tests.fixtures import context_fixture
from tests.played.test_usage_sums import OPUS, SETTINGS, below, end, spend
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage
from tests.sim.team import PlayedTeam

stage = context_fixture("function", Stage, SETTINGS, BOX)
HAIKU = "claude-haiku-4-5"


def chart(stage: Stage, **query: Any) -> Any:
    return Client(str(stage.socket)).get("/v1/usage/chart", query)


def spenders(stage: Stage) -> list[Agent]:
    """A session and its child, which have used two models, and a session of another tree."""
    top = stage.agent("Plain")
    child = below(stage, top)
    other = stage.agent("Plain")
    for number, (agent, output, model) in enumerate(
        ((top, 1000, OPUS), (child, 200, HAIKU), (other, 30, OPUS), (child, 4, "gpt-unknown"))
    ):
        spend(agent, number, output, model, cache_read_input_tokens=500)
    return [top, child, other]


@pytest.mark.parametrize("by", ["type", "model", "account", "tree"])
def test_chart_agrees_with_the_report_when_sessions_end_and_are_removed(stage: Stage, by: str) -> None:
    top, child, other = spenders(stage)
    for agent, removed in ((other, True), (child, False)):
        end(stage, agent)
        if removed:
            stage.sm("rm", agent.id, "--yes")
    since = later(chart(stage)["until"], -7 * 86_400)[:11] + "00:00:00.000Z"
    report = Client(str(stage.socket)).get("/v1/usage/report", {"by": by, "since": since})
    found = chart(stage, by=by, since=since)
    assert (found["since"], found["step_s"], found["counted"]) == (since, 7200, True)
    for group in (*found["groups"], found["total"]):
        (reported,) = (
            [report["total"]]
            if group is found["total"]
            else [g for g in report["groups"] if (g["key"], g["label"]) == (group["key"], group["label"])]
        )
        for name in ("tokens", "cost_partial", "tokens_partial"):
            assert group[name] == reported[name]
        assert group["cost_usd"] == pytest.approx(reported["cost_usd"], abs=2e-6)
        assert (group["cost_usd"] or 0) == pytest.approx(sum(group["costs_usd"]), abs=1e-9)
        assert sum(group["tokens_used"]) == group["tokens"]["input"] + group["tokens"]["output"]
    if by == "tree":
        assert found["groups"][0]["key"] == top.id
    # The usage of a session that was removed counts by quarters, so it may be in no part that is shorter.
    short = chart(stage, by=by, since=later(found["until"], -1800))
    assert short["step_s"] == 60
    kept = found["total"]["tokens"]["output"] - 30
    assert kept <= short["total"]["tokens"]["output"] <= kept + 30


def test_chart_has_as_many_parts_and_groups_as_asked(stage: Stage) -> None:
    spenders(stage)
    found = chart(stage, by="model", parts=10, groups=1)
    assert found["step_s"] == 10_800
    assert [group["merged"] for group in found["groups"]] == [1, 2]
    assert all(len(group["tokens_used"]) <= 10 for group in found["groups"])
    earlier = chart(stage, by="model", until=later(found["until"], -86_400))
    assert (earlier["groups"], earlier["total"]["cost_usd"]) == ([], None)
    assert chart(stage, until="2999-01-01T00:00:00Z")["until"] < "2999"
    with pytest.raises(UsageError):
        chart(stage, by="day")
    with pytest.raises(NotFound):
        chart(stage, workspace="nowhere")


def test_chart_by_session_has_each_session_without_those_below_it(stage: Stage) -> None:
    top, child, other = spenders(stage)
    end(stage, child)
    end(stage, other)
    stage.sm("rm", other.id, "--yes")
    since = later(chart(stage)["until"], -7 * 86_400)
    found = chart(stage, by="session", since=since)
    outputs = {(group["key"], group["label"]): group["tokens"]["output"] for group in found["groups"]}
    labels = {session: stage.session(session)["label"] for session in (top.id, child.id)}
    assert outputs == {
        (top.id, labels[top.id]): 1000,
        (child.id, labels[child.id]): 204,
        (None, "removed"): 30,
    }


def test_session_sees_its_own_tree_in_the_chart() -> None:
    team = PlayedTeam()
    try:
        assert team.client("parent").get("/v1/usage/chart")["total"]["cost_usd"] is None
        assert team.client("parent").refused("GET", "/v1/usage/chart?workspace=bank") == (404, "not_found")
    finally:
        team.end()
