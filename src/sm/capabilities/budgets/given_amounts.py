"""Reads and checks the amounts that callers give. Raises the errors that they see."""

from collections.abc import Callable

from sm.capabilities.budgets.amounts import amount_text, floor_text
from sm.capabilities.budgets.model import UNITS, Amounts, InvalidAmounts, parse_amounts, parse_change
from sm.capabilities.budgets.operations import CHANGE, BudgetChange
from sm.capabilities.budgets.rules import exceeds, plus
from sm.core.text import folded
from sm.errors import IllegalState, UsageError
from sm.operations.hints import Argument, Hint, Use

_EXAMPLE = Hint(Use(CHANGE, "SESSION", "--set", "usd=5,tokens=2M,minutes=90"))


def parse_limits(text: str) -> Amounts:
    """Parse the limits of a spawn. Raises UsageError."""
    try:
        return parse_amounts(text)
    except InvalidAmounts as error:
        raise UsageError(
            f"invalid value for --budget: {folded(str(error), 200)}",
            Hint(Argument("budget", "usd=5,tokens=2M,minutes=90")),
        ) from None


def at_most(limits: str) -> Hint:
    """The hint for a spawn whose budget is too large."""
    return Hint("use at most ", Argument("budget", limits))


def check_left(
    limits: Amounts,
    left: Amounts,
    option: str,
    hint_of: Callable[[str], Hint] = at_most,
    before: float = 0,
) -> None:
    """Raise UsageError if the limits exceed what is left above.

    `hint_of`: the hint for the largest amount, from which `before` is subtracted.
    """
    unit = exceeds(limits, left)
    if unit is not None:
        wanted, most = limits.get(unit) or 0, left.get(unit) or 0
        amount = floor_text(unit, most - before)
        hint = Hint("raise the budget above first: ", Use(CHANGE, "SESSION", "--add", f"{unit}=N"))
        raise UsageError(
            f"{option}: {unit}={amount_text(unit, wanted)} is more than is left in a budget above, "
            f"which has {unit}={floor_text(unit, most)} left",
            hint if amount == "0" else hint_of(f"{unit}={amount}"),
        )


def changed_limits(before: Amounts, wanted: BudgetChange, name: str) -> Amounts:
    """The limits after a change, or empty without a budget. Raises UsageError and IllegalState."""
    if (wanted.set is None) == (wanted.add is None):
        raise UsageError("a change of a budget has either limits to set or amounts to add", _EXAMPLE)
    if wanted.add is not None:
        more = amounts_of(wanted.add, "--add", Hint(Use(CHANGE, name, "--add", "usd=2")))
        if not before:
            raise IllegalState(f"session {name} has no budget", Hint(Use(CHANGE, name, "--set", str(more))))
        return added(before, more, name)
    try:
        given, removed = parse_change(wanted.set or "")
    except InvalidAmounts as error:
        raise UsageError(f"invalid value for --set: {folded(str(error), 200)}", _EXAMPLE) from None
    limits = before
    for unit in UNITS:
        if unit in removed:
            limits = limits.with_amount(unit, None)
        elif given.get(unit) is not None:
            limits = limits.with_amount(unit, given.get(unit))
    return limits


def added(limits: Amounts, more: Amounts, name: str) -> Amounts:
    """Raises UsageError for a unit without a limit, and for a limit that becomes too large."""
    for unit, amount in more.items():
        if limits.get(unit) is None:
            known = ", ".join(unit for unit, _ in limits.items())
            raise UsageError(
                f"the budget has no limit of {unit} to add {amount_text(unit, amount)} to, only {known}",
                Hint("set one: ", Use(CHANGE, name, "--set", f"{unit}={amount_text(unit, amount)}")),
            )
    total = plus(limits, more)
    try:
        parse_amounts(str(total))
    except InvalidAmounts as error:
        raise UsageError(f"the sum is too large: {folded(str(error), 200)}") from None
    return total


def amounts_of(text: str, where: str, hint: Hint) -> Amounts:
    try:
        return parse_amounts(text)
    except InvalidAmounts as error:
        raise UsageError(f"invalid amount for {where}: {folded(str(error), 200)}", hint) from None
