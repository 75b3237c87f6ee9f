"""Restarts in the database: of the current version, and such as this version cannot read."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sm.core.next_process import Restarts
from sm.store import Store
from tests import golden
from tests.golden import DATA


async def test_database_of_version_10_has_its_restarts(tmp_path: Path) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(str(path)) as store:
        assert store.sessions[golden.PAUSED.id].restarts == golden.PAUSED.restarts
        assert store.sessions[golden.RUNNING.id].restarts is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Restarts()),
        ("[]", Restarts()),
        ('{"max": 2, "weather": "bad"}', Restarts(2)),
        ('{"times": "soon"}', Restarts()),
        ('{"times": null, "row": 1}', Restarts(row=1)),
    ],
)
async def test_restarts_that_cannot_be_read_leave_the_policy(
    tmp_path: Path, text: str, expected: Restarts
) -> None:
    path = tmp_path / "sm.db"
    shutil.copy(DATA / "v10.db", path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET restarts = ? WHERE id = ?", (text, golden.PAUSED.id))
    async with await Store.open(str(path)) as store:
        assert store.sessions[golden.PAUSED.id].restarts == expected
