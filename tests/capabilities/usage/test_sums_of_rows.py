"""The sums of usage are those of the rows: whatever is counted, after a crash, and in older databases."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from sm.core.usage import UNREAD, Usage
from sm.store import Store
from tests import golden
from tests.samples import LAUNCH, commit, session

SESSIONS = [session(f"aaaa000{number}") for number in range(3)]
MODELS = ("opus", "haiku", f"opus{UNREAD}", UNREAD)
TIMES = ("", "yesterday", "2026-01-31", *(f"2026-01-31T10:{minute:02}:00.000Z" for minute in range(0, 60, 7)))
KINDS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_OF_KINDS = ", ".join(f"sum({kind})" for kind in KINDS)
ADD = f"""INSERT INTO usage VALUES ({", ".join("?" * 10)}) ON CONFLICT (session_id, message_id) DO UPDATE SET
    model = excluded.model, at = excluded.at, {", ".join(f"{kind} = excluded.{kind}" for kind in KINDS)}"""  # noqa: S608
"""Another writer, such as an older sm."""
OF_ROWS = f"""SELECT session_id,
    iif(at = '', '', substr(at, 1, 14) || printf('%02d', (CAST(substr(at, 15, 2) AS INTEGER) / 15) * 15)) AS slot,
    model, sidechain, count(*), {_OF_KINDS} FROM usage GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""  # noqa: S608
SUMS = f"""SELECT session_id, at, model, sidechain, messages, {", ".join(KINDS)} FROM usage_sums
    WHERE session_id NOT IN (SELECT session_id FROM removed_sums) ORDER BY 1, 2, 3, 4"""  # noqa: S608
KILLED = """
import asyncio, os, random, signal, sys
from sm.store import Store
from tests.capabilities.usage.test_sums_of_rows import SESSIONS, used
path, seed, statements = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def traced(statement):
    global statements
    statements -= 1
    if statements < 0:
        os.kill(os.getpid(), signal.SIGKILL)
async def main():
    chance = random.Random(seed)
    async with await Store.open(path) as store:
        await store._writer.set_trace_callback(traced)
        while True:
            async with store.transaction() as tx:
                tx.usage.add(chance.choice(SESSIONS).id, [used(chance) for _ in range(5)])
asyncio.run(main())
"""
UPGRADED = """
import asyncio, os, signal, sys
from sm.capabilities.usage.tables import PART
from sm.store.connection import connect
from sm.store.migrations import migrate
path, before = sys.argv[1:]
def traced(statement):
    if statement.startswith(before):
        os.kill(os.getpid(), signal.SIGKILL)
async def main():
    db = await connect(path)
    await db.set_trace_callback(traced)
    await migrate(db, path, [PART.schema])
asyncio.run(main())
"""


