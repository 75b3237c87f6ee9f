"""The settings of budgets: their section of config.yaml, and their key of agent types."""

from typing import Annotated

from pydantic import AfterValidator, Field

from sm.capabilities.budgets.model import InvalidAmounts, parse_amounts
from sm.capabilities.budgets.rules import OnLimit
from sm.section import Section


def _amounts(value: str) -> str:
    try:
        parse_amounts(value)
    except InvalidAmounts as error:
        raise ValueError(f"is not a budget such as usd=5,tokens=2M,minutes=90: {error}") from None
    return value


BudgetText = Annotated[str, AfterValidator(_amounts)]
"""Limits as in `sm spawn --budget`."""


class BudgetSettings(Section):
    """Limits for the spending of sessions (docs/lifecycle.md)."""

    default: BudgetText | None = None
    """The budget of each session that has no session with a budget above it, such as usd=5,tokens=2M,minutes=90. It
    also binds all sessions below. Null for none."""
    daily_usd: float | None = Field(default=None, gt=0, le=1_000_000, allow_inf_nan=False)
    """US dollars that all sessions together may spend on one local day, or null without a limit."""
    soft_percent: int = Field(default=80, ge=1, le=99)
    """The spent part of a budget, in per cent, at which its agent, the parent and you are told. A change applies to new
    budgets."""
    grace_s: float = Field(default=60, ge=0, le=3600, allow_inf_nan=False)
    """Seconds in which the agents of a spent budget report what they have, before they are stopped."""
    hard_percent: int = Field(default=120, ge=100, le=10_000)
    """The spent part of a budget in usd or tokens, in per cent, at which its agents are stopped at once, without the
    rest of `grace_s`. With `on_limit: notice` there is no such bound."""
    on_limit: OnLimit = "ask"
    """The step when a budget is spent. ask: pause its sessions, and open a request for more. pause: only pause them.
    kill: end them. notice: only report that it is spent."""


class BudgetsSection(Section):
    """The keys of config.yaml for budgets."""

    budgets: BudgetSettings = BudgetSettings()
    """Limits for what agents spend."""


class AgentBudget(Section):
    """The keys of agent types and commands for budgets."""

    budget: BudgetText | None = None
    """The budget of each of its sessions and all sessions below it, such as usd=5,tokens=2M,minutes=90. Null for that
    of budgets.default."""


CONFIG, AGENT = BudgetsSection, AgentBudget
