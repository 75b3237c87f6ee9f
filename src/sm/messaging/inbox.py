"""Hands messages over to callers that take them from their inboxes."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_ended
from sm.core.messages import INBOX, SM_ITSELF, Message
from sm.core.models import Caller, RequestKey, Session, Signal, is_waiting
from sm.core.states import MessageMode, MessageState, SignalKind
from sm.core.statuses import Status
from sm.core.text import render_message
from sm.core.wording import sender_label
from sm.errors import UsageError
from sm.messaging.holds import check_runs, is_restored
from sm.providers.base import Provider
from sm.sessions.authorizer import Authorizer
from sm.state.message_steps import arrive
from sm.state.notices import Notices
from sm.state.part_holds import held_reason
from sm.state.session_steps import move
from sm.store import Open, Store, Transaction
from sm.store.message_rows import no_message

BATCH_MAX = 50
"""The most messages that one call takes."""


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    message: Message
    text: str = field(repr=False)
    shown: str = field(repr=False)
    """The text with its header, which only the daemon writes."""


@dataclass(frozen=True, slots=True, eq=False)
class Inbox:
    _store: Store
    _authorizer: Authorizer
    _notices: Notices
    _providers: Mapping[str, Provider]

    def available(self, caller: Caller, *, idle: bool) -> list[Message]:
        """The messages in the caller's inbox that `take` would hand over now, in that order.

        `idle`: the caller waits, so it also gets messages for an idle session.
        """
        caller_session = self._authorizer.caller_session(caller)
        if caller_session is not None and caller_session.paused is not None:
            return []
        queued: Sequence[Message] = self._store.mail.queued().get(caller.mailbox, ())
        if caller_session is not None:
            queued = _without_held(queued, caller_session, self._store.sessions.get, self._store.mail.open)
        return _select_takeable(queued, self._idle(caller, idle))

    def _idle(self, caller: Caller, idle: bool) -> bool:
        session = self._store.sessions.get(caller.session_id or "")
        return idle or session is None or session.status is Status.IDLE

    async def take(
        self, caller: Caller, limit: int, key: RequestKey | None, *, idle: bool
    ) -> list[RenderedMessage]:
        """Hand over the messages in the caller's inbox. A message is submitted when the caller confirms it.

        Raises IllegalState for an orphan process of a session: while the session's own process is gone, and until
        the process of a restored session runs.
        """
        caller_session = self._authorizer.caller_session(caller)
        async with self._store.transaction(caller, key) as tx:
            if caller_session is not None:
                now = tx.session(caller_session.id)
                check_runs(tx, now)
                if now.paused is not None and tx.replayed is None:
                    return []
            if tx.replayed is not None:
                taken = [await tx.mail.message(int(number)) for number in tx.replayed.split(",") if number]
            else:
                taken = await self._taken_now(tx, caller, caller_session, limit, idle=idle)
        return await self.render(taken)

    async def _taken_now(
        self, tx: Transaction, caller: Caller, caller_session: Session | None, limit: int, *, idle: bool
    ) -> list[Message]:
        queued = [
            m
            for m in tx.mail.open.messages.values()
            if m.session_id == caller.mailbox and m.state is MessageState.QUEUED
        ]
        if caller_session is not None:
            queued = _without_held(queued, tx.session(caller_session.id), tx.find, tx.mail.open)
        evidence = "taken from the inbox"
        taken = [
            tx.mail.move_message(m, MessageState.DELIVERING, tx.now, via=INBOX, evidence=evidence)
            for m in _select_takeable(queued, self._idle(caller, idle))[:limit]
        ]
        if taken:
            # Only work that somebody sends reopens a session.
            ends = caller_session is not None and is_ended(tx.session(caller_session.id).status)
            if caller_session is not None and not (ends and all(m.sender == SM_ITSELF for m in taken)):
                await self._start_work(tx, caller_session)
            tx.remember(",".join(str(m.id) for m in taken))
        return taken

    def is_gone(self, caller: Caller) -> bool:
        """True if the caller is an orphan of a session whose own process is gone."""
        session = self._store.sessions.get(caller.session_id or "")
        return session is not None and (session.exit is not None or is_waiting(session))

    def is_restarting(self, caller: Caller) -> bool:
        """True while the session is being restored: the caller may belong to its old or its new process."""
        session = self._store.sessions.get(caller.session_id or "")
        return session is not None and is_restored(session, self._store.mail.open)

    async def _start_work(self, tx: Transaction, session: Session) -> None:
        """Mark a session that has taken a message as busy, and reopen one that had reported its completion."""
        now = tx.session(session.id)
        signal = None
        if is_ended(now.status) and now.exit is None:
            signal = Signal(SignalKind.REOPENED, INBOX, "the agent took a message from its inbox", tx.now)
        elif not self._providers[now.provider].has_turns:
            signal = Signal(SignalKind.BUSY, INBOX, "the agent took a message from its inbox", tx.now)
        if signal is not None:
            await move(tx, self._notices, now.id, signal)

    async def confirm(self, caller: Caller, message_ids: Collection[int]) -> list[Message]:
        """Confirm that the caller has the messages that it took. Also confirms messages given up as unconfirmed.

        The operator may confirm a waiting message too: a view has shown it.
        """
        wanted = dict.fromkeys(message_ids)
        if len(wanted) > BATCH_MAX:
            raise UsageError(
                f"too many messages: {len(wanted)}, at most {BATCH_MAX} are allowed in one request"
            )
        confirmed = []
        async with self._store.transaction() as tx:
            for message_id in wanted:
                message = await self._taken_message(tx, caller, message_id)
                evidence = "the recipient took it from the inbox"
                if message.state is MessageState.QUEUED:
                    evidence = "the operator marked it as read"
                    message = tx.mail.move_message(message, MessageState.DELIVERING, tx.now, via=INBOX)
                if message.state in (MessageState.DELIVERING, MessageState.UNCONFIRMED):
                    message = await arrive(tx, message, tx.now, evidence)
                confirmed.append(message)
        return confirmed

    async def _taken_message(self, tx: Transaction, caller: Caller, message_id: int) -> Message:
        """A message that the caller took from its inbox, or one in the operator's. Raises NotFound."""
        message = await tx.mail.message(message_id)
        is_shown = caller.mailbox is None or message.via == INBOX
        if message.session_id != caller.mailbox or not is_shown:
            raise no_message(message_id)
        return message

    async def render(self, messages: Collection[Message]) -> list[RenderedMessage]:
        texts = await self._store.mail.texts([m.id for m in messages])
        rendered = []
        for m in messages:
            sender = sender_label(m.sender, self._store.sessions.get(m.sender))
            shown = render_message(sender, m.id, texts[m.id], m.own_lines)
            rendered.append(RenderedMessage(m, texts[m.id], shown))
            await asyncio.sleep(0)  # a long text blocks the event loop for milliseconds
        return rendered


def _without_held(
    queued: Sequence[Message], session: Session, find: Callable[[str], Session | None], open: Open
) -> list[Message]:
    """The messages that no hold keeps back."""
    return [m for m in queued if held_reason(session, find, open, m.id) is None]


def _select_takeable(queued: Collection[Message], idle: bool) -> list[Message]:
    takeable = [m for m in queued if m.held_until is None and (idle or m.mode is not MessageMode.IDLE)]
    return sorted(takeable, key=lambda m: (m.mode is not MessageMode.URGENT, m.id))
