"""What follows when a session's process is gone: for its mail, its requests, its children, its terminal."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.messages import IN_ITS_QUEUE, SM_ITSELF
from sm.core.models import Session, Signal
from sm.core.states import EventType, MessageState, SignalKind, Status
from sm.core.wording import label, message_settled, sender_label, subject
from sm.state.notices import Notices, hearer
from sm.state.requests import call_off
from sm.store import Transaction

log = logging.getLogger(__name__)


Move = Callable[[Transaction, str, Signal], Awaitable[Session]]


class Endings:
    """One transaction's worth of consequences; the caller has recorded the end itself already."""

    def __init__(self, config: Config, notices: Notices, now: Callable[[], str]) -> None:
        self._on_parent_end = config.child_agents.on_parent_end
        self._cleanup = config.child_agents.cleanup
        self._notices = notices
        self._now = now

    async def process_gone(self, tx: Transaction, session: Session, move: Move) -> None:
        at = self._now()
        await self._return_mail(tx, session, at)
        await call_off(tx, session, at, f"session {session.id} has ended")
        await self._release_children(tx, session, at, move)
        payload: dict[str, Any] = {"terminal": session.terminal}
        if self._cleanup.auto_archive_transcript:
            await tx.effect(EffectKind.ARCHIVE, session.id, payload, at)
        if self._cleanup.close_tmux_session:
            await tx.effect(EffectKind.CLOSE, session.id, payload, at)

    async def completed(self, tx: Transaction, session: Session) -> None:
        """The session has reported its end; its process may live on."""
        done = session.status is Status.COMPLETED and session.exit is None
        if self._cleanup.auto_kill_on_complete and done:
            payload = {"force": False, "by": "cleanup.auto_kill_on_complete"}
            await tx.effect(EffectKind.KILL, session.id, payload, self._now())

    async def _return_mail(self, tx: Transaction, session: Session, at: str) -> None:
        """Its messages fail, and their senders are told; what it was to be told goes to who hears now."""
        reason = f"session {session.id} has ended ({session.status}), its process is gone"
        untold = []
        for message in [m for m in tx.mail.open.messages.values() if m.session_id == session.id]:
            if message.state is MessageState.QUEUED:
                after = tx.mail.move_message(message, MessageState.FAILED, at, reason=reason)
            else:
                reason_lost = f"{reason}; it may have had this message"
                after = tx.mail.move_message(message, MessageState.UNCONFIRMED, at, reason=reason_lost)
            if message.sender == SM_ITSELF:  # also what it may have had: twice is better than never
                untold.append(message.id)
            line = message_settled(session, after, sender_label(after.sender, tx.find(after.sender)))
            await tx.event(
                EventType.MESSAGE, session, at, line, {"message_id": after.id, "state": after.state}
            )
            await self._notices.of_undelivered(tx, session, after)
        for message in await tx.mail.unacknowledged(session.id):
            if message.evidence == IN_ITS_QUEUE:  # it went with the process, and nobody has read it
                lost = f"{reason}; this waited in its own queue"
                after = tx.mail.move_message(message, MessageState.UNCONFIRMED, at, reason=lost)
                if message.sender == SM_ITSELF:
                    untold.append(message.id)
                await self._notices.of_undelivered(tx, session, after)
        await self._notices.untold(tx, session, untold)

    async def _release_children(self, tx: Transaction, session: Session, at: str, move: Move) -> None:
        if self._on_parent_end == "keep":
            return
        for child in [s for s in tx.all_sessions() if s.parent_id == session.id and s.exit is None]:
            if self._on_parent_end == "adopt":
                await adopt(tx, child, hearer(tx, session), at, f"its parent {session.id} has ended")
            elif is_live(child.status):
                reason = f"its parent {session.id} has ended"
                await tx.effect(EffectKind.INTERRUPT, child.id, {}, at)
                await move(tx, child.id, Signal(SignalKind.PARENT_ENDED, "parent", reason, at))


async def adopt(tx: Transaction, child: Session, parent_id: str | None, at: str, reason: str) -> Session:
    """Give the session another parent; None: it belongs to the operator."""
    after = await tx.update(child, parent_id=parent_id)
    parent = tx.find(parent_id)
    whom = "the operator" if parent is None else label(parent)
    await tx.event(
        EventType.WARNING,
        after,
        at,
        f"{subject(after)} belongs to {whom} now: {reason}",
        {"parent_before": child.parent_id, "parent": parent_id},
    )
    return after
