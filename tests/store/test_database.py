"""The store on real SQLite files."""

import asyncio
import gzip
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import EffectKind
from sm.core.lifecycle import Decision, decide
from sm.core.models import OPERATOR, Caller, Checkpoint, Exit, Process, RequestKey, Session, Signal
from sm.core.states import CallerKind, EventType, Mode, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.errors import DatabaseRefused, IllegalState, InternalError, StorageFull, UsageError
from sm.store import Store, Transaction, backups, connection
from sm.store.backup import count_sessions
from sm.store.migrations import MIGRATIONS
from tests.samples import AT, LAUNCH, commit, session
from tests.sim.replacing import replaced
from tests.sim.template import inspect_or_copy

pytestmark = pytest.mark.usefixtures("migrated_databases")
_MB = 1024 * 1024


async def insert(store: Store, inserted: Session, *, event: bool = True) -> None:
    async with store.transaction() as tx:
        await tx.insert(inserted, LAUNCH, "a prompt")
        if event:
            await tx.event(EventType.SPAWNED, inserted, AT, "it was spawned", {})


def decision(status: Status, kind: SignalKind) -> Decision:
    move = decide(status, Signal(kind, "test", "because", AT))
    assert move is not None
    return move


async def test_log_is_emptied_above_64_mb_unless_a_reader_blocks_that(path: str) -> None:
    async def write(store: Store, megabytes: int) -> None:
        for number in range(megabytes):
            async with store.transaction() as tx:
                tx.write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"large {number % 8}", "x" * _MB))

    async with await Store.open(path) as store:
        await write(store, 60)
        assert os.path.getsize(path + "-wal") > 60 * _MB
        await write(store, 20)
        assert os.path.getsize(path + "-wal") < 64 * _MB
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM meta").fetchone()
            await store._writer.execute_fetchall("PRAGMA busy_timeout = 1")
            await write(store, 80)
            assert os.path.getsize(path + "-wal") > 64 * _MB
        await write(store, 64)
        assert os.path.getsize(path + "-wal") < 64 * _MB


