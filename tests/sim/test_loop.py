"""The loop of simulations: virtual time, dropped lives, and what it refuses."""

import asyncio
import os
import threading
import time

import pytest

from tests.sim.guards import RealAct, guarded
from tests.sim.lives import Life
from tests.sim.loop import VirtualLoop, registered_tasks
from tests.sim.watchdog import BlockedLoop, Watchdog
from tests.sim.world import simulation


def run(main: "asyncio.Future[None] | object") -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)  # type: ignore[arg-type]


def test_time_passes_only_when_nothing_else_is_left_to_do() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        begun_s = loop.time()
        done = asyncio.create_task(asyncio.sleep(86_400))
        for _ in range(1000):
            await asyncio.sleep(0)
        await asyncio.to_thread(os.listdir, "/")
        await loop.quiet()
        assert loop.time() == begun_s
        await done
        assert loop.time() == begun_s + 86_400

    run(main())


def test_deadlock_and_endless_loop_end_the_run() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    async def endless() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.steps_max = 10_000

        def again() -> None:
            loop.call_soon(again)

        again()
        await loop.create_future()

    with pytest.raises(AssertionError, match="deadlock"):
        run(stuck())
    with pytest.raises(AssertionError, match=r"endless loop(?s:.*)in endless"):
        run(endless())


def test_dropped_life_takes_no_further_step() -> None:
    said: list[str] = []

    async def life() -> None:
        try:
            await asyncio.sleep(1)
            said.append("slept")
        finally:
            said.append("finally")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        dropped, kept = Life("dropped"), Life("kept")
        ended = loop.create_task(life(), context=dropped.context)
        lasting = loop.create_task(life(), context=kept.context)
        await asyncio.sleep(0.5)
        loop.drop(dropped)
        await lasting
        assert not ended.done()

    run(main())
    assert said == ["slept", "finally"]


@pytest.mark.parametrize(
    "act",
    [lambda: time.sleep(0), lambda: threading.Thread(target=int).start(), lambda: os.kill(os.getpid(), 0)],
)
def test_real_act_is_refused_under_virtual_time(act: "asyncio.Future[None]") -> None:
    with guarded(), pytest.raises(RealAct):
        act()  # type: ignore[operator]


def test_callback_that_blocks_is_found_with_its_stack() -> None:
    reader, writer = os.pipe()

    async def blocking() -> None:
        os.read(reader, 1)  # nobody writes

    loop, watchdog = VirtualLoop(), Watchdog(0.2)
    for _ in range(2):
        with pytest.raises(BlockedLoop, match="in blocking"), watchdog.watched(loop):
            loop.run_until_complete(blocking())
    watchdog.end()
    loop.close()
    os.close(reader)
    os.close(writer)


@pytest.mark.simulation
async def test_no_part_of_the_daemon_keeps_a_real_clock() -> None:
    real = (time.time, time.monotonic, time.time_ns, time.monotonic_ns)
    async with simulation() as world:
        seen, found = set[int](), list[str]()
        left: list[tuple[str, object]] = [("parts", world.daemon.parts)]
        while left:
            name, value = left.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if any(value is clock for clock in real):
                found.append(name)
            elif type(value).__module__.startswith("sm."):
                slots = [s for t in type(value).__mro__ for s in getattr(t, "__slots__", ())]
                inside = {**getattr(value, "__dict__", {}), **{s: getattr(value, s, None) for s in slots}}
                left += [(f"{name}.{attribute}", part) for attribute, part in inside.items()]
            elif isinstance(value, (list, tuple, set)):
                left += [(name, part) for part in value]
            elif isinstance(value, dict):
                left += [(f"{name}[{key!r}]", part) for key, part in value.items()]
        assert found == []


def test_order_of_tasks_in_a_set_depends_on_no_address() -> None:
    orders: list[list[int]] = []

    async def order() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(number)) for number in range(40)]
        done, _ = await asyncio.wait(tasks)
        orders.append([tasks.index(task) for task in done])

    kept: list[object] = []
    for size in range(1, 6):
        run(order())
        kept.append([bytearray(size * 100) for _ in range(100)])  # moves what follows to other addresses
    assert all(found == orders[0] for found in orders)


def test_closed_loop_leaves_no_task_for_asyncio_to_look_through() -> None:
    loop = VirtualLoop()
    kept = loop.create_task(asyncio.sleep(0))
    loop.run_until_complete(kept)
    loop.close()
    assert kept not in registered_tasks
