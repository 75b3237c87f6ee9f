"""The decisions about budgets, for every state."""

import pytest

from sm.capabilities.budgets.model import Amounts, Budget, Spent
from sm.capabilities.budgets.rules import (
    BudgetStep,
    as_much_again,
    exceeds,
    is_spent,
    least_left,
    lowered,
    minutes_due_s,
    next_step,
    only_lowers,
    plus,
    reached_units,
    share,
    still_spent,
)
from sm.wire_types.budget import BudgetState

LIMITS = Amounts(10, 1000, 10)
NONE, SOFT, LIMIT = BudgetStep.NONE, BudgetStep.SOFT, BudgetStep.LIMIT


@pytest.mark.parametrize(
    ("spent", "of_ok", "of_soft"),
    [
        (Spent(), NONE, NONE),
        (Spent(7.99, 799, 479), NONE, NONE),
        (Spent(8), SOFT, NONE),
        (Spent(0, 800), SOFT, NONE),
        (Spent(0, 0, 480), SOFT, NONE),
        (Spent(9.99), SOFT, NONE),
        (Spent(sum([0.1] * 100)), LIMIT, LIMIT),  # 9.99999999999998
        (Spent(10), LIMIT, LIMIT),
        (Spent(0, 1000), LIMIT, LIMIT),
        (Spent(0, 0, 600), LIMIT, LIMIT),
        (Spent(1e9, 10**15, 1e9), LIMIT, LIMIT),
        (Spent(0, 0, 0, 10**9), NONE, NONE),
    ],
)
def test_next_step_depends_on_the_largest_share(spent: Spent, of_ok: BudgetStep, of_soft: BudgetStep) -> None:
    assert next_step(Budget("s", LIMITS), spent) is of_ok
    assert next_step(Budget("s", LIMITS, state=BudgetState.SOFT), spent) is of_soft
    for state in (BudgetState.GRACE, BudgetState.STOPPED, BudgetState.TOLD):
        assert next_step(Budget("s", LIMITS, state=state), spent) is NONE


@pytest.mark.parametrize(
    ("limits", "spent", "spent_up"),
    [
        (Amounts(), Spent(1e9, 10**15, 1e9), False),
        (Amounts(usd=10), Spent(9.9, 10**15, 1e9), False),
        (Amounts(usd=10), Spent(10), True),
        (Amounts(tokens=10), Spent(1e9, 9, 1e9), False),
        (Amounts(tokens=10), Spent(0, 10), True),
        (Amounts(minutes=10), Spent(1e9, 10**15, 599), False),
        (Amounts(minutes=10), Spent(0, 0, 600), True),
        (Amounts(1, 1, 1), Spent(), False),
    ],
)
def test_budget_is_spent_when_one_of_its_own_units_is(limits: Amounts, spent: Spent, spent_up: bool) -> None:
    assert is_spent(limits, spent) is spent_up
    assert next_step(Budget("s", limits), spent) is not LIMIT or spent_up


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Amounts(), 0.0),
        (Amounts(usd=10), 0.2),
        (Amounts(tokens=1000), 0.5),
        (Amounts(minutes=10), 0.1),
        (LIMITS, 0.5),
        (Amounts(0.0, 1000), 1.0),
    ],
)
def test_share_is_that_of_the_most_spent_unit(limits: Amounts, expected: float) -> None:
    assert share(limits, Spent(2, 500, 60)) == expected


@pytest.mark.parametrize(
    ("state", "seconds", "at_work", "due_s"),
    [
        (BudgetState.OK, 0, 1, 480),
        (BudgetState.OK, 0, 4, 120),
        (BudgetState.OK, 500, 1, 0),
        (BudgetState.SOFT, 480, 2, 60),
        (BudgetState.SOFT, 700, 2, 0),
        (BudgetState.SOFT, 600 - 5e-7, 2, 0),  # nothing is left but a rounding error
        (BudgetState.OK, 0, 0, None),
        (BudgetState.OK, 480, 0, 0),  # the work has ended before the limit was told
        (BudgetState.SOFT, 600, 0, 0),
        (BudgetState.SOFT, 599, 0, None),
        (BudgetState.GRACE, 0, 1, None),
        (BudgetState.STOPPED, 0, 1, None),
        (BudgetState.TOLD, 0, 1, None),
    ],
)
def test_minutes_are_due_by_the_number_of_sessions_at_work(
    state: BudgetState, seconds: float, at_work: int, due_s: float | None
) -> None:
    assert minutes_due_s(Budget("s", LIMITS, state=state), Spent(seconds=seconds), at_work) == due_s
    assert minutes_due_s(Budget("s", Amounts(usd=1), state=state), Spent(seconds=seconds), at_work) is None


