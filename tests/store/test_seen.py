"""The stored time at which the operator has seen an ended session."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sm.store import Store
from tests import golden
from tests.samples import AT

DATA = Path(__file__).parents[1] / "data"


async def test_database_of_version_12_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v12.db", path)
    async with await Store.open(str(path)) as store:
        assert store.sessions[golden.SEEN.id] == golden.SEEN
        assert store.sessions[golden.COMPLETED.id] == golden.COMPLETED


@pytest.mark.parametrize(
    ("change", "seen_at", "told"),
    [
        ("status = 'completed', ended = 1", AT, False),
        ("status = 'completed', ended = 0", None, False),
        ("status = 'error'", None, False),
        ("status = 'error', archived = 1", AT, False),
        ("status = 'killed'", AT, False),
    ],
)
async def test_migration_shows_only_failures_and_running_agents_of_an_older_database(
    tmp_path: Path, change: str, seen_at: str | None, told: bool
) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v11.db", path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"UPDATE sessions SET {change} WHERE id = 'aaaa5555'")  # noqa: S608 - constants above
        db.commit()
    async with await Store.open(str(path)) as store:
        session = store.sessions["aaaa5555"]
        assert (session.seen_at, session.told_operator) == (seen_at, told)


async def test_migration_finds_the_ends_that_only_the_operator_was_told_of(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v11.db", path)
    with closing(sqlite3.connect(path)) as db:
        for session_id, recipient in (("aaaa5555", None), ("aaaa4444", "aaaa1111")):
            db.execute(
                "INSERT INTO notices (session_id, recipient, kind, occasion, text, created_at, state)"
                " VALUES (?, ?, 'ending', 'ending:1', 'it ended', ?, 'sent')",
                (session_id, recipient, AT),
            )
        db.commit()
    async with await Store.open(str(path)) as store:
        told = {session.id for session in store.sessions.values() if session.told_operator}
        assert told == {"aaaa5555"}
