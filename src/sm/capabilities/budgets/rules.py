"""Decides about budgets: when sm reports one, when it stops its sessions, and how it may change. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Literal

from sm.capabilities.budgets.amounts import amount_text
from sm.capabilities.budgets.model import Amounts, Budget, Spent
from sm.core.dataclass import dataclass
from sm.wire_types.budget import BudgetState

_ROUNDING = 1e-9


class BudgetStep(StrEnum):
    """The next step for a budget."""

    NONE = "none"
    SOFT = "soft"
    """Tell that most of it is spent."""
    LIMIT = "limit"
    """Stop its sessions."""
    HARD = "hard"
    """Stop its sessions now: too much was spent while they were to report what they have."""


OnLimit = Literal["ask", "pause", "kill", "notice"]


@dataclass(frozen=True, slots=True)
class AtLimit:
    """Names what happens to the sessions of a budget that is spent."""

    pauses: bool = False
    kills: bool = False
    asks: bool = False
    """A request for more is opened."""

    @property
    def stops(self) -> bool:
        return self.pauses or self.kills


AT_LIMIT: Mapping[OnLimit, AtLimit] = {
    "ask": AtLimit(pauses=True, asks=True),
    "pause": AtLimit(pauses=True),
    "kill": AtLimit(kills=True),
    "notice": AtLimit(),
}
"""By `budgets.on_limit`. `state/stops.py` carries it out."""


def share(limits: Amounts, spent: Spent) -> float:
    """The largest spent share of a limit, which is 1 when that limit is reached."""
    usd, tokens, minutes = limits.usd, limits.tokens, limits.minutes
    try:  # each unit in one expression: this is called often
        return max(
            0.0 if usd is None else spent.usd / usd,
            0.0 if tokens is None else spent.tokens / tokens,
            0.0 if minutes is None else spent.seconds / 60 / minutes,
        )
    except ZeroDivisionError:  # nothing was left above
        return 1.0


def is_spent(limits: Amounts, spent: Spent) -> bool:
    return share(limits, spent) >= 1 - _ROUNDING


def reached_units(limits: Amounts, spent: Spent) -> list[str]:
    """The units whose limit is reached."""
    return [unit for unit, limit in limits.items() if spent.get(unit) >= limit * (1 - _ROUNDING)]


def is_far_spent(limits: Amounts, spent: Spent, hard_percent: float) -> bool:
    """True if so much of a limit was spent, in usd or tokens, that no time is left to report."""
    return share(replace(limits, minutes=None), spent) >= hard_percent / 100 - _ROUNDING


def next_step(budget: Budget, spent: Spent, hard_percent: float = math.inf) -> BudgetStep:
    """`spent`: with the work that is under way. `hard_percent`: as in the settings."""
    spent_share = share(budget.limits, spent)
    # First, because each message of an agent asks.
    if spent_share < budget.soft_percent / 100 - _ROUNDING:
        return BudgetStep.NONE
    if budget.state is BudgetState.GRACE and is_far_spent(budget.limits, spent, hard_percent):
        return BudgetStep.HARD
    if budget.state not in (BudgetState.OK, BudgetState.SOFT):
        return BudgetStep.NONE
    if spent_share >= 1 - _ROUNDING:
        return BudgetStep.LIMIT
    return BudgetStep.SOFT if budget.state is BudgetState.OK else BudgetStep.NONE


def minutes_due_s(budget: Budget, spent: Spent, at_work: int) -> float | None:
    """Seconds until the minutes bring the next step, with `at_work` sessions working, or None if they never do."""
    limit = budget.limits.minutes
    if limit is None or budget.state not in (BudgetState.OK, BudgetState.SOFT):
        return None
    percent = budget.soft_percent if budget.state is BudgetState.OK else 100
    left_s = limit * 60 * percent / 100 - spent.seconds
    if left_s <= limit * 60 * _ROUNDING:  # also if nobody works any more
        return 0.0
    return left_s / at_work if at_work else None


def least_left(lefts: Iterable[Amounts]) -> Amounts:
    """The smallest amount of each unit."""
    least = Amounts()
    for left in lefts:
        for unit, amount in left.items():
            known = least.get(unit)
            least = least.with_amount(unit, amount if known is None else min(known, amount))
    return least


def exceeds(wanted: Amounts, left: Amounts) -> str | None:
    """The first unit in which `wanted` is more than is left, or None if there is none."""
    for unit, amount in wanted.items():
        known = left.get(unit)
        if known is not None and amount > known * (1 + _ROUNDING):
            return unit
    return None


def lowered(wanted: Amounts, left: Amounts) -> Amounts:
    """The amounts, each at most what is left."""
    for unit, amount in wanted.items():
        known = left.get(unit)
        if known is not None and amount > known:
            wanted = wanted.with_amount(unit, known)
    return wanted


def only_lowers(before: Amounts, after: Amounts) -> bool:
    """True if `after` allows nothing that `before` did not allow."""
    for unit, limit in before.items():
        changed = after.get(unit)
        if changed is None or changed > limit:
            return False
    return True


def plus(limits: Amounts, more: Amounts) -> Amounts:
    """The limits with `more` added to those that exist."""
    for unit, amount in more.items():
        limit = limits.get(unit)
        if limit is not None:
            limits = limits.with_amount(unit, limit + amount)
    return limits


def as_much_again(budget: Budget, spent: Spent) -> Amounts:
    """The amounts that an approval adds: the steps, as often as it takes to exceed what was spent."""
    more = Amounts()
    for unit, limit in budget.limits.items():
        step = budget.steps.get(unit) or limit
        over = spent.get(unit) - limit
        times = max(1, math.floor(over / step * (1 + _ROUNDING)) + 1) if over >= 0 else 1
        more = more.with_amount(unit, step * times)
    return more


def still_spent(limits: Amounts, spent: Spent) -> str | None:
    """`usd=5 does not exceed the 5.2 that were spent`, for the first limit that is reached, or None if none is."""
    for unit in reached_units(limits, spent):
        amount = amount_text(unit, spent.get(unit))
        return (
            f"{unit}={amount_text(unit, limits.get(unit) or 0)} does not exceed the {amount} that were spent"
        )
    return None
