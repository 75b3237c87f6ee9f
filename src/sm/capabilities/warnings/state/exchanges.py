"""Slows and stops two sessions that only answer each other. Functions of a transaction.

A message between two sessions counts if neither has called a tool since the one before, other than to send, read or
wait. The warning, the delays and the request follow from rows, so a restart of the daemon changes nothing.
"""

from dataclasses import replace
from typing import Final

from sm.capabilities.warnings.model import MessageExchange, Sent, SessionWarning, WarningTimer
from sm.capabilities.warnings.rules import ExchangeStep, delay_s, next_exchange_step, turns_of
from sm.capabilities.warnings.settings import PingPong
from sm.capabilities.warnings.state.rows import close_warning, open_row, warning_occasion
from sm.capabilities.warnings.tables import PART
from sm.capabilities.warnings.text.sentences import warning_notice
from sm.core.labels import label_of, short_label
from sm.core.lifecycle import is_live
from sm.core.messages import Message
from sm.core.models import Caller, Session, ancestors
from sm.core.requests import Answer, Request
from sm.core.states import EventType, MessageState, NoticeKind, RequestKind, RequestState
from sm.core.timers import Timer
from sm.core.timestamps import later, span
from sm.core.warnings import WarningKind
from sm.errors import IllegalState
from sm.operations.hints import Hint, Use
from sm.operations.report_operations import NOTE
from sm.state.message_steps import finish
from sm.state.notices import Notices, notice_recipient
from sm.state.request_steps import NewRequest, finish_request, open_request
from sm.store import Transaction
from sm.store.transaction import SessionFollower

_LOOK_BACK: Final = 50
"""Messages of others between those of a pair that are looked at."""


