"""Live rows: a snapshot, then every row that changes, for each caller what it may see."""

import itertools
import json
from functools import partial
from typing import Any

import pytest

from sm.client import live_stream
from sm.client.http import Client, DaemonAway
from sm.errors import NotFound
from sm.wire_types.live_answers import LiveRowView
from tests.fixtures import context_fixture
from tests.live_board import LiveBoard
from tests.played.test_events import note
from tests.played.test_progress_views import Stage, message, tool_event
from tests.sim.live_board import board
from tests.sim.stage import Instance, until
from tests.sim.team import PlayedTeam
from tests.sim.terminals import FakeTerminals

instance = context_fixture("function", Instance)
stage = context_fixture("function", Stage)
MORE = frozenset(LiveRowView.__dataclass_fields__) - frozenset(
    {"tokens", "cost_usd", "context_percent", "activity", "last_tool", "todo_done", "todo_total"}
    | {"open_requests", "messages_held", "tree", "attention", "last_words", "lost"}
    | {"children_failed", "children_done", "task", "task_kind"}
)
"""The fields of a session."""


team = context_fixture("function", PlayedTeam)


def get(instance: Instance, path: str, **query: object) -> Any:
    return Client(str(instance.socket)).get(path, query)


def equals_the_list(shown: LiveBoard, instance: Instance, **query: object) -> bool:
    listed = {s["session_id"]: s for s in get(instance, "/v1/sessions", **query)}
    rows = {s: {name: row[name] for name in MORE} for s, row in shown.rows.items()}
    return rows == listed


def test_live_sends_a_snapshot_then_each_changed_row_whole(instance: Instance) -> None:
    first = instance.spawn("Sleeper", "x")["session_id"]
    second = instance.spawn("Sleeper", "x", "--parent", first)["session_id"]
    with board(instance) as shown:
        assert [u["snapshot"] for u in shown.updates] == [True]
        assert list(shown.rows) == [first, second]
        assert shown.rows[first]["tree"] == {"sessions": 2, "live": 2, "tokens": None, "cost_usd": None}
        note(instance, second, "half done")
        row = shown.shows(second, lambda row: row["note"] == "half done")
        assert row["tree"]["sessions"] == 1
        assert [u["snapshot"] for u in shown.updates][1:].count(True) == 0
        third = instance.spawn("Sleeper", "x", "--parent", second)["session_id"]
        shown.shows(first, lambda row: row["tree"]["sessions"] == 3)
        instance.sm("kill", third, "--force")
        shown.shows(first, lambda row: row["tree"] == {**row["tree"], "sessions": 3, "live": 2})
        until(lambda: equals_the_list(shown, instance), "the rows are those of the list")


def test_live_tells_when_a_row_is_archived_or_removed(instance: Instance) -> None:
    gone = instance.spawn("Sleeper", "x")["session_id"]
    kept = instance.spawn("Sleeper", "x", "--parent", gone)["session_id"]
    instance.sm("kill", gone, "--force")
    with board(instance) as shown, board(instance, archived=True) as everything:
        instance.sm("archive", gone)
        until(lambda: gone not in shown.rows, "the archived row is gone")
        everything.shows(gone, lambda row: row["archived"])
        instance.sm("unarchive", gone)
        shown.shows(gone, lambda row: not row["archived"])
        instance.sm("rm", gone, "--yes")
        until(lambda: gone not in shown.rows and gone not in everything.rows, "the removed row is gone")
        until(lambda: equals_the_list(shown, instance), "the rows are those of the list")
        assert list(shown.rows) == [kept]


def test_live_rows_show_requests_and_held_messages(instance: Instance) -> None:
    asker = instance.spawn("Sleeper", "x")["session_id"]
    reader = instance.spawn("Sleeper", "x")["session_id"]  # the answer may become a message to the asker
    with board(instance) as shown:
        (answer,) = instance.request_as(asker, ("POST", "/v1/requests", None, {"question": "which one?"}))
        name = answer[1]["request_id"]
        row = shown.shows(asker, lambda row: row["open_requests"] == [name])
        assert (row["task"], row["task_kind"]) == (f"{name} asks: which one?", "request")
        instance.sm("answer", name, "the first")
        shown.shows(asker, lambda row: row["open_requests"] == [])
        instance.sm("send", reader, "hello", "--no-wait")
        shown.shows(reader, lambda row: row["messages_held"] == 1)
        (taken,) = instance.request_as(reader, ("POST", "/v1/inbox/take", None, {}))
        assert taken[0] == "ok"
        shown.shows(reader, lambda row: row["messages_held"] == 0)


def usage(stage: Stage, number: int, output: int) -> str:
    return json.dumps(
        {
            "type": "assistant",
            "timestamp": stage.soon(),
            "message": {
                "id": f"msg_{number}",
                "model": "claude-opus-4-8",
                "content": [{"type": "text", "text": "working"}],
                "usage": {"input_tokens": 10, "output_tokens": output},
            },
        }
    )


