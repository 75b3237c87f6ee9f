"""The contract of file events on the played queues of tests/sim, and their faults."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.linux import inotify
from tests.linux import test_inotify
from tests.linux.test_inotify import Events
from tests.sim.file_events import PlayedNotices

pytestmark = pytest.mark.simulation
globals().update({n: test for n, test in vars(test_inotify).items() if n.startswith("test_")})


@pytest.fixture(autouse=True)
def notices() -> Iterator[PlayedNotices]:
    notices = PlayedNotices()
    with inotify.replaced_notices(notices):
        yield notices


async def test_events_that_are_lost_never_arrive(notices: PlayedNotices, tmp_path: Path) -> None:
    events = Events()
    async with inotify.FileWatch() as watch:
        watch.add(str(tmp_path), inotify.IN_CLOSE_NOWRITE, events)
        (tmp_path / "file").touch()
        notices.are_lost = True
        (tmp_path / "file").read_bytes()
        await asyncio.sleep(100)
        assert events.events == []
        notices.are_lost = False
        (tmp_path / "file").read_bytes()
        assert await events.wait_for(1) == [(inotify.IN_CLOSE_NOWRITE, "file")]


async def test_events_that_are_late_arrive_in_their_order(notices: PlayedNotices, tmp_path: Path) -> None:
    events = Events()
    for name in ("first", "second"):
        (tmp_path / name).touch()
    notices.delay_s = 5
    async with inotify.FileWatch() as watch:
        watch.add(str(tmp_path), inotify.IN_CLOSE_NOWRITE, events)
        for name in ("first", "second"):
            (tmp_path / name).read_bytes()
            await asyncio.sleep(1)
        assert events.events == []
        await asyncio.sleep(5)
        assert [name for _, name in events.events] == ["first", "second"]


async def test_overflow_is_reported_in_place_of_events(notices: PlayedNotices, tmp_path: Path) -> None:
    events, others = Events(), Events()
    (tmp_path / "other").mkdir()
    (tmp_path / "file").touch()
    async with inotify.FileWatch() as watch:
        watch.add(str(tmp_path), inotify.IN_CLOSE_NOWRITE, events)
        watch.add(str(tmp_path / "other"), inotify.IN_CLOSE_NOWRITE, others)
        notices.overflows = True
        (tmp_path / "file").read_bytes()
        assert await others.wait_for(1) == events.events == [(inotify.IN_Q_OVERFLOW, "")]


async def test_queue_that_is_used_again_has_no_events_of_its_earlier_watches(
    notices: PlayedNotices, tmp_path: Path
) -> None:
    queue = notices.open()
    notices.add(queue, str(tmp_path), inotify.IN_CHANGES)
    (tmp_path / "unread").touch()
    notices.close(queue)
    queue = notices.open()
    (tmp_path / "later").touch()
    await asyncio.sleep(1)
    with pytest.raises(BlockingIOError):
        notices.read(queue)
    notices.close(queue)
