"""Calls on files in threads: those that hang take no thread from the others."""

import asyncio
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from sm.linux import file_threads
from sm.linux.file_threads import PER_MOUNT_MAX, FileThreads


class HangingMount:
    """Calls that do not return before `answer`."""

    def __init__(self) -> None:
        self._answers = threading.Event()
        self.begun = 0

    def look(self, number: int) -> int:
        self.begun += 1
        self._answers.wait(60)
        return number

    def answer(self) -> None:
        self._answers.set()


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingMount]:
    places = ["/", "/net", "/net/dead", "/net/dead beside"]
    monkeypatch.setattr(file_threads, "mount_points", lambda pid: frozenset(places))
    mount = HangingMount()
    yield mount
    mount.answer()


async def begun(mount: HangingMount, number: int) -> None:
    while mount.begun < number:  # noqa: ASYNC110 - the threads have no loop
        await asyncio.sleep(0)


async def test_calls_for_a_mount_that_does_not_answer_leave_threads_for_all_others(
    dead: HangingMount,
) -> None:
    threads = FileThreads()
    waiting = [asyncio.create_task(threads.run("/net/dead/x", dead.look, n)) for n in range(40)]
    await begun(dead, PER_MOUNT_MAX)
    for path in ("/net/deader", "/net/dead beside/x", "/", "relative"):
        assert await threads.run(path, str.upper, path) == path.upper()
    assert dead.begun == PER_MOUNT_MAX
    dead.answer()
    assert await asyncio.gather(*waiting) == list(range(40))


async def test_cancelled_call_counts_until_it_returns(dead: HangingMount) -> None:
    threads = FileThreads()
    waiting = [asyncio.create_task(threads.run("/net/dead", dead.look, n)) for n in range(PER_MOUNT_MAX)]
    await begun(dead, PER_MOUNT_MAX)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    later = asyncio.create_task(threads.run("/net/dead/x", dead.look, 7))
    assert await threads.run("/net", len, "four") == 4
    assert dead.begun == PER_MOUNT_MAX
    dead.answer()
    assert await later == 7


async def test_call_passes_on_its_error_and_its_place_is_free_again(tmp_path: Path) -> None:
    threads = FileThreads()
    for _ in range(2 * PER_MOUNT_MAX):
        with pytest.raises(FileNotFoundError):
            await threads.run(str(tmp_path), (tmp_path / "missing").stat)
    assert await threads.run(str(tmp_path), (tmp_path).is_dir)


async def test_look_at_all_mounts_leaves_out_the_ones_that_do_not_answer(dead: HangingMount) -> None:
    threads = FileThreads()
    paths = {"a": "/net/dead/a", "b": "/net/dead/b", "c": "/home/c", "d": "/d", "e": "/net/e"}

    def look(keys: Collection[str]) -> list[str]:
        if "a" in keys:
            dead.look(0)
        return sorted(keys)

    for _ in range(3):
        assert sorted(await threads.run_each(paths, look, 0.2)) == [["c", "d"], ["e"]]
    assert dead.begun == 1
    dead.answer()
    assert await threads.run("/net/dead", len, "") == 0
    while len(found := await threads.run_each(paths, look, 60)) < 3:
        pass
    assert ["a", "b"] in found
