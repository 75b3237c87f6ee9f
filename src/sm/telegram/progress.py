"""Keeps one message in each thread up to date with the progress of its session: the progress card.

An event of a working session sends the card, in the transaction that reports the event. One task edits the cards, if
they are due and their text differs. At the end of the session the card becomes its summary. The rows in the database
let a daemon go on with the cards of the one before.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sm.config import TelegramSection
from sm.core.lifecycle import is_ended
from sm.core.models import Event, Session
from sm.core.states import EventType
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramChange, session_object
from sm.core.telegram_threads import ProgressCard, progress_subject
from sm.core.timestamps import iso
from sm.errors import StorageFull
from sm.services import Monitor, Reads, Sessions, Telegram
from sm.telegram.progress_card import card_change, is_due, progress_text
from sm.telegram.threads import Threads

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0
_PAUSE_S = 1.0
"""The shortest time between two looks, which many events in a row share."""
_WORK = frozenset(
    {EventType.STARTED, EventType.RUNNING, EventType.REOPENED, EventType.CHECKPOINT, EventType.NOTE}
)


class ProgressCards:
    """The cards of all threads. `clock` is monotonic."""

    def __init__(
        self,
        threads: Threads,
        section: TelegramSection,
        clock: Callable[[], float],
        *,
        store: Reads,
        telegram: Telegram,
        monitor: Monitor,
        sessions: Sessions,
    ) -> None:
        self._store = store
        self._telegram = telegram
        self._monitor = monitor
        self._sessions = sessions
        self._threads = threads
        self._enabled = section.progress
        self._clock = clock
        self._looked: dict[tuple[str, int], tuple[float, int]] = {}
        """The time of the last look at each card, and the number of the newest event then."""
        self._begun = asyncio.Event()

    async def begin(self, event: Event, session: Session) -> TelegramChange:
        """The cards that the event begins: in the threads of a session that works, or whose descendant works."""
        calls: list[NewCall] = []
        cards: list[ProgressCard] = []
        if self._enabled and event.type in _WORK and not is_ended(session.status):
            for thread in await self._threads.of(session):
                owner = thread.owner
                card = await self._telegram.threads.card(owner.id, thread.chat_id)
                if is_ended(owner.status) or (card is not None and card.is_live):
                    continue
                if card is not None and card.message_id is not None:
                    # The session goes on, and so does its message.
                    cards.append(replace(card, is_live=True))
                    continue
                text = (await self._texts([owner]))[owner.id]
                placed = await self._threads.parameters(thread, owner)
                parameters = {**placed, "text": text, "parse_mode": "HTML", "disable_notification": True}
                subject, about = progress_subject(owner.id), session_object(owner.id)
                calls.append(
                    NewCall(
                        thread.chat_id,
                        BotMethod.SEND_MESSAGE,
                        parameters,
                        Need.PROGRESS,
                        subject,
                        about=about,
                    )
                )
                cards.append(ProgressCard(owner.id, thread.chat_id, shown=text))
        if cards:
            self._begun.set()
        return TelegramChange(calls, cards=cards)

    async def run(self) -> None:
        """Edit the cards until cancelled."""
        store = self._store
        while self._enabled:
            seq = store.last_seq
            try:
                if await self.edit():
                    self._begun.clear()
                elif not self._begun.is_set():
                    await self._begun.wait()
            except StorageFull as error:
                log.warning("postponed progress cards: %s", error.message)
            except Exception:  # a defect in one text must not stop all cards
                log.exception("failed to edit progress cards")
            await asyncio.sleep(_PAUSE_S)
            await store.wait_until(lambda: store.last_seq > seq, _LOOK_EVERY_S - _PAUSE_S)  # noqa: B023 - only in this round

    async def edit(self) -> bool:
        """Queue the texts that are due and differ. Returns False if no card is live."""
        telegram, sessions = self._telegram, self._store.sessions
        # Read before the rows: the row of a message that is sent meanwhile has its id.
        waiting = {(call.subject, call.chat_id): call.state for call in telegram.outgoing.values()}
        cards = await telegram.threads.live_cards()
        looked = self._clock(), self._store.last_seq
        due = [card for card in cards if card.session_id in sessions and self._is_due(card)]
        shown = {card.session_id: sessions[card.session_id] for card in due}
        texts = await self._texts(shown.values())
        changes = []
        for card in due:
            state = waiting.get((progress_subject(card.session_id), card.chat_id))
            ended = is_ended(shown[card.session_id].status)  # as in the text, which took a while
            changes.append(card_change(card, texts[card.session_id], state, ended=ended))
        await self._apply(changes)
        self._looked |= {(card.session_id, card.chat_id): looked for card in due}
        return bool(cards)

    def _is_due(self, card: ProgressCard) -> bool:
        looked = self._looked.get((card.session_id, card.chat_id))
        if looked is None:
            return True
        at, seq = looked
        store = self._store
        session, is_news = store.sessions[card.session_id], seq != store.last_seq
        return is_due(session, card.chat_id, self._clock() - at, is_news=is_news)

    async def _apply(self, changes: Sequence[TelegramChange]) -> None:
        calls = [call for change in changes for call in change.calls]
        cards = [card for change in changes for card in change.cards]
        lost = [card for change in changes for card in change.lost_cards]
        if calls or cards or lost:
            await self._telegram.apply(TelegramChange(calls, cards=cards, lost_cards=lost))

    async def _texts(self, sessions: Collection[Session]) -> dict[str, str]:
        """The texts of the cards of these sessions."""
        store, monitor = self._store, self._monitor
        children: dict[str, list[Session]] = {session.id: [] for session in sessions}
        for session in store.sessions.values():
            if session.parent_id in children:
                children[session.parent_id].append(session)
        for parent_id, members in children.items():
            members += await self._sessions.past_children(parent_id)
        usages = await monitor.usages(list(sessions)) if sessions else {}
        found = {}
        for session in sessions:
            newest = next(iter(await store.checkpoints(session.id, 1)), None)
            found[session.id] = progress_text(
                session,
                usages[session.id],
                monitor.activity(session.id),
                newest,
                children[session.id],
                iso(monitor.now()),
            )
        return found
