"""The times at which old archives are deleted, and what is left of them."""

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.capabilities.archives import retention as retention_module
from sm.capabilities.archives.keeper import Archives
from sm.capabilities.archives.retention import ArchiveRetention
from sm.capabilities.archives.settings import ArchiveSettings
from sm.core.states import EventType
from sm.core.timestamps import epoch_s, iso
from sm.core.usage import FilePosition
from sm.store import Store
from tests import golden
from tests.archived import Archived
from tests.samples import AT, LAUNCH
from tests.state_parts import open_parts
from tests.virtual_time import VirtualTime

NOTHING = cast(Any, None)


class Observed(ArchiveRetention):
    """Records the times, in minutes, instead of deleting."""

    def __init__(self, max_mb: int | None, growth_mb: int) -> None:
        self.archives = SimpleNamespace(written_bytes=0)
        super().__init__(ArchiveSettings(max_mb=max_mb), NOTHING, NOTHING, cast(Any, self.archives))
        self.growth_mb = growth_mb
        self.minutes = list[float]()

    async def delete_surplus(self) -> None:
        self.minutes.append(asyncio.get_running_loop().time() / 60)
        self.archives.written_bytes += self.growth_mb * 1_000_000
        if len(self.minutes) == 4:
            raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("max_mb", "growth_mb", "minutes"),
    [
        (100, 0, [0, 60, 120, 180]),
        (100, 10, [0, 60, 120, 180]),
        (100, 11, [0, 1, 2, 3]),
        (None, 1_000_000, [0, 60, 120, 180]),
    ],
)
def test_archives_are_counted_every_hour_and_soon_after_a_tenth_of_their_room_was_written(
    max_mb: int | None, growth_mb: int, minutes: list[float]
) -> None:
    retention = Observed(max_mb, growth_mb)
    with asyncio.Runner(loop_factory=VirtualTime) as runner, pytest.raises(asyncio.CancelledError):
        runner.run(retention.run())
    assert retention.minutes == minutes


ENDED = replace(golden.COMPLETED, parent_id=None)


@dataclass
class Bench:
    """An ended session with an old archive, and the words of its terminal in the search index."""

    directory: Path
    store: Store
    archives: Archives
    retention: ArchiveRetention
    older: bool
    """The archive is of an earlier version."""
    at_s: float = epoch_s(AT)

    @property
    def archive(self) -> Path:
        base = Path(self.archives.path(ENDED.id))
        return base if self.older else Archived(base).path

    def make_archive(self, session_id: str = ENDED.id, **files: str) -> Path:
        """Make an archive with these transcripts."""
        base = Path(self.archives.path(session_id))
        (base / "transcripts").mkdir(parents=True, exist_ok=True)
        for stem, text in files.items():
            (base / "transcripts" / f"{stem}.jsonl").write_text(text)
        os.utime(base, (1, 1))
        if self.older:
            return base
        Archived(base).pack()
        return Archived(base).path

    async def warnings(self) -> list[str]:
        return [e.message for e in await self.store.events(sessions=[ENDED.id], type=EventType.WARNING)]

    async def files_with_words(self) -> list[str]:
        await self.store.log.merge_search_index()
        files = [path for path in self.directory.iterdir() if path.is_file()]
        return [path.name for path in files if b"quokkaburrow" in path.read_bytes()]


