"""Spending that usage adds to a budget, and the sessions and messages that a spent budget stops."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.budgets.model import DAILY, Amounts, Budget, Spent
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets, added_spending
from sm.capabilities.budgets.tables import PART
from sm.config import Config
from sm.core.models import Exit, Session
from sm.core.states import RequestKind
from sm.core.statuses import Status
from sm.core.usage import Usage
from sm.errors import IllegalState
from sm.providers import make_providers
from sm.state.notices import Notices
from sm.state.part_holds import check_may_start, held_reason, hold_of
from sm.state.request_steps import NewRequest, open_request
from sm.store import Open, Store
from sm.wire_types.budget import BudgetState
from tests.samples import LAUNCH, session


def used(message: str, input: int, output: int, model: str = "known") -> Usage:
    return Usage(message, model, "2026-03-01T10:00:00.000Z", input, output, cache_read=1000)


def cost_usd(usages: Sequence[Usage]) -> float | None:
    return None if usages[0].model == "unknown" else sum(u.input / 2 + u.output for u in usages)


@pytest.mark.parametrize(
    ("stored", "usages", "added"),
    [
        ([], [], Spent()),
        ([], [used("a", 10, 5), used("b", 2, 1)], Spent(12.0, 18)),
        ([used("a", 10, 5)], [used("a", 10, 8)], Spent(3.0, 3)),
        ([used("a", 10, 5)], [used("a", 10, 5)], Spent()),
        ([used("a", 10, 5)], [used("a", 12, 5)], Spent(1.0, 2)),
        ([used("a", 10, 5)], [used("a", 99, 4)], Spent()),
        ([used("a", 10, 5)], [used("a", 2, 6)], Spent()),  # less in all: a transcript that was written anew
        ([used("b", 10, 5)], [used("a", 10, 5)], Spent(10.0, 15)),
        ([], [used("a", 10, 1), used("a", 10, 5), used("a", 10, 3)], Spent(10.0, 15)),
        ([], [used("a", 10, 5, "unknown")], Spent(0.0, 15, 0.0, 1015)),
        ([used("a", 10, 5, "unknown")], [used("a", 10, 8, "unknown")], Spent(0.0, 3, 0.0, 3)),
    ],
)
def test_usage_adds_the_difference_to_the_stored_one(
    stored: list[Usage], usages: list[Usage], added: Spent
) -> None:
    assert added_spending({u.message_id: u for u in stored}, usages, cost_usd) == added


TOP, LOW = session("aaaa0001"), session("aaaa0002", parent="aaaa0001")
SESSIONS = {s.id: s for s in (TOP, LOW)}
OK, GRACE, STOPPED, TOLD = BudgetState.OK, BudgetState.GRACE, BudgetState.STOPPED, BudgetState.TOLD


def opened(*states: tuple[str, BudgetState]) -> Open:
    budgets = [Budget(id, Amounts(usd=1), state=state, reports={LOW.id: 7}) for id, state in states]
    return Open(parts={PART: {budget.id: budget for budget in budgets}})


@pytest.mark.parametrize(
    ("session", "states", "stops"),
    [
        (LOW, [], None),
        (LOW, [(LOW.id, OK), (TOP.id, TOLD), (DAILY, BudgetState.SOFT)], None),
        (LOW, [(LOW.id, GRACE), (TOP.id, STOPPED)], LOW.id),
        (LOW, [(LOW.id, OK), (TOP.id, STOPPED), (DAILY, STOPPED)], TOP.id),
        (LOW, [(DAILY, GRACE)], DAILY),
        (TOP, [(LOW.id, STOPPED)], None),
    ],
)
def test_nearest_spent_budget_stops_a_session(
    session: Session, states: list[tuple[str, BudgetState]], stops: str | None
) -> None:
    hold = hold_of(session, SESSIONS.get, opened(*states))
    assert (hold and hold.subject) == stops


@pytest.mark.parametrize(
    ("session", "message_id", "reason"),
    [
        (LOW, 7, None),  # the order to report
        (LOW, 8, "budget of aaaa0001 reached"),
        (LOW, None, "budget of aaaa0001 reached"),
        (TOP, 7, "budget of aaaa0001 reached"),
        (TOP, None, "budget of aaaa0001 reached"),
    ],
)
def test_message_waits_for_a_spent_budget_unless_it_is_the_order_to_report(
    session: Session, message_id: int | None, reason: str | None
) -> None:
    assert held_reason(session, SESSIONS.get, opened((TOP.id, GRACE)), message_id) == reason
    assert held_reason(session, SESSIONS.get, opened((TOP.id, OK)), message_id) is None


async def test_no_agent_starts_below_a_spent_budget(tmp_path: Path) -> None:
    budget = Budget(TOP.id, Amounts(usd=1), steps=Amounts(usd=2), state=STOPPED)
    async with await Store.open(str(tmp_path / "sm.db")) as store, store.transaction() as tx:
        for each in SESSIONS.values():
            await tx.insert(each, LAUNCH, None)
        tx.part(PART).put(replace(budget, state=OK))
        check_may_start(tx, LOW)
        tx.part(PART).put(budget)
        with pytest.raises(IllegalState, match="budget of aaaa0001 reached: no agent can start") as refused:
            check_may_start(tx, LOW)
        assert refused.value.hint == "sm budget aaaa0001 --add usd=2"
        asked = NewRequest(RequestKind.BUDGET)
        request = await open_request(tx, Notices(Config()), TOP, asked, tx.now, None)
        tx.part(PART).put(replace(budget, request=request.id))
        with pytest.raises(IllegalState) as refused:
            check_may_start(tx, LOW)
        assert refused.value.hint == f"sm approve {request.name}"


async def test_session_that_moves_while_others_report_is_told_to_report_once(tmp_path: Path) -> None:
    config = Config()
    async with await Store.open(str(tmp_path / "sm.db")) as store, store.transaction() as tx:
        budgets = Budgets(BudgetSettings(), store.part(PART), Notices(config), {})
        for each in SESSIONS.values():
            await tx.insert(replace(each, status=Status.RUNNING), LAUNCH, None)
        tx.part(PART).put(Budget(TOP.id, Amounts(usd=1), state=GRACE))
        for _ in range(2):
            await budgets.follow_move(tx, replace(LOW, parent_id=None), tx.session(LOW.id))
        (message,) = tx.mail.open.messages.values()
        budget = tx.part(PART).find(TOP.id)
        assert budget is not None and budget.reports == {LOW.id: message.id}
        assert tx.session(LOW.id).paused is None


async def test_budget_of_the_day_counts_removed_sessions(tmp_path: Path) -> None:
    config = Config()
    settings = BudgetSettings(daily_usd=5.0)
    providers = make_providers(config)
    ended = replace(TOP, provider="claude", status=Status.KILLED, exit=Exit(0, None))
    async with await Store.open(str(tmp_path / "sm.db")) as store:
        notices = Notices(config)
        budgets = Budgets(settings, store.part(PART), notices, providers)
        async with store.transaction() as tx:
            await tx.insert(ended, LAUNCH, None)
            tx.usage.add(ended.id, [Usage("a", "claude-haiku-4-5", tx.now, output=200_000)])
            await tx.remove(tx.session(ended.id))
        async with store.transaction() as tx:
            await budgets.begin_day(tx)
            day = tx.part(PART).find(DAILY)
            assert day is not None and day.spent.usd == pytest.approx(1)


async def test_reported_budget_binds_after_a_change_of_the_configuration(tmp_path: Path) -> None:
    spent = Budget(TOP.id, Amounts(usd=1), spent=Spent(usd=2), state=TOLD)
    async with await Store.open(str(tmp_path / "sm.db")) as store, store.transaction() as tx:
        await tx.insert(TOP, LAUNCH, None)
        tx.part(PART).put(spent)
        for on_limit, state in ("notice", TOLD), ("kill", STOPPED), ("kill", STOPPED):
            config = Config()
            settings = BudgetSettings.model_validate({"on_limit": on_limit, "grace_s": 0})
            await Budgets(settings, store.part(PART), Notices(config), {}).bind_told(tx)
            budget = tx.part(PART).find(TOP.id)
            assert budget is not None and budget.state is state
