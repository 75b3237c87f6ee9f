"""Confirms typed messages with the agents' own reports (design section 6)."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sm.core.messages import IN_ITS_QUEUE, SM_ITSELF, TERMINAL, Message
from sm.core.observation import Source
from sm.core.states import MessageState
from sm.core.statuses import Status
from sm.core.text import MARK, letter, marked
from sm.core.timestamps import iso
from sm.core.wording import sender_label, words_of
from sm.errors import NotFound
from sm.monitor.listeners import AgentListener
from sm.providers.base import Composer
from sm.providers.readers import AcceptedInput
from sm.sessions.manager import Manager
from sm.state.messages import arrive, finish
from sm.store import Store, Transaction, durable

_HEADER = re.compile(
    rf"(?<!> ){re.escape(MARK)} from [^\n]{{1,300}}?, message ([1-9][0-9]{{0,14}})$", re.MULTILINE
)
"""The line that `text.header` writes. What others write in its place does not begin so (`text.marked`)."""
_BEGINNINGS_MAX = 1_000
_HEADERS_MAX = 50
"""Bounds on what is looked at in one text."""
_TOGETHER = "it arrived changed, or together with other text"
_TAKEN_BACK = "it was taken back out of the agent's queue, at its terminal"
_PUT_BACK = (
    "it was interrupted before an answer began, and put back into the input box, from which it was taken"
)
_LEFT_OUT = "it was interrupted before an answer began, and the conversation goes on without it"
_REFUSED = "a hook of its user refused it: {words}"
_STOPPED = "a hook of its user stopped what it began: {words}; it is read with the next prompt"
_WORDS_MAX = 200
_BESIDE_S = 1.0
"""How long the hook of sm may take to begin where another one runs beside it."""
_RECENT = 20
_BROKEN_OFF_WITHIN_S = 2.0
"""How long it may take until it is seen that a turn was broken off."""
_ENDED_WITHIN_S = 0.3
"""A session that has just become idle may have finished its turn, and what was read in it is noted a moment later."""
_WAITED_FOR = frozenset({MessageState.QUEUED, MessageState.DELIVERING, MessageState.UNCONFIRMED})
"""Queued: what was given up as not typed, and was."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a text holds of messages to its session, by their numbers."""

    whole: int | None = None
    """It is this one, as it was sent, and nothing else."""
    among: frozenset[int] = frozenset()
    """It is one of these that has changed, or holds it beside other text."""


