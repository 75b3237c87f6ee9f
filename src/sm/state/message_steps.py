"""Moves messages to a final state: submitted, failed, expired or unconfirmed."""

from sm.core.labels import label_of, short_label
from sm.core.messages import BY_LINK, IN_CONVERSATION, IN_OPERATORS_INBOX, SM_ITSELF, Message
from sm.core.models import Session
from sm.core.states import EventType, MessageMode, MessageState
from sm.core.timers import TimerKind
from sm.core.wording import TOLD_AGAIN, message_finished_event
from sm.state.notices import Notices, unread_reason
from sm.store import Transaction

_IN_QUEUE = "the message was still in the agent's own queue"
_NOT_STORED = "the agent accepted the message, but did not store it in its conversation"


def send(
    tx: Transaction,
    session_id: str,
    sender: str,
    text: str,
    mode: MessageMode = MessageMode.AUTO,
    *,
    own_lines: int = 0,
) -> int:
    """Queue a message of `sender` (`SM_ITSELF`, `operator` or the id of a session) to the session; return its id.

    `own_lines`: as in `Message`.
    """
    message = Message(
        id=tx.mail.new_id("messages"),
        session_id=session_id,
        sender=sender,
        mode=mode,
        state=MessageState.QUEUED,
        created_at=tx.now,
        state_at=tx.now,
        own_lines=own_lines,
    )
    tx.mail.add_message(message, text)
    return message.id


async def arrive(
    tx: Transaction, message: Message, at: str, evidence: str, reason: str | None = None
) -> Message:
    """Record that the recipient confirmed the message at `at`. `reason`: why the recipient has not read it yet."""
    after = tx.mail.move_message(
        message, MessageState.SUBMITTED, at, submitted_at=at, reason=reason, evidence=evidence
    )
    await _record(tx, after)
    return after


async def finish(
    tx: Transaction,
    notices: Notices,
    message: Message,
    state: MessageState,
    reason: str,
    *,
    expected: bool = False,
) -> Message:
    """Give the message a final state without a confirmation of its recipient.

    Notifies the sender, unless the state is `expected`: a program that reads lines never confirms. Notices in the
    message become pending again, possibly for another session: a duplicate is better than a loss.
    """
    if message.session_id is None and message.sender != SM_ITSELF:
        # Nobody else has it: a message that the operator sees twice is better than one that nobody reads.
        return tx.mail.move_message(
            message, MessageState.QUEUED, tx.now, via=None, evidence=None, reason=IN_OPERATORS_INBOX
        )
    after = tx.mail.move_message(message, state, tx.now, reason=reason)
    await _record(tx, after)
    session = tx.find(message.session_id)
    if expected:
        return after
    if session is not None:
        await notices.add_for_undelivered(tx, session, after)
        if state is MessageState.UNCONFIRMED:
            await _withdraw_go_on(tx, notices, session, after)
    if message.sender == SM_ITSELF:
        if state is MessageState.FAILED and session is not None:
            await notices.return_notices(tx, session, [message.id])
        else:
            await tx.mail.reopen_notices([message.id], message.session_id, TOLD_AGAIN)
    return after


async def disprove(tx: Transaction, notices: Notices, message: Message, reason: str) -> None:
    """Record that nothing of an unconfirmed message was submitted: proof that came after the end of its session.

    Does not touch the notices in a message of sm itself: they have another recipient already.
    """
    if message.state is not MessageState.UNCONFIRMED or message.submitted_at is not None:
        return
    after = tx.mail.move_message(message, MessageState.FAILED, tx.now, reason=reason)
    await _record(tx, after)
    session = tx.find(message.session_id)
    if session is not None:
        await notices.add_for_undelivered(tx, session, after)


async def _withdraw_go_on(tx: Transaction, notices: Notices, session: Session, command: Message) -> None:
    """Withdraw the message to go on behind a compaction that may not have run: its turn would fail, or interrupt it."""
    compaction = tx.timers.find(session.id, TimerKind.COMPACTED)
    if compaction is None or compaction.data.get("command") != command.id:
        return
    go_on = tx.mail.open.messages.get(compaction.data["go_on"])
    if go_on is None or go_on.state is not MessageState.QUEUED:
        return
    tx.mail.move_message(go_on, MessageState.FAILED, tx.now, reason="the compaction before it is unconfirmed")
    await notices.add_for_compaction(tx, session, command)