@pytest.fixture(params=[False, True], ids=["tar", "directory"])
async def bench(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    archives = Archives(str(tmp_path / "archives"), NOTHING)
    benches = list[Bench]()

    def now() -> str:
        return iso(benches[0].at_s) if benches else AT

    async with open_parts(tmp_path, now) as (store, parts):
        async with store.transaction() as tx:
            await tx.insert(ENDED, LAUNCH, None)
            for part in tx.parts:
                part.follow_output(ENDED.id, "process", ["quokkaburrow"], AT)
        await store.log.merge_search_index()
        retention = ArchiveRetention(ArchiveSettings(keep_days=1), store, parts.notices, archives)
        made = Bench(tmp_path, store, archives, retention, request.param)
        benches.append(made)
        made.make_archive()
        yield made


def put_conversation(bench: Bench, text: str = "one\n") -> Path:
    """Make the archive hold a conversation. Return the place of the same transcript outside of it."""
    bench.make_archive(c=text)
    return bench.directory / "c.jsonl"


async def inbox(bench: Bench) -> list[str]:
    return [n.text for n in bench.store.mail.open.notices.values() if n.recipient is None]


async def test_only_copy_of_a_conversation_is_deleted_a_day_after_its_notice(bench: Bench) -> None:
    put_conversation(bench)
    for hours, exists in ((0, True), (1, True), (23, True), (24, False)):
        bench.at_s = epoch_s(AT) + hours * 3600
        await bench.retention.delete_surplus()
        assert bench.archive.exists() is exists, hours
        assert bench.retention.status is not None
        assert bench.retention.status.held == exists
        (told,) = await inbox(bench)
        assert f"keep it with: sm export {ENDED.id} FILE" in told
    assert list(bench.archive.parent.iterdir()) == []


async def test_archive_that_was_written_again_after_its_notice_gets_another_one(bench: Bench) -> None:
    put_conversation(bench)
    await bench.retention.delete_surplus()
    os.utime(bench.archive, (2, 2))
    bench.at_s += 86_400
    await bench.retention.delete_surplus()
    assert bench.archive.exists()
    assert len(await inbox(bench)) == 2


@pytest.mark.parametrize(
    ("live", "is_deleted"),
    [("one\n", True), ("one\ntwo\n", True), ("on", False), ("two\n", False), (None, False)],
)
async def test_archive_is_deleted_at_once_when_the_transcript_has_all_of_it(
    bench: Bench, live: str | None, is_deleted: bool
) -> None:
    place = put_conversation(bench)
    if live is not None:
        place.write_text(live)
    async with bench.store.transaction() as tx:
        tx.measures.set_position(ENDED.id, str(place), FilePosition(1, 1))
    await bench.retention.delete_surplus()
    assert bench.archive.exists() is not is_deleted
    assert bool(await inbox(bench)) is not is_deleted


async def test_notice_is_not_repeated_when_the_daemon_ended_before_it_wrote_the_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_conversation(bench)

    def refused(*arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(retention_module, "announce", refused)
        await bench.retention.delete_surplus()
    await bench.retention.delete_surplus()
    assert len(await inbox(bench)) == 1
    assert bench.archive.exists()


async def test_only_copies_of_unknown_sessions_wait_for_a_day_too(bench: Bench) -> None:
    unknown = bench.make_archive("0badcafe", c="one\n")
    await bench.retention.delete_surplus()
    assert unknown.exists()
    bench.at_s += 86_400
    await bench.retention.delete_surplus()
    assert not unknown.exists()


async def test_words_of_a_deleted_archive_are_erased_from_the_files(bench: Bench) -> None:
    await bench.retention.delete_surplus()
    assert await bench.files_with_words() == []
    assert not bench.archive.exists()


async def test_archive_that_cannot_be_deleted_is_no_event_and_is_logged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*paths: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "sm.capabilities.archives.retention"):
        patch.setattr(os, "rename", refused)
        patch.setattr(os, "rmdir", refused)
        for _ in range(3):
            await bench.retention.delete_surplus()
    assert [record.getMessage() for record in caplog.records] == [
        f"kept an old archive: its archive could not be deleted from {bench.archive.parent}: Read-only file system"
    ]
    assert await bench.warnings() == []
    assert await bench.files_with_words() != []
    assert bench.archive.exists()
    await bench.retention.delete_surplus()
    assert len(await bench.warnings()) == 1
    assert await bench.files_with_words() == []
    assert not bench.archive.exists()


async def test_deletion_is_recorded_once_when_the_daemon_ended_in_the_middle(bench: Bench) -> None:
    assert await bench.archives.set_aside(ENDED.id) is None
    (entry,) = bench.archives.entries()
    await bench.retention.delete_surplus()
    assert await bench.files_with_words() == []
    assert list(bench.archive.parent.iterdir()) == []
    assert len(await bench.warnings()) == 1
    bench.make_archive()
    assert await bench.archives.set_aside(ENDED.id) is None
    assert bench.archives.entries() == [entry]
    await bench.retention.delete_surplus()
    assert len(await bench.warnings()) == 1
    assert list(bench.archive.parent.iterdir()) == []
