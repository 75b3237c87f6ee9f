"""Budgets: limits for what a session and all sessions below it may spend. Pure."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, replace
from enum import StrEnum
from typing import Any, Self

from sm.capabilities.budgets.amounts import amount_text
from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.wire_types.budget import BudgetState

DAILY = "daily"
"""The subject of the budget of the whole instance for a local day. No session has this id."""

_MOST: Mapping[str, float] = {"usd": 1e6, "tokens": 1e12, "minutes": 366 * 24 * 60.0}
"""The units, each with its largest limit."""
_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("$", "dollar", "dollars"), "usd"),
    "token": "tokens",
    **dict.fromkeys(("minute", "min", "mins"), "minutes"),
}
"""Other words for the units."""
_LEAST: Mapping[str, float] = {"usd": 0.000001, "tokens": 1, "minutes": 0.01}
_FACTORS: Mapping[str, float] = {"": 1, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6}
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})([kKmM]?)", re.ASCII)
_TEXT_MAX = 200
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Amounts:
    """An amount of each unit. None means no limit, or not named."""

    usd: float | None = None
    """US dollars."""
    tokens: int | None = None
    """Input and output. The cache does not count."""
    minutes: float | None = None
    """Minutes of work, summed over the sessions: statuses other than running, and pauses, do not count."""

    def items(self) -> Iterator[tuple[str, float]]:
        """The units with an amount."""
        for unit in UNITS:
            amount = getattr(self, unit)
            if amount is not None:
                yield unit, amount

    def get(self, unit: str) -> float | None:
        amount: float | None = getattr(self, unit)
        return amount

    def with_amount(self, unit: str, amount: float | None) -> Self:
        value: Any = round(amount) if amount is not None and unit == "tokens" else amount
        return replace(self, **{unit: value})

    def __bool__(self) -> bool:
        return any(True for _ in self.items())

    def __str__(self) -> str:
        """`usd=5,tokens=2M,minutes=90`, as `parse_amounts` reads it."""
        return ",".join(f"{unit}={amount_text(unit, amount)}" for unit, amount in self.items())


NO_LIMITS = Amounts()
UNITS = tuple(f.name for f in fields(Amounts))


@dataclass(frozen=True, slots=True)
class Spent:
    """The spending of sessions."""

    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    unpriced: int = 0
    """The tokens, of all kinds, whose price is unknown: `usd` lacks their cost."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.usd + other.usd,
            self.tokens + other.tokens,
            self.seconds + other.seconds,
            self.unpriced + other.unpriced,
        )

    def beyond(self, other: Self) -> Self:
        """The difference to a smaller one, 0 where this one is smaller."""
        return type(self)(
            max(0.0, self.usd - other.usd),
            max(0, self.tokens - other.tokens),
            max(0.0, self.seconds - other.seconds),
            max(0, self.unpriced - other.unpriced),
        )

    def get(self, unit: str) -> float:
        """The amount in a unit of `Amounts`."""
        return self.seconds / 60 if unit == "minutes" else float(getattr(self, unit))


class BudgetTimer(StrEnum):
    """The kinds of timers. They are stored in the database, so they never change."""

    MINUTES = "budget"
    """The work under way may have used up the minutes of a budget (the subject), or most of them."""
    STOP = "budget_stop"
    """The time is over in which the agents of a spent budget report what they have."""
    DAY = "budget_day"
    """The local day of the daily budget is over."""


@dataclass(frozen=True)  # without slots, for `replaced`
class Budget:
    """The budget of a session, which also binds all sessions below it, or of the whole instance."""

    id: str
    """The id of the session, or DAILY."""
    limits: Amounts
    soft_percent: int = 80
    steps: Amounts = Amounts()
    """The amounts that an approval without amounts adds."""
    spent: Spent = Spent()
    """Excludes work that is under way."""
    state: BudgetState = BudgetState.OK
    state_at: str = ""
    request: int | None = None
    """The number of the request for more that was opened last."""
    reports: Mapping[str, int] = field(default_factory=dict)
    """The messages that ask agents at work to report what they have, by session."""
    day: str | None = None
    """Of the daily budget: the local day that `spent` belongs to."""

    @property
    def stops(self) -> bool:
        """No turn and no agent starts below it."""
        return self.state in (BudgetState.GRACE, BudgetState.STOPPED)


