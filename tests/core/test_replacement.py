"""The fast replacement of fields."""

from dataclasses import replace

from sm.capabilities.budgets.model import Amounts, Budget, Spent
from sm.core.replacement import replaced


def test_copy_has_the_changes_and_the_value_stays_as_it_was() -> None:
    budget = Budget("1a2b3c4d", Amounts(usd=5), reports={"5e6f7a8b": 7})
    changed = replaced(budget, spent=Spent(usd=1), day="2026-01-27")
    assert changed == replace(budget, spent=Spent(usd=1), day="2026-01-27")
    assert budget == Budget("1a2b3c4d", Amounts(usd=5), reports={"5e6f7a8b": 7})
