"""The times at which old archives are deleted."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.config.model import ArchiveSettings
from sm.sessions.archive_retention import ArchiveRetention
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
