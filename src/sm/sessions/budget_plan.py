"""Decides the budget of a new session: the one of the spawn, of its agent type, or the default."""

from dataclasses import dataclass

from sm.config import Config
from sm.core.budget_lines import amount_text, floor_text
from sm.core.budgets import DAILY, NO_LIMITS, Amounts, Budget, InvalidAmounts, parse_amounts
from sm.core.models import Session
from sm.core.text import folded
from sm.errors import UsageError
from sm.policy.budgets import exceeds, lowered
from sm.providers.base import Provider
from sm.store import Transaction
from sm.store.budgets import BudgetReads


@dataclass(frozen=True, slots=True)
class SpawnBudget:
    """The budget of a new session, and warnings for the caller. Without limits: none."""

    limits: Amounts = NO_LIMITS
    named: bool = False
    """The caller has named it, so it is never lowered."""
    soft_percent: int = 80
    warnings: tuple[str, ...] = ()

    def insert(self, tx: Transaction, session: Session) -> None:
        """Store the budget of a session that the transaction inserts. Raises UsageError for more than is left above."""
        limits = self.limits
        if not limits:
            return
        left = tx.budgets.left_above(session)
        if self.named:
            check_left(limits, left, "--budget")
        limits = lowered(limits, left)
        tx.budgets.put(Budget(session.id, limits, self.soft_percent, steps=limits, state_at=tx.now))


NO_BUDGET = SpawnBudget()


def plan_budget(
    config: Config, reads: BudgetReads, session: Session, named: str | None, of_type: str | None
) -> SpawnBudget:
    """The budget of a session that is not stored yet. Raises UsageError.

    `named`: that of the spawn. `of_type`: that of the agent type. Both as texts, None: none.
    """
    left = reads.left_above(session)
    if named is not None:
        limits = parse(named, "--budget")
        check_left(limits, left, "--budget")
        return SpawnBudget(limits, named=True, soft_percent=config.budgets.soft_percent)
    text, source = of_type, f"agent type {session.agent_type}"
    if text is None and all(budget.id == DAILY for budget in reads.binding(session)):
        text, source = config.budgets.default, "budgets.default"
    if text is None:
        return NO_BUDGET
    wanted = parse_amounts(text)
    limits = lowered(wanted, left)
    warnings: tuple[str, ...] = ()
    if limits != wanted:
        warnings = (f"the budget of {source} ({wanted}) was lowered to what is left above: {limits}",)
    return SpawnBudget(limits, soft_percent=config.budgets.soft_percent, warnings=warnings)


def parse(text: str, option: str) -> Amounts:
    """Parse the limits of a spawn. Raises UsageError."""
    try:
        return parse_amounts(text)
    except InvalidAmounts as error:
        raise UsageError(
            f"invalid value for {option}: {folded(str(error), 200)}", f"{option} usd=5,tokens=2M,minutes=90"
        ) from None


def check_left(
    limits: Amounts, left: Amounts, option: str, command: str = "use at most --budget {}", before: float = 0
) -> None:
    """Raise UsageError if the limits exceed what is left above.

    `command`: for the hint, with `{}` for the largest amount, from which `before` is subtracted.
    """
    unit = exceeds(limits, left)
    if unit is not None:
        wanted, most = limits.get(unit) or 0, left.get(unit) or 0
        amount = floor_text(unit, most - before)
        hint = f"raise the budget above first: sm budget SESSION --add {unit}=N"
        raise UsageError(
            f"{option}: {unit}={amount_text(unit, wanted)} is more than is left in a budget above, "
            f"which has {unit}={floor_text(unit, most)} left",
            hint if amount == "0" else command.format(f"{unit}={amount}"),
        )


def price_warnings(
    reads: BudgetReads, session: Session, limits: Amounts, provider: Provider
) -> tuple[str, ...]:
    """A warning if US dollars limit a session whose model has no known price."""
    binds = limits.usd is not None or any(b.limits.usd is not None for b in reads.binding(session))
    if not binds or session.model is None or provider.knows_price(session.model):
        return ()
    return (
        f"the price of model {folded(session.model, 80)} is unknown: its cost does not count, "
        "only limits of tokens and minutes bind it (set its prices in config.yaml)",
    )