async def test_store_writes_on_when_the_emptied_log_cannot_be_opened(path: str) -> None:
    async with await Store.open(path) as store:
        store.log._bytes_max = 0
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with open(path, "rb") as file:
            first_free = file.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, before[1]))
        try:
            await insert(store, session("aaaa1111"))
            await insert(store, session("aaaa2222"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert [*store.sessions] == ["aaaa1111", "aaaa2222"]


async def test_copied_database_of_tests_is_as_a_migrated_one(tmp_path: Path) -> None:
    made = []
    for name, inspected in (("migrated.db", connection.inspect), ("copied.db", inspect_or_copy)):
        with replaced((connection, "inspect", inspected)):
            async with await Store.open(str(tmp_path / name)):
                pass
        with closing(sqlite3.connect(tmp_path / name)) as db:
            pragmas = [db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "journal_mode")]
            made.append((pragmas, [line for line in db.iterdump() if '"meta"' not in line]))
    assert made[0] == made[1]


async def test_insert_does_not_store_credentials_of_mcp_servers(path: str) -> None:
    made = session("aaaa1111")
    async with await Store.open(path) as store:
        await commit(store, lambda tx: tx.insert(made, replace(LAUNCH, mcp_config="of-a-server"), None))
        assert await store.launch(made.id) == LAUNCH


async def test_store_restores_every_session_field_after_reopening(path: str) -> None:
    full = replace(
        session("aaaa1111", parent="bbbb2222"),
        status=Status.COMPLETED,
        friendly_name="engineer-x",
        title="A title",
        model="opus",
        workspace="team",
        process=Process(17, "boot/42"),
        exit=Exit(0, None),
        started_at=AT,
        completed_at=AT,
        completion_status="completed",
        completion_message="dône",
        note="thinking",
        archived=True,
        runs=2,
        token_hash="ab" * 32,
        mode=Mode.SUPERVISED,
        effective_mode=TrustLevel.SANDBOXED,
    )
    async with await Store.open(path) as store:
        instance = store.instance
        await insert(store, full)
        checkpoint = Checkpoint(AT, "half", {"coverage": "0"})
        await commit(store, lambda tx: tx.checkpoint(full, checkpoint, "it is half done"))
        await commit(store, lambda tx: tx.effect(EffectKind.START, full.id, {"a": 1}, AT))
    async with await Store.open(path) as store:
        assert store.instance == instance
        assert dict(store.sessions) == {full.id: full}
        assert await store.launch(full.id) == LAUNCH
        assert await store.checkpoints(full.id, 50) == [checkpoint]
        assert [(e.seq, e.type, e.message, e.metadata) for e in await store.events(sessions=None)] == [
            (1, EventType.SPAWNED, "it was spawned", {}),
            (2, EventType.CHECKPOINT, "it is half done", checkpoint.metadata),
        ]
        assert [(e.kind, e.session_id, e.payload) for e in await store.effects_in("pending")] == [
            ("start", full.id, {"a": 1})
        ]
        assert store.last_seq == 2


async def test_checkpoint_metadata_is_stored_once(path: str) -> None:
    known = session("aaaaaaaa")
    async with await Store.open(path) as store:
        await insert(store, known)
        async with store.transaction() as tx:
            for number in range(3):
                checkpoint = Checkpoint(AT, f"step {number}", {"k": f"metadata {number}"})
                await tx.checkpoint(known, checkpoint, "a step")
        newest = await store.checkpoints(known.id, 2)
        assert [(c.message, c.metadata["k"]) for c in newest] == [
            ("step 1", "metadata 1"),
            ("step 2", "metadata 2"),
        ]
    with closing(sqlite3.connect(path)) as other, other:
        assert "\n".join(other.iterdump()).count("metadata 1") == 1


async def test_session_is_found_by_its_newest_token_only(path: str) -> None:
    first, second = (replace(session(s), token_hash=f"{s} 1") for s in ("aaaaaaaa", "bbbbbbbb"))
    async with await Store.open(path) as store:
        await insert(store, first)
        await insert(store, second)
        async with store.transaction() as tx:
            await tx.update(tx.session(first.id), token_hash="aaaaaaaa 2")
    async with await Store.open(path) as store:
        sessions = {
            text: store.memory.session_of_token(text)
            for text in ("aaaaaaaa 1", "aaaaaaaa 2", "bbbbbbbb 1", "", "x")
        }
        assert {text: s.id for text, s in sessions.items() if s} == {
            "aaaaaaaa 2": first.id,
            "bbbbbbbb 1": second.id,
        }

        async def fail(tx: Transaction) -> None:
            await tx.update(tx.session(first.id), token_hash="aaaaaaaa 3")
            raise IllegalState("no")

        async def forget(tx: Transaction) -> None:
            await tx.update(tx.session(second.id), token_hash=None)
            await tx.remove(tx.session(first.id))

        with pytest.raises(IllegalState):
            await commit(store, fail)
        assert store.memory.session_of_token("aaaaaaaa 3") is None
        await commit(store, forget)
        assert store.memory.session_of_token("aaaaaaaa 2") is None
        assert store.memory.session_of_token("bbbbbbbb 1") is None


async def test_failed_transaction_leaves_no_rows_and_no_gap_in_event_numbers(store: Store) -> None:
    async def broken(tx: Transaction) -> None:
        made = session("aaaa1111")
        await tx.insert(made, LAUNCH, None)
        await tx.event(EventType.SPAWNED, made, AT, "never seen", {})
        await tx.effect(EffectKind.START, made.id, {}, AT)
        raise IllegalState("no")

    outcomes = await asyncio.gather(
        insert(store, session("bbbb2222")),
        commit(store, broken),
        insert(store, session("cccc3333")),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes] == [type(None), IllegalState, type(None)]
    assert set(store.sessions) == {"bbbb2222", "cccc3333"}
    assert [e.seq for e in await store.events(sessions=None)] == [1, 2]
    assert store.effects.empty()


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("reads", [False, True])
async def test_transaction_that_fails_on_commit_leaves_no_rows(
    store: Store, path: str, others: int, reads: bool
) -> None:
    await insert(store, session("aaaa1111"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE sessions SET status = 'killed'")

    async def unit(tx: Transaction) -> None:
        current = tx.session("aaaa1111")
        await tx.event(EventType.NOTE, current, AT, "never seen", {})
        if reads:
            assert await tx.newest_child_at("aaaa1111") is None
        await tx.apply(current, decision(Status.SPAWNED, SignalKind.STARTED))

    inserts = [insert(store, session(f"{n:08x}")) for n in range(others)]
    with pytest.raises(IllegalState):
        await asyncio.gather(commit(store, unit), *inserts)
    await insert(store, session("bbbb2222"))
    events = await store.events(sessions=None)
    assert [(e.seq, e.type) for e in events] == [(n + 1, EventType.SPAWNED) for n in range(others + 2)]


async def test_transaction_reads_its_own_writes(store: Store) -> None:
    parent, child = session("aaaa1111"), session("bbbb2222", parent="aaaa1111")
    async with store.transaction() as tx:
        await tx.insert(parent, LAUNCH, None)
        await tx.insert(child, LAUNCH, None)
        await tx.event(EventType.SPAWNED, child, AT, "it was spawned", {})
        assert await tx.newest_child_at(parent.id) == AT


async def test_transactions_of_one_commit_see_earlier_changes_in_order(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    seen: list[Status] = []

    async def move(kind: SignalKind) -> None:
        async with store.transaction() as tx:
            current = tx.session("aaaa1111")
            seen.append(current.status)
            await tx.apply(current, decision(current.status, kind))

    await asyncio.gather(move(SignalKind.LAUNCHING), move(SignalKind.STARTED), move(SignalKind.CRASHED))
    assert seen == [Status.SPAWNED, Status.STARTING, Status.RUNNING]
    assert store.sessions["aaaa1111"].status is Status.ERROR


async def test_status_change_fails_when_row_was_changed_by_another_process(store: Store, path: str) -> None:
    await insert(store, session("aaaa1111"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE sessions SET status = 'killed'")
    with pytest.raises(IllegalState):
        await commit(
            store, lambda tx: tx.apply(tx.session("aaaa1111"), decision(Status.SPAWNED, SignalKind.STARTED))
        )
    assert store.sessions["aaaa1111"].status is Status.SPAWNED


async def test_update_refuses_a_status_change(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    with pytest.raises(InternalError):
        await commit(store, lambda tx: tx.update(tx.session("aaaa1111"), status=Status.KILLED))


async def test_ending_records_time_status_and_message(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    ending = Signal(
        SignalKind.REPORTED_COMPLETED, "report", "said so", "2026-01-27T16:00:00.000Z", message="done"
    )
    move = decide(Status.SPAWNED, ending)
    assert move is not None
    await commit(store, lambda tx: tx.apply(tx.session("aaaa1111"), move))
    ended = store.sessions["aaaa1111"]
    assert (ended.completed_at, ended.completion_status, ended.completion_message) == (
        "2026-01-27T16:00:00.000Z",
        "completed",
        "done",
    )


async def test_many_concurrent_transactions_are_all_committed(store: Store, path: str) -> None:
    await asyncio.gather(*(insert(store, session(f"{n:08x}")) for n in range(200)))
    events = await store.events(sessions=None, limit=500)
    assert [e.seq for e in events] == list(range(1, 201))
    assert len(store.sessions) == 200


async def test_events_are_filtered_by_session_type_and_cursor(store: Store) -> None:
    for n in range(6):
        await insert(store, session(f"{n:08x}"))
    assert [e.seq for e in await store.events(sessions=None, limit=2)] == [5, 6]
    assert [e.seq for e in await store.events(sessions=None, since=2, limit=2)] == [3, 4]
    assert [e.seq for e in await store.events(sessions=["00000001", "00000004"])] == [2, 5]
    assert await store.events(sessions=None, type="checkpoint") == []
    assert await store.events(sessions=[]) == []


async def test_events_since_a_time_leave_out_earlier_ones_that_were_recorded_late(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    async with store.transaction() as tx:
        for second in (0, 30, 10, 50):
            at = f"2026-01-28T10:00:{second:02}.000Z"
            await tx.event(EventType.NOTE, tx.session("aaaa1111"), at, f"at {second}", {})

    async def since(at: str, limit: int = 50) -> list[str]:
        return [e.message for e in await store.events(sessions=None, since_time=at, limit=limit)]

    assert await since("2026-01-28T10:00:20.000Z") == ["at 30", "at 50"]
    assert await since("2026-01-28T10:00:05.000Z", limit=2) == ["at 30", "at 10"]
    assert await since("2026-01-28T10:00:51.000Z") == []


async def test_changed_returns_when_the_condition_is_committed(store: Store) -> None:
    waiting = asyncio.create_task(store.wait_until(lambda: "aaaa1111" in store.sessions))
    await insert(store, session("bbbb2222"))
    assert not waiting.done()
    await insert(store, session("aaaa1111"))
    await waiting


async def test_idempotency_key_is_replayed_for_its_caller_until_it_expires(store: Store) -> None:
    key = RequestKey("k", "print")
    async with store.transaction(OPERATOR, key) as tx:
        assert tx.replayed is None
        tx.remember("aaaa1111")
    assert await replayed(store, OPERATOR, key) == "aaaa1111"
    assert await replayed(store, Caller(CallerKind.SESSION, "aaaa1111"), key) is None
    assert await replayed(store, OPERATOR, None) is None
    with pytest.raises(UsageError):
        await replayed(store, OPERATOR, RequestKey("k", "another"))
    await store.prune("9999-01-28T00:00:00.000Z")
    assert await replayed(store, OPERATOR, key) is None


async def replayed(store: Store, caller: Caller, key: RequestKey | None) -> str | None:
    async with store.transaction(caller, key) as tx:
        return tx.replayed


async def test_unknown_values_of_a_newer_version_are_loaded_and_kept(path: str) -> None:
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(
            "UPDATE sessions SET status = 'hibernating', mode = 'dreaming', trust_level = 'cosmic',"
            " effective_mode = 'cosmic', token_hash = NULL"
        )
        other.execute("UPDATE events SET type = 'sang', metadata = 'not json'")
    async with await Store.open(path) as store:
        loaded = store.sessions["aaaa1111"]
        assert (loaded.status, loaded.mode) == ("hibernating", "dreaming")
        assert loaded.effective_mode is TrustLevel.SANDBOXED  # never the most trusted level
        event = (await store.events(sessions=None))[0]
        assert (event.type, event.metadata) == ("sang", {})
        await commit(store, lambda tx: tx.update(tx.session("aaaa1111"), note="hello"))
    with closing(sqlite3.connect(path)) as other, other:
        row = other.execute("SELECT status, mode, trust_level, note FROM sessions").fetchone()
    assert row == ("hibernating", "dreaming", "cosmic", "hello")


async def test_insert_raises_storage_full_and_changes_nothing_when_disk_is_full(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    # SQLite's page limit simulates a full disk: the same error code comes from the same place.
    await store._writer.execute("PRAGMA max_page_count = 1")
    big = replace(session("bbbb2222"), completion_message="x" * 200_000)
    with pytest.raises(StorageFull) as caught:
        await insert(store, big)
    assert caught.value.exit_code == 6
    assert set(store.sessions) == {"aaaa1111"}
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    await insert(store, session("cccc3333"))
    assert [e.seq for e in await store.events(sessions=None)] == [1, 2]


async def test_trouble_names_a_full_disk_until_a_write_succeeds(store: Store) -> None:
    assert store.trouble() is None
    pages = await store._writer.execute_fetchall("PRAGMA page_count")
    await store._writer.execute(f"PRAGMA max_page_count = {next(iter(pages))[0]}")
    with pytest.raises(StorageFull):
        await insert(store, replace(session("aaaa1111"), title="x" * 100_000))
    assert "the disk is full" in str(store.trouble())
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    await store.prune(AT)  # changes nothing
    assert store.trouble() is not None
    await insert(store, session("aaaa1111"))
    assert store.trouble() is None


async def test_write_ahead_log_is_recovered_after_a_kill(store: Store, path: str) -> None:
    await insert(store, session("aaaa1111"))
    assert os.path.getsize(path + "-wal") == 4 * 1024 * 1024
    copy = path + ".copy"  # as after a kill: the log was not copied into the database
    for end in ("", "-wal"):
        shutil.copyfile(path + end, copy + end)
    async with await Store.open(copy) as again:
        assert set(again.sessions) == {"aaaa1111"}


async def test_open_refuses_damaged_database_unchanged_and_names_the_backup(path: str) -> None:
    async with await Store.open(path) as store:
        for n in range(50):
            await insert(store, session(f"{n:08x}"))
        await store.backup("2026-01-27", keep=3)
    data = bytearray(Path(path).read_bytes())
    data[8192 : 8192 + 2000] = os.urandom(2000)
    Path(path).write_bytes(data)
    with pytest.raises(DatabaseRefused) as caught:
        await Store.open(path)
    assert f"{path}.2026-01-27.backup" in caught.value.message
    assert caught.value.exit_code == 7
    assert Path(path).read_bytes() == bytes(data)
    restored = await Store.open(f"{path}.2026-01-27.backup")
    async with restored:
        assert len(restored.sessions) == 50


async def test_open_refuses_file_that_is_not_a_database_unchanged(path: str) -> None:
    Path(path).write_bytes(b"this is not a database, but it may be dear to somebody\n" * 50)
    before = Path(path).read_bytes()
    with pytest.raises(DatabaseRefused, match="no backup exists"):
        await Store.open(path)
    assert Path(path).read_bytes() == before


async def test_open_refuses_database_of_a_newer_version_unchanged(path: str) -> None:
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f"PRAGMA user_version = {max(MIGRATIONS) + 1}")
    before = Path(path).read_bytes()
    with pytest.raises(DatabaseRefused, match="the file was not changed"):
        await Store.open(path)
    assert Path(path).read_bytes() == before


async def test_backups_are_listed_newest_first_and_old_backups_are_removed(store: Store, path: str) -> None:
    for day in range(1, 6):
        await store.backup(f"2026-01-0{day}", keep=3)
        os.utime(f"{path}.2026-01-0{day}.backup", (day, day))
    await store.backup("2026-01-09", keep=3)
    assert [Path(p).name for p in backups(path)] == [
        "sm.db.2026-01-09.backup",
        "sm.db.2026-01-05.backup.gz",
        "sm.db.2026-01-04.backup.gz",
    ]


async def test_backups_but_the_newest_are_compressed_without_a_change(store: Store, path: str) -> None:
    await insert(store, session("aaaa1111"))
    await store.backup("2026-01-01", keep=7)
    first = Path(f"{path}.2026-01-01.backup")
    content, at_ns = first.read_bytes(), first.stat().st_mtime_ns
    Path(f"{first}.gz.new").write_bytes(b"left by a crash")
    await store.backup("2026-01-02", keep=7)
    packed = Path(f"{first}.gz")
    assert gzip.decompress(packed.read_bytes()) == content
    assert (packed.stat().st_mtime_ns, stat.S_IMODE(packed.stat().st_mode)) == (at_ns, 0o600)
    assert packed.stat().st_size < len(content)
    assert not first.exists()
    assert not list(first.parent.glob("*.new"))
    assert backups(path) == [f"{path}.2026-01-02.backup", str(packed)]
    assert count_sessions(str(packed)) == 1


async def test_backup_is_complete_when_an_older_one_cannot_be_compressed(store: Store, path: str) -> None:
    await store.backup("2026-01-01", keep=7)
    os.mkdir(f"{path}.2026-01-01.backup.gz")  # in the way
    await store.backup("2026-01-02", keep=7)
    assert count_sessions(f"{path}.2026-01-01.backup") == 0
    assert count_sessions(f"{path}.2026-01-02.backup") == 0


@pytest.mark.parametrize("damage", [b"", b"no gzip", None])
async def test_damaged_compressed_backup_is_not_counted(
    store: Store, path: str, tmp_path: Path, damage: bytes | None
) -> None:
    await store.backup("2026-01-01", keep=7)
    await store.backup("2026-01-02", keep=7)
    packed = Path(f"{path}.2026-01-01.backup.gz")
    packed.write_bytes(packed.read_bytes()[:-50] if damage is None else damage)
    assert count_sessions(str(packed)) is None
    assert not list(tmp_path.glob("*.tmp"))


async def test_backup_is_neither_replaced_nor_removed_for_one_with_fewer_sessions(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
        await store.backup("2026-01-01", keep=2)
    for name in (path, path + "-wal"):
        Path(name).unlink(missing_ok=True)
    async with await Store.open(path) as store:
        for day in range(1, 5):
            await store.backup(f"2026-01-0{day}", keep=2)
            os.utime(f"{path}.2026-01-0{day}.backup", (day, day))
        assert sorted(Path(p).name for p in backups(path)) == [
            "sm.db.2026-01-01.backup.gz",
            "sm.db.2026-01-03.backup.gz",
            "sm.db.2026-01-04.backup",
        ]
        assert not list(tmp_path.glob("*.new"))
        await insert(store, session("bbbb2222"))
        await store.backup("2026-01-05", keep=2)
    assert len(backups(path)) == 2
    async with await Store.open(f"{path}.2026-01-05.backup") as copy:
        assert set(copy.sessions) == {"bbbb2222"}


async def test_backup_is_neither_replaced_nor_removed_for_one_with_fewer_events(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.db")
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
        async with store.transaction() as tx:
            for number in range(3):
                await tx.event(EventType.NOTE, tx.session("aaaa1111"), tx.now, f"note {number}", {})
        await store.backup("2026-01-01", keep=1)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM events")
        db.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
    async with await Store.open(path) as store:
        await store.backup("2026-01-01", keep=1)
        await store.backup("2026-01-02", keep=1)
    assert [Path(p).name for p in backups(path)] == ["sm.db.2026-01-02.backup", "sm.db.2026-01-01.backup.gz"]
    async with await Store.open(path) as store:
        assert await store.events(sessions=["aaaa1111"]) == []


async def test_backup_fails_and_leaves_no_files_when_the_database_was_removed(
    store: Store, path: str, tmp_path: Path
) -> None:
    os.unlink(path)
    with pytest.raises(InternalError, match="unable to open"):
        await store.backup("2026-01-27", keep=3)
    assert [p.name for p in tmp_path.iterdir() if p.name in ("sm.db", "sm.db.2026-01-27.backup")] == []


WRITER = """
import asyncio, sys
from dataclasses import replace
from sm.core.effects import EffectKind
from sm.core.states import EventType
from sm.store import Store
from tests.samples import AT, LAUNCH, session

async def main():
    async with await Store.open(sys.argv[1]) as store:
        for n in range(100000):
            made = session(f"{n:08x}")
            async with store.transaction() as tx:
                await tx.insert(made, LAUNCH, None)
                await tx.event(EventType.SPAWNED, made, AT, "spawned", {})
                await tx.effect(EffectKind.START, made.id, {}, AT)
            print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.processes
async def test_confirmed_transactions_survive_a_kill_of_the_writer(path: str) -> None:
    for minimum in (1, 20, 45):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        assert process.stdout is not None
        confirmed = -1
        for line in process.stdout:
            confirmed = int(line)
            if confirmed >= minimum:
                break
        assert confirmed >= minimum, "the writer ended early"
        process.send_signal(signal.SIGKILL)
        confirmed = max([confirmed, *map(int, process.stdout.read().split())])
        process.wait()
        process.stdout.close()
        async with await Store.open(path) as store:
            ids = set(store.sessions)
            assert {f"{n:08x}" for n in range(confirmed + 1)} <= ids
            events = await store.events(sessions=None, limit=100_000)
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert {e.session_id for e in events} == ids
            assert {e.session_id for e in await store.effects_in("pending")} == ids
        for name in (path, f"{path}-wal", f"{path}-shm"):
            Path(name).unlink(missing_ok=True)
