"""Decides what a spent budget holds back: turns, messages and starts of agents."""

from collections.abc import Callable

from sm.core.budget_wording import budget_reason, raise_hint
from sm.core.budgets import Budget, BudgetState, binding
from sm.core.labels import short_label
from sm.core.models import Session
from sm.core.requests import Request
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


def open_request_of(tx: Transaction, budget: Budget) -> Request | None:
    """The open request for more of the budget."""
    request = tx.mail.open.requests.get(budget.request or 0)
    return request if request is not None and request.open else None


def _raise_hint(tx: Transaction, budget: Budget) -> str:
    return raise_hint(tx.find(budget.id), as_much_again(budget, tx.budgets.spent_now(budget)))


def is_held_by_budget(tx: Transaction, session: Session) -> bool:
    """True if a spent budget keeps the session paused."""
    return session.paused is not None and any(
        budget.state is BudgetState.STOPPED for budget in tx.budgets.binding(session)
    )


def stopped_error(tx: Transaction, session: Session) -> IllegalState:
    """The error for a paused session that a spent budget keeps from going on."""
    budget = next(b for b in tx.budgets.binding(session) if b.stops)
    request = open_request_of(tx, budget)
    return IllegalState(
        f"session {short_label(session)} is paused because a budget is spent: raise the budget to let it go on",
        _raise_hint(tx, budget) if request is None else f"sm approve {request.name}",
    )


def check_within_budget(tx: Transaction, session: Session) -> None:
    """Raise IllegalState if a spent budget stops the session from starting an agent or from being started."""
    budget = stopping_budget(session, tx.find, tx.mail.open)
    if budget is not None:
        request = open_request_of(tx, budget)
        raise IllegalState(
            f"{budget_reason(budget, tx.find(budget.id))}: no agent can start",
            _raise_hint(tx, budget) if request is None else f"sm approve {request.name}",
        )
