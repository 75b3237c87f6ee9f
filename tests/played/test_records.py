"""Session records: archive, search and remove."""

import os
import sqlite3
from contextlib import closing
from typing import Any

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.integration.ended_agents import AnyInstance, rows, wait_line, wait_outbox
from tests.sim.stage import Instance, until

PROMPT = "plain-words-of-the-prompt"
VALUE = "plain-value-of-the-environment"
SAID = "plain-words-that-it-said"
SENT = "plain-words-that-it-was-sent"


shared = context_fixture("function", Instance)
instance = context_fixture("function", Instance)


def spawn_ended(instance: Instance, *arguments: str) -> str:
    session_id: str = instance.spawn(*(arguments or ("Sleeper",)))["session_id"]
    instance.sm("kill", session_id, "--force")
    return session_id


def listed(instance: Instance, *command: str, **options: Any) -> list[str]:
    return [s["session_id"] for s in instance.json(*command, **options)]


def everything_in_tables(instance: AnyInstance) -> dict[str, str]:
    """The content of the database, by table."""
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {t: repr(db.execute(f"SELECT * FROM {t}").fetchall()) for t in tables}  # noqa: S608 - table names of the schema


# Archive


def test_archived_session_is_hidden_from_lists_until_it_is_unarchived(shared: Instance) -> None:
    session_id = spawn_ended(shared)
    child = shared.spawn("Sleeper")["session_id"]
    name = shared.session(session_id)["name"]
    assert shared.sm("archive", session_id) == f"Archived {name}\n"
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


def test_archive_and_unarchive_write_one_event_each_when_repeated(shared: Instance) -> None:
    session_id = spawn_ended(shared)
    for _ in range(2):
        shared.sm("archive", session_id)
    for _ in range(2):
        shared.sm("unarchive", session_id)
    changes = [e["metadata"] for e in shared.events(session_id) if e["type"] == "archived"]
    assert changes == [{"archived": True}, {"archived": False}]


def test_archive_hides_several_sessions_and_reports_each_failure(shared: Instance) -> None:
    live, first, second = shared.spawn("Sleeper")["session_id"], spawn_ended(shared), spawn_ended(shared)
    done = shared.run("archive", first, live, "ffffffff", second)
    assert done.returncode == 4  # the exit code of the first failure
    assert f"session {live} is running" in done.stderr and "no such session: ffffffff" in done.stderr
    assert [shared.session(s)["archived"] for s in (first, live, second)] == [True, False, True]


def test_archive_and_rm_are_refused_when_the_session_is_live(shared: Instance) -> None:
    session = shared.spawn("Sleeper")
    session_id = session["session_id"]
    for command in ("archive", "rm"):
        error = shared.refused(command, session_id, exit_code=4)
        assert session_id in error and f"hint: sm kill {session_id}" in error
    assert session_id in listed(shared, "all")
    assert shared.lives(session["pid"])


def test_completed_session_with_a_live_process_can_be_archived_but_not_removed(shared: Instance) -> None:
    session = shared.spawn("Sh", "sm complete done > out.txt 2>&1; exec sleep 1000")
    shared.in_status(session["session_id"], "completed")
    error = shared.refused("rm", session["session_id"], exit_code=4)
    assert "still runs" in error and f"sm kill {session['session_id']}" in error
    assert shared.json("archive", session["session_id"])["archived"] is True
    assert shared.lives(session["pid"])


def test_send_to_an_archived_session_unarchives_it_and_says_so(shared: Instance) -> None:
    done = shared.spawn("Sh", "sm complete done > out2.txt 2>&1; exec sleep 1000")["session_id"]
    shared.in_status(done, "completed")
    shared.sm("archive", done)
    said = shared.sm("send", done, "more work", "--no-wait")
    assert said.endswith("; the session was unarchived\n")
    assert shared.session(done)["archived"] is False
    assert not shared.sm("send", done, "and more", "--no-wait").endswith("unarchived\n")
    (event,) = [e for e in shared.json("events", done) if e["metadata"].get("archived") is False]
    assert event["message"] == f"Session {done} unarchived"


