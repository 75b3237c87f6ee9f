"""Tests of the task that runs due timers, on a real database."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sm.capabilities.completion.model import CompletionTimer
from sm.core.timers import Timer
from sm.core.timestamps import iso
from sm.daemon.due_timers import DueTimers, TimerHandler
from sm.errors import StorageFull
from sm.store import Store

HOUR_S = 3600.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        yield opened


def timer(subject: str, in_s: float, *, within_s: float | None = None) -> Timer:
    return Timer(subject, CompletionTimer.COMPLETION, iso(time.time() + in_s), within_s)


async def set_timer(store: Store, *timers: Timer) -> None:
    async with store.transaction() as tx:
        for one in timers:
            tx.timers.set(one)


class Recorded:
    """A handler that takes its timer and notes the subject."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.subjects: list[str] = []

    async def __call__(self, due: Timer) -> float | None:
        async with self._store.transaction() as tx:
            if tx.timers.take(due):
                self.subjects.append(due.subject)
        return None


@asynccontextmanager
async def running(
    store: Store, handler: TimerHandler, wall: Callable[[], float] = time.time
) -> AsyncIterator[None]:
    task = asyncio.create_task(DueTimers(store, {CompletionTimer.COMPLETION: handler}, wall).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_due_timers_run_once_and_in_their_order(store: Store) -> None:
    handler = Recorded(store)
    await set_timer(store, timer("second", 0.1), timer("first", -HOUR_S))
    async with running(store, handler):
        await store.wait_until(lambda: not store.mail.open.timers)
    assert handler.subjects == ["first", "second"]


async def test_timers_that_are_due_together_run_in_their_order(store: Store) -> None:
    handler = Recorded(store)
    await set_timer(store, *(timer(f"timer {s}", -s) for s in (1, 3, 2)))
    async with running(store, handler):
        await store.wait_until(lambda: not store.mail.open.timers)
    assert handler.subjects == ["timer 3", "timer 2", "timer 1"]


async def test_timer_that_is_set_later_runs_too(store: Store) -> None:
    handler = Recorded(store)
    async with running(store, handler):
        await set_timer(store, timer("far", HOUR_S))
        await set_timer(store, timer("near", 0.05))
        await store.wait_until(lambda: len(store.mail.open.timers) == 1)
    assert handler.subjects == ["near"]


async def test_removed_timer_does_not_run(store: Store) -> None:
    handler = Recorded(store)
    removed, other = timer("removed", 0.1), timer("other", 0.2)
    async with running(store, handler):
        await set_timer(store, removed, other)
        async with store.transaction() as tx:
            tx.timers.remove("removed")
        await store.wait_until(lambda: not store.mail.open.timers)
    assert handler.subjects == ["other"]


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
async def test_step_of_the_clock_does_not_change_a_wait(store: Store, step_s: float) -> None:
    handler, stepped_s, reads = Recorded(store), 0.0, 0
    seen = asyncio.Event()

    def wall() -> float:
        nonlocal reads
        reads += 1
        if reads == 2:
            seen.set()
        return time.time() + stepped_s

    short, long = timer("short", 0.1, within_s=0.1), timer("long", 60, within_s=60)
    await set_timer(store, short, long)
    async with running(store, handler, wall):
        await seen.wait()  # the task has seen both timers
        stepped_s = step_s
        await store.wait_until(lambda: short.key not in store.mail.open.timers)
    assert handler.subjects == ["short"]


async def test_handler_is_called_again_after_the_seconds_it_returned(store: Store) -> None:
    answers: list[float | None] = [0.01, 0.01]
    recorded = Recorded(store)

    async def handler(due: Timer) -> float | None:
        return answers.pop() if answers else await recorded(due)

    await set_timer(store, timer("held", -1))
    async with running(store, handler):
        await store.wait_until(lambda: not store.mail.open.timers)
    assert (answers, recorded.subjects) == ([], ["held"])


@pytest.mark.parametrize("error", [StorageFull("the disk is full"), RuntimeError("a defect")])
async def test_failed_handler_does_not_stop_the_other_timers(store: Store, error: Exception) -> None:
    recorded = Recorded(store)

    async def handler(due: Timer) -> float | None:
        if due.subject == "failing":
            raise error
        return await recorded(due)

    await set_timer(store, timer("failing", -2), timer("other", -1))
    async with running(store, handler):
        await store.wait_until(lambda: len(store.mail.open.timers) == 1)
    assert recorded.subjects == ["other"]


async def test_timer_of_a_newer_version_stays(store: Store) -> None:
    unknown = Timer("aaaa1111", "not yet invented", iso(time.time() - 1))
    recorded = Recorded(store)
    await set_timer(store, unknown, timer("other", -1))
    async with running(store, recorded):
        await store.wait_until(lambda: len(store.mail.open.timers) == 1)
    assert store.mail.open.timers == {unknown.key: unknown}
