"""Records the progress of deliveries in the database, and lets the composer follow a stored message."""

import asyncio
import time

from sm.core.dataclass import dataclass
from sm.core.messages import SM_ITSELF, TERMINAL, Message
from sm.core.models import Process, Signal
from sm.core.states import MessageState, SignalKind
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.core.wording import typed_words_line
from sm.linux.processes import is_alive
from sm.linux.ttys import has_unread_input, path_of_terminal
from sm.messaging.composer import timing
from sm.messaging.composer.instructions import Proof
from sm.messaging.holds import busy_reason
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.base import BoxReader, PromptRefusal
from sm.state.message_steps import disprove, finish, pass_on_notices
from sm.state.notices import Notices, has_ended_alive
from sm.state.session_steps import move
from sm.store import Store, durable

_QUEUE_STARTS_S = 15.0
"""How long after a turn's end a busy machine may need to begin the turn that reads the agent's own queue."""
_BEING_TYPED = "sm is typing the message"


class DeliveryRecord:
    """Records the progress of deliveries in the database."""

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self._notices = notices

    async def take(
        self, message: Message, *, via: str = TERMINAL, reason: str = _BEING_TYPED
    ) -> Message | None:
        """Mark a message before its first key, so that it is never typed twice. Returns None if it is not queued.

        `via`: the way of the delivery, as in `Message`. `reason`: why the message is not delivered yet.
        """
        async with self._store.transaction() as tx:
            now = tx.mail.open.messages.get(message.id)
            session = tx.find(message.session_id)
            if now is None or now.state is not MessageState.QUEUED or session is None:
                return None
            if has_ended_alive(session):
                if now.sender == SM_ITSELF:  # only work that somebody sends reopens a session
                    await pass_on_notices(tx, self._notices, session)
                    return None
                signal = Signal(SignalKind.REOPENED, via, "the agent got a message", tx.now)
                await move(tx, self._notices, session.id, signal)
            return tx.mail.move_message(
                now, MessageState.DELIVERING, tx.now, via=via, evidence=None, reason=reason
            )

    @durable
    async def explain(self, message: Message, why: str, state: MessageState | None = None) -> None:
        """Record why a message waits. An unchanged reason is not written again."""
        now = self._store.mail.open.messages.get(message.id)
        if now is None or (now.reason == why and state in (None, now.state)):
            return
        async with self._store.transaction() as tx:
            now = tx.mail.open.messages.get(message.id)
            if now is not None:
                tx.mail.move_message(now, state or now.state, tx.now, reason=why)

    @durable
    async def finish(
        self, message: Message, state: MessageState, reason: str, expected: bool = False
    ) -> None:
        """End the delivery, or put the message back into the queue. `expected`: the sender gets no notice."""
        notices = self._notices
        async with self._store.transaction() as tx:
            now = tx.mail.open.messages.get(message.id)
            if now is None:  # the end of the session has finished the message
                if state in (MessageState.FAILED, MessageState.QUEUED):
                    await disprove(tx, notices, await tx.mail.message(message.id), reason)
                return
            if state is MessageState.QUEUED:
                tx.mail.move_message(now, state, tx.now, reason=reason)
            elif now.state is MessageState.QUEUED:  # nothing was typed
                await finish(tx, notices, now, MessageState.FAILED, reason)
            else:
                await finish(tx, notices, now, state, reason, expected=expected)


@dataclass(eq=False)
class StoredDelivery:
    """A `ComposerDelivery` of a message in the database."""

    _store: Store
    _record: DeliveryRecord
    _receipts: DeliveryReceipts
    _message: Message
    session_id: str
    terminal: str
    box_reader: BoxReader
    text: str
    interrupt: str | None

    async def begin(self) -> bool:
        return await self._record.take(self._message) is not None

    async def explain(self, why: str) -> None:
        await self._record.explain(self._message, why)

    async def message_in_draft(self, draft: str) -> str | None:
        return await self._receipts.message_in_draft(self.session_id, draft)

    def busy_reason(self, why: str) -> str:
        session = self._store.sessions.get(self.session_id)
        return why if session is None else busy_reason(session, self._store.mail.open, why)

    def is_gone(self) -> bool:
        session = self._store.sessions.get(self.session_id)
        process = None if session is None or session.exit is not None else session.process
        return process is None or not is_alive(process)

    async def agent_has_unread_input(self) -> bool:
        session = self._store.sessions.get(self.session_id)
        process = None if session is None else session.process
        return process is not None and await asyncio.to_thread(_has_unread_input, process)

    async def is_behind_queue(self) -> bool:
        session = self._store.sessions.get(self.session_id)
        since = iso(time.time() - _QUEUE_STARTS_S)
        if session is None or session.status is not Status.IDLE or session.status_at < since:
            return False
        read = await self._store.mail.unacknowledged(self.session_id)
        return any(m.in_agent_queue for m in read)

    def typed_words(self) -> str:
        words = self._receipts.take_typed_words(self.session_id, self._message.id)
        return typed_words_line(self._message, words) if words else ""

    async def is_in_queue(self) -> bool:
        message = await self._after_transcript()
        session = self._store.sessions.get(self.session_id)
        # After the end of that turn the agent begins another one with its queue, before the transcript tells it.
        has_ended = session is not None and session.status_at > (message.submitted_at or message.state_at)
        return message.state is MessageState.SUBMITTED and message.in_agent_queue and not has_ended

    async def lacks_queue_entry(self) -> bool:
        message = await self._after_transcript()
        return message.state is MessageState.SUBMITTED and message.in_agent_queue and message.reported_by_hook

    async def _after_transcript(self) -> Message:
        """The message after the agent's transcript has reported it, or after a moment."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + timing.READS_WITHIN_S
        message = await self._store.mail.message(self._message.id)
        while message.reported_by_hook and clock() < until_s:
            await asyncio.sleep(timing.LOOK_S)
            message = await self._store.mail.message(self._message.id)
        return message

    async def refuse(self, refusal: PromptRefusal | None) -> None:
        await self._receipts.refuse_queued(self.session_id, self._message.id, refusal)

    async def proof(self, within_s: float) -> Proof:
        if self._is_delivering() and within_s > 0:
            await self._store.wait_until(lambda: not self._is_delivering(), within_s)
        if self._is_delivering():
            return Proof.NONE
        message = await self._store.mail.message(self._message.id)
        if message.state is not MessageState.SUBMITTED:
            return Proof.OVER
        return Proof.QUEUED if message.in_agent_queue else Proof.TAKEN

    def _is_delivering(self) -> bool:
        now = self._store.mail.open.messages.get(self._message.id)
        return now is not None and now.state is MessageState.DELIVERING


def _has_unread_input(process: Process) -> bool:
    path = path_of_terminal(process.pid)
    return path is not None and has_unread_input(path)