def read(path: str, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(query).fetchall()


def used(chance: random.Random) -> Usage:
    """One of a few messages, with other tokens each time: also of another model and at another time."""
    model, sidechain = chance.choice(MODELS), chance.random() < 0.3
    most = 0 if model.endswith(UNREAD) else 9
    a, b, c, d, e = (chance.randint(0, most) for _ in KINDS)
    return Usage(f"m{chance.randint(0, 9)}", model, chance.choice(TIMES), a, b, c, d, e, sidechain=sidechain)


async def insert_sessions(store: Store) -> None:
    async with store.transaction() as tx:
        for one in SESSIONS:
            await tx.insert(one, LAUNCH, None)


@pytest.mark.parametrize("seed", range(10))
async def test_sums_are_those_of_the_rows_after_any_sequence(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        await insert_sessions(store)
        live, kept = list(SESSIONS), dict[str, list[Usage]]()
        for step in range(60):
            subject = chance.choice(live)
            if step in (20, 40):
                kept |= await store.usage.of([subject.id])
                await commit(store, lambda tx: tx.remove(subject))  # noqa: B023 - awaited
                live.remove(subject)
            elif step % 7 == 3:
                with closing(sqlite3.connect(path)) as db, db:
                    db.execute(ADD, (subject.id, *astuple(used(chance))))
            else:
                messages = [used(chance) for _ in range(chance.randint(1, 8))]
                for _ in range(chance.randint(1, 2)):
                    async with store.transaction() as tx:
                        tx.usage.add(subject.id, messages)
            assert read(path, SUMS) == read(path, OF_ROWS)
            assert await store.usage.of(kept) == kept
        whole = {(id, u.model): u for id, u in await store.usage.since("")}
        assert sum(u.context for u in whole.values()) == sum(
            u.context for sums in (await store.usage.of(s.id for s in SESSIONS)).values() for u in sums
        )


@pytest.mark.parametrize(
    "since", ["2026-01-31T10:00:00.000Z", "2026-01-31T10:20:00.000Z", "2026-01-31T10:45:00.001Z"]
)
@pytest.mark.parametrize("seed", range(3))
async def test_sums_since_a_time_are_those_of_the_rows_since_then(
    tmp_path: Path, seed: int, since: str
) -> None:
    chance, path = random.Random(seed), str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        await insert_sessions(store)
        async with store.transaction() as tx:
            for one in SESSIONS:
                tx.usage.add(one.id, [used(chance) for _ in range(30)])
        found = {(id, u.model): (u.input, u.output, u.cache_read) for id, u in await store.usage.since(since)}
        wanted = f"""SELECT session_id, model, sum(input), sum(output), sum(cache_read) FROM usage
            WHERE at >= '{since}' GROUP BY 1, 2"""  # noqa: S608 - a constant
        assert found == {(id, model): tuple(sums) for id, model, *sums in read(path, wanted)}


async def test_transcript_that_is_read_again_changes_no_row(tmp_path: Path) -> None:
    chance, path = random.Random(1), str(tmp_path / "sm.db")
    messages = [used(chance) for _ in range(30)]
    async with await Store.open(path) as store:
        await insert_sessions(store)
        for again in (False, True, True):
            before = store._writer.total_changes
            async with store.transaction() as tx:
                tx.usage.add(SESSIONS[0].id, {one.message_id: one for one in messages}.values())
            assert (store._writer.total_changes == before) == again
            assert read(path, SUMS) == read(path, OF_ROWS)


@pytest.mark.processes
@pytest.mark.parametrize("statements", [3, 17, 40, 41, 42, 43, 44, 45])
async def test_sums_are_those_of_the_rows_after_a_crash(tmp_path: Path, statements: int) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        await insert_sessions(store)
    killed = subprocess.run([sys.executable, "-c", KILLED, path, "1", str(statements)], check=False)
    assert killed.returncode == -signal.SIGKILL
    async with await Store.open(path) as store:
        assert read(path, SUMS) == read(path, OF_ROWS)
        async with store.transaction() as tx:
            tx.usage.add(SESSIONS[0].id, [used(random.Random(2)) for _ in range(9)])
        assert read(path, SUMS) == read(path, OF_ROWS)
    assert read(path, OF_ROWS)


# ------------------------------------------------------------------------------------------ older databases


@pytest.fixture
def older(tmp_path: Path) -> str:
    """A database of version 14 with messages of two sessions, and with the sums of a removed one."""
    path = str(tmp_path / "older.db")
    shutil.copy(golden.DATA / "v14.db", path)
    read(path, "UPDATE sessions SET removed = 1 WHERE id = 'aaaa3333'")
    read(path, "INSERT INTO removed_sums VALUES ('aaaa3333', '')")
    read(path, "INSERT INTO removed_usage VALUES ('aaaa3333', '2026-01-31T10:15', 'opus', 0, 1, 2, 3, 4, 5)")
    return path


async def test_older_database_gets_the_sums_of_its_rows_and_of_removed_sessions(older: str) -> None:
    async with await Store.open(older) as store:
        assert await store.usage.of([golden.RUNNING.id, "aaaa3333"]) == {
            golden.RUNNING.id: golden.SUMS,
            "aaaa3333": [Usage("", "opus", "", 1, 2, 3, 4, 5)],
        }
    assert read(older, SUMS) == read(older, OF_ROWS)
    assert len(read(older, OF_ROWS)) == 3


async def test_database_with_rows_and_sums_of_a_removed_session_has_the_total_of_both(older: str) -> None:
    read(
        older,
        f"""INSERT INTO removed_usage (session_id, at, model, sidechain, {", ".join(KINDS)})
        SELECT session_id, '2026-01-27T15:00', model, sidechain, 1, 1, 1, 1, 1 FROM usage
        WHERE session_id = '{golden.RUNNING.id}' LIMIT 1""",  # noqa: S608 - a constant
    )
    async with await Store.open(older) as store:
        sums = (await store.usage.of([golden.RUNNING.id]))[golden.RUNNING.id]
    assert sum(one.input for one in sums) == sum(one.input for one in golden.SUMS) + 1


async def test_sums_stay_when_an_older_sm_removes_a_session(older: str) -> None:
    async with await Store.open(older) as store:
        before = await store.usage.of([golden.RUNNING.id])
    read(
        older,
        f"""INSERT INTO removed_usage (session_id, at, model, sidechain, {", ".join(KINDS)})
        SELECT session_id, '2026-01-31T10:15', model, sidechain, {_OF_KINDS} FROM usage
        WHERE session_id = '{golden.RUNNING.id}' GROUP BY 1, 2, 3, 4""",  # noqa: S608 - constants
    )
    read(older, f"DELETE FROM usage WHERE session_id = '{golden.RUNNING.id}'")  # noqa: S608 - a constant
    async with await Store.open(older) as store:
        assert await store.usage.of([golden.RUNNING.id]) == before


@pytest.mark.processes
@pytest.mark.parametrize(
    "before", ["CREATE TABLE usage_sums", "INSERT INTO usage_sums", "CREATE TRIGGER", "COMMIT"]
)
async def test_killed_upgrade_leaves_the_older_database(older: str, before: str) -> None:
    rows = read(older, "SELECT * FROM removed_usage")
    killed = subprocess.run([sys.executable, "-c", UPGRADED, older, before], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read(older, "SELECT * FROM removed_usage") == rows
    assert read(older, "SELECT name FROM sqlite_schema WHERE name LIKE 'usage_%'") == []
    async with await Store.open(older):
        assert read(older, SUMS) == read(older, OF_ROWS)
        assert os.path.exists(f"{older}.v14.backup")
