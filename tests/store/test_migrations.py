"""Databases of all versions that sm opens, those that it refuses, and the tables of capabilities."""

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.budgets.tables import PART
from sm.capabilities.files.tables import PART as FILE_PART
from sm.capabilities.reviews.tables import PART as REVIEW_PART
from sm.core.effects import EffectState
from sm.errors import DatabaseRefused
from sm.store import Schema, Store, backups
from sm.store.migrations import MIGRATIONS
from sm.store.part import known_schemas
from tests import golden

pytestmark = pytest.mark.usefixtures("migrated_databases")
DATA = Path(__file__).parents[1] / "data"

TOYS = Schema(
    "toys", ("CREATE TABLE toys (name TEXT PRIMARY KEY)", "CREATE INDEX toys_by_name ON toys (name)")
)
COLOURED = Schema(
    "toys",
    TOYS.tables,
    (
        ("ALTER TABLE toys ADD COLUMN colour TEXT", "UPDATE toys SET colour = 'red'"),
        ("DROP INDEX toys_by_name",),
    ),
)
KILLED = """
import asyncio, os, signal, sys
from sm.store.connection import connect
from sm.store.migrations import migrate
from tests.store.test_migrations import COLOURED
path, before = sys.argv[1:]
def traced(statement):
    if statement.startswith(before):
        os.kill(os.getpid(), signal.SIGKILL)
async def main():
    db = await connect(path)
    await db.set_trace_callback(traced)
    await migrate(db, path, [COLOURED])
asyncio.run(main())
"""


