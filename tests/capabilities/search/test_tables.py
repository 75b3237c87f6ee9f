"""Search in texts: its queries, the triggers that fill its table, and the removal of a session."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm.capabilities.search.query_words import EXCERPT_MAX, excerpt, searched_words
from sm.capabilities.search.tables import PART, fts_query
from sm.core.models import Checkpoint
from sm.core.usage import SaidText
from sm.store import Store, backups
from sm.store.migrations import MIGRATIONS
from sm.store.part import known_schemas
from tests import golden
from tests.samples import AT, LAUNCH
from tests.store.test_messages import message, request

HOSTILE = (
    '"', '""', "'", "NEAR(a b)", "a NEAR/2 b", "*", "a*b", "text:alpha", ":", "-alpha", "^alpha", "(", "alpha OR",
    "AND", "NOT alpha", "{text}: alpha", "\0", "alpha\0", "\ud800x", "ß" * 5000, " ".join(["alpha"] * 500), "\\", "a+b",
)  # fmt: skip


async def opened(path: Path) -> Store:
    return await Store.open(str(path / "sm.db"))


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_words_of_a_search_are_no_error(tmp_path: Path, words: str) -> None:
    async with await opened(tmp_path) as store:
        assert await store.part(PART).find(words, sessions=None) == []


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_excerpt_of_any_text_is_one_short_line(text: str) -> None:
    shown = excerpt(text, searched_words(text))
    assert len(shown) <= EXCERPT_MAX + 1
    assert "\n" not in shown and "\x1b" not in shown


def test_query_has_no_operator() -> None:
    assert fts_query('NEAR "alpha" mig*') == '"NEAR" """alpha""" "mig"*'
    assert fts_query(' " * : ') is None


def test_words_of_a_search_are_few_and_short() -> None:
    assert len(searched_words("alpha " * 5000)) == 20
    assert searched_words(f"- {'a' * 5000} beta*") == ["a" * 100, "beta*"]
    assert fts_query("alpha " * 5000) == " ".join(['"alpha"'] * 20)


async def test_found_text_is_a_beginning(tmp_path: Path) -> None:
    long = "alpha " + "x" * 30_000
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, long)
            said = SaidText("text 1", "", "text", f"{'y' * 20_000} beta")
            tx.part(PART).follow_said(golden.RUNNING.id, [said])
        (found,) = await store.part(PART).find("alpha", sessions=None)
        assert found.text == long[:20_000]
        assert await store.part(PART).find("beta", sessions=None) == []


async def test_texts_are_found_from_the_transaction_that_writes_them(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, "build the walrus")
        async with store.transaction() as tx:
            session = await tx.update(tx.session(golden.RUNNING.id), note="looking at a zebra")
            await tx.update(session, note="looking at a zebra")
        assert [f.type for f in await store.part(PART).find("walrus", sessions=None)] == ["prompt"]
        assert [f.type for f in await store.part(PART).find("ZEBRA", sessions=None)] == ["note"]
        assert await store.part(PART).find("zebra", sessions=["00000000"]) == []
        assert await store.part(PART).find("zebra walrus", sessions=None) == []
        assert [f.type for f in await store.part(PART).find("wal*", sessions=None, type="prompt")] == [
            "prompt"
        ]
        assert await store.part(PART).find("walrus", sessions=None, since="2999-01-01T00:00:00Z") == []


async def test_text_of_a_transcript_that_is_read_again_is_found_once(tmp_path: Path) -> None:
    said = SaidText("text 1", "2999-01-01T00:00:00Z", "text", "the parser \ud800 is an otter")
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, None)
        for _ in range(2):
            async with store.transaction() as tx:
                tx.part(PART).follow_said(golden.RUNNING.id, [said])
        (found,) = await store.part(PART).find("otter", sessions=None)
        assert found.at < said.at  # an agent writes any time


async def test_terminal_text_replaces_that_of_its_process_and_is_removed_with_the_session(
    tmp_path: Path,
) -> None:
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, "build the walrus")
        for began, word in (("first", "heron"), ("second", "heron"), ("second", "badger")):
            async with store.transaction() as tx:
                lines = [f"line {n}" for n in range(100)] + [word]
                tx.part(PART).follow_output(golden.RUNNING.id, began, lines, tx.now)
        for word in ("heron", "badger"):
            (found,) = await store.part(PART).find(word, sessions=None)
            assert found.type == "terminal"
        async with store.transaction() as tx:
            tx.part(PART).forget_outputs(golden.RUNNING.id)
        assert await store.part(PART).find("heron", sessions=None) == []
        async with store.transaction() as tx:
            tx.part(PART).follow_output(golden.RUNNING.id, "third", ["badger"], tx.now)
        async with store.transaction() as tx:
            await tx.remove(tx.session(golden.RUNNING.id))
        for word in ("badger", "walrus"):
            assert await store.part(PART).find(word, sessions=None) == []


@pytest.mark.parametrize(
    ("lines", "pieces"),
    [
        ([], []),
        (["", "   ", "\t"], []),
        (["heron 1  ", "", "heron 2"], ["heron 1\nheron 2"]),
        (["heron"] * 40 + [""] * 9, ["\n".join(["heron"] * 40)]),
        (["heron"] * 41, ["\n".join(["heron"] * 40), "heron"]),
        (["x" * 4000] * 4, [f"{'x' * 4000}\n{'x' * 4000}"] * 2),
        (["x" * 4001, "x" * 4000] * 2, ["x" * 4001, "x" * 4000] * 2),
        (["x" * 9000, "heron"], ["x" * 8000, "heron"]),
    ],
    ids=["none", "blank", "one", "40 lines", "41 lines", "8000 characters", "more", "long line"],
)
async def test_terminal_text_is_stored_in_pieces(tmp_path: Path, lines: list[str], pieces: list[str]) -> None:
    async with await opened(tmp_path) as store, store.transaction() as tx:
        await tx.insert(golden.RUNNING, LAUNCH, None)
        tx.part(PART).follow_output(golden.RUNNING.id, "process", lines, tx.now)
    with closing(sqlite3.connect(tmp_path / "sm.db")) as reader:
        found = reader.execute("SELECT text FROM search_texts WHERE type = 'terminal' ORDER BY id").fetchall()
    assert [text for (text,) in found] == pieces


async def test_terminal_texts_of_the_newest_processes_are_found(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, None)
        for number in range(10):
            async with store.transaction() as tx:
                at = f"2026-01-27T15:10:0{number}.000Z"
                tx.part(PART).follow_output(
                    golden.RUNNING.id, f"process {number}", [f"heron {number}"] * 90, at
                )
        found = await store.part(PART).find("heron", sessions=None, limit=1000)
        assert {f.text[:7] for f in found} == {f"heron {number}" for number in range(4, 10)}


async def test_words_of_a_removed_session_are_erased_from_the_files(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        for session in (golden.RUNNING, golden.PAUSED):
            async with store.transaction() as tx:
                await tx.insert(replace(session, parent_id=None), LAUNCH, None)
        for number in range(300):  # several segments of the index
            texts = [
                SaidText(f"text {number}", "", "text", f"quokkaburrow {number}"),
                SaidText(f"more {number}", "", "text", f"bandicoot {number}"),
            ]
            async with store.transaction() as tx:
                tx.part(PART).follow_said(golden.RUNNING.id, texts[:1])
                tx.part(PART).follow_said(golden.PAUSED.id, texts[1:])
        await store.log.checkpoint()
        assert any(b"quokkaburrow" in path.read_bytes() for path in tmp_path.iterdir())
        async with store.transaction() as tx:
            await tx.remove(tx.session(golden.RUNNING.id))
        await store.log.scrub()
        await store.log.merge_search_index()
        assert [path.name for path in tmp_path.iterdir() if b"quokkaburrow" in path.read_bytes()] == []
        assert len(await store.part(PART).find("bandicoot", sessions=None, limit=1000)) == 300


async def test_words_are_erased_later_when_a_reader_blocks_it(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, "build the quokkaburrow")
        with closing(sqlite3.connect(tmp_path / "sm.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
            async with store.transaction() as tx:
                await tx.remove(tx.session(golden.RUNNING.id))
            await store._writer.execute("PRAGMA busy_timeout = 0")
            await store.log.scrub()
            await store.log.merge_search_index()
            assert any(b"quokkaburrow" in path.read_bytes() for path in tmp_path.iterdir())
        await store.log.merge_search_index()
        assert [path.name for path in tmp_path.iterdir() if b"quokkaburrow" in path.read_bytes()] == []


async def test_words_are_erased_later_when_the_database_is_locked(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        async with store.transaction() as tx:
            await tx.insert(golden.RUNNING, LAUNCH, "build the quokkaburrow")
        async with store.transaction() as tx:
            await tx.remove(tx.session(golden.RUNNING.id))
        await store._writer.execute("PRAGMA busy_timeout = 0")
        with closing(sqlite3.connect(tmp_path / "sm.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.OperationalError):
                await store.log.merge_search_index()
        await store.log.merge_search_index()
        assert [path.name for path in tmp_path.iterdir() if b"quokkaburrow" in path.read_bytes()] == []


# ------------------------------------------------------------------------------------ a daemon without search


WITHOUT = [schema for schema in known_schemas() if schema is not PART.schema]
WORDS = {
    "aardvark": "prompt",
    "badger": "note",
    "caracal": "message",
    "dingo": "message",
    "echidna": "request",
    "fossa": "checkpoint",
    "gecko": "result",
}
"""A word of each source, with the type of its text."""
KILLED = """
import asyncio, os, signal, sys
from sm.store import Store, connection
path, before = sys.argv[1:]
def traced(statement):
    if statement.startswith(before):
        os.kill(os.getpid(), signal.SIGKILL)
