"""The budget of a new session: named, of its agent type, or the default."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.budgets.given_amounts import check_left
from sm.capabilities.budgets.listeners import SpawnBudget, SpawnBudgets, price_warnings
from sm.capabilities.budgets.model import DAILY, Amounts, Budget, Spent
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.tables import PART, BudgetReads
from sm.config import AgentConfig
from sm.core.models import Session, SpawnRequest
from sm.errors import UsageError
from sm.providers.command.provider import CommandProvider
from sm.store import Store
from tests.samples import LAUNCH, session

TOP, LOW = session("aaaa0001"), session("aaaa0002", parent="aaaa0001")


def reads(budgets: Mapping[str, Amounts]) -> BudgetReads:
    known = {id: Budget(id, limits, spent=Spent(usd=1)) for id, limits in budgets.items()}
    return BudgetReads(lambda: known, {TOP.id: TOP, LOW.id: LOW}.get, list, lambda _: 0.0)


def plan(
    budgets: Mapping[str, Amounts], named: str | None, of_type: str | None, default: str | None
) -> SpawnBudget:
    planner = SpawnBudgets(BudgetSettings(default=default, soft_percent=70), reads(budgets))
    wanted = SpawnRequest(LOW.agent_type, additions={"budget": named})
    return planner.plan(LOW, wanted, AgentConfig.model_validate({"budget": of_type}))


@pytest.mark.parametrize(
    ("above", "named", "of_type", "default", "limits"),
    [
        ({}, None, None, None, Amounts()),
        ({}, None, None, "usd=2", Amounts(usd=2)),
        ({}, None, "usd=3", "usd=2", Amounts(usd=3)),
        ({}, "usd=4", "usd=3", "usd=2", Amounts(usd=4)),
        ({DAILY: Amounts(usd=10)}, None, None, "usd=2", Amounts(usd=2)),
        ({TOP.id: Amounts(usd=10)}, None, None, "usd=2", Amounts()),
        ({TOP.id: Amounts(usd=10)}, None, "usd=3", "usd=2", Amounts(usd=3)),
        ({TOP.id: Amounts(usd=10), DAILY: Amounts(usd=10)}, None, None, "usd=2", Amounts()),
        ({TOP.id: Amounts(usd=10)}, "usd=9", None, None, Amounts(usd=9)),
    ],
)
def test_spawn_overrides_the_agent_type_which_overrides_the_default(
    above: Mapping[str, Amounts],
    named: str | None,
    of_type: str | None,
    default: str | None,
    limits: Amounts,
) -> None:
    planned = plan(above, named, of_type, default)
    assert (planned.limits, planned.named, planned.warnings) == (limits, named is not None, ())
    assert planned.soft_percent == (70 if limits else 80)


@pytest.mark.parametrize(
    ("above", "of_type", "source"),
    [(TOP.id, "usd=9", "agent type Engineer"), (DAILY, None, "budgets.default")],
)
def test_budget_that_nobody_named_is_lowered_to_what_is_left(
    above: str, of_type: str | None, source: str
) -> None:
    planned = plan({above: Amounts(usd=3)}, None, of_type, "usd=9")
    assert planned.limits == Amounts(usd=2)
    assert planned.warnings == (f"the budget of {source} (usd=9) was lowered to what is left above: usd=2",)


def test_named_budget_that_exceeds_what_is_left_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--budget: usd=3 is more than .* which has usd=2 left") as refused:
        plan({TOP.id: Amounts(usd=3)}, "usd=3", None, None)
    assert refused.value.hint == "use at most --budget usd=2"
    assert plan({TOP.id: Amounts(usd=3)}, "usd=2,tokens=5", None, None).limits == Amounts(2, 5)


def test_named_budget_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid value for --budget"):
        plan({}, "usd=", None, None)


def test_nothing_left_is_named() -> None:
    with pytest.raises(UsageError, match="which has tokens=0 left"):
        check_left(Amounts(tokens=1), Amounts(tokens=0), "--add")


class Priced(CommandProvider):
    def knows_price(self, model: str) -> bool:
        return model == "known"


@pytest.mark.parametrize(
    ("above", "limits", "model", "warned"),
    [
        ({}, Amounts(usd=1), "new", True),
        ({}, Amounts(usd=1), "known", False),
        ({}, Amounts(usd=1), None, False),
        ({}, Amounts(tokens=1), "new", False),
        ({TOP.id: Amounts(usd=1)}, Amounts(tokens=1), "new", True),
        ({TOP.id: Amounts(tokens=1)}, Amounts(), "new", False),
        ({TOP.id: Amounts(tokens=1), DAILY: Amounts(usd=1)}, Amounts(), "new", True),
    ],
)
def test_limit_of_dollars_warns_of_a_model_without_a_price(
    above: Mapping[str, Amounts], limits: Amounts, model: str | None, warned: bool
) -> None:
    of_model: Session = replace(LOW, model=model)
    warnings = price_warnings(reads(above), of_model, limits, Priced({}))
    assert len(warnings) == warned
    assert not warned or "the price of model new is unknown" in warnings[0]


@pytest.mark.parametrize(
    ("budget", "stored"),
    [
        (SpawnBudget(reads({})), None),
        (SpawnBudget(reads({}), Amounts(usd=1), named=True), Amounts(usd=1)),
        (SpawnBudget(reads({}), Amounts(9, 5)), Amounts(2, 5)),
    ],
)
async def test_inserted_budget_is_at_most_what_is_left(
    tmp_path: Path, budget: SpawnBudget, stored: Amounts | None
) -> None:
    async with await Store.open(str(tmp_path / "sm.db")) as store, store.transaction() as tx:
        for each in (TOP, LOW):
            await tx.insert(each, LAUNCH, None)
        tx.part(PART).put(Budget(TOP.id, Amounts(usd=3), spent=Spent(usd=1)))
        budget.insert(tx, LOW)
        assert tx.part(PART).find(LOW.id) == (
            stored and Budget(LOW.id, stored, steps=stored, state_at=tx.now)
        )
        with pytest.raises(UsageError, match="--budget: usd=9 is more than"):
            SpawnBudget(reads({}), Amounts(usd=9), named=True).insert(tx, LOW)
