"""The timeline shows the statuses of sessions, from their events."""

import pytest

from sm.client import live_stream
from sm.client.http import Client
from sm.errors import NotFound, UsageError
from tests.fixtures import context_fixture
from tests.sim.stage import Instance
from tests.sim.team import PlayedTeam

instance = context_fixture("function", Instance)


def test_timeline_has_the_spans_of_each_session(instance: Instance) -> None:
    client = Client(str(instance.socket))
    root = instance.spawn("Sleeper", "x")["session_id"]
    child = instance.spawn("Sleeper", "x", "--parent", root)["session_id"]
    over = instance.spawn("Sh", "exit 0")["session_id"]
    ended = instance.ended(over)
    shown = live_stream.timeline(client)
    lanes = {lane["session_id"]: lane for lane in shown["sessions"]}
    assert list(lanes) == [root, child, over]
    assert [span["status"] for span in lanes[over]["spans"]] == ["spawned", "running", "completed"]
    starts = [span["start"] for span in lanes[over]["spans"]]
    assert [span["end"] for span in lanes[over]["spans"]] == [*starts[1:], None]
    assert starts[-1] == ended["completed_at"]
    assert lanes[child]["parent_session_id"] == root
    assert lanes[root]["spans"][-1]["status"] == instance.session(root)["status"]
    # The process of a restored session starts again.
    instance.sm("restore", over)
    instance.ended(over)
    (line,) = live_stream.timeline(client, session=over)["sessions"]
    assert [span["status"] for span in line["spans"]][2:5] == ["completed", "starting", "running"]
    assert [lane["session_id"] for lane in live_stream.timeline(client, session=root)["sessions"]] == [root]
    tree = live_stream.timeline(client, session=root, tree=True)["sessions"]
    assert [lane["session_id"] for lane in tree] == [root, child]


def test_timeline_omits_what_was_over_and_cuts_at_the_limit(instance: Instance) -> None:
    client = Client(str(instance.socket))
    over = instance.spawn("Sh", "exit 0")["session_id"]
    instance.ended(over)
    lives = instance.spawn("Sleeper", "x")["session_id"]
    until = live_stream.timeline(client)["until"]
    later = live_stream.timeline(client, since=until)
    assert [lane["session_id"] for lane in later["sessions"]] == [lives]
    assert [span["status"] for span in later["sessions"][0]["spans"]] == ["running"]
    newest = live_stream.timeline(client, limit=1)
    (lane,) = newest["sessions"]
    assert newest["since"] == lane["spans"][-1]["start"]
    assert live_stream.timeline(client, since="2999-01-01T00:00:00Z")["sessions"][0]["session_id"] == lives
    with pytest.raises(NotFound):
        live_stream.timeline(client, workspace="nowhere")
    with pytest.raises(UsageError):
        live_stream.timeline(client, since="yesterday")


def test_session_sees_visible_sessions_in_the_timeline() -> None:
    team = PlayedTeam()
    try:
        names = {session_id: name for name, session_id in team.ids.items()}
        lanes = team.client("parent").get("/v1/timeline")["sessions"]
        assert {names[lane["session_id"]] for lane in lanes} == {"parent", "child", "sibling"}
        for path in (f"/v1/timeline?session={team.ids['direct']}", "/v1/timeline?workspace=bank"):
            assert team.client("parent").refused("GET", path) == (404, "not_found")
        (seen,) = team.instance.request_as(team.ids["direct"], ("GET", "/v1/timeline"))
        shown = {names[lane["session_id"]] for lane in seen[1]["sessions"]}
        assert shown == {"parent", "child", "sibling", "direct"}
    finally:
        team.end()
