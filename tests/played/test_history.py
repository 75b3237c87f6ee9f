"""Sessions that ended more than a day ago: lists have them by page, and commands find them as before."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from sm.board import board_row
from sm.core.timestamps import iso
from sm.feed import read_row
from tests.fixtures import context_fixture
from tests.live_board import LiveBoard
from tests.sim.blocking import drive
from tests.sim.live_board import board
from tests.sim.memory import Memory
from tests.sim.stage import BOX, Stage, until

stage = context_fixture("function", Stage, "", BOX)
COUNT = 25
LATELY_S = 3600.0


@pytest.fixture
def old(stage: Stage) -> list[str]:
    ids = [stage.spawn("Sh", "exit 0", "--name", f"task{n}")["session_id"] for n in range(COUNT)]
    for session_id in ids:
        stage.ended(session_id)
    stage.age(*ids)
    return ids


@pytest.fixture
def forgetful(stage: Stage) -> Stage:
    """A stage whose daemon keeps ended sessions in memory for an hour. A virtual day takes five seconds."""
    stage.kill_daemon()
    stage.world.daemon_options = replace(stage.world.daemon_options, memory=Memory(LATELY_S))
    stage.start_daemon()
    return stage


def ids_of(sessions: list[dict[str, Any]]) -> list[str]:
    return [session["session_id"] for session in sessions]


def test_list_has_twenty_sessions_and_says_how_many_ended_earlier(stage: Stage, old: list[str]) -> None:
    live = stage.spawn("Sh", "sleep 99999")["session_id"]
    for options in ((), ("--json",)):
        shown = stage.run("all", *options)
        assert shown.stderr == "6 sessions that ended earlier not shown: --limit all\n"
    assert ids_of(json.loads(shown.stdout)) == [*old[6:], live]
    whole = stage.run("all", "--json", "--limit", "all")
    assert (ids_of(json.loads(whole.stdout)), whole.stderr) == ([*old, live], "")
    some = stage.run("all", "--json", "--limit", "23")
    assert ids_of(json.loads(some.stdout)) == [*old[3:], live]
    assert some.stderr == "3 sessions that ended earlier not shown: --limit all\n"


def test_page_begins_where_the_last_one_ended(stage: Stage, old: list[str]) -> None:
    live = stage.spawn("Sh", "sleep 99999")["session_id"]
    found, lefts, query = list[list[str]](), list[int](), "limit=1"
    while True:
        answer = drive(stage.loop, stage.world.operator.answer("GET", f"/v1/sessions?{query}"))
        found.append(ids_of(json.loads(answer.body)))
        if "sm-next" not in answer.headers:
            break
        lefts.append(int(answer.headers["sm-left"]))
        query = f"limit=10&before={answer.headers['sm-next']}"
    assert found == [[live], old[15:], old[5:15], old[:5]]
    assert lefts == [25, 15, 5]


def test_old_session_is_found_searched_counted_and_restored(stage: Stage, old: list[str]) -> None:
    assert stage.json("status", "task0")["session_id"] == old[0]
    assert ids_of(stage.json("all", "--search", "task3")) == [old[3]]
    assert stage.json("status")["sessions"] == {"completed": COUNT}
    assert sum(group["sessions"] for group in stage.json("usage")["groups"]) == COUNT
    stage.sm("archive", old[0])
    assert old[0] not in ids_of(stage.json("all", "--limit", "all"))
    assert ids_of(stage.json("all", "--limit", "all", "--archived")) == old
    stage.sm("restore", old[1])
    until(lambda: stage.session(old[1])["status"] == "completed", "the restored session has ended again")
    stage.sm("rm", "--yes", old[2])
    assert ids_of(stage.json("all", "--limit", "all", "--archived")) == [*old[:2], *old[3:]]


def test_tree_of_a_live_session_has_its_old_descendants(stage: Stage) -> None:
    top = stage.spawn("Sh", "sleep 99999")["session_id"]
    first, second = (stage.spawn("Sh", "exit 0", "--parent", top)["session_id"] for _ in range(2))
    below = stage.spawn("Sh", "sleep 99999", "--parent", top)["session_id"]
    inner = stage.spawn("Sh", "exit 0", "--parent", below)["session_id"]
    for session_id in (first, second, inner):
        stage.ended(session_id)
    stage.sm("kill", "--force", below)
    before = stage.json("children", "--recursive")
    stage.age(first, second, inner, below)
    (shown,) = stage.json("children", "--recursive")
    assert {*ids_of(shown["children"])} == {first, second, below}
    assert shown["sums"]["tree"]["sessions"] == before[0]["sums"]["tree"]["sessions"] == 5
    (nested,) = (child for child in shown["children"] if child["session_id"] == below)
    assert ids_of(nested["children"]) == [inner]
    assert stage.json("status", top)["children_by_status"] == {"completed": 2, "killed": 1}
    listed = {s["session_id"]: s for s in stage.json("ls")}
    assert listed[top]["children_done"] == 2


def test_old_parents_show_how_many_children_have_ended(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 99999")["session_id"]
    child = stage.spawn("Sh", "exit 0", "--parent", parent)["session_id"]
    failed, archived = (stage.spawn("Sh", "exit 3", "--parent", parent)["session_id"] for _ in range(2))
    for session_id in (child, failed, archived):
        stage.ended(session_id)
    stage.sm("kill", "--force", parent)
    stage.sm("archive", archived)

    def counts() -> tuple[int, int]:
        rows = {row["session_id"]: row for row in stage.get("/v1/overview?ended=1")}
        return rows[parent]["children_done"], rows[parent]["children_failed"]

    assert counts() == (1, 1)
    stage.age(parent, child, failed, archived)
    assert counts() == (1, 1)


def test_status_has_statuses_in_the_order_of_their_oldest_sessions(stage: Stage) -> None:
    first, failed, last = (stage.spawn("Sh", f"exit {code}")["session_id"] for code in (0, 3, 0))
    for session_id in (first, failed, last):
        stage.ended(session_id)
    live = stage.spawn("Sh", "sleep 99999")["session_id"]
    for code in (0, 3):
        stage.ended(stage.spawn("Sh", f"exit {code}", "--parent", live)["session_id"])
    for _ in range(2):
        assert list(stage.json("status")["sessions"].items()) == [
            ("completed", 3),
            ("error", 2),
            ("running", 1),
        ]
        stage.age(first, failed, last)


def test_sessions_leave_memory_while_the_daemon_runs_and_are_found_as_before(
    forgetful: Stage,
) -> None:
    stage = forgetful
    top, other = (stage.spawn("Sh", "sleep 99999999")["session_id"] for _ in range(2))
    ids = [stage.spawn("Sh", "exit 0", "--name", name, "--parent", top)["session_id"] for name in ("a", "b")]
    for session_id in ids:
        stage.ended(session_id)
    before = stage.json("usage")["groups"]
    stage.sm("seen", "--all")
    stage.wait(LATELY_S + 1200)
    assert {*ids_of(stage.get("/v1/sessions?limit=0"))} == {top, other}
    assert stage.json("status", "a")["session_id"] == ids[0]
    assert {*ids_of(stage.json("children", top))} == {*ids}
    assert [g["sessions"] for g in stage.json("usage")["groups"]] == [g["sessions"] for g in before]
    stage.sm("reparent", "a", other)
    assert ids_of(stage.json("children", top)) == [ids[1]]
    assert ids_of(stage.json("children", other)) == [ids[0]]
    stage.sm("restore", "b")
    until(lambda: stage.session(ids[1])["status"] == "completed", "the restored session has ended again")
    stage.sm("rm", "--yes", "a")
    assert ids_of(stage.json("children", other)) == []


def test_list_follows_a_change_of_unseen_days(stage: Stage, old: list[str]) -> None:
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.world.paths.database)) as db:
        db.execute("UPDATE sessions SET seen_at = NULL")
        db.commit()
    stage.start_daemon()
    assert len(stage.json("all")) == 20
    with stage.config.open("a", encoding="utf-8") as file:
        file.write("unseen_days: 30\n")
    until(
        lambda: len(stage.json("all")) == COUNT,
        "sessions that the operator has not seen for 9 days are listed",
    )


def test_all_old_sessions_are_marked_as_seen(stage: Stage, old: list[str]) -> None:
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.world.paths.database)) as db:
        db.execute("UPDATE sessions SET seen_at = NULL")
        db.commit()
    stage.start_daemon()
    assert stage.get("/v1/overview/rest")["older"] == COUNT
    assert {*ids_of(stage.json("seen", "--all"))} == {*old}
    assert stage.get("/v1/overview/rest")["older"] == 0


def test_live_view_knows_how_many_sessions_ended_earlier(forgetful: Stage) -> None:
    stage = forgetful
    (stage.home / "shop").mkdir()
    stage.sm("workspace", "create", "shop", "--working-dir", str(stage.home / "shop"))
    live = stage.spawn("Sh", "sleep 99999999")["session_id"]
    ids = [stage.spawn("Sh", "exit 0", "--name", f"task{n}")["session_id"] for n in range(3)]
    inside = stage.spawn("Sh", "exit 0", "--workspace", "shop")["session_id"]
    for session_id in (*ids, inside):
        stage.ended(session_id)
    stage.sm("seen", "--all")
    stage.wait(0.9 * LATELY_S)
    with board(stage) as shown, board(stage, archived=True) as everything:

        def shows(*counts: tuple[str | None, bool, int]) -> bool:
            return shown.earlier == [*counts]

        assert len(shown.rows) == 5
        assert shows()
        until(lambda: shows((None, False, 3), ("shop", False, 1)), "they have left memory", 1200)
        assert {*shown.rows} == {live}
        stage.sm("rm", "--yes", ids[0])
        until(lambda: shows((None, False, 2), ("shop", False, 1)), "one is removed")
        stage.sm("restore", ids[1])
        until(lambda: shows((None, False, 1), ("shop", False, 1)), "one is restored")
        stage.sm("archive", inside)
        until(lambda: shows((None, False, 1)), "one is archived")
        until(lambda: everything.earlier == [(None, False, 1), ("shop", True, 1)], "it has left memory", 1200)
        assert shows((None, False, 1))
        revision = shown.revision
    stage.sm("rm", "--yes", ids[2])
    with board(stage, since=revision) as again:
        until(lambda: len(again.updates) == 1 and again.updates[0]["earlier"] == [], "there are none")
        assert not again.updates[0]["snapshot"]


def test_completion_offers_old_sessions(stage: Stage, old: list[str]) -> None:
    offered = stage.run(
        env={"_SM_COMPLETE": "bash_complete", "COMP_WORDS": "sm restore sh-", "COMP_CWORD": "2"}
    )
    assert {line.partition(",")[2] for line in offered.stdout.splitlines()} == {
        f"sh-task{n}" for n in range(COUNT)
    }


def test_digest_has_the_warnings_and_the_usage_of_sessions_that_ended_before(
    stage: Stage, old: list[str]
) -> None:
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.world.paths.database)) as db:
        now = iso(stage.now().timestamp())
        db.execute(
            "INSERT INTO events (type, session_id, timestamp, message, metadata)"
            " VALUES ('warning', ?, ?, 'its archive will be deleted', '{}')",
            (old[0], now),
        )
        db.execute(
            "INSERT INTO usage (session_id, message_id, model, at, input, output, cache_read, cache_write,"
            " cache_write_1h, sidechain) VALUES (?, 'm1', 'x', ?, 3, 4, 0, 0, 0, 0)",
            (old[1], now),
        )
        db.commit()
    stage.start_daemon()
    digest = stage.json("digest", "--since", "1h")
    (warning,) = digest["warnings"]
    assert (warning["session_id"], warning["text"]) == (old[0], "its archive will be deleted")
    (spent,) = digest["spending"]
    assert (spent["session_id"], spent["tokens_used"]) == (old[1], 7)
    assert digest["ended"] == []


def test_live_view_reads_an_old_session_as_a_row(stage: Stage) -> None:
    async def get(path: str, query: Mapping[str, str] | None) -> Any:
        return await stage.world.operator.get(path, **(query or {}))

    parent = stage.spawn("Sh", "sleep 99999")["session_id"]
    child, failed = (stage.spawn("Sh", f"exit {code}", "--parent", parent)["session_id"] for code in (0, 3))
    for session_id in (child, failed):
        stage.ended(session_id)
    stage.sm("kill", "--force", parent)
    stage.sm("archive", child)
    with board(stage) as shown:
        before = shown.rows[parent]
    stage.age(parent, child, failed)
    row = drive(stage.loop, read_row(get, parent))
    assert before.keys() <= row.keys() | {"attention", "last_words", "lost"}
    assert row["tree"].items() >= before["tree"].items()
    same = {name for name in before.keys() & row.keys() - {"tree"} if not name.endswith("_at")}
    assert {name: row[name] for name in same} == {name: before[name] for name in same}
    assert board_row(row).task() == board_row(before).task()


def enter_memory(stage: Stage, session_id: str) -> None:
    stage.sm("archive", session_id)
    stage.sm("unarchive", session_id)


def leave_memory(stage: Stage, session_id: str, shown: LiveBoard) -> None:
    shown.shows(session_id, lambda row: not row["archived"])
    assert stage.world.store.memory.forget_old() == [session_id]
    until(lambda: session_id not in shown.rows, "the row of an old session is gone")


def test_live_view_drops_a_session_each_time_that_it_leaves_memory(stage: Stage, old: list[str]) -> None:
    with board(stage) as shown:
        for session_id in (old[0], old[1], old[0]):
            enter_memory(stage, session_id)
            leave_memory(stage, session_id, shown)


def test_live_view_that_comes_back_has_a_session_that_left_memory_and_returned(
    stage: Stage, old: list[str]
) -> None:
    with board(stage) as shown:
        enter_memory(stage, old[0])
        shown.shows(old[0], lambda row: not row["archived"])
        since = shown.revision
        leave_memory(stage, old[0], shown)
        enter_memory(stage, old[0])
        shown.shows(old[0], lambda row: not row["archived"])
        with board(stage, since=since) as back:
            assert not back.updates[0]["snapshot"]
            assert old[0] in back.rows


def test_old_sessions_are_completed_by_names_and_ids(stage: Stage, old: list[str]) -> None:
    stage.sm("archive", old[1])
    bare, hidden = (stage.spawn("Sh", "exit 0")["session_id"] for _ in range(2))
    for session_id in (bare, hidden):
        stage.ended(session_id)
    stage.age(bare, hidden, *old)

    def offered(command: str, word: str) -> set[str]:
        completion = {
            "_SM_COMPLETE": "bash_complete",
            "COMP_WORDS": f"sm {command} {word}",
            "COMP_CWORD": "2",
        }
        lines = stage.run(env=completion).stdout.splitlines()
        return {line.removeprefix("plain,") for line in lines if line}

    for command in ("status", "output", "rm", "restore"):
        assert offered(command, "task2") == {"task2", *(f"task{n}" for n in range(20, COUNT))}, command
        assert offered(command, "sh-task3") == {"sh-task3"}
        assert offered(command, old[4]) == {old[4]}
        assert offered(command, f"sh-{bare[:6]}") == {f"sh-{bare}"}
        assert offered(command, "unknown") == set()
    assert offered("archive", "task1") == {f"task{n}" for n in range(10, 20)}
    assert offered("unarchive", "task") == {"task1"}


def test_list_by_prefix_has_only_sessions_that_the_caller_sees(stage: Stage, old: list[str]) -> None:
    assert ids_of(stage.get("/v1/sessions?prefix=task1")) == [old[1], *old[10:20]]
    stage.sm("workspace", "create", "shop", "--working-dir", str(stage.work))
    agent = stage.spawn("Sh", "sleep 99999", "--workspace", "shop", "--name", "task1x")["session_id"]
    ((status, seen),) = stage.request_as(agent, ("GET", "/v1/sessions", {"prefix": "task1"}))
    assert (status, ids_of(seen)) == ("ok", [agent])