class Exchanges(SessionFollower):
    def __init__(self, settings: PingPong, notices: Notices) -> None:
        self._settings = settings
        self._notices = notices

    async def admit(self, tx: Transaction, sender: Session | None, to: Session, message: Message) -> Message:
        """The new message as the exchange of its sender and its recipient allows it: at once, later, or held.

        Raises IllegalState while somebody has refused further messages between the two. `sender` is None for a person,
        whose message is new work for the recipient and so ends the refusal.
        """
        rule = self._settings
        if sender is None:
            await self._end_denials(tx, to)
            return message
        if rule.do == "off" or sender.id == to.id:
            return message
        exchange = await tx.part(PART).exchanges.find(sender.id, to.id)
        worked_at = await tx.part(PART).exchanges.worked_at(exchange)
        earlier = await tx.part(PART).exchanges.sent(exchange, 2 * rule.limit + _LOOK_BACK)
        sent = [m for m in earlier if m.at > worked_at] + [Sent(message.id, sender.id, tx.now)]
        step = next_exchange_step(exchange, sent, limit=rule.limit, within_s=rule.within_s)
        count = len(turns_of(sent))
        match step:
            case ExchangeStep.PASS:
                return message
            case ExchangeStep.OVER:
                await self._close(tx, exchange, message.id - 1, "one of the two has worked")
                return message
            case ExchangeStep.WARN:
                await self._warn(tx, exchange, sender, to, count, sent[0].at)
                return message
            case ExchangeStep.SLOW | ExchangeStep.HOLD:
                if exchange.is_refused:
                    raise IllegalState(
                        f"further messages between {short_label(sender)} and {short_label(to)} were denied"
                        f" ({_request_name(exchange)}) until one of them has worked or got a message from a person",
                        Hint("do a step of your own work first, or report: ", Use(NOTE, "TEXT")),
                    )
        if rule.do == "notice":
            return message
        self._watch(tx, exchange)
        if step is ExchangeStep.HOLD:
            exchange = await self._ask(tx, exchange, sender, to, count)
            reason = f"held: {count} messages between the two without other work; waits for {_request_name(exchange)}"
            return replace(message, held_until="", reason=reason)
        wait_s = delay_s(count, rule.limit)
        until = later(tx.now, wait_s)
        tx.timers.set(Timer(str(message.id), WarningTimer.HELD_MESSAGE, until, wait_s))
        reason = f"waits {span(wait_s)}: {count} messages between the two without other work"
        return replace(message, held_until=until, reason=reason)

    async def answer(self, tx: Transaction, caller: Caller, request: Request, answer: Answer) -> None:
        """Let the two go on, or let the held messages fail and refuse further ones."""
        exchange = await tx.part(PART).exchanges.of_request(request.id)
        if exchange is None:
            return
        held = self._held(tx, exchange)
        if answer.approved:
            await self._close(tx, exchange, await self._newest(tx, exchange), f"{caller} let them go on")
            return
        tx.part(PART).exchanges.put(replace(exchange, is_refused=True, request=request.id))
        for message in held:
            reason = f"{caller} denied further messages between the two ({request.name})"
            await finish(tx, self._notices, message, MessageState.FAILED, reason)

    async def leave(self, tx: Transaction, session: Session) -> None:
        """End the exchanges of a session that is about to be removed."""
        for exchange in await tx.part(PART).exchanges.of_session(session.id):
            await self._close(tx, exchange, exchange.after_id, "one of the two was removed")

    async def release(self, tx: Transaction, timer: Timer) -> None:
        """Release a message whose wait is over."""
        message = tx.mail.open.messages.get(int(timer.subject))
        if message is not None and message.held_until:
            _let_go(tx, message)

    async def look(self, tx: Transaction, timer: Timer) -> float | None:
        """End a warning after silence, or ask again. Returns the seconds until the next look; None for the last."""
        exchange = await tx.part(PART).exchanges.find(*timer.subject.split("/"))
        if exchange.owner is None or exchange.is_refused:  # a denial lasts until one of the two works
            return None
        pair = [tx.find(exchange.first), tx.find(exchange.second)]
        sender, to = pair
        held = self._held(tx, exchange)
        if (
            sender is None
            or to is None
            or not held
            or not all(s is not None and is_live(s.status) for s in pair)
        ):
            await self._close(tx, exchange, await self._newest(tx, exchange), "they stopped")
            return None
        if exchange.request is None or not (await tx.mail.request(exchange.request)).open:
            await self._ask(tx, replace(exchange, request=None), sender, to, 2 * self._settings.limit)
        return self._settings.within_s

    # Steps

    async def _end_denials(self, tx: Transaction, to: Session) -> None:
        """Let a session whose messages to others were denied write to them again."""
        for exchange in await tx.part(PART).exchanges.of_session(to.id):
            if exchange.is_refused:
                newest = await self._newest(tx, exchange)
                await self._close(tx, exchange, newest, "one of the two got a message from a person")

    async def _warn(
        self, tx: Transaction, exchange: MessageExchange, sender: Session, to: Session, count: int, since: str
    ) -> None:
        owner = _owner(tx, sender, to)
        rule = self._settings
        evidence = f"{_pair(sender, to)} sent each other {count} messages without other work since {since[11:19]} UTC"
        warning = await open_row(
            tx,
            owner,
            WarningKind.PING_PONG,
            value=count,
            limit=rule.limit,
            evidence=evidence,
            subject=exchange.subject,
        )
        tx.part(PART).exchanges.put(replace(exchange, owner=owner.id, request=None, is_refused=False))
        self._watch(tx, exchange)
        if warning is not None:
            await self._tell_parent(tx, owner, warning)

    async def _tell_parent(self, tx: Transaction, session: Session, warning: SessionWarning) -> None:
        """Report that the session only answers another one, to its parent or else to the operator."""
        recipient, text = notice_recipient(tx, session), warning_notice(session, warning)
        occasion = warning_occasion(warning)
        await self._notices.add(tx, session, recipient, NoticeKind.WARNING, occasion, text, EventType.WARNING)

    async def _ask(
        self, tx: Transaction, exchange: MessageExchange, sender: Session, to: Session, count: int
    ) -> MessageExchange:
        """The exchange with an open request, at the session that has the warning if that lives."""
        if exchange.request is not None and (await tx.mail.request(exchange.request)).open:
            return exchange
        owner = tx.find(exchange.owner)
        if owner is None or not is_live(owner.status):
            owner = _owner(tx, sender, to)
        asked = NewRequest(RequestKind.EXCHANGE, arguments={"between": _pair(sender, to), "messages": count})
        request = await open_request(tx, self._notices, owner, asked, tx.now, None)
        exchange = replace(exchange, request=request.id)
        tx.part(PART).exchanges.put(exchange)
        return exchange

    async def _close(self, tx: Transaction, exchange: MessageExchange, after_id: int, reason: str) -> None:
        """End the warning and its request, and release the messages."""
        tx.part(PART).exchanges.put(MessageExchange(exchange.first, exchange.second, after_id))
        tx.timers.remove(exchange.subject, WarningTimer.EXCHANGE)
        owner = tx.find(exchange.owner)
        if owner is not None:
            await close_warning(tx, owner, WarningKind.PING_PONG, exchange.subject)
        if exchange.request is not None:
            request = await tx.mail.request(exchange.request)
            session = tx.find(request.session_id)
            if request.open and session is not None:
                await finish_request(
                    tx, session, request, tx.now, state=RequestState.CANCELLED, reason=reason
                )
        for message in self._held(tx, exchange):
            _let_go(tx, message)

    async def _newest(self, tx: Transaction, exchange: MessageExchange) -> int:
        """The id of the newest message of the pair."""
        sent = await tx.part(PART).exchanges.sent(exchange, 2 * self._settings.limit + _LOOK_BACK)
        return sent[-1].id if sent else exchange.after_id

    def _held(self, tx: Transaction, exchange: MessageExchange) -> list[Message]:
        pair = {exchange.first, exchange.second}
        return [
            m
            for m in tx.mail.open.messages.values()
            if m.held_until is not None
            and m.state is MessageState.QUEUED
            and {m.sender, m.session_id or ""} == pair
        ]

    def _watch(self, tx: Transaction, exchange: MessageExchange) -> None:
        rule = self._settings
        due_at = later(tx.now, rule.within_s)
        tx.timers.set(Timer(exchange.subject, WarningTimer.EXCHANGE, due_at, rule.within_s))


def _let_go(tx: Transaction, message: Message) -> None:
    tx.timers.remove(str(message.id), WarningTimer.HELD_MESSAGE)
    tx.mail.move_message(message, message.state, message.state_at, held_until=None, reason="no longer held")


def _owner(tx: Transaction, sender: Session, to: Session) -> Session:
    """The session whose parent decides: the highest one above the sender that is below all common ancestors."""
    common = {a.id for a in ancestors(to, tx.find)} - {sender.id}
    owner = sender
    for ancestor in ancestors(sender, tx.find):
        if ancestor.id in common:
            break
        owner = ancestor
    return owner


def _pair(sender: Session, to: Session) -> str:
    first, second = sorted((label_of(sender.id, sender), label_of(to.id, to)))
    return f"{first} and {second}"


def _request_name(exchange: MessageExchange) -> str:
    return "a decision" if exchange.request is None else f"r{exchange.request}"