connect = connection.connect
async def connected(path):
    db = await connect(path)
    await db.set_trace_callback(traced)
    return db
connection.connect = connected
asyncio.run(Store.open(path))
"""


async def written(store: Store) -> None:
    """Write a text of each source."""
    async with store.transaction() as tx:
        session = replace(golden.RUNNING, parent_id=None, note=None)
        await tx.insert(session, LAUNCH, "aardvark")
        session = await tx.update(session, note="badger", completion_message="gecko", completed_at=AT)
        tx.mail.add_message(message(tx.mail.new_id("messages"), session.id), "caracal")
        tx.mail.add_message(message(tx.mail.new_id("messages"), None, sender=session.id), "dingo")
        tx.mail.add_message(message(tx.mail.new_id("messages"), None, sender="operator"), "of no session")
        tx.mail.add_request(
            request(tx.mail.new_id("requests"), session.id, tool="Bash", arguments={"command": "echidna"})
        )
        await tx.checkpoint(session, Checkpoint(AT, "fossa", {}), "checkpoint")


async def found_words(store: Store) -> dict[str, str]:
    found = {word: await store.part(PART).find(word, sessions=None) for word in (*WORDS, "session")}
    return {word: text.type for word, texts in found.items() for text in texts}


def indexed(path: Path) -> int:
    with closing(sqlite3.connect(path / "sm.db")) as db:
        (number,) = db.execute("SELECT count(*) FROM search_texts").fetchone()
    return int(number)


async def test_text_of_each_source_is_found(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await written(store)
        assert await found_words(store) == WORDS


@pytest.mark.usefixtures("migrated_databases")
@pytest.mark.parametrize("new", [True, False], ids=["new database", "database with an index"])
async def test_texts_are_found_once_search_is_there_again(tmp_path: Path, new: bool) -> None:
    path = str(tmp_path / "sm.db")
    if not new:
        async with await opened(tmp_path):
            pass
    for _ in range(2):
        async with await Store.open(path, schemas=WITHOUT) as store:
            if not store.sessions:
                await written(store)
        assert indexed(tmp_path) == 0
    for _ in range(2):
        async with await opened(tmp_path) as store:
            assert await found_words(store) == WORDS
            assert indexed(tmp_path) == len(WORDS)
    assert backups(path) == ([f"{path}.v17.backup"] if new else [])


async def test_removal_erases_texts_in_a_daemon_without_search(tmp_path: Path) -> None:
    async with await opened(tmp_path) as store:
        await written(store)
    async with await Store.open(str(tmp_path / "sm.db"), schemas=WITHOUT) as store:
        async with store.transaction() as tx:
            await tx.remove(tx.session(golden.RUNNING.id))
        assert indexed(tmp_path) == 0
    async with await opened(tmp_path) as store:
        assert await found_words(store) == {}


@pytest.mark.processes
@pytest.mark.parametrize(
    "before", ["INSERT OR IGNORE", "INSERT OR REPLACE INTO schemas", "COMMIT", "CREATE TEMP"]
)
async def test_killed_daemon_that_adds_missed_texts_is_followed_by_one_that_does(
    tmp_path: Path, before: str
) -> None:
    path = str(tmp_path / "sm.db")
    async with await opened(tmp_path):
        pass
    async with await Store.open(path, schemas=WITHOUT) as store:
        await written(store)
    killed = subprocess.run([sys.executable, "-c", KILLED, path, before], check=False)
    assert killed.returncode == -signal.SIGKILL
    async with await opened(tmp_path) as store:
        assert await found_words(store) == WORDS


@pytest.mark.usefixtures("migrated_databases")
@pytest.mark.parametrize("version", MIGRATIONS)
async def test_texts_of_an_older_database_are_found_once_and_new_ones_too(
    tmp_path: Path, version: int
) -> None:
    shutil.copy(golden.DATA / f"v{version}.db", tmp_path / "sm.db")
    before = indexed(tmp_path)
    async with await opened(tmp_path) as store:
        assert indexed(tmp_path) == before > 0
        async with store.transaction() as tx:
            await tx.update(tx.session(golden.RUNNING.id), note="a wombat")
        assert [text.type for text in await store.part(PART).find("wombat", sessions=None)] == ["note"]
