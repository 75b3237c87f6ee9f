"""Finds the sessions that one loss ended together. Functions of a transaction."""

from sm.core.lifecycle import is_ended
from sm.core.models import Session, ancestors
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.state.cut_off import is_planned
from sm.state.loss_causes import LOST_TOGETHER, LossCause
from sm.store import Transaction


def was_lost(session: Session) -> bool:
    """True if the session ended with the machine, the tmux server, the container engine or its container."""
    return session.status is Status.ERROR and session.status_source in LOST_TOGETHER


async def lost_together(tx: Transaction, since: str = "") -> list[Session]:
    """Return the sessions that such losses ended after that time, without archived ones."""
    failed = await tx.select("status = 'error' AND ended = 1 AND archived = 0 AND status_at >= ?", since)
    return [session for session in failed if was_lost(session)]


async def left_behind(tx: Transaction, session: Session) -> list[Session]:
    """Return the descendants that ended by the loss that ended `session` and stay ended, nearest first.

    Without archived ones, and those that the daemon restores. `session`: before its restore.
    """
    if not was_lost(session):
        return []
    lost = await lost_together(tx, session.started_at or "")
    found = [s for s in lost if _ended_with(s, session) and not _is_restored(tx, s)]
    depths = {s.id: [a.id for a in ancestors(s, tx.find)] for s in found}
    below = [s for s in found if session.id in depths[s.id]]
    return sorted(below, key=lambda s: (depths[s.id].index(session.id), s.created_at, s.id))


def _ended_with(other: Session, session: Session) -> bool:
    """True if the loss that ended `session` ended the other one too.

    Such a loss ends `session` with each session that it ends, so the loss is the only one of that kind in its run.
    Only containers of other workspaces end without it.
    """
    is_lost = is_ended(other.status) and was_lost(other) and other.exit is not None and not other.archived
    is_same = other.status_source == session.status_source and other.id != session.id
    if session.status_source == LossCause.CONTAINER and other.workspace != session.workspace:
        return False
    return is_lost and is_same and other.status_at >= (session.started_at or "")


def _is_restored(tx: Transaction, session: Session) -> bool:
    timer = tx.timers.find(session.id, TimerKind.CUT_OFF)
    return timer is not None and is_planned(timer)
