"""The texts about budgets: events, notices, messages to agents and reasons. Pure."""

from typing import Any

from sm.capabilities.budgets.amounts import amount_text
from sm.capabilities.budgets.model import DAILY, UNITS, Amounts, Budget, Spent
from sm.core.labels import short_label
from sm.core.models import Session
from sm.core.text import folded
from sm.core.wording import notice_subject

ADDED = "Your budget was raised. Go on with your work where you stopped."
"""The message to an agent that was told to report because its budget was spent."""


def subject_of(budget: Budget, owner: Session | None) -> str:
    """The subject of a budget for people: the label of its session, or `the day`."""
    return "the day" if budget.id == DAILY or owner is None else short_label(owner)


def budget_reason(budget: Budget, owner: Session | None) -> str:
    """The reason why sessions of a spent budget are paused, and their messages wait."""
    return f"budget of {subject_of(budget, owner)} reached"


def spent_text(limits: Amounts, spent: Spent) -> str:
    """`usd 4.02 of 5, minutes 3 of 90`."""
    return ", ".join(
        f"{unit} {_rounded(unit, spent.get(unit))} of {amount_text(unit, limit)}"
        for unit, limit in limits.items()
    )


def _rounded(unit: str, amount: float) -> str:
    return amount_text(unit, round(amount, 4 if unit == "usd" else 1 if amount >= 1 else 2))


def soft_text(budget: Budget, spent: Spent, owner: Session | None) -> str:
    """Most of a budget is spent. `owner`: the session of the notice, or None in a text for that session itself."""
    used = spent_text(budget.limits, spent)
    if owner is None:
        return (
            f"{budget.soft_percent}% of your budget is spent ({used}); it counts your own work and that of all agents "
            "below you. Finish what matters most. sm budget shows what is left."
        )
    return f"{_whose(budget, owner)} has spent {budget.soft_percent}% of its budget: {used}; see: {_command(budget)}"


def limit_text(
    budget: Budget, spent: Spent, owner: Session | None, on_limit: str | None, *, at_work: bool = True
) -> str:
    """A budget is spent. `owner`: as in `soft_text`. `on_limit`: the setting, or None if the session is only told.

    `at_work`: agents are at work, which report what they have first.
    """
    used = spent_text(budget.limits, spent)
    if owner is None:
        return f"Your budget is spent: {used}. It counts your own work and that of all agents below you."
    verb = {"kill": "kills", None: None}.get(on_limit, "pauses")
    first = "its agents report what they have, then sm" if at_work else "sm"
    then = "" if verb is None else f"; {first} {verb} them" if at_work else f"; {first} {verb} its sessions"
    return f"{_whose(budget, owner)} has spent its budget: {used}{then}; see: {_command(budget)}"


def report_text(budget: Budget, grace_s: float) -> str:
    """The order to an agent at work whose budget, or one above it, is spent."""
    what = "The budget of the day" if budget.id == DAILY else "The budget for your work"
    return (
        f"{what} is spent. You will be stopped in {grace_s:g} s. Start nothing new: report now what you have, with "
        "sm checkpoint 'TEXT' or, if your work is done, sm complete 'RESULT'. Then end your turn."
    )


def raised_text(budget: Budget, spent: Spent, owner: Session, by: str) -> str:
    """Text of the event for a new budget, and for other limits."""
    return (
        f"{_whose(budget, owner)} has a new budget, set by {folded(by)}: {spent_text(budget.limits, spent)}"
    )


def ended_text(budget: Budget, spent: Spent, owner: Session, by: str) -> str:
    """Text of the event for a budget that binds no more."""
    used = spent_text(budget.limits, spent)
    return f"{_whose(budget, owner)} has no budget any more, ended by {folded(by)}: {used}"


def request_arguments(budget: Budget, spent: Spent, more: Amounts, owner: Session | None) -> dict[str, Any]:
    """The arguments of a request for more of a budget."""
    return {
        "budget": DAILY if owner is None else owner.id,
        "limits": dict(budget.limits.items()),
        "spent": {unit: round(spent.get(unit), 6) for unit in UNITS if budget.limits.get(unit) is not None},
        "more": dict(more.items()),
    }


def briefing_line(limits: Amounts) -> str:
    """The line of a briefing about the agent's budget."""
    words = ", ".join(f"{unit} {amount_text(unit, limit)}" for unit, limit in limits.items())
    return (
        f"Your budget, for you and all agents below you together: {words}. sm budget shows what is left; when it is "
        "spent, you are stopped."
    )


def _whose(budget: Budget, owner: Session) -> str:
    return "the day" if budget.id == DAILY else notice_subject(owner)


def _command(budget: Budget) -> str:
    return f"sm budget {budget.id}"
