"""Texts of budgets, and the sessions that a budget binds."""

from dataclasses import replace

import pytest

from sm.capabilities.budgets.amounts import amount_text, floor_text
from sm.capabilities.budgets.model import (
    DAILY,
    Amounts,
    Budget,
    InvalidAmounts,
    Spent,
    above,
    binding,
    left_of,
    parse_amounts,
    parse_change,
)
from sm.capabilities.budgets.text import amounts_text, amounts_to_type, spent_words
from sm.capabilities.budgets.text.sentences import limit_text
from sm.core.models import Session
from sm.wire_types.budget import BudgetState
from tests.samples import session


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("usd=5", Amounts(usd=5)),
        ("usd=5,tokens=2M,minutes=90", Amounts(5, 2_000_000, 90)),
        (" usd = 0.5 , tokens = 1.5k ", Amounts(0.5, 1500)),
        ("tokens=300k", Amounts(tokens=300_000)),
        ("minutes=.5", Amounts(minutes=0.5)),
        ("usd=5" + " " * 195, Amounts(usd=5)),
        ("tokens=3K", Amounts(tokens=3_000)),
        ("tokens=2.05M", Amounts(tokens=2_050_000)),  # 2.05 * 1e6 is 2049999.9999999998
        ("tokens=1000000M", Amounts(tokens=10**12)),
        ("usd=1m", Amounts(usd=1_000_000)),
        ("USD: $5", Amounts(usd=5)),
        ("$2.50; 90 minutes", Amounts(usd=2.5, minutes=90)),
        ("5 dollars,2M tokens", Amounts(usd=5, tokens=2_000_000)),
        ("minutes=527040", Amounts(minutes=366 * 24 * 60)),
    ],
)
def test_budget_is_parsed(text: str, amounts: Amounts) -> None:
    assert parse_amounts(text) == amounts


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "usd", "usd=", "=5", "hours=3", "usd=5,", "usd=1,usd=2", "usd=1 usd=2"),
        *("usd=0", "usd=-1", "usd=+1", "usd=nan", "usd=inf", "usd=1e400", "usd=1e3", "usd=0x10", "usd=1_000"),
        *(
            "usd=\N{ARABIC-INDIC DIGIT FIVE}",
            "usd=1000001",
            "tokens=0.5",
            "tokens=1000000000001",
            "minutes=0.001",
        ),
        *("tokens=0", "minutes=0", "tokens=1.5", "tokens=1.0001k", "usd=5" + " " * 196),
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
        ("usd", 0.1234567, "0.123457"),
        ("minutes", 2.346, "2.35"),
        ("minutes", 100.0, "100"),
        ("tokens", 2_500_000, "2.5M"),
        ("tokens", 1_000_000, "1M"),
        ("tokens", 999_900, "999.9k"),
        ("tokens", 1000, "1k"),
        ("tokens", 1550, "1550"),
        ("tokens", 900, "900"),
        ("tokens", 0, "0"),
        ("usd", 0, "0"),
    ],
)
def test_amount_is_shown_as_it_is_typed(unit: str, amount: float, text: str) -> None:
    assert amount_text(unit, amount) == text


@pytest.mark.parametrize(
    ("amounts", "is_named"),
    [(Amounts(), False), (Amounts(usd=0.0), True), (Amounts(tokens=0), True), (Amounts(1, 1, 1), True)],
)
def test_amounts_are_true_when_one_is_named(amounts: Amounts, is_named: bool) -> None:
    assert bool(amounts) is is_named


@pytest.mark.parametrize(
    ("unit", "amount", "expected"),
    [("tokens", 2.6, "3"), ("tokens", None, "None"), ("usd", 2.6, "2.6"), ("minutes", None, "None")],
)
def test_amount_of_tokens_is_whole(unit: str, amount: float | None, expected: str) -> None:
    changed = Amounts(5.0, 5, 5.0).with_amount(unit, amount)
    assert (repr(changed.get(unit)), len(list(changed.items()))) == (expected, 2 + (amount is not None))


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


def test_limits_are_shown_as_they_were_set_and_spending_is_rounded() -> None:
    limits = {"usd": 0.000001, "tokens": 1_234_567, "minutes": 2.25}
    assert amounts_text(limits) == "usd=0.000001,tokens=1234567,minutes=2.25"
    spent = {"usd": 1.23456, "tokens": 1_234_567, "minutes": 1.26}
    assert (
        spent_words(limits, spent) == "usd 1.2346 of 0.000001, tokens 1.235M of 1234567, minutes 1.3 of 2.25"
    )


@pytest.mark.parametrize(
    ("unit", "amount", "text"),
    [
        ("minutes", 98.289, "98.28"),
        ("minutes", 0.3, "0.3"),
        ("usd", 3.9999999, "3.999999"),
        ("tokens", 2_000_000, "2M"),
        ("minutes", 0.001, "0"),
        ("usd", -1, "0"),
    ],
)
def test_largest_amount_of_a_hint_is_rounded_down(unit: str, amount: float, text: str) -> None:
    assert floor_text(unit, amount) == text


@pytest.mark.parametrize(
    ("arguments", "amounts"),
    [
        ({"limits": {"minutes": 90}}, "minutes=N"),
        ({"limits": {"usd": 5, "minutes": 90}}, "usd=N,minutes=N"),
        (None, "usd=N"),
    ],
)
def test_amounts_to_type_have_the_units_of_the_budget(arguments: object, amounts: str) -> None:
    assert amounts_to_type(arguments) == amounts


@pytest.mark.parametrize(
    ("on_limit", "at_work", "words"),
    [
        ("ask", True, "its agents report what they have, then sm pauses them"),
        ("ask", False, "sm pauses its sessions"),
        ("kill", False, "sm kills its sessions"),
    ],
)
def test_notice_of_a_spent_budget_says_what_follows(on_limit: str, at_work: bool, words: str) -> None:
    owner = session("aaaa0001")
    text = limit_text(Budget(owner.id, Amounts(usd=1)), Spent(2), owner, on_limit, at_work=at_work)
    assert text.endswith(f"usd 2 of 1; {words}; see: sm budget aaaa0001")
