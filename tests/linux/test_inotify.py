"""FileWatch on real files and directories."""

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path

import pytest

from sm.linux import inotify


class Events:
    """A listener that collects events."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str]] = []
        self._more = asyncio.Event()

    def __call__(self, mask: int, name: str) -> None:
        self.events.append((mask, name))
        self._more.set()

    async def wait_for(self, count: int) -> list[tuple[int, str]]:
        while len(self.events) < count:
            self._more.clear()
            await self._more.wait()
        return self.events


async def test_file_watch_reports_a_file_that_grows(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.touch()
    events = Events()
    async with inotify.FileWatch() as watch:
        watch.add(str(file), inotify.IN_MODIFY, events)
        with file.open("a") as out:
            out.write("line\n")
        assert await events.wait_for(1) == [(inotify.IN_MODIFY, "")]


async def test_file_watch_reports_the_names_of_files_read_in_a_directory(tmp_path: Path) -> None:
    names = ["short", "ünï " + "x" * 200, "b" * 255]
    for name in names[::-1]:
        (tmp_path / name[:100]).touch()
    events = Events()
    async with inotify.FileWatch() as watch:
        watch.add(str(tmp_path), inotify.IN_CLOSE_NOWRITE, events)
        for name in names:
            (tmp_path / name[:100]).read_bytes()
        assert await events.wait_for(3) == [(inotify.IN_CLOSE_NOWRITE, name[:100]) for name in names]


def watched_paths() -> int:
    """The number of paths that this process watches, from proc(5) fdinfo."""
    found = 0
    for name in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(FileNotFoundError):
            found += Path(f"/proc/self/fdinfo/{name}").read_text().count("inotify wd:")
    return found


async def test_removed_watch_reports_nothing_and_can_be_removed_twice(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    second.touch()
    dropped, events = Events(), Events()
    async with inotify.FileWatch() as watch:
        number = watch.add(str(first), inotify.IN_MODIFY, dropped)
        watch.add(str(second), inotify.IN_MODIFY, events)
        assert watched_paths() == 2
        watch.remove(number)
        watch.remove(number)
        assert watched_paths() == 1
        first.write_text("x")
        second.write_text("x")
        await events.wait_for(1)
    assert dropped.events == []
    watch.close()


async def test_file_watch_reports_the_deletion_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    events = Events()
    async with inotify.FileWatch() as watch:
        number = watch.add(str(file), inotify.IN_MODIFY, events)
        file.unlink()
        assert await events.wait_for(1) == [(inotify.IN_IGNORED, "")]
        watch.remove(number)


async def test_add_raises_not_found_with_the_path_when_it_is_missing(tmp_path: Path) -> None:
    async with inotify.FileWatch() as watch:
        with pytest.raises(FileNotFoundError) as caught:
            watch.add(str(tmp_path / "nothing"), inotify.IN_MODIFY, Events())
    assert caught.value.filename == str(tmp_path / "nothing")


async def test_queue_overflow_is_reported_to_every_watch(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"the kernel queues {most} events here: too many to make")
    events, other = Events(), Events()
    async with inotify.FileWatch() as watch:
        watch.add(str(first), inotify.IN_CLOSE_NOWRITE, events)
        watch.add(str(second), inotify.IN_CLOSE_NOWRITE, other)
        # Two files in turns, because the kernel merges equal consecutive events.
        names = [str(first / name) for name in "ab"]
        for name in names:
            Path(name).touch()
        for index in range(most + 1):
            os.close(os.open(names[index % 2], os.O_RDONLY))
        assert await other.wait_for(1) == [(inotify.IN_Q_OVERFLOW, "")]
        assert (inotify.IN_Q_OVERFLOW, "") in events.events


def test_kernel_error_becomes_an_oserror_with_its_number() -> None:
    ctypes.set_errno(24)
    with pytest.raises(OSError, match="Too many open files"):
        inotify._checked(-1)