class DeliveryReceipts(AgentListener):
    """Takes note of what arrived. An agent tells of one message up to three times; the first time counts."""

    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager
        self._prompts: dict[str, tuple[str, int | None]] = {}
        """The last prompt of each session: behind what it stands, and which message it is."""
        self._asked: dict[str, int | None] = {}
        """Which message the hook of the last prompt told of, until the transcript tells what became of it."""
        self._nameless: dict[str, AcceptedInput] = {}
        """What was refused before the hook that runs beside told of it, and does not say what it was."""
        self._dealt_with: set[str] = set()
        """Sessions in which nothing that was typed waits for the end of a turn."""

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        """The agent of this session has accepted a text, or has put the text back. Returns when that is on disk."""
        session = self._store.sessions.get(session_id)
        composer = None if session is None else self._manager.provider(session).composer
        if composer is None:
            return
        found = await self._found(accepted, composer)
        if accepted.refused is not None:
            await self._refused(session_id, accepted, accepted.refused, found)
            return
        refused: AcceptedInput | None = None
        if source is Source.HOOK:
            self._asked[session_id] = found.whole
            refused = self._nameless.pop(session_id, None)
        if accepted.parent is not None:
            if self._asked.get(session_id) == found.whole:
                self._asked.pop(session_id, None)
            await self._goes_on(session_id, accepted.parent, iso(accepted.at), found)
        if found == _Found():
            return
        await self._arrive(session_id, found, accepted, source)
        if refused is not None and accepted.at < refused.at + _BESIDE_S:
            await self._refused(session_id, refused, refused.refused or "", _Found())

    @durable
    async def _arrive(self, session_id: str, found: _Found, accepted: AcceptedInput, source: Source) -> None:
        async with self._store.transaction() as tx:
            if found.whole is not None and (message := await _typed_to(tx, found.whole, session_id)):
                await self._arrived(tx, message, accepted, source)
            for number in sorted(found.among):
                if not accepted.withdrawn and (message := await _typed_to(tx, number, session_id)):
                    await self._arrived_changed(tx, message)

    async def _found(self, accepted: AcceptedInput, composer: Composer) -> _Found:
        """What of our messages stands in what was accepted."""
        if MARK not in accepted.text:
            return _Found()
        text = await asyncio.to_thread(composer.accepted_form, accepted.text)
        numbers = {int(header[1]) for header in _headers(text)}
        if not numbers:
            return _Found()
        texts = await self._store.mail.texts(numbers)
        return await asyncio.to_thread(_found, text, texts, composer.accepted_form)

    async def _goes_on(self, session_id: str, parent: str, at: str, found: _Found) -> None:
        """The conversation goes on behind `parent`, since `at`: what stood there before, and is not the same, is in it
        no more.
        """
        before = self._prompts.get(session_id)
        self._prompts[session_id] = parent, found.whole
        if before is None or before[0] != parent or before[1] is None:
            return
        if before[1] != found.whole and before[1] not in found.among:
            await self._put_back(before[1], session_id, _LEFT_OUT, at)

    async def _arrived(
        self, tx: Transaction, message: Message, accepted: AcceptedInput, source: Source
    ) -> None:
        now = self._manager.now()
        at = max(message.state_at, min(now, iso(accepted.at)))
        is_queued = message.state is MessageState.SUBMITTED and message.evidence == IN_ITS_QUEUE
        if accepted.withdrawn:
            if is_queued:  # it stands in the box: whoever sits there may send it, as it is or changed, or not
                await finish(tx, self._manager.notices, message, MessageState.UNCONFIRMED, _TAKEN_BACK)
        elif (
            message.submitted_at is not None
            and message.state in _WAITED_FOR
            and iso(accepted.at) <= message.state_at
        ):
            pass  # it tells again how it arrived, before it was put back
        elif message.state in _WAITED_FOR:
            self._dealt_with.discard(message.session_id or "")
            await arrive(tx, message, at, _evidence(accepted, source))
        elif is_queued and not accepted.queued:
            tx.mail.move_message(message, message.state, at, evidence=_evidence(accepted, source))

    async def _arrived_changed(self, tx: Transaction, message: Message) -> None:
        if message.state in _WAITED_FOR and message.state is not MessageState.UNCONFIRMED:
            await finish(tx, self._manager.notices, message, MessageState.UNCONFIRMED, _TOGETHER)

    async def _refused(self, session_id: str, accepted: AcceptedInput, words: str, found: _Found) -> None:
        """What a hook of the agent's user kept from the model, though the hook of sm, which ran beside it, told of it.

        The end of a later turn may have acknowledged it before this was known.
        """
        nameless = not accepted.text and not accepted.kept
        if nameless and session_id not in self._asked:
            self._nameless[session_id] = accepted
            return
        whole = found.whole
        if accepted.kept:
            _, whole = self._prompts.get(session_id, ("", None))
        elif nameless:
            whole = self._asked[session_id]
        if self._asked.get(session_id) == whole:
            self._asked.pop(session_id, None)
        numbers = sorted(found.among if whole is None else {whole})
        await self._refuse(session_id, numbers, accepted, words, whole, nameless=nameless)

    @durable
    async def _refuse(
        self,
        session_id: str,
        numbers: Sequence[int],
        accepted: AcceptedInput,
        words: str,
        whole: int | None,
        *,
        nameless: bool,
    ) -> None:
        since = iso(accepted.at)
        async with self._store.transaction() as tx:
            why = (_STOPPED if accepted.kept else _REFUSED).format(
                words=words_of(tx.session(session_id), words, _WORDS_MAX)
            )
            for number in numbers:
                message = await _typed_to(tx, number, session_id)
                if message is None:
                    continue
                if message.acknowledged_at is not None and message.acknowledged_at >= since:
                    state = MessageState.SUBMITTED
                    message = tx.mail.move_message(message, state, tx.now, acknowledged_at=None)
                waits = message.state in _WAITED_FOR
                if not waits and (message.state is not MessageState.SUBMITTED or number != whole):
                    continue
                # A notice is told to somebody else: told again it would be refused again.
                certain = not (accepted.kept or nameless) or message.sender == SM_ITSELF
                state = MessageState.FAILED if certain else MessageState.UNCONFIRMED
                await finish(tx, self._manager.notices, message, state, why)

    async def returned(self, session_id: str, draft: str) -> str | None:
        """The letter of the message to this session that `draft`, in its input box, is; None: of none.

        One whose turn has not been finished, and which nobody works on, was put back before it was read.
        """
        session = self._store.sessions.get(session_id)
        composer = None if session is None else self._manager.provider(session).composer
        if session is None or composer is None:
            return None
        recent = [
            m for m in await self._store.mail.messages([session_id], _RECENT) if m.session_id == session_id
        ]
        texts = await self._store.mail.texts([m.id for m in recent])
        for message in reversed(recent):
            sender = sender_label(message.sender, self._store.sessions.get(message.sender))
            whole = letter(sender, message.id, texts[message.id])
            if (
                message.submitted_at is not None
                and message.via == TERMINAL
                and composer.is_ours(draft, whole)
            ):
                if message.state is MessageState.SUBMITTED and await self._rests(session_id):
                    await self._put_back(message.id, session_id, _PUT_BACK)
                return whole
        return None

    async def _rests(self, session_id: str) -> bool:
        """Whether nobody works in this session, seen after what was just interrupted or finished has been noted."""

        def idle() -> bool:
            session = self._store.sessions.get(session_id)
            return session is not None and session.status is Status.IDLE

        if not await self._store.changed(idle, _BROKEN_OFF_WITHIN_S):
            return False
        await asyncio.sleep(_ENDED_WITHIN_S)
        return True

    @durable
    async def _put_back(self, number: int, session_id: str, why: str, since: str | None = None) -> None:
        """`since`: what was acknowledged from then on was not: the end of the next turn came before this was known."""
        async with self._store.transaction() as tx:
            message = await _typed_to(tx, number, session_id)
            works = why == _PUT_BACK and tx.session(session_id).status is not Status.IDLE
            if message is None or works:
                return
            if since is not None and message.acknowledged_at is not None and message.acknowledged_at >= since:
                message = tx.mail.move_message(message, MessageState.SUBMITTED, tx.now, acknowledged_at=None)
            if message.state is MessageState.SUBMITTED:
                await finish(tx, self._manager.notices, message, MessageState.UNCONFIRMED, why)

    def process_gone(self, session_id: str) -> None:
        for known in (self._prompts, self._asked, self._nameless):
            known.pop(session_id, None)

    @durable
    async def turn_ended(self, session_id: str, at: float) -> None:
        """A turn was finished at `at`: what was read before has been dealt with, also in a turn that was broken off."""
        if session_id in self._dealt_with:
            return
        ended = iso(at)
        async with self._store.transaction() as tx:
            waiting = await tx.mail.unacknowledged(session_id)
            done = [m for m in waiting if m.evidence != IN_ITS_QUEUE and m.state_at < ended]
            for message in done:
                tx.mail.move_message(message, MessageState.ACKNOWLEDGED, tx.now, acknowledged_at=ended)
            if not waiting:  # within the transaction, so that nothing arrives in between
                self._dealt_with.add(session_id)


