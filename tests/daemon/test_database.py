"""A lost database is refused; a new one is begun and a backup is restored on request."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sm.core.effects import EffectKind, EffectState
from sm.core.messages import Message
from sm.core.states import MessageMode, MessageState
from sm.core.telegram_model import BotMethod, NewCall
from sm.daemon.database import open_database, restore_backup
from sm.daemon.lock import instance_lock
from sm.errors import DatabaseRefused, IllegalState, NotFound
from sm.paths import InstancePaths
from sm.store import Store, backups
from sm.store.migrations import MIGRATIONS
from tests.samples import AT, LAUNCH, session

Lose = Callable[[Path], None]


def empty(database: Path) -> None:
    os.truncate(database, 0)


def without_tables(database: Path) -> None:
    """As after a crash in the first start."""
    database.unlink()
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA journal_mode = WAL")


LOSSES = [empty, os.unlink, without_tables]


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    state = tmp_path / "state"
    (state / "launch").mkdir(parents=True)
    return InstancePaths(f"{tmp_path}/config.yaml", str(state))


async def add_session(store: Store, session_id: str) -> None:
    async with store.transaction() as tx:
        await tx.insert(session(session_id), LAUNCH, None)


async def write(paths: InstancePaths, *session_ids: str, backup: str | None = None) -> None:
    async with await open_database(paths, new=False) as store:
        for session_id in session_ids:
            await add_session(store, session_id)
        if backup is not None:
            await store.backup(backup, keep=7)


async def sessions(paths: InstancePaths) -> list[str]:
    async with await open_database(paths, new=False) as store:
        return sorted(store.sessions)


async def test_open_database_makes_a_database_when_nothing_existed_before(paths: InstancePaths) -> None:
    assert await sessions(paths) == []


@pytest.mark.parametrize("lose", LOSSES)
async def test_open_database_refuses_a_lost_database_beside_a_backup(
    paths: InstancePaths, lose: Lose
) -> None:
    await write(paths, "aaaa1111", backup="2026-01-27")
    lose(Path(paths.database))
    files = (Path(paths.database), Path(f"{paths.database}.2026-01-27.backup"))
    before = [file.read_bytes() if file.exists() else None for file in files]
    with pytest.raises(DatabaseRefused, match="but a backup of it exists; nothing was changed") as refused:
        await open_database(paths, new=False)
    assert f"the newest backup is {paths.database}.2026-01-27.backup" in refused.value.message
    assert [file.read_bytes() if file.exists() else None for file in files] == before


@pytest.mark.parametrize("lose", LOSSES)
async def test_open_database_refuses_a_lost_database_beside_a_launch_token(
    paths: InstancePaths, lose: Lose
) -> None:
    await write(paths, "aaaa1111")
    lose(Path(paths.database))
    Path(paths.token_file("aaaa1111")).touch()
    with pytest.raises(DatabaseRefused, match=r"has the tokens of its sessions.*no backup exists"):
        await open_database(paths, new=False)


async def test_open_database_opens_an_empty_instance_beside_a_token_of_an_interrupted_spawn(
    paths: InstancePaths,
) -> None:
    await write(paths)
    Path(paths.token_file("aaaa1111")).touch()
    assert await sessions(paths) == []


async def test_new_database_keeps_the_lost_files_and_their_backups_in_a_directory(
    paths: InstancePaths,
) -> None:
    await write(paths, "aaaa1111", backup="2026-01-27")
    empty(Path(paths.database))
    async with await open_database(paths, new=True) as store:
        assert list(store.sessions) == []
        await store.backup("2026-01-27", keep=7)
    (kept,) = Path(paths.state).glob("sm.db.*.replaced")
    assert sorted(os.listdir(kept)) == ["sm.db", "sm.db.2026-01-27.backup"]
    with closing(sqlite3.connect(kept / "sm.db.2026-01-27.backup")) as db:
        assert db.execute("SELECT id FROM sessions").fetchall() == [("aaaa1111",)]
    assert await sessions(paths) == []


async def test_new_database_replaces_a_damaged_one_and_refuses_to_replace_an_intact_one_or_another_version(
    paths: InstancePaths,
) -> None:
    await write(paths, "aaaa1111")
    with pytest.raises(IllegalState, match="is intact"):
        await open_database(paths, new=True)
    for version in (99, 9):
        with closing(sqlite3.connect(paths.database)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(DatabaseRefused, match=f"has version {version}"):
            await open_database(paths, new=True)
    with closing(sqlite3.connect(paths.database)) as db:
        db.execute(f"PRAGMA user_version = {max(MIGRATIONS)}")
        db.execute("UPDATE schemas SET version = 99 WHERE name = 'budgets'")
        db.commit()
    with pytest.raises(DatabaseRefused, match="has version 99 of its budgets"):
        await open_database(paths, new=True)
    Path(paths.database).write_bytes(b"no database" * 1000)
    async with await open_database(paths, new=True) as store:
        assert list(store.sessions) == []


async def test_restore_backup_brings_back_the_newest_backup_with_sessions(paths: InstancePaths) -> None:
    await write(paths, "aaaa1111", backup="2026-01-26")
    await write(paths, "bbbb2222", backup="2026-01-27")
    packed = f"{paths.database}.2026-01-26.backup.gz"
    for file, at_s in ((packed, 100), (f"{paths.database}.2026-01-27.backup", 200)):
        os.utime(file, (at_s, at_s))
    with closing(sqlite3.connect(f"{paths.database}.2026-01-28.backup")) as db:
        # Made by a version that took an empty file for a new instance.
        db.execute("CREATE TABLE sessions (id TEXT)")
    Path(f"{paths.database}.2026-01-29.backup").write_bytes(b"damaged" * 1000)
    empty(Path(paths.database))
    Path(paths.database + "-wal").write_bytes(b"the log of the lost database")
    restored = restore_backup(paths, None)
    assert (restored.backup, restored.sessions) == (f"{paths.database}.2026-01-27.backup", 2)
    assert restored.replaced is not None
    assert sorted(os.listdir(restored.replaced)) == ["sm.db", "sm.db-wal"]
    assert await sessions(paths) == ["aaaa1111", "bbbb2222"]
    assert restore_backup(paths, packed).sessions == 1
    assert await sessions(paths) == ["aaaa1111"]
    assert len(backups(paths.database)) == 4


async def test_restore_backup_refuses_a_damaged_backup_and_a_running_daemon(paths: InstancePaths) -> None:
    with pytest.raises(NotFound, match="has no readable backup"):
        restore_backup(paths, None)
    await write(paths, "aaaa1111", backup="2026-01-27")
    damaged = Path(f"{paths.database}.2026-01-28.backup")
    damaged.write_bytes(b"damaged" * 1000)
    with pytest.raises(DatabaseRefused, match="is not an intact database"):
        restore_backup(paths, str(damaged))
    with instance_lock(paths), pytest.raises(IllegalState, match="uses the database"):
        restore_backup(paths, None)
    assert await sessions(paths) == ["aaaa1111"]


async def test_restored_database_repeats_no_message_and_no_effect_with_an_unknown_outcome(
    paths: InstancePaths,
) -> None:
    async with await open_database(paths, new=False) as store:
        await add_session(store, "aaaa1111")
        async with store.transaction() as tx:
            for number, recipient in enumerate(("aaaa1111", None), 1):
                queued = Message(number, recipient, "operator", MessageMode.AUTO, MessageState.QUEUED, AT, AT)
                tx.mail.add_message(queued, "a text")
            for kind in (EffectKind.TYPE, EffectKind.KILL, EffectKind.WEBHOOK):
                await tx.effect(kind, "aaaa1111", {}, AT)
            for text in ("hello", "whose answer was lost once"):
                await tx.telegram.queue(NewCall(1001, BotMethod.SEND_MESSAGE, {"text": text}))
            tx.telegram.again(list(tx.open.outgoing.values())[-1], lost_answers=1)
        await store.backup("2026-01-27", keep=7)
    restore_backup(paths, None)
    async with await open_database(paths, new=False) as store:
        # The bot sends both with the mark "(again)". It would drop a taken call whose answer was lost before.
        assert [(call.state, call.lost_answers) for call in store.mail.open.outgoing.values()] == [
            (EffectState.TAKEN, 0),
            (EffectState.PENDING, 1),
        ]
        states = {m.session_id: m.state for m in store.mail.open.messages.values()}
        assert states == {"aaaa1111": MessageState.DELIVERING, None: MessageState.QUEUED}
        assert [e.kind for e in await store.effects_in("pending")] == [EffectKind.KILL]
        assert [e.kind for e in await store.effects_in("taken")] == [EffectKind.TYPE, EffectKind.WEBHOOK]
