"""The store on real SQLite files."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import EffectKind
from sm.core.lifecycle import Decision, decide
from sm.core.models import OPERATOR, Caller, Checkpoint, Exit, Process, RequestKey, Session, Signal
from sm.core.states import CallerKind, EventType, Mode, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.errors import DatabaseRefused, IllegalState, InternalError, StorageFull, UsageError
from sm.store import Store, Transaction, backups
from sm.store.migrations import MIGRATIONS
from tests.load import scaled
from tests.samples import AT, LAUNCH, commit, session

GOLDEN = Path(__file__).parents[1] / "data"


async def insert(store: Store, made: Session, *, event: bool = True) -> None:
    async with store.transaction() as tx:
        await tx.insert(made, LAUNCH, "a prompt")
        if event:
            await tx.event(EventType.SPAWNED, made, AT, "it was spawned", {})


def decision(status: Status, kind: SignalKind) -> Decision:
    found = decide(status, Signal(kind, "test", "because", AT))
    assert found is not None
    return found


async def test_what_servers_of_a_session_log_in_with_is_not_stored(path: str) -> None:
    made = session("aaaa1111")
    async with await Store.open(path) as store:
        await commit(store, lambda tx: tx.insert(made, replace(LAUNCH, mcp_config="of-a-server"), None))
        assert await store.launch(made.id) == LAUNCH


async def test_everything_about_a_session_comes_back_after_a_restart(path: str) -> None:
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
        await commit(store, lambda tx: tx.checkpoint(full.id, Checkpoint(AT, "half", {"coverage": "0"})))
        await commit(store, lambda tx: tx.effect(EffectKind.START, full.id, {"a": 1}, AT))
    async with await Store.open(path) as store:
        assert store.instance == instance
        assert dict(store.sessions) == {full.id: full}
        assert await store.launch(full.id) == LAUNCH
        assert await store.checkpoints(full.id) == [Checkpoint(AT, "half", {"coverage": "0"})]
        assert [(e.seq, e.type, e.message) for e in await store.events(sessions=None)] == [
            (1, EventType.SPAWNED, "it was spawned")
        ]
        assert [(e.kind, e.session_id, e.payload) for e in await store.effects_in("pending")] == [
            ("start", full.id, {"a": 1})
        ]
        assert store.last_seq == 1


async def test_a_session_is_found_by_its_newest_token_only(path: str) -> None:
    first, second = (replace(session(s), token_hash=f"{s} 1") for s in ("aaaaaaaa", "bbbbbbbb"))
    async with await Store.open(path) as store:
        await insert(store, first)
        await insert(store, second)
        async with store.transaction() as tx:
            await tx.update(tx.session(first.id), token_hash="aaaaaaaa 2")
    async with await Store.open(path) as store:
        found = {
            text: store.session_of_token(text) for text in ("aaaaaaaa 1", "aaaaaaaa 2", "bbbbbbbb 1", "", "x")
        }
        assert {text: s.id for text, s in found.items() if s} == {
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
        assert store.session_of_token("aaaaaaaa 3") is None
        await commit(store, forget)
        assert store.session_of_token("aaaaaaaa 2") is None
        assert store.session_of_token("bbbbbbbb 1") is None


async def test_a_unit_that_fails_leaves_nothing_and_no_gap_in_seq(store: Store) -> None:
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


@pytest.mark.parametrize("company", [0, 2])
@pytest.mark.parametrize("reads", [False, True])
async def test_a_unit_that_fails_at_its_end_leaves_nothing(
    store: Store, path: str, company: int, reads: bool
) -> None:
    await insert(store, session("aaaa1111"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE sessions SET status = 'killed'")

    async def unit(tx: Transaction) -> None:
        current = tx.session("aaaa1111")
        await tx.event(EventType.NOTE, current, AT, "never seen", {})
        if reads:
            assert await tx.newest_child_at("aaaa1111") is None
        await tx.apply(current, decision(Status.SPAWNED, SignalKind.STARTED))

    others = [insert(store, session(f"{n:08x}")) for n in range(company)]
    with pytest.raises(IllegalState):
        await asyncio.gather(commit(store, unit), *others)
    await insert(store, session("bbbb2222"))
    events = await store.events(sessions=None)
    assert [(e.seq, e.type) for e in events] == [(n + 1, EventType.SPAWNED) for n in range(company + 2)]


async def test_a_unit_reads_what_it_wrote(store: Store) -> None:
    parent, child = session("aaaa1111"), session("bbbb2222", parent="aaaa1111")
    async with store.transaction() as tx:
        await tx.insert(parent, LAUNCH, None)
        await tx.insert(child, LAUNCH, None)
        await tx.event(EventType.SPAWNED, child, AT, "it was spawned", {})
        assert await tx.newest_child_at(parent.id) == AT


async def test_units_of_one_commit_see_each_other_in_order(store: Store) -> None:
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


async def test_a_move_fails_when_somebody_else_moved_first(store: Store, path: str) -> None:
    await insert(store, session("aaaa1111"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE sessions SET status = 'killed'")
    with pytest.raises(IllegalState):
        await commit(
            store, lambda tx: tx.apply(tx.session("aaaa1111"), decision(Status.SPAWNED, SignalKind.STARTED))
        )
    assert store.sessions["aaaa1111"].status is Status.SPAWNED


async def test_a_status_cannot_be_changed_by_an_update(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    with pytest.raises(InternalError):
        await commit(store, lambda tx: tx.update(tx.session("aaaa1111"), status=Status.KILLED))


async def test_an_ending_records_when_and_how_and_only_once(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    ending = Signal(
        SignalKind.REPORTED_COMPLETED, "report", "said so", "2026-01-27T16:00:00.000Z", message="done"
    )
    found = decide(Status.SPAWNED, ending)
    assert found is not None
    await commit(store, lambda tx: tx.apply(tx.session("aaaa1111"), found))
    ended = store.sessions["aaaa1111"]
    assert (ended.completed_at, ended.completion_status, ended.completion_message) == (
        "2026-01-27T16:00:00.000Z",
        "completed",
        "done",
    )


async def test_many_waiting_units_share_commits(store: Store, path: str) -> None:
    await asyncio.gather(*(insert(store, session(f"{n:08x}")) for n in range(200)))
    events = await store.events(sessions=None, limit=500)
    assert [e.seq for e in events] == list(range(1, 201))
    assert len(store.sessions) == 200


async def test_events_are_narrowed_by_session_type_and_cursor(store: Store) -> None:
    for n in range(6):
        await insert(store, session(f"{n:08x}"))
    assert [e.seq for e in await store.events(sessions=None, limit=2)] == [5, 6]
    assert [e.seq for e in await store.events(sessions=None, since=2, limit=2)] == [3, 4]
    assert [e.seq for e in await store.events(sessions=["00000001", "00000004"])] == [2, 5]
    assert await store.events(sessions=None, type="checkpoint") == []
    assert await store.events(sessions=[]) == []


async def test_waiting_ends_when_the_condition_is_committed(store: Store) -> None:
    waiting = asyncio.create_task(store.changed(lambda: "aaaa1111" in store.sessions))
    await insert(store, session("bbbb2222"))
    assert not waiting.done()
    await insert(store, session("aaaa1111"))
    async with asyncio.timeout(scaled()):
        await waiting


async def test_a_key_is_recalled_for_its_caller_only_until_it_is_forgotten(store: Store) -> None:
    key = RequestKey("k", "print")
    async with store.transaction(OPERATOR, key) as tx:
        assert tx.replayed is None
        tx.remember("aaaa1111")
    assert await replayed(store, OPERATOR, key) == "aaaa1111"
    assert await replayed(store, Caller(CallerKind.SESSION, "aaaa1111"), key) is None
    assert await replayed(store, OPERATOR, None) is None
    with pytest.raises(UsageError):
        await replayed(store, OPERATOR, RequestKey("k", "another"))
    await store.forget_keys("9999-01-28T00:00:00.000Z")
    assert await replayed(store, OPERATOR, key) is None


async def replayed(store: Store, caller: Caller, key: RequestKey | None) -> str | None:
    async with store.transaction(caller, key) as tx:
        return tx.replayed


async def test_values_of_a_newer_version_lose_no_row_and_are_not_rewritten(path: str) -> None:
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
    with sqlite3.connect(path) as other:
        other.execute(
            "UPDATE sessions SET status = 'hibernating', mode = 'dreaming', trust_level = 'cosmic',"
            " effective_mode = 'cosmic', token_hash = NULL"
        )
        other.execute("UPDATE events SET type = 'sang', metadata = 'not json'")
    async with await Store.open(path) as store:
        found = store.sessions["aaaa1111"]
        assert found.status == "hibernating"
        assert found.mode == "dreaming"
        assert found.effective_mode is TrustLevel.SANDBOXED  # never the most trusted one
        event = (await store.events(sessions=None))[0]
        assert (event.type, event.metadata) == ("sang", {})
        await commit(store, lambda tx: tx.update(tx.session("aaaa1111"), note="hello"))
    with sqlite3.connect(path) as other:
        row = other.execute("SELECT status, mode, trust_level, note FROM sessions").fetchone()
    assert row == ("hibernating", "dreaming", "cosmic", "hello")


async def test_a_full_disk_refuses_and_changes_nothing(store: Store) -> None:
    await insert(store, session("aaaa1111"))
    # SQLite's own limit stands for the disk's: the same error code comes from the same place.
    await store._writer.execute("PRAGMA max_page_count = 1")
    big = replace(session("bbbb2222"), completion_message="x" * 200_000)
    with pytest.raises(StorageFull) as caught:
        await insert(store, big)
    assert caught.value.exit_code == 6
    assert set(store.sessions) == {"aaaa1111"}
    await store._writer.execute("PRAGMA max_page_count = 1000000")
    await insert(store, session("cccc3333"))
    assert [e.seq for e in await store.events(sessions=None)] == [1, 2]


async def test_what_is_in_the_log_outlives_a_kill_though_the_log_is_longer(store: Store, path: str) -> None:
    await insert(store, session("aaaa1111"))
    assert os.path.getsize(path + "-wal") == 4 * 1024 * 1024
    copy = path + ".copy"  # as after a kill: the log was not moved into the database
    for end in ("", "-wal"):
        shutil.copyfile(path + end, copy + end)
    async with await Store.open(copy) as again:
        assert set(again.sessions) == {"aaaa1111"}


async def test_a_damaged_database_is_refused_untouched_and_the_backup_is_named(path: str) -> None:
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


async def test_a_file_that_is_no_database_is_refused_untouched(path: str) -> None:
    Path(path).write_bytes(b"this is not a database, but it may be dear to somebody\n" * 50)
    before = Path(path).read_bytes()
    with pytest.raises(DatabaseRefused, match="there is no backup of it yet"):
        await Store.open(path)
    assert Path(path).read_bytes() == before


async def test_a_database_of_a_newer_version_is_refused_untouched(path: str) -> None:
    async with await Store.open(path) as store:
        await insert(store, session("aaaa1111"))
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = Path(path).read_bytes()
    with pytest.raises(DatabaseRefused, match="it was not touched"):
        await Store.open(path)
    assert Path(path).read_bytes() == before


async def test_backups_are_kept_newest_first_and_old_ones_removed(store: Store, path: str) -> None:
    for day in range(1, 6):
        await store.backup(f"2026-01-0{day}", keep=3)
        os.utime(f"{path}.2026-01-0{day}.backup", (day, day))
    await store.backup("2026-01-09", keep=3)
    assert [Path(p).name for p in backups(path)] == [
        "sm.db.2026-01-09.backup",
        "sm.db.2026-01-05.backup",
        "sm.db.2026-01-04.backup",
    ]


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
async def test_what_was_answered_survives_a_kill_and_nothing_is_half_written(path: str) -> None:
    for least in (1, 20, 45):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        assert process.stdout is not None
        answered = -1
        for line in process.stdout:
            answered = int(line)
            if answered >= least:
                break
        assert answered >= least, "the writer has ended by itself"
        process.send_signal(signal.SIGKILL)
        answered = max([answered, *map(int, process.stdout.read().split())])
        process.wait()
        process.stdout.close()
        async with await Store.open(path) as store:
            ids = set(store.sessions)
            assert {f"{n:08x}" for n in range(answered + 1)} <= ids
            events = await store.events(sessions=None, limit=100_000)
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert {e.session_id for e in events} == ids
            assert {e.session_id for e in await store.effects_in("pending")} == ids
        for name in (path, f"{path}-wal", f"{path}-shm"):
            Path(name).unlink(missing_ok=True)


async def test_the_first_database_ever_shipped_still_opens(tmp_path: Path) -> None:
    copy = tmp_path / "sm.db"
    copy.write_bytes((GOLDEN / "v1.db").read_bytes())
    async with await Store.open(str(copy)) as store:
        assert store.instance == "8c0a5f6e-2f0e-4c0f-9a53-0d9c3a1b7e11"
        assert {s.id: s.status for s in store.sessions.values()} == {
            "aaaa1111": Status.RUNNING,
            "aaaa2222": Status.COMPLETED,
        }
        assert store.sessions["aaaa2222"].parent_id == "aaaa1111"
        assert await store.launch("aaaa1111") == LAUNCH
        assert [c.message for c in await store.checkpoints("aaaa2222")] == ["Phase 1 (3/5 tasks)"]
        assert store.last_seq == 3
