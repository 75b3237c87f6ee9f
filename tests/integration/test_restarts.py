"""Restarts of crashed sessions through the real command, with real processes, signals and a real tmux server."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.instance import Instance, until
from tests.integration.ended_agents import ENDED

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
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE timers SET due_at = '2026-01-01T00:00:00.000Z' WHERE kind = 'restart'")
    instance.sm("daemon", "start")


def ends(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id) if e["type"] in ENDED]


def test_crashed_program_starts_again_with_its_prompt(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("again", "exec sleep 1000"), "--name", "again")
    assert session["restarts"]["count"] == 0
    os.kill(session["pid"], signal.SIGKILL)
    crashed = waiting(instance, session["session_id"])
    assert crashed["status"] == "starting"
    assert crashed["status_reason"] == "restart 1 of 3 in 5 s (signal 9)"
    assert (crashed["pid"], crashed["exit_signal"], crashed["restarts"]["count"]) == (None, 9, 1)
    now = again(instance, session["session_id"], session["pid"])
    assert (now["status"], now["restarts"]["next_at"], now["exit_signal"]) == ("running", None, None)
    assert runs(instance, "again") == 2
    assert not ends(instance, session["session_id"])
    instance.sm("kill", session["session_id"])
    assert ends(instance, session["session_id"]) == ["killed"]