def test_live_rows_show_tokens_cost_and_tools_that_agree_with_progress(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    agent = stage.spawn_with_events(tool_event())
    stage.sm("reparent", agent, parent)
    with board(stage) as shown:
        stage.write(usage(stage, 1, 5))
        shown.shows(agent, lambda row: row["tokens"] is not None and row["tokens"]["output"] == 5)
        stage.write(usage(stage, 1, 7))  # the same message, which has grown
        stage.write(usage(stage, 2, 100))
        row = shown.shows(agent, lambda row: row["tokens"] is not None and row["tokens"]["output"] == 107)
        progress = stage.view(agent, "progress")
        for name in ("tokens", "cost_usd", "context_percent"):
            assert row[name] == progress[name], name
        above = shown.shows(parent, lambda row: row["tree"]["tokens"] == progress["tokens"])
        assert above["tokens"] is None
        assert above["tree"]["cost_usd"] == progress["cost_usd"]


def test_reader_gets_only_the_later_changes_when_it_comes_back_with_its_revision(instance: Instance) -> None:
    first, second, third = (instance.spawn("Sleeper", "x")["session_id"] for _ in range(3))
    instance.sm("kill", third, "--force")
    with board(instance) as shown:
        revision = shown.revision
    # Nobody reads now, so nobody tracks the changes.
    note(instance, second, "meanwhile")
    instance.sm("rm", third, "--yes")
    with board(instance, since=revision) as back:
        until(lambda: len(back.updates) == 2, "the changes, and the number of sessions without rows")
        update, counted = back.updates
        assert (counted["rows"], counted["removed"], counted["earlier"]) == ([], [], [])
        assert (update["snapshot"], list(back.rows), update["removed"]) == (False, [second], [third])
        note(instance, first, "later")
        back.shows(first, lambda row: row["note"] == "later")
    instance.restart_daemon()
    with board(instance, since=back.revision) as again:
        assert again.updates[0]["snapshot"]
        assert list(again.rows) == [first, second]


def test_reader_gets_a_snapshot_when_its_revision_is_unknown(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    for revision in ("x", "0-1", f"{'9' * 400}", "-", "ffffffff-1"):
        with board(instance, since=revision) as shown:
            assert shown.updates[0]["snapshot"], revision
            assert list(shown.rows) == [session_id]


def test_rows_of_one_workspace_are_refused_when_the_workspace_does_not_exist(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    with pytest.raises(NotFound):
        next(live_stream.updates(Client(str(instance.socket)), workspace="nowhere"))


def test_session_sees_in_live_what_it_sees_in_the_list(team: PlayedTeam) -> None:
    names = {session_id: name for name, session_id in team.ids.items()}
    socket, env = team.socket("shop"), team.environment("parent")
    with board(team.instance, env, socket=socket) as shown, board(team.instance) as everything:
        listed = {s["session_id"] for s in team.client("parent").get("/v1/sessions")}
        assert {names[s] for s in shown.rows} == {names[s] for s in listed} == {"parent", "child", "sibling"}
        child = team.ids["child"]
        options = ("--workspace", "shop", "--trust", "direct")
        hidden = team.instance.spawn("Sleeper", "x", *options)["session_id"]
        note(team.instance, team.ids["direct"], "secret")
        everything.shows(team.ids["direct"], lambda row: row["note"] == "secret")
        team.instance.sm("kill", hidden, "--force")
        team.instance.sm("rm", hidden, "--yes")
        until(lambda: hidden not in everything.rows, "the removed row is gone")
        team.instance.sm("send", child, "hello", "--no-wait")
        shown.shows(child, lambda row: row["messages_held"] == 1)
        told = [*itertools.chain.from_iterable(u["rows"] for u in shown.updates)]
        assert {names[row["session_id"]] for row in told} == {"parent", "child", "sibling"}
        assert not any(u["removed"] for u in shown.updates)
        assert {row["tree"]["sessions"] for row in told if row["session_id"] == child} == {1}
        assert everything.rows[team.ids["parent"]]["tree"]["sessions"] == 2


def test_sibling_sees_numbers_and_no_words_in_live(stage: Stage) -> None:
    agent = stage.spawn_with_events(tool_event("Write", tool_input={"file_path": "/w/secret-plan"}))
    sibling = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.write(usage(stage, 1, 5), message(stage.soon(1)))
    with board(stage) as shown:
        full = shown.shows(agent, lambda row: row["activity"] and row["last_tool"] and row["tokens"])
    assert "secret-plan" in json.dumps(full)
    with board(stage, stage.as_session(sibling)) as seen:
        row = seen.rows[agent]
    assert "secret-plan" not in json.dumps(row)
    assert row["activity"] is None
    assert row["last_tool"] is not None
    assert (row["last_tool"]["name"], row["last_tool"]["args"]) == ("Write", {})
    for name in ("tokens", "cost_usd", "context_percent"):
        assert row[name] == full[name], name


def test_live_row_has_the_model_and_the_task_of_the_overview(stage: Stage) -> None:
    agent = stage.spawn_with_events(tool_event("Write", tool_input={"file_path": "/w/plan"}))
    with board(stage) as shown:
        stage.write(usage(stage, 1, 5))
        row = shown.shows(agent, lambda row: row["model"] == "claude-opus-4-8")
        (listed,) = get(stage, "/v1/overview")
        assert listed["model"] == "claude-opus-4-8"
        assert "plan" in listed["task"]
        assert (row["task"], row["task_kind"]) == (listed["task"], listed["task_kind"])


def test_sums_for_a_session_have_the_old_descendants_that_it_sees(instance: Instance) -> None:
    viewer, top = (instance.spawn("Sleeper", "x")["session_id"] for _ in range(2))
    below = instance.spawn("Sleeper", "x", "--parent", top)["session_id"]
    inner = instance.spawn("Sleeper", "x", "--parent", below)["session_id"]
    (instance.home / "shop").mkdir()
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.home / "shop"))
    hidden = instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    instance.sm("kill", "--force", below, hidden, "--tree")
    instance.wait(2)  # until the archives are written
    instance.age(below, inner, hidden)
    with board(instance) as everything, board(instance, instance.as_session(viewer)) as shown:
        assert {*everything.rows} == {*shown.rows} == {viewer, top}
        until(lambda: everything.earlier == [(None, False, 2), ("shop", False, 1)], "all old sessions")
        until(lambda: shown.earlier == [(None, False, 2)], "those that the session sees")
        assert everything.rows[top]["tree"]["sessions"] == shown.rows[top]["tree"]["sessions"] == 3


def test_live_stream_ends_when_the_daemon_stops(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    updates = live_stream.updates(Client(str(instance.socket)))
    next(updates)
    instance.sm("daemon", "stop")
    with pytest.raises(DaemonAway):
        list(updates)


def test_row_of_an_ended_session_keeps_its_group_until_it_is_seen(stage: Stage) -> None:
    with board(stage) as shown:
        parent = stage.spawn("Sh", "sleep 1000")["session_id"]
        failed = stage.spawn("Sh", "echo KeyError; exit 3", "--parent", parent)["session_id"]
        found = shown.shows(failed, lambda row: row["attention"] == "failed")
        assert (found["last_words"], found["lost"]) == ("KeyError", False)
        assert shown.shows(parent, lambda row: row["children_failed"] == 1)["children_done"] == 0
        stage.sm("seen", failed)
        shown.shows(failed, lambda row: row["attention"] == "ended" and row["last_words"] is None)
        stage.sm("archive", failed)
        shown.shows(parent, lambda row: row["children_failed"] == 0)


def test_last_words_are_read_again_when_the_terminal_server_did_not_answer(stage: Stage) -> None:
    failed = stage.spawn("Sh", "echo KeyError; exit 3")["session_id"]
    stage.wait(2)
    stage.world.server.is_deaf = True
    with board(stage) as shown:
        assert shown.shows(failed, lambda row: row["attention"] == "failed")["last_words"] is None
        stage.world.server.is_deaf = False
        shown.shows(failed, lambda row: row["last_words"] == "KeyError")


def has_note(words: str, row: Any) -> bool:
    return bool(row["note"] == words)


def test_rows_do_not_wait_again_and_again_for_a_terminal_server_that_does_not_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = stage.spawn("Sh", "echo KeyError; exit 3")["session_id"]
    other = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.wait(2)
    stage.world.server.is_deaf = True
    captured, capture = list[str](), FakeTerminals.capture

    async def spy(terminals: FakeTerminals, name: str, lines: int) -> list[str]:
        captured.append(name)
        return await capture(terminals, name, lines)

    monkeypatch.setattr(FakeTerminals, "capture", spy)
    with board(stage) as shown:
        shown.shows(failed, lambda row: row["attention"] == "failed")
        for words in ("first", "second", "third"):
            stage.wait(1)
            note(stage, other, words)
            shown.shows(other, partial(has_note, words))
        assert len(captured) == 1


def test_rows_after_a_lost_server_are_lost_until_they_are_restored(stage: Stage) -> None:
    with board(stage) as shown:
        session_id = stage.spawn("Sh", "sleep 1000")["session_id"]
        shown.shows(session_id, lambda row: row["status"] == "running" and not row["lost"])
        stage.world.server.kill()
        shown.shows(session_id, lambda row: row["lost"])
        stage.sm("restore", "--all")
        shown.shows(session_id, lambda row: not row["lost"])


def test_live_row_changes_with_a_field_of_a_capability_alone(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    with board(instance) as shown:
        instance.sm("budget", session_id, "--set", "usd=5")
        shown.shows(session_id, lambda row: row["budget"] is not None)
        instance.sm("budget", session_id, "--set", "usd=7")
        shown.shows(session_id, lambda row: row["budget"]["limits"]["usd"] == 7)
