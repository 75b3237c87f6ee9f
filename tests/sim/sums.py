"""Checks that the counted usage is that of the transcripts, and that the sums are those of the rows."""

import sqlite3
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from tests.sim.told import Told

_KINDS = ("input", "output", "cache_read", "cache_write")
_SUMS = ", ".join(f"sum({kind})" for kind in _KINDS)


def wrong_sums(db: sqlite3.Connection, told: Told, report: Mapping[str, Any]) -> list[str]:
    return [*_usage(db, told), *_sums(db), *_report(db, report), *_budgets(db)]


def _usage(db: sqlite3.Connection, told: Told) -> list[str]:
    """Each message of a model in the transcript of a session is counted once, with its last usage."""
    counted: dict[str, dict[str, tuple[int, ...]]] = {}
    for session_id, message_id, *used in db.execute(
        f"SELECT session_id, message_id, {', '.join(_KINDS)} FROM usage"  # noqa: S608 - constant names
    ):
        counted.setdefault(session_id, {})[message_id] = tuple(used)
    removed = {row[0] for row in db.execute("SELECT id FROM sessions WHERE removed = 1")}
    found = []
    for session_id, files in told.journal.files.items():
        if session_id in removed:
            continue
        written = {message: used for each in files for message, used in each.usage.items()}
        have = counted.get(session_id, {})
        wrong = sorted(m for m in {*written, *have} if written.get(m) != have.get(m))
        if wrong:
            first = f"{wrong[0]}: {have.get(wrong[0])} of {written.get(wrong[0])}"
            found.append(f"4: {len(wrong)} messages of session {session_id} are counted wrongly, {first}")
    return found


def _sums(db: sqlite3.Connection) -> list[str]:
    """The sums of each session that is not removed are those of its rows."""
    of_rows, sums = (
        db.execute(
            f"SELECT session_id, model, sidechain, {_SUMS} FROM {table}"  # noqa: S608 - constant names
            " WHERE session_id NOT IN (SELECT id FROM sessions WHERE removed = 1) GROUP BY 1, 2, 3"
        ).fetchall()
        for table in ("usage", "usage_sums")
    )
    return [f"4: the rows sum up to {a}, the sums are {b}" for a, b in zip_longest(of_rows, sums) if a != b]


def _report(db: sqlite3.Connection, report: Mapping[str, Any]) -> list[str]:
    sums = db.execute(f"SELECT {_SUMS} FROM usage_sums").fetchone()  # noqa: S608 - constant names
    wanted = {kind: value or 0 for kind, value in zip(_KINDS, sums, strict=True)}
    tokens = report["total"]["tokens"] or dict.fromkeys(_KINDS, 0)
    shown = {kind: tokens[kind] for kind in _KINDS}
    return [] if shown == wanted else [f"4: the report shows {shown}, and the rows sum up to {wanted}"]


def _budgets(db: sqlite3.Connection) -> list[str]:
    """A budget has spent at least the tokens of its own session since it was set, and no budget less than nothing."""
    return [
        f"4: budget {id} has spent {tokens} tokens"
        for id, tokens in db.execute("SELECT id, spent_tokens FROM budgets WHERE spent_tokens < 0")
    ]
