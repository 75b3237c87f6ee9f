"""Budgets in the database: what is charged, by which transaction, and when the minutes run out."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.budgets.model import DAILY, Amounts, Budget, BudgetTimer, Spent
from sm.capabilities.budgets.tables import PART
from sm.core.lifecycle import decide
from sm.core.models import Session, Signal
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.errors import IllegalState
from sm.store import Store, Transaction
from sm.wire_types.budget import BudgetState
from tests.samples import LAUNCH, session

START = "2026-11-22T10:00:00.000Z"


class Clocks:
    """A clock on the wall, and one that nobody sets."""

    def __init__(self) -> None:
        self.wall = START
        self.steady_s = 100.0

    def now(self) -> str:
        return self.wall

    def steady(self) -> float:
        return self.steady_s

    def pass_time(self, seconds: float) -> None:
        self.wall = later(self.wall, seconds)
        self.steady_s += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sm.db")


@pytest.fixture
async def store(path: str, clocks: Clocks) -> AsyncIterator[Store]:
    async with await Store.open(path, clocks.now, clocks.steady) as opened:
        async with opened.transaction() as tx:
            parent = None
            for name in ("top", "middle", "low"):
                made = session(name, parent=parent, status=Status.IDLE)
                await tx.insert(replace(made, parent_id=parent), LAUNCH, None)
                parent = name
        yield opened


async def move(store: Store, session_id: str, kind: SignalKind) -> None:
    async with store.transaction() as tx:
        now = tx.session(session_id)
        decision = decide(now.status, Signal(kind, "test", "test", tx.now))
        assert decision is not None
        await tx.apply(now, decision)


async def put(store: Store, *budgets: Budget) -> None:
    async with store.transaction() as tx:
        for budget in budgets:
            tx.part(PART).put(budget)


def spent(store: Store, subject: str) -> Spent:
    budget = store.part(PART).find(subject)
    assert budget is not None
    return store.part(PART).spent_now(budget)


def due_s(store: Store, subject: str) -> float | None:
    timer = store.mail.open.timers.get((subject, BudgetTimer.MINUTES))
    return None if timer is None else timer.within_s


MINUTES = Amounts(minutes=100)


async def test_charge_reaches_every_budget_above_and_no_other(store: Store) -> None:
    await put(store, *(Budget(name, Amounts(usd=5)) for name in ("top", "low", DAILY)))
    async with store.transaction() as tx:
        charged = tx.part(PART).charge(tx.part(PART).binding(tx.session("middle")), Spent(1.5, 10))
    assert [budget.id for budget in charged] == ["top", DAILY]
    assert [spent(store, name).usd for name in ("top", "low", DAILY)] == [1.5, 0, 1.5]


async def test_charge_of_a_failed_transaction_is_undone(store: Store, path: str, clocks: Clocks) -> None:
    await put(store, Budget("top", Amounts(usd=5)))

    async def fail(tx: Transaction) -> None:
        tx.part(PART).charge(tx.part(PART).binding(tx.session("low")), Spent(1))
        raise IllegalState("no")

    with pytest.raises(IllegalState):
        async with store.transaction() as tx:
            await fail(tx)
    assert spent(store, "top") == Spent()
    async with await Store.open(path, clocks.now) as again:
        assert spent(again, "top") == Spent()


async def test_budget_is_the_same_after_a_restart(store: Store, path: str, clocks: Clocks) -> None:
    full = Budget(
        "top",
        Amounts(5, 7, 9),
        70,
        Amounts(1, 2, 3),
        Spent(1, 2, 3, 4),
        BudgetState.STOPPED,
        START,
        6,
        {"low": 8},
        "d",
    )
    await put(store, full, Budget("low", Amounts(usd=1)))
    async with await Store.open(path, clocks.now) as again:
        assert PART.rows_of(again.mail.open) == PART.rows_of(store.mail.open)
        assert again.part(PART).find("top") == full


async def test_charges_are_the_same_after_a_restart(store: Store, path: str, clocks: Clocks) -> None:
    await put(store, *(Budget(name, Amounts(usd=5)) for name in ("top", "middle", "low")))
    for spending in (Spent(1.5, 10, 30.0, 7), Spent(0.25, 5, 0.5, 1)):
        async with store.transaction() as tx:
            tx.part(PART).charge(tx.part(PART).binding(tx.session("middle")), spending)
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(60)
    await move(store, "low", SignalKind.WENT_IDLE)
    assert spent(store, "middle") == Spent(1.75, 15, 90.5, 8)
    async with await Store.open(path, clocks.now) as again:
        assert PART.rows_of(again.mail.open) == PART.rows_of(store.mail.open)


async def test_ended_budget_and_its_timers_are_gone_after_a_restart(
    store: Store, path: str, clocks: Clocks
) -> None:
    await put(store, Budget("top", MINUTES), Budget("low", MINUTES))
    await move(store, "low", SignalKind.BUSY)
    assert due_s(store, "top") is not None
    async with store.transaction() as tx:
        tx.timers.set(Timer("top", BudgetTimer.STOP, START))
        tx.part(PART).remove("top")
        tx.part(PART).remove("middle")  # it has none
    async with await Store.open(path, clocks.now) as again:
        for opened in (store, again):
            assert set(PART.rows_of(opened.mail.open)) == {"low"}
            assert {t.subject for t in opened.mail.open.timers.values()} == {"low"}


async def test_budgets_above_leave_the_least_and_one_that_only_tells_leaves_all(store: Store) -> None:
    await put(
        store,
        Budget("top", Amounts(usd=9, tokens=50), spent=Spent(usd=2)),
        Budget("middle", Amounts(usd=1), state=BudgetState.TOLD),
        Budget("low", Amounts(usd=2)),
        Budget(DAILY, Amounts(usd=8)),
    )
    assert store.part(PART).left_above(store.sessions["low"]) == Amounts(usd=7, tokens=50)


async def test_minutes_of_all_sessions_at_work_are_spent(store: Store, clocks: Clocks) -> None:
    await put(store, Budget("top", MINUTES), Budget("low", MINUTES))
    await move(store, "middle", SignalKind.BUSY)
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(60)
    assert (spent(store, "top").seconds, spent(store, "low").seconds) == (120, 60)
    await move(store, "low", SignalKind.WENT_IDLE)
    clocks.pass_time(60)
    assert (spent(store, "top").seconds, spent(store, "low").seconds) == (180, 60)
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(30)
    await move(store, "low", SignalKind.WENT_IDLE)
    assert (spent(store, "top").seconds, spent(store, "low").seconds) == (240, 90)


async def test_timer_is_due_when_the_sessions_at_work_reach_the_soft_limit(
    store: Store, clocks: Clocks
) -> None:
    await put(store, Budget("top", MINUTES))
    assert due_s(store, "top") is None
    await move(store, "low", SignalKind.BUSY)
    assert due_s(store, "top") == pytest.approx(4800, abs=0.1)
    clocks.pass_time(800)
    await move(store, "middle", SignalKind.BUSY)
    assert due_s(store, "top") == pytest.approx(2000, abs=0.1)
    for name in ("low", "middle"):
        await move(store, name, SignalKind.WENT_IDLE)
    assert due_s(store, "top") is None


@pytest.mark.parametrize("hours", [5, -5])
async def test_step_of_the_system_clock_spends_no_minutes(store: Store, clocks: Clocks, hours: float) -> None:
    await put(store, Budget("top", MINUTES))
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(30)
    clocks.wall = later(clocks.wall, hours * 3600)
    assert spent(store, "top").seconds == 30
    clocks.pass_time(30)
    await move(store, "low", SignalKind.WENT_IDLE)
    assert spent(store, "top").seconds == 60
    assert store.sessions["low"].worked_s == 60


async def test_work_under_way_goes_on_after_a_restart(store: Store, path: str, clocks: Clocks) -> None:
    await put(store, Budget("top", MINUTES))
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(60)
    async with await Store.open(path, clocks.now, clocks.steady) as again:
        assert spent(again, "top").seconds == 60
        clocks.pass_time(60)
        clocks.wall = later(clocks.wall, 7200)
        assert spent(again, "top").seconds == 120


async def test_work_before_a_move_counts_for_the_parent_before(store: Store, clocks: Clocks) -> None:
    await put(store, Budget("middle", MINUTES))
    await move(store, "low", SignalKind.BUSY)
    clocks.pass_time(60)
    async with store.transaction() as tx:
        await tx.part(PART).before_move(tx.session("low"))
        await tx.update(tx.session("low"), parent_id="top")
    clocks.pass_time(60)
    assert spent(store, "middle").seconds == 60
    await move(store, "low", SignalKind.WENT_IDLE)
    assert spent(store, "middle").seconds == 60
    assert store.sessions["low"].worked_s == 120
    work = await store.sums.work_since("", slots=False)
    assert sum(seconds for subject, _, seconds in work if subject == "low") == 120


async def test_removed_session_has_no_budget_and_no_timers(store: Store) -> None:
    await put(store, Budget("low", MINUTES))
    await move(store, "low", SignalKind.BUSY)
    await move(store, "low", SignalKind.CRASHED)
    async with store.transaction() as tx:
        await tx.remove(tx.session("low"))
    assert PART.rows_of(store.mail.open) == {}
    assert due_s(store, "low") is None


def is_bound(store: Store, low: Session) -> bool:
    return any(budget.id == "middle" for budget in store.part(PART).binding(low))


async def test_adopted_session_stays_bound_after_a_restart(store: Store, path: str, clocks: Clocks) -> None:
    await put(store, Budget("middle", MINUTES))
    async with store.transaction() as tx:
        await tx.update(tx.session("low"), parent_id="top", bound_to="middle")
    async with await Store.open(path, clocks.now) as again:
        assert is_bound(again, again.sessions["low"])
