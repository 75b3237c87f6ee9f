"""Delivers messages by typing: one at a time per terminal, and each submitted at most once."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import field
from typing import assert_never

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.messages import SM_ITSELF, TERMINAL, TYPED_WHOLE, Message
from sm.core.models import Session
from sm.core.pauses import PAUSED
from sm.core.states import MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.text import (
    LINE_MAX_BYTES,
    cut_to_bytes,
    message_header,
    render_line,
    render_message,
    render_notice_lines,
)
from sm.core.wording import sender_label
from sm.errors import (
    NoServer,
    NoTerminal,
    SmError,
    StorageFull,
    TerminalUnreachable,
)
from sm.messaging.composer import ComposerDriver
from sm.messaging.composer.instructions import DeliveryEnd, DeliveryOutcome
from sm.messaging.delivery_record import DeliveryRecord, StoredDelivery
from sm.messaging.holds import busy_reason, hold_reason
from sm.messaging.receipts import DeliveryReceipts
from sm.providers.base import BoxReader, InputMethod, Provider
from sm.state.part_holds import held_reason, hold_of, postponed
from sm.store import Store
from sm.terminals.base import Busy, Terminals

log = logging.getLogger(__name__)

SETTLE_S = 0.05
"""Pause between two messages: a program that reads keys would merge two pastes."""
_AFTER_AN_INTERRUPT_S = 0.2
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_LONGEST_HELD_S = 15.0
"""The longest pause before another attempt on an input box. A change of the session's status ends each pause."""
_HELD_BY_STATUS_S = 600.0
_HEADER_ROOM = 300
_SEARCHED_LINES = 500
_DEFECT = "an internal error of sm, see sm daemon logs"
_HELD_UNTIL_IDLE = frozenset({MessageMode.IDLE, MessageMode.COMMAND})


