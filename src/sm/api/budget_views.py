"""Builds the documented JSON of budgets."""

from typing import cast

from sm.api.answers.budgets import AmountsView, BudgetView, SpentView
from sm.core.budgets import UNITS, Amounts, Spent
from sm.policy.budgets import share
from sm.sessions.budgets import BudgetStatus


def budget_json(status: BudgetStatus) -> BudgetView:
    budget = status.budget
    return {
        "limits": amounts_json(budget.limits),
        "spent": _spent(status.spent),
        "left": amounts_json(status.left),
        "percent": min(int(100 * share(budget.limits, status.spent) + 1e-6), 1_000_000),
        "state": budget.state,
        "unstopped": status.unstopped,
        "state_at": budget.state_at,
        "soft_percent": budget.soft_percent,
        "unpriced_tokens": status.spent.unpriced,
        "request_id": None if budget.request is None else f"r{budget.request}",
    }


def amounts_json(amounts: Amounts) -> AmountsView:
    rounded = {unit: _rounded(unit, amounts.get(unit)) for unit in UNITS}
    return cast(AmountsView, rounded)


def _spent(spent: Spent) -> SpentView:
    return {
        "usd": round(spent.usd, 6),
        "tokens": spent.tokens,
        "minutes": round(spent.get("minutes"), 3),
    }


def _rounded(unit: str, amount: float | None) -> float | None:
    if amount is None or unit == "tokens":
        return amount
    return round(amount, 6 if unit == "usd" else 3)