def described(path: str) -> list[tuple[str, ...]]:
    """The schema of a database: the kind, name, table and normalized SQL of each object."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
        names: list[tuple[str, ...]] = [("row", name) for (name,) in db.execute("SELECT name FROM meta")]
        names += [("schema", name, str(of)) for name, of in db.execute("SELECT name, version FROM schemas")]
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


# ------------------------------------------------------------------------------------ tables of capabilities


def read(path: str, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(query).fetchall()


async def opened(path: str, *schemas: Schema) -> None:
    async with await Store.open(path, schemas=schemas):
        pass


@pytest.mark.parametrize("version", [None, *MIGRATIONS])
@pytest.mark.parametrize("schema", [TOYS, COLOURED])
async def test_schema_is_created_in_a_new_and_in_an_older_database(
    path: str, version: int | None, schema: Schema
) -> None:
    if version is not None:
        shutil.copy(DATA / f"v{version}.db", path)
    await opened(path, *known_schemas(), schema)
    made = described(path)
    assert ("schema", "toys", str(schema.version)) in made
    assert ("schema", "budgets", "1") in made
    columns = [name for (name,) in read(path, "SELECT name FROM pragma_table_info('toys')")]
    assert columns == (["name"] if schema is TOYS else ["name", "colour"])
    await opened(path, *known_schemas(), schema)
    assert described(path) == made
    assert backups(path) == ([] if version is None else [f"{path}.v{version}.backup"])


async def test_schema_is_raised_after_a_backup_and_keeps_its_rows(path: str) -> None:
    await opened(path, TOYS)
    read(path, "INSERT INTO toys VALUES ('ball')")
    await opened(path, COLOURED)
    assert read(path, "SELECT * FROM toys") == [("ball", "red")]
    assert read(path, "SELECT name, version FROM schemas") == [("toys", 3)]
    assert not [entry for entry in described(path) if "toys_by_name" in entry]
    assert backups(path) == [f"{path}.v{max(MIGRATIONS)}.backup"]
    assert read(backups(path)[0], "SELECT * FROM toys") == [("ball",)]


async def test_database_without_a_schema_in_the_list_opens_and_keeps_its_tables(path: str) -> None:
    await opened(path, TOYS)
    read(path, "INSERT INTO toys VALUES ('ball')")
    made = described(path)
    await opened(path)
    assert described(path) == made
    assert read(path, "SELECT * FROM toys") == [("ball",)]
    assert backups(path) == []


async def test_open_refuses_a_newer_schema_and_changes_nothing(path: str) -> None:
    await opened(path, COLOURED)
    before = Path(path).read_bytes()
    with pytest.raises(
        DatabaseRefused, match=r"has version 3 of its toys, .* up to 1; the file was not changed"
    ):
        await opened(path, TOYS)
    assert Path(path).read_bytes() == before
    await opened(path)


@pytest.mark.processes
@pytest.mark.parametrize(
    "before",
    [
        "BEGIN IMMEDIATE",
        "CREATE TABLE schemas",
        "CREATE TABLE toys",
        "UPDATE toys",
        "INSERT OR REPLACE INTO schemas",
        "PRAGMA user_version =",
        "COMMIT",
    ],
)
@pytest.mark.parametrize("version", [0, 10, 13])
async def test_killed_migration_leaves_the_older_database_with_all_or_none_of_a_schema(
    path: str, version: int, before: str
) -> None:
    Path(path).touch()
    if version:
        shutil.copy(DATA / f"v{version}.db", path)
    killed = subprocess.run([sys.executable, "-c", KILLED, path, before], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read(path, "PRAGMA user_version") == [(version,)]
    assert read(path, "SELECT 1 FROM sqlite_schema WHERE name IN ('toys', 'schemas')") == []
    await opened(path, COLOURED)
    assert read(path, "SELECT name, version FROM schemas WHERE name = 'toys'") == [("toys", 3)]


@pytest.mark.parametrize("version", [version for version in MIGRATIONS if version < 14])
async def test_budgets_of_an_older_database_stay(path: str, version: int) -> None:
    shutil.copy(DATA / f"v{version}.db", path)
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(DATA / "v14.db")) as newer:
        (row,) = newer.execute("SELECT * FROM budgets").fetchall()
        db.execute(f"INSERT INTO budgets VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - marks
        db.commit()
    async with await Store.open(path) as store:
        assert PART.rows_of(store.mail.open) == {golden.BUDGET.id: golden.BUDGET}


@pytest.mark.parametrize(
    ("name", "backed_up"), [("v14", ["v14"]), ("v15", ["v15"]), ("v16", ["v16"]), ("v17", [])]
)
async def test_database_with_its_budgets_and_usage_still_opens(
    path: str, name: str, backed_up: list[str]
) -> None:
    shutil.copy(DATA / f"{name}.db", path)
    async with await Store.open(path) as store:
        assert PART.rows_of(store.mail.open) == {golden.BUDGET.id: golden.BUDGET}
        assert await store.usage.of([golden.RUNNING.id]) == {golden.RUNNING.id: golden.SUMS}
    assert backups(path) == [f"{path}.{version}.backup" for version in backed_up]


async def test_database_with_files_still_opens(path: str) -> None:
    shutil.copy(DATA / "v17.db", path)
    async with await Store.open(path) as store:
        assert store.part(FILE_PART).rows == {file.id: file for file in (golden.FILE, golden.UPLOAD)}
        assert store.mail.open.messages[golden.WITH_FILE.id] == golden.WITH_FILE
        assert store.mail.open.messages[golden.MESSAGE.id].own_lines == 0


async def test_database_with_reviews_still_opens(path: str) -> None:
    shutil.copy(DATA / "v16.db", path)
    async with await Store.open(path) as store:
        reads = store.part(REVIEW_PART)
        assert await reads.comments("aaaa1111", "operator") == [replace(golden.COMMENT, id=2)]
        assert await reads.comments("aaaa1111", "operator", 1) == [
            replace(golden.COMMENT, id=1, round=1, number=1)
        ]
        assert await reads.rounds("aaaa1111", "operator") == [golden.REVIEW_ROUND]


async def test_calls_to_telegram_become_effects_in_their_order_with_numbers_that_are_new(path: str) -> None:
    shutil.copy(DATA / "v14.db", path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "INSERT INTO outbox (id, kind, session_id, payload, state, created_at)"
            " VALUES (40, 'kill', 'aaaa1111', '{\"force\":true}', 'pending', '2026-01-27')"
        )
        db.execute(
            "INSERT INTO outbox SELECT 41, kind, session_id, payload, 'done', NULL, created_at FROM outbox"
        )
        db.execute("DELETE FROM outbox WHERE id = 41")
        for state in ("sending", "of a newer version", "queued"):
            db.execute(
                "INSERT INTO telegram_outgoing (chat_id, method, parameters, need, created_at, state, lost_answers)"
                " VALUES (NULL, 'answer_callback_query', '{\"text\":\"Ä \\\"x\\\"\"}', 0, '', ?, 1)",
                (state,),
            )
        db.commit()
    async with await Store.open(path) as store:
        (effect,) = store.mail.open.effects.values()
        assert (effect.id, effect.kind, effect.session_id, effect.payload) == (
            40,
            "kill",
            "aaaa1111",
            {"force": True},
        )
        assert await store.effects_in("pending") == [effect]
        first, *others = store.mail.open.outgoing.values()
        assert first == replace(golden.OUTGOING, id=42)
        assert [(call.id, call.chat_id, call.parameters, call.lost_answers) for call in others] == [
            (number, None, {"text": 'Ä "x"'}, 1) for number in (43, 44, 45)
        ]
        assert [call.state for call in others] == [EffectState.TAKEN, EffectState.TAKEN, EffectState.PENDING]
        async with store.transaction() as tx:
            await tx.telegram.queue(golden.CALL)
        assert max(store.mail.open.outgoing) == 45, "it replaces the waiting one with its subject"
        async with store.transaction() as tx:
            await tx.telegram.queue(replace(golden.CALL, subject=None))
        assert max(store.mail.open.outgoing) == 46
