"""Pauses in the database: of the shipped version, and from a newer one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from sm.store import Store
from tests import golden
from tests.golden import DATA


async def test_database_of_version_10_has_its_pauses(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(str(path)) as store:
        assert store.sessions[golden.PAUSED.id] == golden.PAUSED
        assert store.sessions[golden.RUNNING.id].paused is None


async def test_pause_that_cannot_be_read_stays_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    for text in ("", "[]", '{"by": "operator", "weather": "bad"}'):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE sessions SET paused = ? WHERE id = ?", (text, golden.PAUSED.id))
        async with await Store.open(str(path)) as store:
            assert store.sessions[golden.PAUSED.id].paused is not None
