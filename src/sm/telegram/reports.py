"""Reports events to the people in chats: one message for each event, and a card for each request.

The daemon's numbered events are the source. The number of the newest reported event is stored in the transaction that
queues its messages, so that neither a crash nor a restart repeats or loses a report.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from sm.config import TelegramSection
from sm.core.effects import EffectState
from sm.core.models import Event, Session
from sm.core.requests import Request
from sm.core.states import CallerKind, EventType, TrustLevel
from sm.core.telegram_model import (
    BotMethod,
    Need,
    NewCall,
    TelegramButton,
    TelegramChange,
    request_object,
    session_object,
    telegram_user,
)
from sm.core.telegram_threads import Topic
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.errors import NotFound, StorageFull
from sm.services import ChatUsers, Dialogs, Reads, Requests, Telegram
from sm.telegram.cards import UNTRUSTED, Card, draw
from sm.telegram.progress import ProgressCards
from sm.telegram.replies import Place, keyboard
from sm.telegram.threads import Thread, Threads, with_name
from sm.telegram.topics import topic_changes

log = logging.getLogger(__name__)

_BATCH = 50
_FULL_PAUSE_S = 5.0
_LOUD = frozenset({EventType.REQUEST, EventType.ERROR})
_FOLLOWED = frozenset({EventType.CHECKPOINT, EventType.NOTE, EventType.IDLE})
"""Reported to the chats that follow the session, also if `telegram.notify` leaves them out."""
_CHANGES_TOPICS = frozenset(
    {EventType.COMPLETED, EventType.ERROR, EventType.ABANDONED, EventType.KILLED, EventType.REOPENED}
)
_SENDING_WITHIN_S = 60.0


class EventReports:
    """One task that queues reports. `wall` is the time of day."""

    def __init__(
        self,
        section: TelegramSection,
        bot_id: int,
        threads: Threads,
        cards: ProgressCards,
        wall: Callable[[], float],
        *,
        store: Reads,
        telegram: Telegram,
        users: ChatUsers,
        requests: Requests,
        dialogs: Dialogs,
    ) -> None:
        self._store = store
        self._telegram = telegram
        self._users = users
        self._requests = requests
        self._dialogs = dialogs
        self._threads = threads
        self._cards = cards
        self._section = section
        self._bot_id = bot_id
        self._wall = wall
        self._types = frozenset(map(EventType, section.notify))

    async def run(self) -> None:
        """Report until cancelled."""
        store, telegram = self._store, self._telegram
        seq = await telegram.begin_reports(self._bot_id)
        await self._threads.known()
        while True:
            events = await store.events(sessions=None, since=seq, limit=_BATCH)
            if not events:
                at = seq
                await store.wait_until(lambda: store.last_seq > at, None)  # noqa: B023 - called only in this round
                continue
            for event in events:
                try:
                    await self._queue(event)
                except Exception:  # a defect must not stop all later reports
                    log.exception("failed to report event %d", event.seq)
            seq = events[-1].seq

    async def _queue(self, event: Event) -> None:
        """Queue the report of the event, as soon as the disk has room."""
        while True:
            try:
                if (change := await self._change(event)) is not None:
                    await self._telegram.record_report(self._bot_id, event.seq, change)
                return
            except StorageFull as error:
                log.warning("postponed a report: %s", error.message)
            await asyncio.sleep(_FULL_PAUSE_S)

    async def _change(self, event: Event) -> TelegramChange | None:
        """The change that reports the event, or None if nothing is shown."""
        session = self._store.sessions.get(event.session_id)
        if event.type is EventType.REQUEST:
            name = event.metadata.get("request_id")
            return None if not isinstance(name, str) else await self._request(name, session)
        if session is None:
            return None
        telegram = self._telegram
        begun = await self._cards.begin(event, session)
        calls, topics = list(begun.calls), list[Topic]()
        # Of a warning, the operator gets a notice once, and not with each of its events.
        is_reported = event.type in self._types and event.metadata.get("told") is not False
        if event.type is EventType.MESSAGE:  # others report that a session got a message
            is_reported = is_reported and event.metadata.get("to") == CallerKind.OPERATOR
        may_change_topic = event.type in _CHANGES_TOPICS
        followers = await telegram.followers(session.id) if event.type in _FOLLOWED else frozenset[int]()
        is_shown = is_reported or may_change_topic or bool(followers)
        for thread in await self._threads.of(session) if is_shown else ():
            if is_reported or thread.chat_id in followers:
                calls.append(await self._report(event, session, thread))
            if may_change_topic and thread.is_topic and thread.owner.id == session.id:
                changes, topic = await self._topic_changes(thread)
                calls += changes
                topics += topic
        return TelegramChange(calls, topics=topics, cards=begun.cards) if calls or begun.cards else None

    async def _topic_changes(self, thread: Thread) -> tuple[list[NewCall], list[Topic]]:
        """The calls that give the topic of the thread the title and the state of its session."""
        topic = await self._telegram.threads.topic(thread.owner.id, thread.chat_id)
        if topic is None:
            return [], []
        calls, after = topic_changes(topic, thread.owner)
        return calls, [after] if calls else []

    async def _report(self, event: Event, session: Session, thread: Thread) -> NewCall:
        text = with_name(folded(event.message, 1000), session, thread)
        if session.effective_mode is TrustLevel.SANDBOXED:
            text = f"{text} {UNTRUSTED}"
        placed = await self._threads.parameters(thread, session)
        muted = await self._telegram.is_muted(thread.chat_id, session.id)
        parameters = {**placed, "text": text, **self._sound(event.type, muted=muted)}
        need = Need.PROGRESS if event.type in _FOLLOWED else Need.ENDING
        about = session_object(session.id)
        return NewCall(thread.chat_id, BotMethod.SEND_MESSAGE, parameters, need, about=about)

    def _sound(self, type: EventType, *, muted: bool = False) -> dict[str, bool]:
        hours = self._section.quiet_hours
        quiet = muted or (hours is not None and is_quiet(hours, self._wall()))
        return {"disable_notification": True} if quiet and type not in _LOUD else {}

    # Requests

    async def _request(self, name: str, session: Session | None) -> TelegramChange | None:
        """A card for each reader of an open request. A request that is over changes all of its cards."""
        request = await self._find(name)
        if request is None:
            return None
        card = draw(self._store, self._dialogs, request)
        if request.open and not request.has_proposed_answer:
            if session is None or EventType.REQUEST not in self._types:
                return None
            return await self._new_cards(request, session, card)
        return await self._changed_cards(request, card)

    async def _find(self, name: str) -> Request | None:
        for owner in self._section.owner_ids[:1]:  # an owner sees every request
            caller = self._users.caller(telegram_user(owner))
            try:
                return await self._requests.find(caller, name)
            except NotFound:
                return None
        return None

    async def _new_cards(self, request: Request, session: Session, card: Card) -> TelegramChange | None:
        calls: list[NewCall] = []
        buttons: list[TelegramButton] = []
        about = request_object(request.name)
        for thread in await self._threads.of(session):
            chat_id, place = thread.chat_id, Place(thread.chat_id)
            placed = await self._threads.parameters(thread, session)
            parameters = {**placed, **self._sound(EventType.REQUEST), "parse_mode": "HTML"}
            if card.file is not None:
                file = {"document": card.file.content, "filename": card.file.name}
                plain = {key: value for key, value in parameters.items() if key != "parse_mode"}
                subject = f"file {_subject(request, chat_id)}"
                calls.append(NewCall(chat_id, BotMethod.SEND_DOCUMENT, plain | file, Need.REQUEST, subject))
            if card.buttons:
                parameters["reply_markup"], made = keyboard(
                    place, thread.presser, about, card.buttons, iso(self._wall()), None
                )
                buttons += made
            calls.append(
                NewCall(
                    chat_id,
                    BotMethod.SEND_MESSAGE,
                    {**parameters, "text": card.html},
                    Need.REQUEST,
                    _subject(request, chat_id),
                    about,
                )
            )
        return TelegramChange(calls, buttons) if calls else None

    async def _changed_cards(self, request: Request, card: Card) -> TelegramChange | None:
        """Show the outcome in every card. The card of a request that is over is not sent any more."""
        about, telegram = request_object(request.name), self._telegram
        subjects = {_subject(request, chat_id): chat_id for chat_id in self._threads.chats}
        while waiting := [subject for subject in subjects if telegram.waits_with(subject) is not None]:
            shown = {"text": card.html, "parse_mode": "HTML"}
            replaced = [
                NewCall(
                    subjects[subject],
                    BotMethod.SEND_MESSAGE,
                    shown,
                    Need.REQUEST,
                    subject,
                    about,
                    replaces=True,
                )
                for subject in waiting
            ]
            needless = () if request.open else [*waiting, *(f"file {subject}" for subject in waiting)]
            await telegram.apply(TelegramChange(replaced, spent=[about], withdrawn=needless))
            # The message of a call that has begun gets its id when the call ends. If the call fails, it waits again.
            begun = [s for s in waiting if telegram.waits_with(s) is EffectState.TAKEN]
            if not begun or not await self._store.wait_until(
                lambda: all(telegram.waits_with(s) is not EffectState.TAKEN for s in begun),  # noqa: B023
                _SENDING_WITHIN_S,
            ):
                break
        calls = []
        for chat_id, message_id in await telegram.messages_of(about):
            parameters: dict[str, Any] = {"message_id": message_id, "text": card.html, "parse_mode": "HTML"}
            calls.append(NewCall(chat_id, BotMethod.EDIT_MESSAGE_TEXT, parameters, Need.ANSWER))
        return TelegramChange(calls, spent=[about]) if calls else None


def _subject(request: Request, chat_id: int) -> str:
    return f"card {request.name} {chat_id}"


def is_quiet(hours: str, at: float) -> bool:
    """True if the local time of `at` (seconds since the epoch) is within `hours`, such as `22:00-07:00`."""
    begin, _, end = hours.partition("-")
    now = time.strftime("%H:%M", time.localtime(at))
    return begin <= now < end if begin < end else now >= begin or now < end