async def return_messages(tx: Transaction, notices: Notices, session: Session) -> None:
    """Finish the messages of a session whose process is gone.

    Notifies their senders. The session's notices go to its nearest live ancestor.
    """
    reason = f"session {short_label(session)} has ended ({session.status})"
    unclaimed = []
    for message in [m for m in tx.mail.open.messages.values() if m.session_id == session.id]:
        queued = message.state is MessageState.QUEUED
        state = MessageState.FAILED if queued else MessageState.UNCONFIRMED
        lost = reason if queued else f"{reason}; it may have received this message"
        after = tx.mail.move_message(message, state, tx.now, reason=lost)
        if (
            message.sender == SM_ITSELF
        ):  # also if the message may have arrived: a duplicate is better than a loss
            unclaimed.append(message.id)
        await _record(tx, after)
        await notices.add_for_undelivered(tx, session, after)
    unclaimed += await finish_unread(tx, notices, session, reason)
    await notices.return_notices(tx, session, unclaimed)


async def pass_on_notices(tx: Transaction, notices: Notices, session: Session) -> None:
    """Give up the messages of sm itself to an ended session whose process runs: none of them is work for it.

    Its notices go to its nearest ancestor that has not ended. The messages stay in its log, unread.
    """
    own = [
        message
        for message in tx.mail.open.messages.values()
        if (message.session_id, message.sender, message.state) == (session.id, SM_ITSELF, MessageState.QUEUED)
    ]
    for message in own:
        tx.mail.move_message(message, MessageState.EXPIRED, tx.now, reason=unread_reason(session))
    await notices.pass_on(tx, session, [message.id for message in own])


async def keep_messages(tx: Transaction, notices: Notices, session: Session) -> None:
    """Keep the queued messages of a session that gets another process, and finish those on their way to the old one.

    Their senders are notified. The session gets its notices again.
    """
    reason = f"the process of session {short_label(session)} ended; it may have received this message"
    own = []
    on_their_way = (m for m in tx.mail.open.messages.values() if m.session_id == session.id)
    for message in [m for m in on_their_way if m.state is not MessageState.QUEUED]:
        after = tx.mail.move_message(message, MessageState.UNCONFIRMED, tx.now, reason=reason)
        if message.sender == SM_ITSELF:
            own.append(message.id)
        await _record(tx, after)
        await notices.add_for_undelivered(tx, session, after)
    own += await finish_unread(tx, notices, session, f"the process of session {short_label(session)} ended")
    await tx.mail.reopen_notices(own, session.id)


async def finish_unread(tx: Transaction, notices: Notices, session: Session, reason: str) -> list[int]:
    """Mark the messages as unconfirmed that an ended process accepted, but that its conversation does not contain.

    A restored process continues without them. Notifies their senders. Returns the ids of the messages of sm itself,
    whose notices still need a recipient.
    """
    own = []
    for message in await tx.mail.unacknowledged(session.id):
        if message.evidence in (IN_CONVERSATION, BY_LINK):
            continue
        why = _IN_QUEUE if message.in_agent_queue else _NOT_STORED
        after = tx.mail.move_message(
            message, MessageState.UNCONFIRMED, tx.now, reason=f"{reason}; {why}", submitted_at=None
        )
        await _record(tx, after)
        await notices.add_for_undelivered(tx, session, after)
        if message.sender == SM_ITSELF:
            own.append(message.id)
    return own


async def _record(tx: Transaction, message: Message) -> None:
    session = tx.find(message.session_id)
    if session is not None:
        line = message_finished_event(session, message, label_of(message.sender, tx.find(message.sender)))
        metadata = {"message_id": message.id, "state": message.state.value, "from": message.sender}
        await tx.event(EventType.MESSAGE, session, tx.now, line, metadata)
