"""Texts of budgets, and the sessions that a budget binds."""

from dataclasses import replace

import pytest

from sm.core.budgets import (
    DAILY,
    Amounts,
    Budget,
    BudgetState,
    InvalidAmounts,
    Spent,
    above,
    amount_text,
    binding,
    left_of,
    parse_amounts,
    parse_change,
)
from sm.core.models import Session
from tests.samples import session


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("usd=5", Amounts(usd=5)),
        ("usd=5,tokens=2M,minutes=90", Amounts(5, 2_000_000, 90)),
        (" usd = 0.5 , tokens = 1.5k ", Amounts(0.5, 1500)),
        ("tokens=300k", Amounts(tokens=300_000)),
        ("minutes=.5", Amounts(minutes=0.5)),
        ("tokens=3K", Amounts(tokens=3_000)),
        ("tokens=1000000M", Amounts(tokens=10**12)),
        ("usd=1m", Amounts(usd=1_000_000)),
        ("minutes=527040", Amounts(minutes=366 * 24 * 60)),
    ],
)
def test_budget_is_parsed(text: str, amounts: Amounts) -> None:
    assert parse_amounts(text) == amounts


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "usd", "usd=", "=5", "hours=3", "USD=5", "usd=5,", "usd=1,usd=2", "usd=1 usd=2"),
        *("usd=0", "usd=-1", "usd=+1", "usd=nan", "usd=inf", "usd=1e400", "usd=1e3", "usd=0x10", "usd=1_000"),
        *(
            "usd=\N{ARABIC-INDIC DIGIT FIVE}",
            "usd=1000001",
            "tokens=0.5",
            "tokens=1000000000001",
            "minutes=0.001",
        ),
        *("minutes=527041", "usd=none", "none", "usd=" + "9" * 300, "usd=0.0000001"),
    ],
)
def test_invalid_budget_is_refused(text: str) -> None:
    with pytest.raises(InvalidAmounts):
        parse_amounts(text)


def test_change_may_remove_units() -> None:
    assert parse_change("usd=none,tokens=3") == (Amounts(tokens=3), frozenset({"usd"}))
    assert parse_change("none") == (Amounts(), frozenset({"usd", "tokens", "minutes"}))


@pytest.mark.parametrize(
    "amounts",
    [Amounts(5, 2_000_000, 90), Amounts(0.000001, 1, 0.01), Amounts(1e6, 10**12), Amounts(2.25, 1_234_567)],
)
def test_written_budget_is_read_again(amounts: Amounts) -> None:
    assert parse_amounts(str(amounts)) == amounts


@pytest.mark.parametrize(
    ("unit", "amount", "text"),
    [
        ("usd", 5.0, "5"),
        ("usd", 0.25, "0.25"),
        ("tokens", 2_500_000, "2.5M"),
        ("tokens", 0, "0"),
        ("usd", 0, "0"),
    ],
)
def test_amount_is_shown_as_it_is_typed(unit: str, amount: float, text: str) -> None:
    assert amount_text(unit, amount) == text


def test_spending_is_added_and_compared_in_each_unit() -> None:
    first, second = Spent(3.0, 40, 500.0, 6), Spent(1.0, 2, 3.0, 4)
    assert first + second == Spent(4.0, 42, 503.0, 10)
    assert first.beyond(second) == Spent(2.0, 38, 497.0, 2)
    assert second.beyond(first) == Spent()


@pytest.mark.parametrize("state", list(BudgetState))
def test_budget_stops_its_sessions_from_the_grace_time_on(state: BudgetState) -> None:
    assert Budget("s", Amounts(usd=1), state=state).stops is (state in ("grace", "stopped"))


def tree(*sessions: Session) -> dict[str, Session]:
    return {s.id: s for s in sessions}


TOP = session("top")
MIDDLE = replace(TOP, id="middle", parent_id="top")
LOW = replace(TOP, id="low", parent_id="middle")


def test_budgets_above_bind_nearest_first_and_that_of_the_day_last() -> None:
    budgets = {name: Budget(name, Amounts(usd=1)) for name in (DAILY, "top", "low")}
    found = binding(LOW, tree(TOP, MIDDLE, LOW).get, budgets)
    assert [budget.id for budget in found] == ["low", "top", DAILY]


def test_session_stays_bound_by_a_former_parent() -> None:
    moved = replace(LOW, parent_id="top", bound_to="middle")
    assert [s.id for s in above(moved, tree(TOP, MIDDLE, moved).get)] == ["low", "middle", "top"]
    assert [s.id for s in above(moved, tree(TOP, moved).get)] == ["low", "top"]


def test_cycle_of_parents_ends() -> None:
    sessions = tree(replace(TOP, parent_id="low"), MIDDLE, LOW)
    assert [s.id for s in above(LOW, sessions.get)] == ["low", "middle", "top"]


def test_left_is_never_negative() -> None:
    budget = Budget("top", Amounts(5, 100, 2))
    assert left_of(budget, Spent(7, 40, 60.0)) == Amounts(0, 60, 1)
