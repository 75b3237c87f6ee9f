"""Builds the answers about budgets."""

from typing import Any

from sm.capabilities.budgets.model import UNITS, Amounts, BudgetStatus, Spent
from sm.capabilities.budgets.rules import share
from sm.wire_types.budget import AmountsView, BudgetView, SpentView


def budget_view(status: BudgetStatus) -> BudgetView:
    budget = status.budget
    return BudgetView(
        limits=amounts_view(budget.limits),
        spent=_spent(status.spent),
        left=amounts_view(status.left),
        percent=min(int(100 * share(budget.limits, status.spent) + 1e-6), 1_000_000),
        state=budget.state,
        unstopped=status.unstopped,
        state_at=budget.state_at,
        soft_percent=budget.soft_percent,
        unpriced_tokens=status.spent.unpriced,
        request_id=None if budget.request is None else f"r{budget.request}",
    )


def amounts_view(amounts: Amounts) -> AmountsView:
    rounded: dict[str, Any] = {unit: _rounded(unit, amounts.get(unit)) for unit in UNITS}
    return AmountsView(**rounded)


def _spent(spent: Spent) -> SpentView:
    return SpentView(round(spent.usd, 6), spent.tokens, round(spent.get("minutes"), 3))


def _rounded(unit: str, amount: float | None) -> float | None:
    if amount is None or unit == "tokens":
        return amount
    return round(amount, 6 if unit == "usd" else 3)
