"""FileWatch on real files and directories."""

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path

import pytest

from sm.linux import inotify
from tests.load import scaled


class Heard:
    """Collects events until there are as many as wanted."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str]] = []
        self._more = asyncio.Event()

    def __call__(self, mask: int, name: str) -> None:
        self.events.append((mask, name))
        self._more.set()

    async def count(self, wanted: int) -> list[tuple[int, str]]:
        async with asyncio.timeout(scaled()):
            while len(self.events) < wanted:
                self._more.clear()
                await self._more.wait()
        return self.events


async def test_file_that_grows_is_told(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.touch()
    heard = Heard()
    async with inotify.FileWatch() as watch:
        watch.add(str(file), inotify.IN_MODIFY, heard)
        with file.open("a") as out:
            out.write("line\n")
        assert await heard.count(1) == [(inotify.IN_MODIFY, "")]


async def test_directory_tells_the_names_of_files_that_were_read(tmp_path: Path) -> None:
    names = ["short", "ünï " + "x" * 200, "b" * 255]
    for name in names[::-1]:
        (tmp_path / name[:100]).touch()
    heard = Heard()
    async with inotify.FileWatch() as watch:
        watch.add(str(tmp_path), inotify.IN_CLOSE_NOWRITE, heard)
        for name in names:
            (tmp_path / name[:100]).read_bytes()
        assert await heard.count(3) == [(inotify.IN_CLOSE_NOWRITE, name[:100]) for name in names]


def watched_paths() -> int:
    """How many the kernel says that this process watches (proc(5), fdinfo)."""
    found = 0
    for name in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(FileNotFoundError):
            found += Path(f"/proc/self/fdinfo/{name}").read_text().count("inotify wd:")
    return found


async def test_removed_path_is_not_told_and_a_second_removal_is_fine(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    second.touch()
    dropped, heard = Heard(), Heard()
    async with inotify.FileWatch() as watch:
        number = watch.add(str(first), inotify.IN_MODIFY, dropped)
        watch.add(str(second), inotify.IN_MODIFY, heard)
        assert watched_paths() == 2
        watch.remove(number)
        watch.remove(number)
        assert watched_paths() == 1
        first.write_text("x")
        second.write_text("x")
        await heard.count(1)
    assert dropped.events == []
    watch.close()


async def test_last_event_of_a_deleted_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    heard = Heard()
    async with inotify.FileWatch() as watch:
        number = watch.add(str(file), inotify.IN_MODIFY, heard)
        file.unlink()
        assert await heard.count(1) == [(inotify.IN_IGNORED, "")]
        watch.remove(number)


async def test_path_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with inotify.FileWatch() as watch:
        with pytest.raises(FileNotFoundError) as caught:
            watch.add(str(tmp_path / "nothing"), inotify.IN_MODIFY, Heard())
    assert caught.value.filename == str(tmp_path / "nothing")


async def test_lost_events_are_told_to_everybody(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"the kernel queues {most} events here: too many to make")
    heard, other = Heard(), Heard()
    async with inotify.FileWatch() as watch:
        watch.add(str(first), inotify.IN_CLOSE_NOWRITE, heard)
        watch.add(str(second), inotify.IN_CLOSE_NOWRITE, other)
        names = [str(first / name) for name in "ab"]  # in turns, because equal neighbours are merged
        for name in names:
            Path(name).touch()
        for index in range(most + 1):
            os.close(os.open(names[index % 2], os.O_RDONLY))
        assert await other.count(1) == [(inotify.IN_Q_OVERFLOW, "")]
        assert (inotify.IN_Q_OVERFLOW, "") in heard.events


def test_kernel_error_is_an_oserror_with_its_number() -> None:
    ctypes.set_errno(24)
    with pytest.raises(OSError, match="Too many open files"):
        inotify._checked(-1)
