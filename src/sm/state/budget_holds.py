"""Decides what a spent budget holds back: turns, messages and starts of agents."""

from collections.abc import Callable

from sm.core.budget_wording import budget_reason, raise_hint
from sm.core.budgets import Budget, binding
from sm.core.models import Session
from sm.errors import IllegalState
from sm.policy.budgets import as_much_again
from sm.store import Open, Transaction


def stopping_budget(session: Session, find: Callable[[str], Session | None], open: Open) -> Budget | None:
    """The nearest budget that lets the session start no turn and no agent; None: none does."""
    if not any(budget.stops for budget in open.budgets.values()):
        return None
    return next((b for b in binding(session, find, open.budgets) if b.stops), None)


def budget_hold(
    session: Session, find: Callable[[str], Session | None], open: Open, message_id: int | None
) -> str | None:
    """Why a message waits for a budget of the session; None: it does not. The order to report does not wait."""
    budget = stopping_budget(session, find, open)
    if budget is None or (message_id is not None and message_id == budget.reports.get(session.id)):
        return None
    return budget_reason(budget, find(budget.id))


def check_within_budget(tx: Transaction, session: Session) -> None:
    """Raise IllegalState if a spent budget stops the session from starting an agent or from being started."""
    budget = stopping_budget(session, tx.find, tx.mail.open)
    if budget is not None:
        owner = tx.find(budget.id)
        request = tx.mail.open.requests.get(budget.request or 0)
        more = as_much_again(budget, tx.budgets.spent_now(budget))
        hint = raise_hint(owner, more) if request is None else f"sm approve {request.name}"
        raise IllegalState(f"{budget_reason(budget, owner)}: no agent can start", hint)
