"""Which end status a session must have: that of the end of its process, as the played world saw it."""

import json
import signal
import sqlite3
from collections.abc import Sequence

from sm.core.models import Exit
from tests.sim.told import Cause, Run, Told

_Event = tuple[int, str, str, str]
"""Its number, type, message and metadata."""
_ENDINGS = ("completed", "error", "killed", "abandoned")


def wrong_endings(db: sqlite3.Connection, told: Told) -> list[str]:
    """Name each end of a process that was recorded as another kind of end, or with another exit."""
    rows = {
        row[0]: row[1:]
        for row in db.execute(
            "SELECT id, pid, ended, exit_code, exit_signal, provider FROM sessions WHERE removed = 0"
        )
    }
    found = []
    for session_id, runs in told.runs.items():
        if session_id not in rows:
            continue
        events = db.execute(
            "SELECT seq, type, message, metadata FROM events WHERE session_id = ? ORDER BY seq", (session_id,)
        ).fetchall()
        for run in runs:
            found += _wrong_event(session_id, run, events, told)
        found += _wrong_exit(session_id, runs[-1], rows[session_id], told)
    return found


def _wrong_event(session_id: str, run: Run, events: Sequence[_Event], told: Told) -> list[str]:
    if run.process.exit is None or run.ended_after is None:
        return []
    ending = _recorded([event for event in events if event[0] > run.ended_after])
    if ending is None or ending in _expected(run):
        return []
    if ending == "error" and run.process.place is not None and told.servers_lost:
        return []  # the engine, which alone knows the exit, did not answer
    end = f"{run.kind} with {run.process.exit}, ended by {run.cause}"
    return [f"3: the end of session {session_id} ({end}) was recorded as {ending}"]


def _recorded(events: Sequence[_Event]) -> str | None:
    """The kind of end that the first of these events about an end names, or None if they name none, or for another
    reason."""
    for _, type, message, metadata in events:
        about = json.loads(metadata)
        if type in _ENDINGS:
            # The last usage is counted before the end is recorded. If it spends a budget, a kill is ordered.
            is_of_budget = type == "killed" and "(budget of " in message
            # Nobody may know yet that the process of a session is gone whose proposal is approved.
            return None if is_of_budget or about.get("source") == "approval" else str(type)
        if type == "warning" and about.get("kind") == "crash_loop" and not about["ended"]:
            return "error"  # a restart follows, and whatever ends the session before it does not end this process
        if type == "paused" and about.get("held") == "ended":
            return None  # the pause has ended the process, and the session goes on without one
        if type in ("reopened", "restarted", "started"):
            return None
    return None


def _expected(run: Run) -> set[str]:
    """The statuses that the end of a process may give."""
    assert run.process.exit is not None
    # The end of its parent may be seen before its own.
    ordered = {"killed", "abandoned"} if run.was_ordered else {"abandoned"}
    match run.cause:
        case Cause.DAEMON if run.process.exit.signal == signal.SIGINT:  # the C-c of an interrupt
            return ordered | {"error"}
        case Cause.DAEMON:
            return {"killed"}
        case Cause.ITSELF if run.process.exit.code == 0:
            return ordered | {"completed"} | ({"error"} if run.kind == "claude" else set())
        case _:
            return ordered | {"error"}


def _wrong_exit(
    session_id: str, run: Run, row: tuple[int | None, int, int | None, int | None, str], told: Told
) -> list[str]:
    pid, ended, code, number, _ = row
    if run.process.exit is None or not ended or pid not in (None, run.process.pid):
        return []
    known = Exit(code, number)
    is_unknown = code is None and number is None
    if known == run.process.exit or (is_unknown and told.servers_lost):
        return []
    return [f"4: the exit of session {session_id} is recorded as {known}, and was {run.process.exit}"]
