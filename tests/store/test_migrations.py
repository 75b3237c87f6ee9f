"""Databases of all versions that sm opens, and those that it refuses."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sm.errors import DatabaseRefused
from sm.store import Store
from sm.store.migrations import MIGRATIONS

pytestmark = pytest.mark.usefixtures("migrated_databases")
DATA = Path(__file__).parents[1] / "data"


def described(path: str) -> list[tuple[str, ...]]:
    """The schema of a database: the kind, name, table and normalized SQL of each object."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
        names = [("row", name) for (name,) in db.execute("SELECT name FROM meta")]
    return sorted([*names, *((*of, re.sub(r"\s*([(),\s])\s*", r"\1", sql).strip()) for *of, sql in found)])


@pytest.mark.parametrize("version", MIGRATIONS)
async def test_database_of_each_version_gets_the_schema_of_a_new_one(tmp_path: Path, version: int) -> None:
    older, new = str(tmp_path / "older.db"), str(tmp_path / "new.db")
    shutil.copy(DATA / f"v{version}.db", older)
    for path in (older, new):
        async with await Store.open(path):
            pass
    assert described(older) == described(new)


@pytest.mark.parametrize("version", [1, min(MIGRATIONS) - 1])
async def test_open_refuses_an_older_database_unchanged_and_names_the_script(path: str, version: int) -> None:
    shutil.copy(DATA / "v1.db", path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = Path(path).read_bytes()
    with pytest.raises(
        DatabaseRefused, match=f"has version {version}, .*; the file was not changed"
    ) as refused:
        await Store.open(path)
    assert refused.value.hint == f"in a clone of sm: scripts/upgrade-database {path}"
    assert Path(path).read_bytes() == before
