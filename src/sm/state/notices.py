"""Writes notices in the transaction of the change that they report.

A notice goes up the tree, from child to parent; the notice of an undelivered message goes to its sender.
`messaging.timers` turns pending notices into messages.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.faults import Fault
from sm.core.labels import short_label
from sm.core.lifecycle import Decision, is_ended, is_live
from sm.core.messages import SM_ITSELF, Message, Notice
from sm.core.models import Checkpoint, Session, ancestors
from sm.core.requests import Request
from sm.core.states import CallerKind, EventType, MessageMode, MessageState, NoticeKind, RequestKind
from sm.core.statuses import Status
from sm.core.wording import (
    checkpoint_notice,
    compaction_notice,
    ending_notice,
    fault_notice,
    idle_notice,
    ignored_answer_notice,
    late_answer_notice,
    left_notice,
    operator_message_event,
    operator_message_notice,
    request_notice,
    restored_notice,
    transcript_notice,
    unclear_notice,
    undelivered_notice,
)
from sm.state.followers import MetLimit
from sm.store import Transaction

WAITS_FOR_SESSIONS = "wait"
"""Source of an idle status that causes no notice: other sessions will wake the session."""

_NOT_FOR_THE_OPERATOR = frozenset(
    {
        NoticeKind.IDLE,
        NoticeKind.CHECKPOINT,
        NoticeKind.FAULT,
        NoticeKind.BUDGET,
        NoticeKind.WARNING,
        NoticeKind.RESTORED,
    }
)
"""Notices of a parent that do not go to the operator when the parent has ended: the operator has its own of a fault, of
a budget and of a warning.
"""


def notice_recipient(tx: Transaction, session: Session) -> str | None:
    """The nearest ancestor that has not ended, or None for the operator."""
    return next((a.id for a in ancestors(session, tx.find) if a.exit is None and is_live(a.status)), None)


def has_ended_alive(session: Session) -> bool:
    """True for an ended session whose process runs: a message would make it work again."""
    return is_ended(session.status) and session.exit is None


def leave_in_log(tx: Transaction, session: Session, texts: Iterable[str]) -> None:
    """Add notices to the log of an ended session, unread: they are no work, so they must not open it again."""
    for text in texts:
        message = Message(
            id=tx.mail.new_id("messages"),
            session_id=session.id,
            sender=SM_ITSELF,
            mode=MessageMode.AUTO,
            state=MessageState.EXPIRED,
            created_at=tx.now,
            state_at=tx.now,
            reason=unread_reason(session),
        )
        tx.mail.add_message(message, text)


def unread_reason(session: Session) -> str:
    return f"session {short_label(session)} has ended ({session.status})"


def late_answer_occasion(request: Request) -> str:
    return f"late-answer:{request.id}"


def ignored_answer_occasion(request: Request) -> str:
    return f"ignored-answer:{request.id}"


def request_occasion(request: Request) -> str:
    return f"request:{request.id}"


def request_occasions(request: Request) -> Collection[str]:
    """The occasions of all notices about a request: of its own, and of an answer that the agent ignored."""
    own = (request_occasion(request), ignored_answer_occasion(request))
    return (*own, *map(_for_the_operator, own))


def _for_the_operator(occasion: str) -> str:
    """The occasion of a second notice that the operator gets beside the parent."""
    return f"{occasion}/operator"


async def withdraw(
    tx: Transaction, session_id: str, is_void: Callable[[Notice], bool], state: str = "dropped"
) -> None:
    """Close notices about the session that no longer apply: pending ones, and those in queued messages.

    A message that keeps other notices is replaced, because a delivery may have read its text already.
    """
    pending = [n for n in tx.mail.open.notices.values() if n.session_id == session_id and is_void(n)]
    tx.mail.finish_notices(pending, state)
    for message_id, notices in (await tx.mail.queued_notices(session_id)).items():
        void = [n for n in notices if n.session_id == session_id and is_void(n)]
        if void:
            # Each notice is one line. The notices of a removed session have no text of their own.
            lines = zip(notices, (await tx.mail.text(message_id)).split("\n"), strict=True)
            kept = {notice: line for notice, line in lines if notice not in void}
            tx.mail.finish_notices(void, state)
            _replace_message(tx, tx.mail.open.messages[message_id], kept)


def _replace_message(tx: Transaction, message: Message, kept: Mapping[Notice, str]) -> None:
    """Close a queued message, and queue a new one with the notices in `kept` and their lines."""
    if not kept:
        tx.mail.move_message(message, MessageState.EXPIRED, tx.now, reason="withdrawn: it no longer applies")
        return
    after = replace(message, id=tx.mail.new_id("messages"), state_at=tx.now)
    reason = f"withdrawn: message {after.id} has the notices that still apply"
    tx.mail.move_message(message, MessageState.EXPIRED, tx.now, reason=reason)
    tx.mail.add_message(after, "\n".join(kept.values()))
    tx.mail.finish_notices(kept, "sent", after.id)


def _operator_event(session: Session, notice: Notice) -> EventType | None:
    """The event type that reports a pending notice to the operator. `session`: the current state."""
    if notice.kind is NoticeKind.REQUEST:
        return EventType.REQUEST
    if notice.kind is NoticeKind.ENDING and is_ended(session.status):
        return EventType(session.status.value)
    return None


class Notices:
    """Writes one notice for each occasion, even if several sources report the occasion."""

    def __init__(self, config: Config) -> None:
        self._settings = config.child_agents.notifications
        self._notify = config.notify

    async def add_for_move(self, tx: Transaction, session: Session, decision: Decision) -> None:
        """`session`: the state after the move."""
        signal = decision.signal
        if is_ended(decision.after) and not is_ended(decision.before):
            if self._is_enabled(decision.after):
                text = ending_notice(session, signal)
                await self._note(
                    tx, session, NoticeKind.ENDING, f"ending:{session.runs}", text, decision.event
                )
        elif signal.fault is not None:
            pass  # `add_for_fault` says more
        elif decision.after is Status.IDLE and signal.source != WAITS_FOR_SESSIONS:
            follow_up = None if signal.turn is None else signal.turn.follow_up
            if follow_up is None or not follow_up.is_reported:
                await self.add_for_idle(tx, session, signal.answer)

    async def add_for_idle(self, tx: Transaction, session: Session, answer: str | None) -> None:
        """Report an idle session, once for its turn. `answer`: as in `Observation.answer`."""
        if self._reports_idle(tx, session, answer):
            occasion = f"idle:{session.status_at}"
            text = idle_notice(session, answer)
            await self._note(tx, session, NoticeKind.IDLE, occasion, text, EventType.IDLE)

    async def add_for_unclear(self, tx: Transaction, session: Session, words: str) -> None:
        """Report to the parent and to the operator that a session is idle, and not known to be done.

        `words`: its last ones.
        """
        recipient, text = notice_recipient(tx, session), unclear_notice(session, words)
        occasion = f"unclear:{session.turn_ended_at}"
        if recipient is not None:
            await self.add(tx, session, recipient, NoticeKind.IDLE, occasion, text, None)
        await self.add(tx, session, None, NoticeKind.IDLE, f"{occasion}:operator", text, EventType.IDLE)

    async def add_for_transcript(
        self, tx: Transaction, session: Session, occasion: str, trouble: str
    ) -> bool:
        """Report trouble with the transcript of a live session to the parent and to the operator, once.

        Returns False if it was reported before.
        """
        if await tx.mail.has_notice(session.id, f"{occasion}/operator"):
            return False
        recipient, text = notice_recipient(tx, session), transcript_notice(session, trouble)
        if recipient is not None:
            await self.add(tx, session, recipient, NoticeKind.WARNING, occasion, text, None)
        await self.add(tx, session, None, NoticeKind.WARNING, f"{occasion}/operator", text, EventType.WARNING)
        return True

    def _reports_idle(self, tx: Transaction, session: Session, answer: str | None) -> bool:
        if session.paused is not None:  # the pause has ended its turn
            return False
        if notice_recipient(tx, session) is None:  # the operator is told only of turns
            wanted = self._notify.turn_ended and answer is not None
        else:
            wanted = self._settings.notify_parent_on_idle
        # A session with live children waits for them: nobody need act.
        others = tx.unfinished_sessions() if wanted else ()
        return wanted and not any(s.parent_id == session.id and is_live(s.status) for s in others)

    def _is_enabled(self, status: Status) -> bool:
        settings = self._settings
        wanted = {
            Status.COMPLETED: settings.notify_parent_on_complete,
            Status.ERROR: settings.notify_parent_on_error,
        }
        return wanted.get(status, True)

    async def add_for_fault(
        self,
        tx: Transaction,
        session: Session,
        fault: Fault,
        at: float,
        occasion: str,
        *,
        limit: MetLimit | None = None,
        told: bool = False,
        retries: int = 0,
        compacted: bool = False,
    ) -> None:
        """Notify the operator, the parent and those whom a met limit names of a failed turn.

        Every fault has a notice, so that the fault is known. `told`: nobody is notified, because an earlier notice has
        said the same, or because the session goes on. `retries`: those in a row that failed before. `compacted`: sm
        has compacted the conversation before.
        """
        text = fault_notice(session, fault, at, retries, compacted=compacted)
        if limit is not None:
            text += f"; {limit.words}"
        to_operator = Notice(
            tx.mail.new_id("notices"), session.id, None, NoticeKind.FAULT, occasion, text, tx.now
        )
        await tx.mail.add_notice(to_operator)
        if told:
            tx.mail.finish_notices([to_operator], "dropped")
            return
        await self._tell_operator(tx, session, to_operator, EventType.IDLE)
        parent = notice_recipient(tx, session)
        roots = () if limit is None else limit.roots
        for recipient in sorted({parent, *roots} - {None, session.id}, key=str):
            other = tx.find(recipient)
            if limit is not None and other is not None and other.account == limit.account:
                continue  # it would read the notice after the reset, and could do nothing before
            await self.add(tx, session, recipient, NoticeKind.FAULT, f"{occasion}/{recipient}", text, None)

    async def add_for_restored(
        self, tx: Transaction, session: Session, by: str | None, why_not: str | None = None
    ) -> None:
        """Tell a running parent that the session runs again, once for each run, unless the parent restored it.

        `by`: the caller (`Caller.name`). `why_not`: why it could not be restored.
        """
        parent = tx.find(session.parent_id)
        occasion = f"{'restored' if why_not is None else 'not-restored'}:{session.runs}"
        if parent is not None:
            occasion += f"/{parent.id}:{parent.runs}"
        # Earlier words about its restore, also to the ancestor that had it meanwhile, no longer apply.
        await withdraw(tx, session.id, lambda n: n.kind is NoticeKind.RESTORED and n.occasion != occasion)
        if parent is None or parent.exit is not None or not is_live(parent.status) or parent.id == by:
            return
        text = restored_notice(session, why_not, tx.find(session.lost_parent))
        await self.add(tx, session, parent.id, NoticeKind.RESTORED, occasion, text, None)

    async def add_for_left(self, tx: Transaction, session: Session) -> None:
        """Tell a parent that was restored alone that the session, which one loss ended with it, was not."""
        parent = tx.find(session.parent_id)
        if parent is None or parent.exit is not None or not is_live(parent.status):
            return
        occasion = f"left:{session.runs}/{parent.id}:{parent.runs}"
        await self.add(tx, session, parent.id, NoticeKind.RESTORED, occasion, left_notice(session), None)

    async def add_for_checkpoint(self, tx: Transaction, session: Session, checkpoint: Checkpoint) -> None:
        if self._settings.notify_parent_on_checkpoint and notice_recipient(tx, session) is not None:
            occasion, text = (
                f"checkpoint:{checkpoint.timestamp}",
                checkpoint_notice(session, checkpoint.message),
            )
            await self._note(tx, session, NoticeKind.CHECKPOINT, occasion, text)

    async def add_for_request(
        self, tx: Transaction, session: Session, request: Request, plan: str | None = None
    ) -> None:
        """`plan`: the plan to approve, for a permission to leave plan mode."""
        text = request_notice(session, request, plan)
        occasion = request_occasion(request)
        # No parent may answer a first-start dialog.
        recipient = None if request.kind is RequestKind.SETUP else notice_recipient(tx, session)
        if request.kind is RequestKind.DIALOG and recipient is not None:
            # The parent may be an agent, which has no terminal to answer in.
            await self.add(tx, session, recipient, NoticeKind.REQUEST, occasion, text, None)
            recipient, occasion = None, _for_the_operator(occasion)
        await self.add(tx, session, recipient, NoticeKind.REQUEST, occasion, text, EventType.REQUEST)

    async def add_for_ignored_answer(self, tx: Transaction, session: Session, request: Request) -> None:
        """Report that a request is open again, to whoever can answer in the terminal."""
        text, occasion = ignored_answer_notice(session, request), ignored_answer_occasion(request)
        recipient = notice_recipient(tx, session)
        if recipient is not None:
            await self.add(tx, session, recipient, NoticeKind.REQUEST, occasion, text, None)
        await self.add(
            tx, session, None, NoticeKind.REQUEST, _for_the_operator(occasion), text, EventType.REQUEST
        )

    async def add_for_undelivered(self, tx: Transaction, session: Session, message: Message) -> None:
        """Notify the sender of `message` that `session` did not get it, or may not have.

        A later state replaces the text of a notice that its recipient has not got yet.
        """
        if message.sender == SM_ITSELF:
            return
        sender = tx.find(message.sender)
        if message.sender != "operator" and (sender is None or not is_live(sender.status)):
            return
        notice = Notice(
            id=tx.mail.new_id("notices"),
            session_id=session.id,
            recipient=None if sender is None else sender.id,
            kind=NoticeKind.UNDELIVERED,
            occasion=f"message:{message.id}",
            text=undelivered_notice(session, message),
            created_at=tx.now,
        )
        if not await tx.mail.add_notice(notice):
            tx.mail.reword_notice(notice.session_id, notice.occasion, notice.text)

    async def report_operator_message(
        self, tx: Transaction, session: Session, message: Message, text: str
    ) -> None:
        """Report a message of `session` to the operator wherever the operator's inbox is reported.

        The inbox has the message itself, so no notice is stored.
        """
        line = operator_message_event(session, message, text)
        metadata = {
            "message_id": message.id,
            "state": message.state.value,
            "from": session.id,
            "to": CallerKind.OPERATOR.value,
        }
        await tx.event(EventType.MESSAGE, session, tx.now, line, metadata)
        notice = operator_message_notice(session, message, text)
        await self._notify_programs(
            tx, session, EventType.MESSAGE, f"message:{message.id}", notice, message.created_at
        )

    async def add_for_compaction(self, tx: Transaction, session: Session, command: Message) -> None:
        """Notify the operator and the parent that the compaction of `session` by sm may not have run."""
        text = compaction_notice(session, command)
        for recipient in sorted({None, notice_recipient(tx, session)}, key=str):
            occasion = f"compaction:{command.id}/{recipient}"
            await self.add(tx, session, recipient, NoticeKind.FAULT, occasion, text, EventType.IDLE)

    async def add_for_late_answer(
        self, tx: Transaction, session: Session, request: Request, answered_by: str
    ) -> None:
        """Notify `answered_by` that its answer to a request of `session` did not decide.

        If that session has ended, the recipient is that of all notices about `session`.
        """
        sender = tx.find(answered_by)
        recipient = None if sender is None else sender.id
        if sender is not None and not is_live(sender.status):
            recipient = notice_recipient(tx, session)
        notice = Notice(
            id=tx.mail.new_id("notices"),
            session_id=session.id,
            recipient=recipient,
            kind=NoticeKind.UNDELIVERED,
            occasion=late_answer_occasion(request),
            text=late_answer_notice(session, request),
            created_at=tx.now,
        )
        if await tx.mail.add_notice(notice) and recipient is None:
            await self._tell_operator(tx, session, notice, EventType.REQUEST)

    async def return_notices(self, tx: Transaction, session: Session, message_ids: Collection[int]) -> None:
        """Address the notices of these messages, and those still pending for `session`, to its ancestor."""
        if message_ids:
            await tx.mail.reopen_notices(message_ids, session.id)
        pending = [n for n in tx.mail.open.notices.values() if n.recipient == session.id]
        await self.readdress(tx, pending, notice_recipient(tx, session))

    async def pass_on(self, tx: Transaction, session: Session, message_ids: Collection[int]) -> None:
        """Address the notices for a session that has ended to its ancestor, and leave them in its log.

        `message_ids`: its unread messages, whose notices are in the log already.
        """
        pending = [n for n in tx.mail.open.notices.values() if n.recipient == session.id]
        leave_in_log(tx, session, [notice.text for notice in pending])
        await self.return_notices(tx, session, message_ids)

    async def readdress(self, tx: Transaction, notices: Iterable[Notice], heir: str | None) -> None:
        """Address notices to `heir` in place of a session that has ended, with None for the operator."""
        for notice in list(notices):
            # The notice of an undelivered message concerns only its sender.
            sender_only = notice.kind is NoticeKind.UNDELIVERED
            if sender_only or (heir is None and notice.kind in _NOT_FOR_THE_OPERATOR):
                tx.mail.finish_notices([notice], "dropped")
                continue
            tx.mail.readdress(notice, heir)
            session = tx.find(notice.session_id)
            if heir is None and session is not None:
                if notice.kind is NoticeKind.ENDING and is_ended(session.status):
                    session = await tx.update(session, told_operator=True)
                await self._tell_operator(tx, session, notice, _operator_event(session, notice))

    async def _note(
        self,
        tx: Transaction,
        session: Session,
        kind: NoticeKind,
        occasion: str,
        text: str,
        event: EventType | None = None,
    ) -> None:
        await self.add(tx, session, notice_recipient(tx, session), kind, occasion, text, event)

    async def add(
        self,
        tx: Transaction,
        session: Session,
        recipient: str | None,
        kind: NoticeKind,
        occasion: str,
        text: str,
        event: EventType | None,
    ) -> None:
        """Add a notice about a session, unless its recipient has one of the same occasion.

        `recipient`: a session, or None for the operator. `event`: the type of the event for the operator's programs, or
        None if they get none.
        """
        notice = Notice(tx.mail.new_id("notices"), session.id, recipient, kind, occasion, text, tx.now)
        if not await tx.mail.add_notice(notice):
            return
        parent = tx.find(session.parent_id)
        if parent is not None and has_ended_alive(parent) and recipient == notice_recipient(tx, session):
            leave_in_log(tx, parent, [text])
        if recipient is None:
            await self._tell_operator(tx, session, notice, event)

    async def _tell_operator(
        self, tx: Transaction, session: Session, notice: Notice, type: EventType | None
    ) -> None:
        """Report a notice to the operator's command and webhooks, unless `type` is None."""
        if type is not None:
            await self._notify_programs(tx, session, type, notice.occasion, notice.text, notice.created_at)

    async def _notify_programs(
        self, tx: Transaction, session: Session, type: EventType, occasion: str, text: str, at: str
    ) -> None:
        """Add effects for the operator's command and webhooks."""
        body: dict[str, Any] = {
            "type": type.value,
            "text": text,
            "occasion": f"{session.id}/{occasion}",
            "timestamp": at,
            "session_id": session.id,
            "name": session.display_name,
            "agent_type": session.agent_type,
            "status": session.status.value,
            "exit_code": session.exit.code if session.exit else None,
            "exit_signal": session.exit.signal if session.exit else None,
            "completion_message": session.completion_message,
        }
        if self._notify.command is not None:
            await tx.effect(EffectKind.COMMAND, session.id, {"body": body}, at)
        for webhook in self._notify.webhooks:
            if type.value in webhook.events:
                await tx.effect(EffectKind.WEBHOOK, session.id, {"url": webhook.url, "body": body}, at)
