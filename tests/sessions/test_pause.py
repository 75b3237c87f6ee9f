"""The looks at paused agents after their interrupt, on a real SQLite file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import EffectKind
from sm.core.models import Process, Session
from sm.core.states import EventType
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.sessions.manager import Manager
from sm.sessions.pause import Pausing
from sm.state.pauses import PRESSES_MAX
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.session_manager import open_manager

WORKER = replace(session("aaaa1111", status=Status.RUNNING), provider="claude", process=Process(7, "b/1"))
KEY = (WORKER.id, TimerKind.PAUSE)

Parts = tuple[Store, Manager]


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        async with store.transaction() as tx:
            await tx.insert(WORKER, LAUNCH, None)
        yield store, manager


async def paused(store: Store, manager: Manager) -> Session:
    async with store.transaction() as tx:
        return await manager.pauses.pause(tx, tx.session(WORKER.id), by="operator", reason="a test")


def presses(store: Store) -> int:
    return sum(e.kind == EffectKind.INTERRUPT for e in store.mail.open.effects.values())


async def test_agent_that_works_on_is_interrupted_a_few_times_and_then_warned_of(parts: Parts) -> None:
    store, manager = parts
    await paused(store, manager)
    looks = 0
    while (timer := store.mail.open.timers.get(KEY)) is not None:
        await Pausing(store, manager).look_again(timer)
        looks += 1
    assert (presses(store), looks) == (PRESSES_MAX, PRESSES_MAX)
    warnings = [e for e in await store.events(sessions=[WORKER.id]) if e.type is EventType.WARNING]
    assert ["seems to work on" in event.message for event in warnings] == [True]


async def test_agent_that_has_resumed_is_not_interrupted_again(parts: Parts) -> None:
    store, manager = parts
    await paused(store, manager)
    timer = store.mail.open.timers[KEY]
    async with store.transaction() as tx:
        await manager.pauses.resume(tx, tx.session(WORKER.id), "operator")
    await Pausing(store, manager).look_again(timer)
    assert presses(store) == 1
    assert KEY not in store.mail.open.timers