def test_least_left_takes_the_smallest_of_each_unit() -> None:
    assert least_left([Amounts(5, 10), Amounts(3), Amounts(None, 20, 7)]) == Amounts(3, 10, 7)
    assert least_left([]) == Amounts()


@pytest.mark.parametrize(
    ("wanted", "unit", "after"),
    [
        (Amounts(5), None, Amounts(5)),
        (Amounts(6), "usd", Amounts(5)),
        (Amounts(5, 10**9), None, Amounts(5, 10**9)),
        (Amounts(1, None, 99), "minutes", Amounts(1, None, 2)),
    ],
)
def test_wanted_budget_is_compared_with_what_is_left(
    wanted: Amounts, unit: str | None, after: Amounts
) -> None:
    left = Amounts(usd=5, minutes=2)
    assert exceeds(wanted, left) == unit
    assert lowered(wanted, left) == after


@pytest.mark.parametrize(
    ("after", "lowers"),
    [
        (Amounts(10, 1000, 10), True),
        (Amounts(9, 999, 9), True),
        (Amounts(10, 1000), False),
        (Amounts(11, 1000, 10), False),
        (Amounts(), False),
    ],
)
def test_change_only_lowers_if_it_keeps_every_limit(after: Amounts, lowers: bool) -> None:
    assert only_lowers(LIMITS, after) is lowers
    assert only_lowers(Amounts(), after)


@pytest.mark.parametrize(
    ("spent", "usd"), [(Spent(5), 5), (Spent(5.1), 5), (Spent(9.99), 5), (Spent(10), 10), (Spent(12), 10)]
)
def test_approval_adds_as_much_again_until_it_exceeds_what_was_spent(spent: Spent, usd: float) -> None:
    budget = Budget("s", Amounts(usd=5), steps=Amounts(usd=5))
    more = as_much_again(budget, spent)
    assert more == Amounts(usd=usd)
    assert not is_spent(plus(budget.limits, more), spent)


@pytest.mark.parametrize(("steps", "usd"), [(Amounts(usd=5), 5), (Amounts(), 9)])
def test_approval_adds_the_step_of_a_budget_that_has_grown(steps: Amounts, usd: float) -> None:
    assert as_much_again(Budget("s", Amounts(usd=9), steps=steps), Spent(9)) == Amounts(usd=usd)


@pytest.mark.parametrize(
    ("limits", "steps", "spent", "more"),
    [
        (Amounts(5, 100), Amounts(5, 100), Spent(5, 40), Amounts(5, 100)),  # the tokens are not spent
        (Amounts(usd=0.5), Amounts(usd=0.125), Spent(0.875), Amounts(usd=0.5)),
        (Amounts(usd=2), Amounts(usd=0.1), Spent(2.3), Amounts(usd=0.4)),  # 2.3 - 2 is 0.2999999999999998
    ],
)
def test_approval_adds_whole_steps_to_each_unit(
    limits: Amounts, steps: Amounts, spent: Spent, more: Amounts
) -> None:
    assert as_much_again(Budget("s", limits, steps=steps), spent) == more
    assert not is_spent(plus(limits, more), spent)


def test_amounts_are_added_to_the_limits_that_exist() -> None:
    assert plus(Amounts(usd=5, minutes=2), Amounts(1, 1000)) == Amounts(usd=6, minutes=2)


def test_limit_that_is_still_spent_is_named() -> None:
    assert reached_units(LIMITS, Spent(10, 5, 600)) == ["usd", "minutes"]
    assert still_spent(Amounts(usd=8), Spent(9)) == "usd=8 does not exceed the 9 that were spent"
    assert still_spent(Amounts(usd=8), Spent(7)) is None


def test_limit_of_nothing_is_reached_at_once() -> None:
    budget = Budget("s", Amounts(minutes=0.0))
    assert next_step(budget, Spent()) is BudgetStep.LIMIT


@pytest.mark.parametrize(
    ("spent", "step"),
    [
        (Spent(11.9, 1190, 10**6), NONE),  # minutes have no such bound
        (Spent(12), BudgetStep.HARD),
        (Spent(0, 1200), BudgetStep.HARD),
        (Spent(1e9, 10**15), BudgetStep.HARD),
    ],
)
def test_far_spent_budget_ends_the_grace_time(spent: Spent, step: BudgetStep) -> None:
    assert next_step(Budget("s", LIMITS, state=BudgetState.GRACE), spent, 120) is step
    assert next_step(Budget("s", LIMITS, state=BudgetState.TOLD), spent, 120) is NONE
    assert next_step(Budget("s", LIMITS, state=BudgetState.STOPPED), spent, 120) is NONE
    assert (
        next_step(Budget("s", Amounts(minutes=10), state=BudgetState.GRACE), Spent(0, 0, 10**9), 120) is NONE
    )