def _headers(text: str) -> list[re.Match[str]]:
    """The lines of ours, wherever they begin: what is pasted behind a draft begins in the middle of one."""
    found: list[re.Match[str]] = []
    at = text.find(MARK)
    for _ in range(_BEGINNINGS_MAX):
        if at < 0 or len(found) == _HEADERS_MAX:
            break
        if (header := _HEADER.match(text, at)) is not None:
            found.append(header)
        at = text.find(MARK, at + 1)
    return found


def _found(text: str, texts: Mapping[int, str], form: Callable[[str], str]) -> _Found:
    """What of the messages with these `texts` stands in `text`. `form`: in which it is, to be compared with them."""
    among = set[int]()
    for header in _headers(text):
        number = int(header[1])
        if number not in texts:
            continue
        letter = form(f"{header[0]}\n{marked(texts[number])}")
        if header.start() == 0 and text == letter:
            return _Found(number)  # whatever it quotes
        if header.start() == 0 or text.startswith(letter, header.start()):
            among.add(number)
    return _Found(None, frozenset(among))


async def _typed_to(tx: Transaction, number: int, session_id: str) -> Message | None:
    """The message with this number, if it is one to the session and was typed."""
    try:
        message = await tx.mail.message(number)
    except NotFound:
        return None
    return message if message.session_id == session_id and message.via == TERMINAL else None


def _evidence(accepted: AcceptedInput, source: Source) -> str:
    if source is Source.HOOK:
        return f"its {accepted.hook} hook"
    return IN_ITS_QUEUE if accepted.queued else "its transcript"
