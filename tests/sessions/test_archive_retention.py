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

from sm.config.model import ArchiveSettings
from sm.core.states import EventType
from sm.sessions.archive_retention import ArchiveRetention
from sm.store import Store
from sm.terminals.archives import Archives
from tests import golden
from tests.samples import AT, LAUNCH
from tests.session_manager import open_manager
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

    @property
    def archive(self) -> Path:
        return Path(self.archives.path(ENDED.id))

    def make_archive(self) -> None:
        self.archive.mkdir(parents=True)
        os.utime(self.archive, (1, 1))

    async def warnings(self) -> list[str]:
        return [e.message for e in await self.store.events(sessions=[ENDED.id], type=EventType.WARNING)]

    async def files_with_words(self) -> list[str]:
        await self.store.log.merge_search_index()
        files = [path for path in self.directory.iterdir() if path.is_file()]
        return [path.name for path in files if b"quokkaburrow" in path.read_bytes()]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    archives = Archives(str(tmp_path / "archives"), NOTHING)
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        async with store.transaction() as tx:
            await tx.insert(ENDED, LAUNCH, None)
            tx.search.set_terminal(ENDED.id, "process", ["quokkaburrow"], AT)
        await store.log.merge_search_index()
        retention = ArchiveRetention(ArchiveSettings(keep_days=1), store, manager, archives)
        made = Bench(tmp_path, store, archives, retention)
        made.make_archive()
        yield made


async def test_words_of_a_deleted_archive_are_erased_from_the_files(bench: Bench) -> None:
    await bench.retention.delete_surplus()
    assert await bench.files_with_words() == []
    assert not bench.archive.exists()


async def test_archive_that_cannot_be_deleted_is_no_event_and_is_logged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*paths: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch, caplog.at_level(logging.INFO, "sm.sessions.archive_retention"):
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
