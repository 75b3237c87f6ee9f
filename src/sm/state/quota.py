"""Enforces the configured limits inside a transaction."""

from collections import deque

from sm.config import Limits
from sm.core.lifecycle import is_live
from sm.core.models import BridgeUser, Caller, Session
from sm.policy.limits import (
    RATE_WINDOW_S,
    child_limit_error,
    count_sessions,
    elapsed_s,
    generation,
    height,
    message_rate_error,
    operator_message_rate_error,
    process_limit_error,
    report_rate_error,
    spawn_rate_error,
    user_limit_error,
)
from sm.policy.relations import is_unrestricted
from sm.store import Transaction


class Quota:
    """Every method raises LimitReached, or RateLimited for a limit per time.

    Transactions run one after the other, so concurrent callers cannot exceed a limit. Limits of parents and
    messages do not apply to the operator and to owners.
    """

    def __init__(self, bounds: Limits) -> None:
        self._bounds = bounds
        self._reported = dict[str, deque[str]]()
        """The times of the last reports of each session, in the order of their newest report."""

    async def check_spawn(self, tx: Transaction, caller: Caller, session: Session) -> None:
        counts = count_sessions(tx.unfinished_sessions(), session.parent_id, session.workspace)
        parent = _binding(tx, caller, session.parent_id)
        # Permanent limits come before the rate limit, which a caller may retry.
        if isinstance(parent, Session):
            self._check_place(parent, counts.children, generation(parent, tx.find))
        elif parent is not None:
            self._check_user(tx, parent)
        _check(process_limit_error(session.workspace, counts.processes, self._bounds.max_per_workspace))
        interval_s = self._bounds.spawn_interval_s
        if parent is not None and interval_s > 0:
            if isinstance(parent, Session):
                newest_at = await tx.newest_child_at(parent.id)
            else:
                newest_at = await tx.newest_created_at(parent.name)
            since_s = elapsed_s(newest_at, session.created_at)
            _check(spawn_rate_error(parent, since_s, interval_s))

    def check_restore(self, tx: Transaction, caller: Caller, session: Session) -> None:
        counts = count_sessions(tx.unfinished_sessions(), session.parent_id, session.workspace)
        parent = _binding(tx, caller, session.parent_id)
        if isinstance(parent, Session):
            self._check_place(parent, counts.children, 0)
        elif parent is not None:
            self._check_user(tx, parent)
        _check(process_limit_error(session.workspace, counts.processes, self._bounds.max_per_workspace))

    async def check_reparent(self, tx: Transaction, caller: Caller, session: Session, parent_id: str) -> None:
        """Check a session that is about to move, with its descendants, to another parent."""
        parent = _binding(tx, caller, parent_id)
        if not isinstance(parent, Session):
            return
        below = await tx.descendants(session.id)
        children = (
            count_sessions(tx.unfinished_sessions(), parent.id, None).children
            if is_live(session.status)
            else -1
        )
        deepest = generation(parent, tx.find) + height(session.id, below)
        self._check_place(parent, children, deepest)

    async def check_message(self, tx: Transaction, caller: Caller, at: str) -> None:
        if is_unrestricted(caller):
            return
        sender = caller.user or tx.session(caller.name)
        per_minute = self._bounds.messages_per_minute
        first_at = await tx.mail.sent_at(caller.name, per_minute)
        _check(message_rate_error(sender, elapsed_s(first_at, at), per_minute))

    async def check_message_to_operator(self, tx: Transaction, session: Session, at: str) -> None:
        per_minute = self._bounds.operator_messages_per_minute
        # The limit of all messages bounds those of the last minute, so no older row is read.
        newest = self._bounds.messages_per_minute
        first_at = await tx.mail.sent_to_operator_at(session.id, per_minute, newest)
        _check(operator_message_rate_error(session, elapsed_s(first_at, at), per_minute))

    def check_report(self, session: Session, at: str) -> None:
        """Count a checkpoint or a note.

        The count is kept in memory: a session chooses the times of spooled reports, and so of its events.
        """
        while self._reported and _is_old(next(iter(self._reported.values()))[-1], at):
            del self._reported[next(iter(self._reported))]
        per_minute = self._bounds.reports_per_minute
        times = self._reported.get(session.id) or deque[str](maxlen=per_minute)
        first_at = times[0] if len(times) == per_minute else None
        _check(report_rate_error(session, elapsed_s(first_at, at), per_minute))
        times.append(at)
        self._reported.pop(session.id, None)
        self._reported[session.id] = times

    def _check_place(self, parent: Session, children: int, deepest: int) -> None:
        most, generations = self._bounds.max_children, self._bounds.max_depth
        _check(child_limit_error(parent, children, deepest, max_children=most, max_depth=generations))

    def _check_user(self, tx: Transaction, user: BridgeUser) -> None:
        live = [s for s in tx.unfinished_sessions() if is_live(s.status) and s.parent_id is None]
        count = sum(s.paired_user == user.name for s in live)
        _check(user_limit_error(user, count, self._bounds.max_children))


def _is_old(before: str, at: str) -> bool:
    """True when `before` is more than a minute ago, or lies in the future: the clock was set back."""
    since_s = elapsed_s(before, at)
    return since_s is None or since_s >= RATE_WINDOW_S


def _binding(tx: Transaction, caller: Caller, parent_id: str | None) -> Session | BridgeUser | None:
    """The parent whose limits apply to this caller; a paired user is the parent of sessions without one."""
    return None if is_unrestricted(caller) else tx.find(parent_id) or caller.user


def _check(refusal: Exception | None) -> None:
    if refusal is not None:
        raise refusal
