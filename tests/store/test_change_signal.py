"""The wake-up of tasks that wait for a change in memory."""

import asyncio

import pytest

from sm.store.change_signal import ChangeSignal


async def test_change_wakes_only_tasks_whose_condition_holds() -> None:
    signal, looks, true = ChangeSignal(), {"a": 0, "b": 0}, set[str]()

    def holds(name: str) -> bool:
        looks[name] += 1
        return name in true

    first = asyncio.create_task(signal.wait_until(lambda: holds("a")))
    second = asyncio.create_task(signal.wait_until(lambda: holds("b")))
    await asyncio.sleep(0)
    true.add("b")
    signal.changed()
    assert await second
    assert looks == {"a": 2, "b": 3}
    assert not first.done()
    true.add("a")
    signal.changed()
    assert await first


async def test_task_waits_on_when_the_condition_holds_no_more() -> None:
    signal, holds = ChangeSignal(), [False]
    task = asyncio.create_task(signal.wait_until(lambda: holds[0]))
    await asyncio.sleep(0)
    holds[0] = True
    signal.changed()
    holds[0] = False
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    holds[0] = True
    signal.changed()
    assert await task


async def test_error_of_a_condition_is_raised_to_its_own_task_only() -> None:
    signal, is_broken = ChangeSignal(), [False]

    def broken() -> bool:
        if is_broken[0]:
            raise ValueError("broken")
        return False

    failing = asyncio.create_task(signal.wait_until(broken))
    other = asyncio.create_task(signal.wait_until(lambda: is_broken[0]))
    await asyncio.sleep(0)
    is_broken[0] = True
    signal.changed()
    with pytest.raises(ValueError, match="broken"):
        await failing
    assert await other


async def test_wait_ends_without_a_change_when_its_time_is_over() -> None:
    signal = ChangeSignal()
    assert not await signal.wait_until(lambda: False, 0)
    assert await signal.wait_until(lambda: True, 0)


async def test_cancelled_wait_is_forgotten() -> None:
    signal, looks = ChangeSignal(), [0]

    def look() -> bool:
        looks[0] += 1
        return False

    task = asyncio.create_task(signal.wait_until(look))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    signal.changed()
    assert looks == [1]
