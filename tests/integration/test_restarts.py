"""Restarts of crashed sessions through the real command, with real processes, signals and a real tmux server."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.archived import Archived
from tests.instance import Instance, until
from tests.integration.ended_agents import ENDED, tmux_server

MORE = """
  Fragile: {command: [sh, -c], restart: on-failure}
  Once: {command: [sh, -c], restart: on-failure, restart_max: 1}
"""
# Appends a line to the file RUNS at each start, then runs its argument.
COUNTED = "echo run >> runs-{name}; {then}"


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with Instance(MORE) as made:
        yield made


def counted(name: str, then: str) -> str:
    return COUNTED.format(name=name, then=then)


def runs(instance: Instance, name: str) -> int:
    path = instance.work / f"runs-{name}"
    return len(path.read_text().splitlines()) if path.exists() else 0


def crash(instance: Instance, session: dict[str, Any], name: str) -> dict[str, Any]:
    """Kill the process of a session that has counted its first run; return the session once it waits."""
    until(lambda: runs(instance, name) == 1, "the program runs")
    os.kill(session["pid"], signal.SIGKILL)
    return waiting(instance, session["session_id"])


def waiting(instance: Instance, session_id: str) -> dict[str, Any]:
    """The session, once it waits for its restart."""

    def look() -> dict[str, Any] | None:
        session = instance.session(session_id)
        restarts = session["restarts"]
        return session if restarts and restarts["next_at"] else None

    return until(look, "the session waits for its restart")


def again(instance: Instance, session_id: str, pid: int) -> dict[str, Any]:
    """The session, once another process than `pid` runs."""

    def look() -> dict[str, Any] | None:
        session = instance.session(session_id)
        return session if session["pid"] not in (None, pid) else None

    return until(look, "another process runs")


def hurry(instance: Instance) -> None:
    """Make every restart due, with a SIGKILL of the daemon in between."""
    instance.kill_daemon()
    make_due(instance)
    instance.sm("daemon", "start")


def make_due(instance: Instance) -> None:
    """Make every restart due, while no daemon runs."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE timers SET due_at = '2026-01-01T00:00:00.000Z' WHERE kind = 'restart'")


def ends(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id) if e["type"] in ENDED]


# Giving up


def test_output_before_a_restart_stays_findable(instance: Instance) -> None:
    name = "output"
    then = f"echo the potoroo number $(wc -l < runs-{name}); [ $(wc -l < runs-{name}) = 2 ] || exit 3; exec sleep 1000"
    session = instance.spawn("Fragile", counted(name, then))["session_id"]
    until(lambda: "number 2" in instance.output(session), "the second process runs")
    archive = Archived(instance.state / "archives" / session)
    assert (archive / "terminal.txt").read_text() == "the potoroo number 1\n"
    (found,) = instance.json("search", "potoroo", "--type", "terminal")
    assert (found["session_id"], found["excerpt"]) == (session, "the potoroo number 1")
    instance.sm("kill", session)
    until((archive / "terminal-1.txt").exists, "the session is archived")
    assert (archive / "terminal-1.txt").read_text() == "the potoroo number 1\n"
    assert (archive / "terminal.txt").read_text() == "the potoroo number 2\n"


# Ends that are no crash


def test_program_that_succeeds_after_a_crash_has_completed(instance: Instance) -> None:
    then = "test $(wc -l < runs-twice) = 2 || exit 3"
    session_id = instance.spawn("Fragile", counted("twice", then))["session_id"]
    ended = instance.ended(session_id) if waiting(instance, session_id) else {}
    assert (ended["status"], ended["exit_code"], ended["restarts"]["total"]) == ("completed", 0, 1)
    assert ends(instance, session_id) == ["completed"]


# While it waits


def test_message_is_kept_for_the_next_process(instance: Instance) -> None:
    script = "test -e came && exec sm inbox --take --wait > took; touch came; exec sleep 1000"
    session = instance.spawn("Fragile", script)
    until(lambda: (instance.work / "came").exists(), "the program runs")
    instance.sm("send", session["session_id"], "before the crash", "--no-wait")
    os.kill(session["pid"], signal.SIGKILL)
    waiting(instance, session["session_id"])
    instance.sm("send", session["session_id"], "in between", "--no-wait")
    instance.ended(session["session_id"])
    assert "before the crash" in (instance.work / "took").read_text()
    instance.run("kill", session["session_id"])
    texts = {m["text"]: m["status"] for m in instance.json("log", session["session_id"])}
    assert texts["before the crash"] in ("submitted", "acknowledged")


# Crashes of everything else


def test_crash_of_the_daemon_during_a_restart_neither_loses_nor_repeats_it(instance: Instance) -> None:
    name = "at-a-crash"
    session = instance.spawn("Fragile", counted(name, "exec sleep 1000"))
    crash(instance, session, name)
    instance.kill_daemon()
    make_due(instance)
    crashing = instance.start_daemon("Tmux.open after 1")
    until(lambda: crashing.poll() is not None, "the daemon crashes")
    instance.start_daemon()
    now = again(instance, session["session_id"], session["pid"])
    assert (now["status"], now["restarts"]["total"]) == ("running", 1)
    until(lambda: runs(instance, name) == 2, "the program runs again")
    instance.sm("kill", session["session_id"])
    assert runs(instance, name) == 2
    assert ends(instance, session["session_id"]) == ["killed"]


def test_end_of_the_tmux_server_counts_as_a_crash(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("server", "exec sleep 1000"))
    other = instance.spawn("Sleeper")["session_id"]
    until(lambda: runs(instance, "server") == 1, "the program runs")
    os.kill(tmux_server(instance), signal.SIGKILL)
    now = again(instance, session["session_id"], session["pid"])
    assert (now["status"], now["restarts"]["total"]) == ("running", 1)
    assert instance.ended(other)["status"] == "error"
    instance.sm("kill", session["session_id"])


# Agents with turns. The test plays the hooks of claude.
