"""Records: put out of sight and back, found by what they say, and removed so that nothing is left to read."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.instance import Instance, until
from tests.integration.test_endings import gone, rows, tmux_server, written

PROMPT = "plain-words-of-the-prompt"
VALUE = "plain-value-of-the-environment"
SAID = "plain-words-that-it-said"
SENT = "plain-words-that-it-was-sent"


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    with Instance() as made:
        yield made


def ended(instance: Instance, *arguments: str) -> str:
    session_id: str = instance.spawn(*(arguments or ("Sleeper",)))["session_id"]
    instance.sm("kill", session_id, "--force")
    return session_id


def listed(instance: Instance, *command: str, **options: Any) -> list[str]:
    return [s["session_id"] for s in instance.json(*command, **options)]


def idle_outbox(instance: Instance) -> None:
    until(
        lambda: rows(instance, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')") == [(0,)],
        "everything that was to be done is done",
    )


def everything_in_tables(instance: Instance) -> dict[str, str]:
    """All that a reader of the database can find, by table."""
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {t: repr(db.execute(f"SELECT * FROM {t}").fetchall()) for t in tables}  # noqa: S608 - its own names


# Out of sight


def test_an_archived_session_is_out_of_sight_until_it_is_taken_out_again(shared: Instance) -> None:
    session_id = ended(shared)
    child = shared.spawn("Sleeper")["session_id"]
    name = shared.session(session_id)["name"]
    assert shared.sm("archive", session_id) == f"Archived {name} ({session_id})\n"
    lists = (("all",), ("children",), ("who",), ("others",), ("children", "--recursive"))
    for command in lists:
        assert session_id not in listed(shared, *command), command
        assert child in listed(shared, *command), command
        assert {session_id, child} <= set(listed(shared, *command, "--archived")), command
    assert shared.session(session_id)["archived"] is True
    assert shared.session(name)["status"] == "killed"
    assert shared.json("unarchive", session_id)["archived"] is False
    for command in lists:
        assert session_id in listed(shared, *command), command


def test_what_is_done_already_is_done_and_no_event(shared: Instance) -> None:
    session_id = ended(shared)
    for _ in range(2):
        shared.sm("archive", session_id)
    for _ in range(2):
        shared.sm("unarchive", session_id)
    found = [e["metadata"] for e in shared.events(session_id) if e["type"] == "archived"]
    assert found == [{"archived": True}, {"archived": False}]


def test_several_are_archived_at_once_and_each_failure_is_told(shared: Instance) -> None:
    live, first, second = shared.spawn("Sleeper")["session_id"], ended(shared), ended(shared)
    done = shared.run("archive", first, live, "ffffffff", second)
    assert done.returncode == 4  # the first failure's
    assert f"session {live} is running" in done.stderr and "no such session: ffffffff" in done.stderr
    assert [shared.session(s)["archived"] for s in (first, live, second)] == [True, False, True]


def test_a_live_session_is_neither_archived_nor_removed(shared: Instance) -> None:
    session = shared.spawn("Sleeper")
    session_id = session["session_id"]
    for command in ("archive", "rm"):
        error = shared.refused(command, session_id, exit_code=4)
        assert session_id in error and f"hint: sm kill {session_id}" in error
    assert session_id in listed(shared, "all")
    assert not gone(session["pid"])


def test_a_completed_session_whose_process_lives_is_archived_and_not_removed(shared: Instance) -> None:
    session = shared.spawn("Sh", "sm complete done > out.txt 2>&1; exec sleep 1000")
    shared.in_status(session["session_id"], "completed")
    error = shared.refused("rm", session["session_id"], exit_code=4)
    assert "lives" in error and f"sm kill {session['session_id']}" in error
    assert shared.json("archive", session["session_id"])["archived"] is True
    assert not gone(session["pid"])


def test_a_message_to_an_archived_session_says_how_to_get_it_back(shared: Instance) -> None:
    done = shared.spawn("Sh", "sm complete done > out2.txt 2>&1; exec sleep 1000")["session_id"]
    shared.in_status(done, "completed")
    for session_id in (ended(shared), done):
        shared.sm("archive", session_id)
        error = shared.refused("send", session_id, "more work", exit_code=4)
        assert f"session {session_id} is archived" in error
        assert f"hint: sm unarchive {session_id}" in error
        assert shared.json("log", session_id) == []
    shared.sm("unarchive", done)
    assert shared.json("send", done, "more work", "--no-wait")["status"] == "queued"


def test_a_session_puts_away_its_own_descendants_only(shared: Instance) -> None:
    parent, other = shared.spawn("Sleeper")["session_id"], ended(shared)
    first, second = (ended(shared, "Sleeper", "--parent", parent) for _ in range(2))
    env = {"SM_SESSION_ID": parent}
    for command in ("archive", "unarchive", "rm"):
        for not_its_own in (other, parent):
            shared.refused(command, not_its_own, exit_code=5, env=env)
    shared.sm("archive", first, env=env)
    shared.sm("rm", second, env=env)
    assert listed(shared, "children", parent, "--archived") == [first]


# Found


def test_sessions_are_found_by_everything_that_describes_them(shared: Instance) -> None:
    parent = shared.spawn("Sleeper", "--name", "Lighthouse")["session_id"]
    script = (
        'sm note "Painting the Harbour" > n.txt; sm complete "all painted GREEN" > c.txt; exec sleep 1000'
    )
    child = shared.spawn("Sh", script, "--parent", parent, "--name", "keeper")["session_id"]
    shared.in_status(child, "completed")
    for words in ("KEEPER", "harbour paint", "green", child, "sh-keep completed", str(shared.work)):
        assert child in listed(shared, "all", "--search", words), words
    for command in (("children", parent), ("all",), ("others",), ("who", "--archived")):
        found = listed(shared, *command, "--search", "harbour")
        assert found == ([] if command[0] == "who" and child not in listed(shared, *command) else [child])
    assert listed(shared, "all", "--search", "harbour lighthouse") == []  # all words of one session
    tree = shared.json("children", "--recursive", "--search", "harbour")
    assert [(n["session_id"], [c["session_id"] for c in n["children"]]) for n in tree] == [(parent, [child])]
    assert "nobody" not in shared.sm("all", "--search", "lighthouse")


def test_an_archived_session_is_found_only_among_the_archived(shared: Instance) -> None:
    session_id = ended(shared, "Sleeper", "--name", "bygone")
    shared.sm("archive", session_id)
    assert listed(shared, "all", "--search", "bygone") == []
    assert listed(shared, "all", "--search", "bygone", "--archived") == [session_id]


# Removed


def secretive(instance: Instance) -> str:
    """A session that has left its words everywhere a session can; it has ended."""
    script = (
        f': {PROMPT}; echo {SAID}; sm note {SAID} > o1; sm checkpoint {SAID} --metadata "k={SAID}" > o2;'
        f" sm ask {SAID} --option {SAID} > o3; echo ready > ready; exec sleep 1000"
    )
    session = instance.spawn("Sh", script, "--name", "secretive", env={"SSH_AUTH_SOCK": VALUE})
    session_id: str = session["session_id"]
    written(instance.work / "ready")
    (request,) = instance.json("requests")
    instance.sm("answer", request["request_id"], SENT)
    instance.sm("send", session_id, SENT, "--no-wait")
    instance.sm("kill", session_id)
    until(lambda: (instance.state / "archives" / f"{session_id}.txt").exists(), "its output is kept")
    return session_id


def test_nothing_of_a_removed_session_is_left_to_read_but_its_events(instance: Instance) -> None:
    session_id = secretive(instance)
    terminal = instance.session(session_id)["tmux_session"]
    before = everything_in_tables(instance)
    for words, table in (
        (PROMPT, "sessions"),
        (VALUE, "sessions"),
        (SAID, "checkpoints"),
        (SENT, "messages"),
    ):
        assert words in before[table], table
    assert SAID in before["requests"]
    instance.tmux("has-session", "-t", f"={terminal}")
    seen = [e for e in instance.events() if e["session_id"] == session_id]
    assert instance.json("rm", session_id)["removed"] == session_id
    idle_outbox(instance)
    assert terminal not in instance.tmux("list-sessions", check=False)
    assert [str(path) for path in instance.state.rglob("*") if session_id in path.name] == []
    after = everything_in_tables(instance)
    # What others were told stays; on a slow machine the operator was told of the question before it was answered.
    del after["events"], after["messages"]
    texts = rows(instance, f"SELECT DISTINCT text FROM messages WHERE session_id = '{session_id}'")  # noqa: S608 - an id
    assert texts == [("",)]
    for words in (PROMPT, VALUE, SAID, SENT):
        assert [table for table, text in after.items() if words in text] == [], words
    (token,) = rows(instance, f"SELECT token_hash FROM sessions WHERE id = '{session_id}'")  # noqa: S608 - an id
    assert token == (None,)
    assert [e for e in instance.events() if e["session_id"] == session_id] == seen
    for command in (["status"], ["output"], ["kill"], ["rm"], ["events"], ["log"], ["unarchive"]):
        assert "no such session" in instance.refused(*command, session_id, exit_code=3), command
    assert "no such session" in instance.refused("status", "sh-secretive", exit_code=3)
    assert instance.json("all", "--archived") == []


def test_the_words_of_a_removed_proposal_are_gone_too(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "child_agents: {mode: supervised}\n")
    session_id = instance.spawn("Sh", f"sm complete {SAID} > out.txt; exec sleep 1000")["session_id"]
    until(lambda: instance.json("requests"), "it has proposed its completion")
    instance.sm("reject", session_id, SENT)
    instance.sm("kill", session_id)
    assert SAID in everything_in_tables(instance)["requests"]
    instance.sm("rm", session_id)
    left = everything_in_tables(instance)["requests"]
    assert SAID not in left and SENT not in left


def test_what_was_told_of_a_removed_session_outside_is_kept_no_longer(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "notify: {command: ['true']}\n")
    session_id = instance.spawn("Sh", f"sm complete {SAID} > out.txt; exec sleep 1000")["session_id"]
    instance.in_status(session_id, "completed")
    instance.sm("kill", session_id)
    idle_outbox(instance)
    instance.sm("rm", session_id)
    idle_outbox(instance)
    assert SAID not in everything_in_tables(instance)["outbox"]


def test_the_numbers_of_events_have_no_gap_after_a_removal_and_a_restart(instance: Instance) -> None:
    first, second = ended(instance), ended(instance)
    instance.sm("rm", first)
    third = ended(instance)
    before = instance.events()
    assert [e["seq"] for e in before] == list(range(1, len(before) + 1))
    assert {e["session_id"] for e in before} == {first, second, third}
    instance.kill_daemon()
    assert instance.events() == before
    assert set(listed(instance, "all", "--archived")) == {second, third}
    assert "no such session" in instance.refused("status", first, exit_code=3)
    fourth = ended(instance)
    assert [e["seq"] for e in instance.events()] == list(range(1, len(instance.events()) + 1))
    assert instance.events()[: len(before)] == before
    assert fourth != first


def test_children_of_a_removed_session_are_the_operators(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "child_agents: {on_parent_end: keep}\n")
    parent = instance.spawn("Sleeper")["session_id"]
    live = instance.spawn("Sleeper", "--parent", parent)["session_id"]
    dead = ended(instance, "Sleeper", "--parent", parent)
    instance.sm("kill", parent)
    assert listed(instance, "children") == [parent]
    instance.sm("rm", parent)
    for _ in range(2):
        assert set(listed(instance, "children")) == {live, dead}
        assert {n["session_id"] for n in instance.json("children", "--recursive")} == {live, dead}
        assert instance.json("status")["orphans"] == 0
        instance.kill_daemon()
    pid = instance.session(live)["pid"]
    os.kill(pid, 9)
    until(lambda: live in instance.sm("inbox"), "the operator is told of its ending")


def test_a_removal_that_a_crash_interrupts_is_finished_by_the_next_daemon(instance: Instance) -> None:
    session_id = ended(instance)
    idle_outbox(instance)
    terminal = f"command-{session_id}"
    instance.tmux("has-session", "-t", f"={terminal}")
    server = tmux_server(instance)
    os.kill(server, 19)  # so that its terminal cannot be closed
    try:
        assert instance.sm("rm", session_id) == f"Removed {session_id}\n"
        assert rows(instance, "SELECT state FROM outbox WHERE kind = 'remove'") == [("pending",)]
        instance.kill_daemon()
    finally:
        os.kill(server, 18)
    assert instance.json("all") == []
    idle_outbox(instance)
    assert terminal not in instance.tmux("list-sessions", check=False)
    assert [str(path) for path in instance.state.rglob("*") if session_id in path.name] == []


def test_a_name_is_free_once_its_session_is_removed(instance: Instance) -> None:
    first = ended(instance, "Sleeper", "--name", "worker")
    second = instance.spawn("Sleeper", "--name", "worker")["session_id"]
    instance.sm("rm", first)
    assert instance.session("sleeper-worker")["session_id"] == second
