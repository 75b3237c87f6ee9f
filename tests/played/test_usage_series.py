"""Usage over time, of all sessions, of one and of a tree."""

import json
from datetime import timedelta

import pytest

from sm.client import live_stream
from sm.client.http import Client
from sm.errors import NotFound, UsageError
from tests.fixtures import context_fixture
from tests.played.test_progress_views import FAR, Stage, tool_event
from tests.sim.team import PlayedTeam

MODEL = "claude-opus-4-8"


stage = context_fixture("function", Stage)


def answer(at: str, output: int) -> str:
    usage = {"input_tokens": 1, "output_tokens": output}
    body = {"id": f"msg_{at}_{output}", "model": MODEL, "content": [], "usage": usage}
    return json.dumps({"type": "assistant", "timestamp": at, "message": body})


def test_usage_has_buckets_of_all_sessions_of_one_and_of_a_tree(stage: Stage) -> None:
    client = Client(str(stage.socket))
    agent = stage.spawn_with_events(tool_event())
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.sm("reparent", agent, parent)
    now = stage.now()  # usage from before the start of the agent is in no bucket
    first, second = ((now + timedelta(milliseconds=n)).isoformat(timespec="milliseconds") for n in (1, 2))
    lines = [answer(at.replace("+00:00", "Z"), output) for at, output in ((first, 5), (second, 7))]
    stage.write(*lines, answer(FAR, 1000), answer("", 2000))
    progress = stage.wait_counted(agent)
    by_day = live_stream.usage(client, by="day")
    assert by_day["counted"]
    assert [b["at"][11:] for b in by_day["buckets"]] == ["00:00:00.000Z"]
    # Usage without a time, or far ahead, is in no bucket.
    (bucket,) = by_day["buckets"]
    assert (bucket["tokens"]["output"], progress["tokens"]["output"]) == (12, 3012)
    assert [m["model"] for m in bucket["models"]] == [MODEL]
    assert bucket["cost_usd"] == bucket["models"][0]["cost_usd"]
    assert bucket["cost_usd"]
    assert live_stream.usage(client, by="day", session=agent) == by_day
    assert live_stream.usage(client, by="day", session=parent, tree=True) == by_day
    assert live_stream.usage(client, by="day", session=parent)["buckets"] == []
    assert live_stream.usage(client, by="day", workspace="-") == by_day
    assert live_stream.usage(client, since=FAR)["buckets"] == []
    cut = live_stream.usage(client, by="minute", limit=0)
    assert cut["buckets"] == []
    with pytest.raises(NotFound):
        live_stream.usage(client, workspace="nowhere")
    for query in ({"by": "week"}, {"since": "yesterday"}, {"limit": "x"}):
        with pytest.raises(UsageError):
            client.get("/v1/usage", query)


def test_session_sees_the_usage_of_visible_sessions_only() -> None:
    team = PlayedTeam()
    try:
        for name in ("banker", "direct", "loner"):
            assert team.client("parent").refused("GET", f"/v1/usage?session={team.ids[name]}") == (
                404,
                "not_found",
            )
        assert team.client("parent").get("/v1/usage?workspace=shop")["buckets"] == []
        assert team.client("parent").refused("GET", "/v1/usage?workspace=bank") == (404, "not_found")
        (mine,) = team.instance.request_as(
            team.ids["direct"], ("GET", "/v1/usage", {"session": team.ids["child"]})
        )
        assert mine[0] == "ok"
    finally:
        team.end()