def test_send_to_an_archived_session_without_a_process_is_refused_and_changes_nothing(
    shared: Instance,
) -> None:
    ended = spawn_ended(shared)
    shared.sm("archive", ended)
    error = shared.refused("send", ended, "more work", exit_code=4)
    assert f"session {ended} has ended (killed) and is archived: it cannot receive messages" in error
    assert f"hint: sm restore {ended}" in error
    assert shared.session(ended)["archived"] is True
    assert shared.json("log", ended) == []


def test_session_that_may_not_archive_another_one_unarchives_it_with_no_message(shared: Instance) -> None:
    done = shared.spawn("Sh", "sm complete done > out3.txt 2>&1; exec sleep 1000")["session_id"]
    peer = shared.spawn("Sleeper")["session_id"]
    shared.in_status(done, "completed")
    shared.sm("archive", done)
    error = shared.refused("send", done, "hello", exit_code=4, env={"SM_SESSION_ID": peer})
    assert f"session {done} is archived: it cannot receive messages from you" in error
    assert shared.session(done)["archived"] is True


def test_session_can_archive_and_remove_only_its_descendants(shared: Instance) -> None:
    parent, other = shared.spawn("Sleeper")["session_id"], spawn_ended(shared)
    first, second = (spawn_ended(shared, "Sleeper", "--parent", parent) for _ in range(2))
    env = {"SM_SESSION_ID": parent}
    for command in ("archive", "unarchive", "rm"):
        for foreign in (other, parent):
            shared.refused(command, foreign, exit_code=5, env=env)
    shared.sm("archive", first, env=env)
    shared.sm("rm", second, env=env)
    assert listed(shared, "children", parent, "--archived") == [first]


# Search


def test_search_matches_name_note_completion_id_status_and_directory(shared: Instance) -> None:
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


def test_search_finds_archived_sessions_only_with_the_archived_option(shared: Instance) -> None:
    session_id = spawn_ended(shared, "Sleeper", "--name", "bygone")
    shared.sm("archive", session_id)
    assert listed(shared, "all", "--search", "bygone") == []
    assert listed(shared, "all", "--search", "bygone", "--archived") == [session_id]


# Remove


def spawn_secretive(instance: Instance) -> str:
    """An ended session that has left its texts everywhere a session can."""
    script = (
        f': {PROMPT}; echo {SAID}; sm note {SAID} > o1; sm checkpoint {SAID} --metadata "k={SAID}" > o2;'
        f" sm ask {SAID} --option {SAID} > o3; echo ready > ready; exec sleep 1000"
    )
    session = instance.spawn("Sh", script, "--name", "secretive", env={"SSH_AUTH_SOCK": VALUE})
    session_id: str = session["session_id"]
    wait_line(instance.work / "ready", until)
    (request,) = instance.json("requests")
    instance.sm("answer", request["request_id"], SENT)
    instance.sm("send", session_id, SENT, "--no-wait")
    instance.sm("kill", session_id)
    until(lambda: Archived(instance.state / "archives" / session_id).exists(), "its output is archived")
    return session_id


def test_rm_leaves_only_the_events_of_a_session(instance: Instance) -> None:
    session_id = spawn_secretive(instance)
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
    assert instance.has_terminal(terminal)
    events = [e for e in instance.events() if e["session_id"] == session_id]
    assert instance.json("rm", session_id)["removed"] == session_id
    wait_outbox(instance)
    assert not instance.has_terminal(terminal)
    assert [str(path) for path in instance.state.rglob("*") if session_id in path.name] == []
    after = everything_in_tables(instance)
    # Messages to other sessions stay; the operator may get a notice before the question was answered.
    del after["events"], after["messages"]
    texts = rows(instance, f"SELECT DISTINCT text FROM messages WHERE session_id = '{session_id}'")  # noqa: S608 - an id
    assert texts == [("",)]
    for words in (PROMPT, VALUE, SAID, SENT):
        assert [table for table, text in after.items() if words in text] == [], words
    (token,) = rows(instance, f"SELECT token_hash FROM sessions WHERE id = '{session_id}'")  # noqa: S608 - an id
    assert token == (None,)
    assert [e for e in instance.events() if e["session_id"] == session_id] == events
    for command in (["status"], ["output"], ["kill"], ["rm"], ["events"], ["log"], ["unarchive"]):
        assert "no such session" in instance.refused(*command, session_id, exit_code=3), command
    assert "no such session" in instance.refused("status", "sh-secretive", exit_code=3)
    assert instance.json("all", "--archived") == []


