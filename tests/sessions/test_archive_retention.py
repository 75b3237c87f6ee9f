"""The times at which old archives are deleted, and what is left of them."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.config.model import ArchiveSettings
from sm.sessions.archive_retention import ArchiveRetention
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


async def test_words_of_a_deleted_archive_are_erased_from_the_files(tmp_path: Path) -> None:
    archives = Archives(str(tmp_path / "archives"), NOTHING)
    ended = replace(golden.COMPLETED, parent_id=None)
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        async with store.transaction() as tx:
            await tx.insert(ended, LAUNCH, None)
            tx.search.set_terminal(ended.id, "process", ["quokkaburrow"], AT)
        await store.log.merge_search_index()
        Path(archives.path(ended.id)).mkdir(parents=True)
        os.utime(archives.path(ended.id), (1, 1))
        await ArchiveRetention(ArchiveSettings(keep_days=1), store, manager, archives).delete_surplus()
        await store.log.merge_search_index()
        files = [path for path in tmp_path.iterdir() if path.is_file()]
        assert [path.name for path in files if b"quokkaburrow" in path.read_bytes()] == []
        assert not Path(archives.path(ended.id)).exists()
