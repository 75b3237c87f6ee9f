"""Formats budgets and requests for more of one, from their JSON. Pure, and cheap to import."""

from collections.abc import Mapping
from typing import Any

from sm.capabilities.budgets.amounts import amount_text
from sm.core.request_words import RequestWords

_UNITS = ("usd", "tokens", "minutes")


def amounts_text(amounts: object) -> str:
    """`usd=5,tokens=2M`, as it is typed; `nothing` without an amount."""
    given = amounts if isinstance(amounts, Mapping) else {}
    shown = [f"{unit}={amount_text(unit, given[unit])}" for unit in _UNITS if _is_number(given.get(unit))]
    return ",".join(shown) or "nothing"


def amounts_to_type(arguments: object) -> str:
    """`usd=N,minutes=N`: the amounts that a person may type to approve a request for more of a budget."""
    given = arguments if isinstance(arguments, Mapping) else {}
    limits = given.get("limits")
    return (
        ",".join(f"{unit}=N" for unit in _UNITS if isinstance(limits, Mapping) and unit in limits) or "usd=N"
    )


def spent_words(limits: object, spent: object) -> str:
    """`usd 4.02 of 5, minutes 3 of 90`."""
    bounds = limits if isinstance(limits, Mapping) else {}
    used = spent if isinstance(spent, Mapping) else {}
    words = []
    for unit in _UNITS:
        if _is_number(bounds.get(unit)):
            amount = used[unit] if _is_number(used.get(unit)) else 0
            words.append(f"{unit} {_rounded(unit, amount)} of {amount_text(unit, bounds[unit])}")
    return ", ".join(words) or "nothing"


def budget_request(arguments: object) -> str:
    """`asks for more budget: usd 5.02 of 5 spent; an approval adds usd=5`."""
    given = arguments if isinstance(arguments, Mapping) else {}
    which = (
        "asks for more of the budget of the day" if given.get("budget") == "daily" else "asks for more budget"
    )
    used = spent_words(given.get("limits"), given.get("spent"))
    return f"{which}: {used} spent; an approval adds {amounts_text(given.get('more'))}"


def budget_facts(arguments: object) -> list[str]:
    """The facts of such a request, one in each line."""
    given = arguments if isinstance(arguments, Mapping) else {}
    return [
        f"Spent:     {spent_words(given.get('limits'), given.get('spent'))}",
        f"Approval:  adds {amounts_text(given.get('more'))}, and the paused sessions go on",
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(unit: str, amount: float) -> str:
    if unit == "tokens":
        for suffix, factor in (("M", 1_000_000), ("k", 1_000)):
            if amount >= factor:
                return f"{amount / factor:.4g}{suffix}"
        return f"{round(amount)}"
    digits = 4 if unit == "usd" else 1 if amount >= 1 else 2
    return f"{amount:.{digits}f}".rstrip("0").rstrip(".")


def _notice(who: str, name: str, arguments: object) -> str:
    return (
        f"{who} {budget_request(arguments)}; answer with: sm approve {name}, or for another amount: sm approve {name} "
        f"'{amounts_to_type(arguments)}', or: sm deny {name}"
    )


REQUESTS = {
    "budget": RequestWords("asks for more budget", budget_request, budget_facts, _notice, amounts_to_type)
}
"""The words of the kinds of requests that budgets open."""