@dataclass(eq=False)
class DeliveryWorker:
    """Delivers to agents whose input is their terminal. One message of a session is under way at a time."""

    _store: Store
    _record: DeliveryRecord
    _providers: Mapping[str, Provider]
    _terminals: Terminals
    _driver: ComposerDriver
    _receipts: DeliveryReceipts
    _busy: set[str] = field(init=False, default_factory=set)

    async def run(self) -> None:
        """Finish the deliveries of an earlier daemon, then deliver new messages. Never returns."""
        left = [
            message
            for message in self._store.mail.open.messages.values()
            if message.state is MessageState.DELIVERING and message.via == TERMINAL
        ]
        async with asyncio.TaskGroup() as group:
            for message in left:
                session = self._store.sessions.get(message.session_id or "")
                box_reader = None if session is None else self._box_reader(session)
                if session is None or box_reader is None:
                    await self._record.finish(
                        message, MessageState.UNCONFIRMED, *await self._enter_rest(message)
                    )
                else:
                    self._busy.add(session.id)
                    group.create_task(self._resume(session, message, box_reader))
            while True:
                for session_id in self._ready():
                    self._busy.add(session_id)
                    group.create_task(self._serve(session_id))
                await self._store.wait_until(lambda: bool(self._ready()))

    async def _enter_rest(self, message: Message) -> tuple[str, bool]:
        """Enter a typed line that lacks its Enter: otherwise the next message would be appended to it.

        Returns the reason for the record, and True if the whole message is in the terminal.
        """
        session = self._store.sessions.get(message.session_id or "")
        left = "the daemon ended while it typed the message"
        if session is None or session.exit is not None:
            return left, False
        if self._providers[session.provider].input_of(session.agent_type) is InputMethod.LINK:
            return left, False  # of a restored backup: nothing is typed to this agent
        try:
            text = (await self._store.mail.texts([message.id]))[message.id]
            lines = self._lines(message, text)
            for line in reversed(lines):
                if await self._terminals.enter_if_unsent(session.terminal, line):
                    # The later lines of the notice were not typed.
                    return (
                        f"{left}; a line of the message was in the terminal, and sm pressed Enter",
                        line is lines[-1],
                    )
            mark = (
                message_header(self._sender(message), message.id) if len(lines) == 1 else lines[-1].rstrip()
            )
            if any(mark in line for line in await self._terminals.capture(session.terminal, _SEARCHED_LINES)):
                return f"{left}; the terminal shows the message", True
        except SmError as error:
            log.warning(
                "could not search the terminal for an unsent line: %s",
                error.message,
                extra={"sm_session": session.id},
            )
        return left, False

    def _ready(self) -> list[str]:
        queued = self._store.mail.queued()
        return [s for s in queued if s is not None and s not in self._busy and self._next(s) is not None]

    def _next(self, session_id: str) -> Message | None:
        session = self._store.sessions.get(session_id)
        if session is None or not self._types_to(session):
            return None
        queued = self._store.mail.queued().get(session_id, ())
        able = [
            m
            for m in queued
            if m.held_until is None and (m.mode not in _HELD_UNTIL_IDLE or session.status is Status.IDLE)
        ]
        # The message that passes a hold comes before those that wait for its end.
        hold = hold_of(session, self._store.sessions.get, self._store.mail.open)
        first = None if hold is None else hold.passes
        return min(able, key=lambda m: (m.id != first, m.mode is not MessageMode.URGENT, m.id), default=None)

    def _types_to(self, session: Session) -> bool:
        if session.process is None or session.exit is not None:
            return False
        method = self._providers[session.provider].input_of(session.agent_type)
        if method not in (InputMethod.TTY, InputMethod.COMPOSER):
            return False
        # The first prompt comes before any message.
        effects = self._store.mail.open.effects.values()
        return not any(
            e.session_id == session.id and e.kind in (EffectKind.START, EffectKind.TYPE) for e in effects
        )

    def _box_reader(self, session: Session) -> BoxReader | None:
        """The reader of the session's input box, or None if the session reads lines."""
        provider = self._providers[session.provider]
        return provider.box_reader if provider.input_of(session.agent_type) is InputMethod.COMPOSER else None

    async def _serve(self, session_id: str) -> None:
        try:
            session = self._store.sessions.get(session_id)
            reads_lines = session is None or self._box_reader(session) is None
            backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S if reads_lines else _LONGEST_HELD_S)
            while (message := self._next(session_id)) is not None:
                retry_s: float | None = None
                session = self._store.sessions[session_id]
                box_reader = self._box_reader(session)
                try:
                    if (why := self._held_by_order(session, message)) is not None:
                        await self._record.explain(message, why)
                        held, retry_s = True, _HELD_BY_STATUS_S
                    elif box_reader is None:
                        held = await self._deliver(session, message)
                    else:
                        held, retry_s = await self._compose(session, message, box_reader)
                except StorageFull as error:
                    held = True
                    log.warning("postponed a message: %s", error.message, extra={"sm_session": session_id})
                except Exception:
                    held = False
                    log.exception("failed to type a message", extra={"sm_session": session_id})
                    await self._record.finish(message, MessageState.UNCONFIRMED, _DEFECT)
                if held:
                    pause_s = backoff.next_s()
                    await self._pause(message, pause_s if retry_s is None else retry_s)
                else:
                    backoff.reset()
                    await asyncio.sleep(SETTLE_S)
        finally:
            self._busy.discard(session_id)
            session = self._store.sessions.get(session_id)
            if session is None or session.exit is not None:
                self._driver.forget(session_id)

    def _held_by_order(self, session: Session, message: Message) -> str | None:
        """Why a pause or a hold keeps the message back, or None if neither does."""
        if session.paused is not None:
            return PAUSED
        return held_reason(session, self._store.sessions.get, self._store.mail.open, message.id)

    async def _pause(self, message: Message, pause_s: float) -> None:
        """Wait until the session's status changes or another message comes first, at most `pause_s`."""

        def held_by(session: Session) -> tuple[object, ...]:
            asks = session.status is Status.WAITING_INPUT
            return (
                session.status,
                session.status_at,
                busy_reason(session, self._store.mail.open, "") if asks else "",
                postponed(session, self._store.mail.open, 0.0),
                session.paused is None,
                held_reason(session, self._store.sessions.get, self._store.mail.open, message.id),
            )

        before = self._store.sessions.get(message.session_id or "")
        then = None if before is None else held_by(before)

        def changed() -> bool:
            now = self._store.sessions.get(message.session_id or "")
            first = None if now is None else self._next(now.id)
            return now is None or first is None or first.id != message.id or held_by(now) != then

        await self._store.wait_until(changed, pause_s)

    # Input boxes

    async def _compose(
        self, session: Session, message: Message, box_reader: BoxReader
    ) -> tuple[bool, float | None]:
        """Deliver one message. Returns (True if held, seconds until the next attempt or None)."""
        find = self._store.sessions.get
        why = hold_reason(session, self._store.mail.open, time.time(), find, message.id)
        if why is not None:
            await self._record.explain(message, why)
            return True, _HELD_BY_STATUS_S
        outcome = await self._driver.deliver(await self._stored(session, message, box_reader))
        await self._finish_composed(message, outcome)
        return outcome.end is DeliveryEnd.HELD, outcome.retry_s

    async def _resume(self, session: Session, message: Message, box_reader: BoxReader) -> None:
        """Finish a delivery of an earlier daemon before any other delivery to the session."""
        try:
            outcome = await self._driver.resume(await self._stored(session, message, box_reader))
            await self._finish_composed(message, outcome)
        except Exception:
            log.exception("failed to finish a delivery", extra={"sm_session": session.id})
            await self._record.finish(message, MessageState.UNCONFIRMED, _DEFECT)
        await self._serve(session.id)

    async def _stored(self, session: Session, message: Message, box_reader: BoxReader) -> StoredDelivery:
        text = (await self._store.mail.texts([message.id]))[message.id]
        key = self._providers[session.provider].interrupt_key
        return StoredDelivery(
            self._store,
            self._record,
            self._receipts,
            message,
            session.id,
            session.terminal,
            box_reader,
            text
            if message.mode is MessageMode.COMMAND
            else render_message(self._sender(message), message.id, text, message.own_lines),
            key if message.mode is MessageMode.URGENT else None,
        )

    async def _finish_composed(self, message: Message, outcome: DeliveryOutcome) -> None:
        match outcome.end:
            case DeliveryEnd.HELD:
                await self._record.explain(message, outcome.why, MessageState.QUEUED)
            case DeliveryEnd.UNCONFIRMED | DeliveryEnd.FAILED:
                await self._record.finish(message, MessageState(outcome.end), outcome.why)
            case DeliveryEnd.ARRIVED:
                pass
            case _:
                assert_never(outcome.end)

    # Terminals that are read line by line

    async def _deliver(self, session: Session, message: Message) -> bool:
        """Type one message. Returns True if it is held: nothing of it was typed."""
        text = (await self._store.mail.texts([message.id]))[message.id]
        lines = self._lines(message, text)
        # In parallel with the commit, which waits for the disk.
        taken, found = await asyncio.gather(
            self._record.take(message), self._terminals.running(session.terminal), return_exceptions=True
        )
        if isinstance(taken, BaseException):
            raise taken
        if taken is None:
            return False
        done, state, expected = 0, MessageState.UNCONFIRMED, False
        try:
            if isinstance(found, BaseException):
                raise found
            busy, pane = (found, None) if isinstance(found, Busy) else (None, found)
            if busy is None and message.mode is MessageMode.URGENT:
                key = self._providers[session.provider].interrupt_key
                busy, pane = await self._terminals.press(session.terminal, key), None
                await asyncio.sleep(_AFTER_AN_INTERRUPT_S)
            while busy is None and done < len(lines):
                # No check of the screen: it cannot tell what an arbitrary program would do with a line.
                busy = await self._terminals.type_line(session.terminal, lines[done], pane)
                pane, done = None, done + (busy is None)
        except (NoTerminal, NoServer) as error:
            state = MessageState.UNCONFIRMED if done else MessageState.FAILED
            why = error.message
        except TerminalUnreachable as error:
            why = f"the message may have been typed: {error.message}"
        except SmError as error:
            why = error.message
        else:
            if busy is None:
                why, expected = TYPED_WHOLE, True
            elif done:
                why = f"only a part of the message was typed: {busy.why}"
            else:
                state, why = MessageState.QUEUED, busy.why
        await self._record.finish(taken, state, why, expected=expected)
        return state is MessageState.QUEUED

    def _lines(self, message: Message, text: str) -> list[str]:
        if message.sender == SM_ITSELF:
            return list(render_notice_lines(message.id, text.split("\n")))
        sender = self._sender(message)
        # `Messages.send` refuses long messages; only answers to requests can be longer.
        line = cut_to_bytes(text.replace("\n", " "), LINE_MAX_BYTES - _HEADER_ROOM)
        return [render_line(sender, message.id, line)]

    def _sender(self, message: Message) -> str:
        return sender_label(message.sender, self._store.sessions.get(message.sender))
