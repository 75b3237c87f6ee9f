"""The restore of sessions that the container engine cut off, as a later daemon carries it out."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from sm.config import Config
from sm.core.models import Process, Session, Signal
from sm.core.states import RESTORE, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import iso
from sm.errors import IllegalState, SandboxUnavailable, SmError
from sm.monitor import CutOffSessions
from sm.sessions.restore import Restorer
from sm.state.losses import CUT_OFF, RESTORES_MAX, TERMINAL_CLOSED, WITHIN_S, LossCause, is_planned
from sm.state.session_steps import move
from sm.store import Store
from tests.samples import LAUNCH, session
from tests.state_parts import StateParts, open_parts

ID = "0a0a0a0a"
PROCESS = Process(4711, "boot/1")


class Clock:
    def __init__(self) -> None:
        self.s = 1_800_000_000.0

    def now(self) -> str:
        return iso(self.s)


class Restores:
    """In place of the Restorer: notes what it is asked for."""

    def __init__(self, *errors: SmError) -> None:
        self.asked: list[str] = []
        self.errors = list(errors)

    async def restore(self, caller: object, reference: str, key: object, **_: object) -> None:
        self.asked.append(reference)
        if self.errors:
            raise self.errors.pop(0)


async def insert(store: Store) -> Session:
    made = replace(session(ID, status=Status.RUNNING), effective_mode=TrustLevel.SANDBOXED, process=PROCESS)
    async with store.transaction() as tx:
        await tx.insert(made, LAUNCH, None)
    return made


async def lose(store: Store, parts: StateParts, loss: tuple[LossCause, str] = CUT_OFF) -> None:
    await parts.ends.terminal_lost(ID, PROCESS, *loss, process_gone=True)
    assert store.sessions[ID].status is Status.ERROR


async def run_again(store: Store, parts: StateParts) -> None:
    """As a restore does."""
    async with store.transaction() as tx:
        restarted = Signal(SignalKind.RESTARTED, RESTORE, "restored", tx.now)
        await move(tx, parts.notices, ID, restarted, exit=None, process=PROCESS)


def plan(store: Store) -> Timer | None:
    timer = store.mail.open.timers.get((ID, TimerKind.CUT_OFF))
    return timer if timer is not None and is_planned(timer) else None


async def carry_out(store: Store, restores: Restores) -> None:
    """Run a daemon's part until no plan is left."""
    part = CutOffSessions(store, cast(Restorer, restores))
    running = asyncio.create_task(part.run())
    try:
        assert await store.wait_until(lambda: plan(store) is None, 30)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_restore_is_planned_with_the_end_and_carried_out_by_a_later_daemon(tmp_path: Path) -> None:
    clock = Clock()
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await insert(store)
        await lose(store, parts)
    restores = Restores()
    async with open_parts(tmp_path, clock.now) as (store, _):
        await carry_out(store, restores)
    assert restores.asked == [ID]
    async with open_parts(tmp_path, clock.now) as (store, _):
        await carry_out(store, restores)
    assert restores.asked == [ID], "it is carried out once"


async def test_restore_that_was_committed_before_a_crash_is_not_repeated(tmp_path: Path) -> None:
    clock, restores = Clock(), Restores()
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await insert(store)
        await lose(store, parts)
        await run_again(store, parts)
        assert plan(store) is not None
        await carry_out(store, restores)
    assert restores.asked == []


async def test_engine_that_is_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.monitor.cut_off._FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("sm.monitor.cut_off._LONGEST_PAUSE_S", 0.0)
    clock, restores = Clock(), Restores(SandboxUnavailable("away"), SandboxUnavailable("away"))
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await insert(store)
        await lose(store, parts)
        await carry_out(store, restores)
    assert restores.asked == [ID] * 3


async def test_session_that_cannot_be_restored_is_given_up_once(tmp_path: Path) -> None:
    clock, restores = Clock(), Restores(IllegalState("its directory is gone"))
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await insert(store)
        await lose(store, parts)
        before = store.last_seq
        await carry_out(store, restores)
        assert store.last_seq == before + 1, "one warning"
        await carry_out(store, restores)
    assert restores.asked == [ID]


async def test_fourth_loss_in_ten_minutes_plans_nothing_also_after_restarts_of_the_daemon(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with open_parts(tmp_path, clock.now) as (store, _):
        await insert(store)
    for number in range(RESTORES_MAX + 1):
        async with open_parts(tmp_path, clock.now) as (store, parts):
            await lose(store, parts)
            assert (plan(store) is not None) is (number < RESTORES_MAX)
            await carry_out(store, Restores())
            await run_again(store, parts)
        clock.s += 60
    clock.s += WITHIN_S
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await lose(store, parts)
        assert plan(store) is not None


async def test_losses_are_forgotten_after_ten_minutes_unless_a_restore_is_still_tried(tmp_path: Path) -> None:
    clock = Clock()
    async with open_parts(tmp_path, clock.now) as (store, parts):
        await insert(store)
        await lose(store, parts)
        part = CutOffSessions(store, cast(Restorer, Restores()))
        timer = store.mail.open.timers[ID, TimerKind.CUT_OFF]
        assert await part.forget(timer) is not None
        await carry_out(store, Restores())
        timer = store.mail.open.timers[ID, TimerKind.CUT_OFF]
        assert await part.forget(timer) is None
        assert store.mail.open.timers == {}


@pytest.mark.parametrize(
    ("loss", "config", "mode"),
    [
        (TERMINAL_CLOSED, {}, TrustLevel.SANDBOXED),
        (CUT_OFF, {"on_engine_restart": "end"}, TrustLevel.SANDBOXED),
        ((LossCause.MACHINE, "the machine restarted"), {}, TrustLevel.DIRECT),
    ],
)
async def test_other_ends_plan_nothing(
    tmp_path: Path, loss: tuple[LossCause, str], config: dict[str, str], mode: TrustLevel
) -> None:
    settings = Config.model_validate({"sandbox": config})
    async with open_parts(tmp_path, Clock().now, config=settings) as (store, parts):
        await insert(store)
        async with store.transaction() as tx:
            await tx.update(tx.session(ID), effective_mode=mode)
        await lose(store, parts, loss)
        assert plan(store) is None
