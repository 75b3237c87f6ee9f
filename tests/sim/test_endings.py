"""The check of endings knows which record is that of the end of a process."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from sm.core.models import Exit
from tests.sim.endings import wrong_endings
from tests.sim.processes import PlayedProcess
from tests.sim.told import Cause, Run, Told

ID = "1a2b3c4d"
CRASH = ("warning", {"kind": "crash_loop", "ended": False})
KILLED = ("killed", {"source": "kill"})
PAUSE = ("paused", {"held": "ended"})
Record = tuple[str, dict[str, object]]


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, session_id, type, message, metadata)")
        db.execute(
            "CREATE TABLE sessions (id, pid, ended, exit_code, exit_signal, provider, removed DEFAULT 0)"
        )
        db.execute("INSERT INTO sessions (id, ended) VALUES (?, 0)", (ID,))
        yield db


@pytest.mark.parametrize(
    ("exit", "cause", "records", "is_wrong"),
    [
        (Exit(None, 9), Cause.FAULT, [KILLED], True),
        (Exit(None, 9), Cause.FAULT, [CRASH, KILLED], False),
        (Exit(143, None), Cause.DAEMON, [CRASH], True),
        (Exit(143, None), Cause.DAEMON, [("abandoned", {"source": "parent"})], True),
        (Exit(143, None), Cause.DAEMON, [PAUSE, ("abandoned", {"source": "parent"})], False),
        (Exit(None, 9), Cause.FAULT, [("completed", {"source": "mcp"})], True),
        (Exit(None, 9), Cause.FAULT, [("completed", {"source": "approval"})], False),
    ],
)
def test_first_record_after_the_end_of_a_process_must_be_that_of_its_end(
    db: sqlite3.Connection, exit: Exit, cause: Cause, records: list[Record], is_wrong: bool
) -> None:
    for type, metadata in records:
        event = (ID, type, "", json.dumps(metadata))
        db.execute("INSERT INTO events (session_id, type, message, metadata) VALUES (?, ?, ?, ?)", event)
    process = PlayedProcess(5, 1, ("agent",), {}, "/", 1, exit=exit)
    told = Told(runs={ID: [Run(process, "command", ended_after=0, cause=cause)]})
    assert bool(wrong_endings(db, told)) is is_wrong
