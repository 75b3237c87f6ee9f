"""Delivers messages over links. The program repeats the id of a message, which proves that its conversation has it.

Several messages may be on their way at once: one that waits for the end of a turn holds back no other. A message is
`delivering` from before it is sent until a receipt. If the link is lost meanwhile, the next link says what became of
the message, also after a restart of the daemon. Without its word, the message is unconfirmed and never sent again.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.messages import BY_LINK, LINK, Message, link_message_id, link_message_number
from sm.core.models import Session
from sm.core.states import MessageMode, MessageState
from sm.core.text import folded, render_message
from sm.core.timestamps import iso
from sm.core.wording import sender_label
from sm.errors import NotFound, SmError, StorageFull
from sm.messaging.composer.timing import ARRIVES_WITHIN_S
from sm.messaging.delivery_record import DeliveryRecord
from sm.messaging.holds import link_hold_reason
from sm.messaging.receipts import DeliveryReceipts
from sm.monitor.listeners import AgentListener
from sm.providers.base import InputMethod, Provider
from sm.providers.links import AgentLink, LinkEvent, MessageUpdate, Receipt, StateUpdate
from sm.sessions.interrupt import INTERRUPTIBLE
from sm.state.message_steps import arrive
from sm.state.part_holds import hold_of
from sm.store import Store, durable

log = logging.getLogger(__name__)

_LOOK_S = 5.0
"""How often a hold that ends by time is looked at."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 15.0
_REASON_MAX = 300
_SENDING = "sm sends the message"
_SENT = "sent; its conversation does not have the message yet"
_ACCEPTED = "accepted; its conversation does not have the message yet"
_NO_RECEIPT = (
    "the link was lost after the message was sent, and its conversation has not shown the message since"
)
_NOT_TOLD = "the program did not accept the message as usual, and has not said whether it has the message"
_WAITED_FOR = frozenset({MessageState.QUEUED, MessageState.DELIVERING, MessageState.UNCONFIRMED})
"""Includes QUEUED: a message that counted as not delivered may have arrived."""


@dataclass(slots=True)
class _Refusals:
    """The pause of a session after its program did not take a message."""

    backoff: Backoff
    until_s: float = 0.0
    """On the clock of the event loop."""
    reason: str = ""