def test_rm_deletes_the_texts_of_a_rejected_proposal(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "child_agents: {mode: supervised}\n")
    session_id = instance.spawn("Sh", f"sm complete {SAID} > out.txt; exec sleep 1000")["session_id"]
    until(lambda: instance.json("requests"), "the proposal")
    instance.sm("reject", session_id, SENT)
    instance.sm("kill", session_id)
    assert SAID in everything_in_tables(instance)["requests"]
    instance.sm("rm", session_id)
    left = everything_in_tables(instance)["requests"]
    assert SAID not in left and SENT not in left


def test_event_numbers_have_no_gaps_after_rm_and_a_restart(instance: Instance) -> None:
    first, second = spawn_ended(instance), spawn_ended(instance)
    instance.sm("rm", first)
    third = spawn_ended(instance)
    before = instance.events()
    assert [e["seq"] for e in before] == list(range(1, len(before) + 1))
    assert {e["session_id"] for e in before} == {first, second, third}
    instance.kill_daemon()
    assert instance.events() == before
    assert set(listed(instance, "all", "--archived")) == {second, third}
    assert "no such session" in instance.refused("status", first, exit_code=3)
    fourth = spawn_ended(instance)
    assert [e["seq"] for e in instance.events()] == list(range(1, len(instance.events()) + 1))
    assert instance.events()[: len(before)] == before
    assert fourth != first


def test_children_belong_to_the_operator_when_their_parent_is_removed(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "child_agents: {on_parent_end: keep}\n")
    parent = instance.spawn("Sleeper")["session_id"]
    live = instance.spawn("Sleeper", "--parent", parent)["session_id"]
    dead = spawn_ended(instance, "Sleeper", "--parent", parent)
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
    until(lambda: live in instance.sm("inbox"), "the operator's notice")


def test_next_daemon_finishes_a_removal_that_a_crash_interrupted(instance: Instance) -> None:
    session_id = spawn_ended(instance)
    wait_outbox(instance)
    terminal = f"command-{session_id}"
    assert instance.has_terminal(terminal)
    instance.world.server.is_deaf = True  # its terminal cannot be closed
    assert instance.sm("rm", session_id) == f"Removed sleeper-{session_id}\n"
    assert rows(instance, "SELECT state FROM outbox WHERE kind = 'remove'") == [("pending",)]
    instance.kill_daemon()
    instance.world.server.is_deaf = False
    assert instance.json("all") == []
    wait_outbox(instance)
    assert not instance.has_terminal(terminal)
    assert [str(path) for path in instance.state.rglob("*") if session_id in path.name] == []


def test_name_resolves_to_the_new_session_when_the_old_one_is_removed(instance: Instance) -> None:
    first = spawn_ended(instance, "Sleeper", "--name", "worker")
    second = instance.spawn("Sleeper", "--name", "worker")["session_id"]
    instance.sm("rm", first)
    assert instance.session("sleeper-worker")["session_id"] == second


def test_kill_all_rm_ended_and_prune_choose_their_sessions(instance: Instance) -> None:
    parent = instance.spawn("Sleeper")["session_id"]
    child = instance.spawn("Sleeper", "--parent", parent)["session_id"]
    done = instance.spawn("Sh", "sm complete ready; exec sleep 1000")["session_id"]
    instance.in_status(done, "completed")
    over = instance.spawn("Sh", "exit 3")["session_id"]
    instance.ended(over)
    assert "its process still runs" in instance.run("prune").stderr
    assert {s["session_id"] for s in instance.json("all")} == {parent, child, done}
    killed = instance.json("kill", "--all", "--force")
    ids = {s["session_id"] for answer in killed for s in (answer, *answer["killed_too"])}
    assert ids == {parent, child, done}
    assert all(s["pid"] is None or s["status"] in ("killed", "completed") for s in instance.json("all"))
    instance.sm("archive", child)
    assert instance.json("prune", "--older-than", "1d") == []
    assert len(instance.json("rm", "--ended")) == 2
    assert [s["session_id"] for s in instance.json("all", "--archived")] == [child]
    assert len(instance.json("prune", "--archived")) == 1