class InvalidAmounts(ValueError):
    """A text that is no budget. The message says why."""


def parse_amounts(text: str) -> Amounts:
    """Parse `usd=5,tokens=2M,minutes=90`. Raises InvalidAmounts."""
    return _parsed(text, removable=False)[0]


def parse_change(text: str) -> tuple[Amounts, frozenset[str]]:
    """Parse amounts of which some may be `none`: the amounts, and the units without one. `none`: all units."""
    if text.strip().lower() == "none":
        return Amounts(), frozenset(UNITS)
    return _parsed(text, removable=True)


def _parsed(text: str, *, removable: bool) -> tuple[Amounts, frozenset[str]]:
    if len(text) > _TEXT_MAX:
        raise InvalidAmounts(f"longer than {_TEXT_MAX} characters")
    amounts, removed, seen = Amounts(), set[str](), set[str]()
    for part in re.split(r"[,;]", text):
        unit, number = _unit_and_number(part.strip())
        if unit not in _MOST:
            raise InvalidAmounts(f"{part.strip()[:40]!r} is not one of usd=N, tokens=N and minutes=N")
        if unit in seen:
            raise InvalidAmounts(f"{unit} is named twice")
        seen.add(unit)
        if removable and number.lower() == "none":
            removed.add(unit)
        else:
            amounts = amounts.with_amount(unit, _amount(unit, number))
    return amounts, frozenset(removed)


def _unit_and_number(part: str) -> tuple[str, str]:
    """The unit and the number in `usd=5`, `USD: 5`, `$5`, `5 dollars` or `90 minutes`; without a unit it is empty."""
    if part.startswith("$"):
        part = f"usd={part[1:]}"
    unit, sign, number = re.fullmatch(r"([^=:]*)([=:]?)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]  # every text matches
    if not sign:
        number, _, unit = part.partition(" ")
    unit = unit.strip().lower()
    return _UNITS.get(unit, unit), number.strip().removeprefix("$")


def _amount(unit: str, text: str) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise InvalidAmounts(f"{unit}={text[:40]!r} is not a positive number such as 5, 2.5, 300k or 2M")
    amount = float(match[1]) * _FACTORS[match[2]]
    if not math.isfinite(amount) or not _LEAST[unit] <= amount <= _MOST[unit]:
        least, most = amount_text(unit, _LEAST[unit]), amount_text(unit, _MOST[unit])
        raise InvalidAmounts(f"{unit}={text[:40]} is not between {least} and {most}")
    if unit == "tokens" and abs(amount - round(amount)) > _ROUNDING * amount:
        raise InvalidAmounts(f"tokens={text[:40]} is not a whole number")
    return amount


def above(session: Session, find: Callable[[str], Session | None]) -> list[Session]:
    """The session, and those whose budgets bind it too, nearest first, each once.

    A session that was adopted when a parent below a budget ended stays bound by that parent (`Session.bound_to`), and
    its new parents bind it too: no move within the tree may take it out of a budget.
    """
    found = {session.id}
    waiting = [session]
    for here in waiting:  # grows
        for other in (here.bound_to, here.parent_id):
            if other is not None and other not in found and (upper := find(other)) is not None:
                found.add(other)
                waiting.append(upper)
    return waiting


def binding(
    session: Session, find: Callable[[str], Session | None], budgets: Mapping[str, Budget]
) -> list[Budget]:
    """The budgets that bind a session: its own, those above it, nearest first, and that of the day."""
    if not budgets:
        return []
    found = [budgets[s.id] for s in above(session, find) if s.id in budgets]
    return [*found, budgets[DAILY]] if DAILY in budgets else found


def left_of(budget: Budget, spent: Spent) -> Amounts:
    """The rest, never negative. `spent`: with the work that is under way."""
    left = Amounts()
    for unit, limit in budget.limits.items():
        left = left.with_amount(unit, max(0.0, limit - spent.get(unit)))
    return left


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget with what was spent until now."""

    budget: Budget
    spent: Spent
    unstopped: int = 0
    """Sessions of a stopped budget that were not seen to have stopped yet."""

    @property
    def left(self) -> Amounts:
        return left_of(self.budget, self.spent)