class LinkDelivery(AgentListener):
    """Sends messages over the open links, and records their receipts."""

    def __init__(
        self,
        store: Store,
        record: DeliveryRecord,
        providers: Mapping[str, Provider],
        receipts: DeliveryReceipts,
    ) -> None:
        self._store = store
        self._record = record
        self._providers = providers
        self._receipts = receipts
        self._unproven: dict[str, set[int]] = {}
        """By session: the messages that an earlier link may have sent, until this link says anything about them."""
        self._speaks: dict[str, asyncio.Event] = {}
        """By session: set when the program has told its state on this link."""
        self._refusals: dict[str, _Refusals] = {}

    async def serve_link(self, session_id: str, link: AgentLink) -> None:
        session = self._store.sessions.get(session_id)
        if session is None or not self._takes_messages(session):
            return
        self._speaks[session_id] = asyncio.Event()
        self._unproven[session_id] = {message.id for message in self._delivering(session_id)}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._give_up(session_id))
            group.create_task(self._send_all(session_id, link))

    def process_gone(self, session_id: str) -> None:
        self._unproven.pop(session_id, None)
        self._speaks.pop(session_id, None)
        self._refusals.pop(session_id, None)

    def _takes_messages(self, session: Session) -> bool:
        return self._providers[session.provider].input_of(session.agent_type) is InputMethod.LINK

    def _delivering(self, session_id: str) -> list[Message]:
        return [
            message
            for message in self._store.mail.open.messages.values()
            if (message.session_id, message.via, message.state) == (session_id, LINK, MessageState.DELIVERING)
        ]

    async def _give_up(self, session_id: str) -> None:
        """Give up the messages of an earlier link of which this one has said nothing in time."""
        if not self._unproven[session_id]:
            return
        await self._speaks[session_id].wait()
        await asyncio.sleep(ARRIVES_WITHIN_S)
        for message in self._delivering(session_id):
            if message.id in self._unproven[session_id]:
                await self._record.finish(message, MessageState.UNCONFIRMED, _NO_RECEIPT)

    # Sending

    async def _send_all(self, session_id: str, link: AgentLink) -> None:
        """Send the messages of the session, until the caller cancels. Raises ConnectionError."""
        while True:
            await self._store.wait_until(lambda: self._first(session_id) is not None)
            message, session = self._first(session_id), self._store.sessions.get(session_id)
            if message is None or session is None:
                return
            why = self._hold(session, message)
            try:
                if why is None:
                    await self._send(link, session, message)
                    continue
                await self._record.explain(message, why)
            except StorageFull as error:
                why = error.message
            await self._pause(session_id, message, why)

    async def _pause(self, session_id: str, message: Message, why: str) -> None:
        """Wait until another reason holds the message, or another message comes first, at most `_LOOK_S`."""

        def changed() -> bool:
            session, first = self._store.sessions.get(session_id), self._first(session_id)
            return (
                session is None
                or first is None
                or first.id != message.id
                or self._hold(session, first) != why
            )

        refusals, now_s = self._refusals.get(session_id), asyncio.get_running_loop().time()
        left_s = 0.0 if refusals is None else refusals.until_s - now_s
        await self._store.wait_until(changed, min(left_s, _LOOK_S) if left_s > 0 else _LOOK_S)

    def _first(self, session_id: str) -> Message | None:
        """The message to send next, or None. One of each mode is on its way at a time, which keeps their order."""
        session, queued = self._store.sessions.get(session_id), self._store.mail.queued().get(session_id, ())
        if session is None or not queued:
            return None
        under_way = {message.mode for message in self._delivering(session_id)}
        if MessageMode.URGENT in under_way:
            under_way.add(MessageMode.AUTO)
        able = [message for message in queued if message.held_until is None and message.mode not in under_way]
        hold = hold_of(session, self._store.sessions.get, self._store.mail.open)
        first = None if hold is None else hold.passes
        return min(able, key=lambda m: (m.id != first, m.mode is not MessageMode.URGENT, m.id), default=None)

    def _hold(self, session: Session, message: Message) -> str | None:
        """Why the message is not sent now, or None to send it."""
        effects = self._store.mail.open.effects.values()
        if any(e.session_id == session.id and e.kind in (EffectKind.START, EffectKind.TYPE) for e in effects):
            return "the session is starting"
        find = self._store.sessions.get
        why = link_hold_reason(session, self._store.mail.open, time.time(), find, message.id)
        refusals = self._refusals.get(session.id)
        if why is None and refusals is not None and asyncio.get_running_loop().time() < refusals.until_s:
            return refusals.reason
        return why

    async def _send(self, link: AgentLink, session: Session, message: Message) -> None:
        """Send one message, which is marked before: then it is never sent twice without a word of the program."""
        text = (await self._store.mail.texts([message.id]))[message.id]
        sender = sender_label(message.sender, self._store.sessions.get(message.sender))
        rendered = render_message(sender, message.id, text, message.own_lines)
        taken = await self._record.take(message, via=LINK, reason=_SENDING)
        if taken is None:
            return
        if message.mode is MessageMode.URGENT and session.status in INTERRUPTIBLE:
            try:
                await link.interrupt()
            except (
                SmError
            ) as error:  # the turn has ended, or goes on: the program takes the message all the same
                log.warning("could not interrupt: %s", error.message, extra={"sm_session": session.id})
            except ConnectionError as error:  # nothing was sent
                why = folded(f"the link was lost: {error}", _REASON_MAX)
                await self._record.finish(taken, MessageState.QUEUED, why)
                raise
        # Before the message: a receipt may come before the return.
        await self._record.explain(taken, _SENT)
        id = link_message_id(session.id, message.id)
        try:
            await link.send(rendered, id, waits=message.mode is MessageMode.IDLE)
        except SmError as error:
            await self._record.explain(taken, folded(error.message, _REASON_MAX))
            await self._await_receipt(session.id, taken)

    async def _await_receipt(self, session_id: str, message: Message) -> None:
        """Wait for the receipt of a message whose call has failed: it says whether the program has the message."""

        def is_open() -> bool:
            return any(other.id == message.id for other in self._delivering(session_id))

        if not await self._store.wait_until(lambda: not is_open(), ARRIVES_WITHIN_S):
            await self._record.finish(message, MessageState.UNCONFIRMED, _NOT_TOLD)

    # Receipts

    async def link_event(self, session_id: str, event: LinkEvent) -> None:
        if isinstance(event, StateUpdate) and (speaks := self._speaks.get(session_id)) is not None:
            speaks.set()
        if not isinstance(event, MessageUpdate):
            return
        number = link_message_number(session_id, event.id)
        if number is None:
            return
        if event.receipt is not Receipt.UNKNOWN:
            self._unproven.get(session_id, set()).discard(number)
        match event.receipt:
            case Receipt.SUBMITTED:
                self._refusals.pop(session_id, None)
                await self._arrive(session_id, number, event.at)
            case Receipt.NOT_DELIVERED:
                await self._return(session_id, number, event.reason)
            case Receipt.ACCEPTED | Receipt.UNKNOWN:
                message = self._store.mail.open.messages.get(number)
                if message in self._delivering(session_id):
                    why = _ACCEPTED if event.receipt is Receipt.ACCEPTED else event.reason or _NO_RECEIPT
                    await self._record.explain(message, folded(why, _REASON_MAX))

    @durable
    async def _arrive(self, session_id: str, number: int, at: float) -> None:
        async with self._store.transaction() as tx:
            try:
                message = await tx.mail.message(number)
            except NotFound:
                return
            own = (message.session_id, message.via) == (session_id, LINK)
            if own and message.state in _WAITED_FOR:
                self._receipts.await_turn_end(session_id)
                await arrive(tx, message, max(message.state_at, min(tx.now, iso(at))), BY_LINK)

    async def _return(self, session_id: str, number: int, reason: str) -> None:
        """Put a message back into the queue that the conversation certainly does not have, and pause a moment."""
        message = self._store.mail.open.messages.get(number)
        if message not in self._delivering(session_id):
            return
        refusals = self._refusals.setdefault(session_id, _Refusals(Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)))
        why = folded(f"not delivered: {reason}" if reason else "not delivered", _REASON_MAX)
        refusals.until_s = asyncio.get_running_loop().time() + refusals.backoff.next_s()
        refusals.reason = f"{why}; sm sends it again"
        await self._record.finish(message, MessageState.QUEUED, refusals.reason)
