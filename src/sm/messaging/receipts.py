"""Confirms typed messages with the agents' own reports."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.core.messages import (
    IN_CONVERSATION,
    IN_ITS_QUEUE,
    QUEUED_BY_AGENT,
    SM_ITSELF,
    TERMINAL,
    Message,
    hook_evidence,
)
from sm.core.observation import Source
from sm.core.program_states import QUEUE, ProgramStateOf, unknown_program_state
from sm.core.states import MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.text import MARK, escape_marks, render_message
from sm.core.timestamps import iso
from sm.core.wording import quote_session, sender_label
from sm.errors import NotFound
from sm.messaging.composer.timing import READS_WITHIN_S
from sm.monitor.listeners import AgentListener
from sm.providers.base import BoxReader, PromptRefusal, Provider
from sm.providers.readers import AcceptedInput
from sm.state.message_steps import arrive, finish
from sm.state.notices import Notices
from sm.store import Store, Transaction, durable

_HEADER = re.compile(
    rf"(?<!> ){re.escape(MARK)} from [^\n]{{1,300}}?, message ([1-9][0-9]{{0,14}})$", re.MULTILINE
)
"""The line that `text.message_header` writes. `text.escape_marks` keeps senders from writing such a line."""
_BEGINNINGS_MAX = 1_000
_HEADERS_MAX = 50
"""Bounds on the search in one text."""
_CHANGED = "the message arrived changed, or together with other text"
_TAKEN_BACK = "the message was taken back from the agent's queue in the terminal"
_PUT_BACK = "the agent was interrupted before it answered; sm removed the message from the input box"
_LEFT_OUT = "the agent was interrupted before it answered; the conversation continues without the message"
_REFUSED = "a hook of the user refused the message: {words}"
_NOT_QUEUED = (
    "the agent's hook reported the message, but it is neither in its queue nor in its conversation: "
    "a hook of the user may have refused it"
)
_STOPPED = "a hook of the user stopped the turn: {words}; the agent reads the message with its next prompt"
_WORDS_MAX = 200
_PARALLEL_HOOK_S = 1.0
"""How long the hook of sm may take to start while another hook runs in parallel."""
_RECENT = 20
_INTERRUPT_WITHIN_S = 2.0
"""How long the detection of an interrupted turn may take."""
_ENDED_WITHIN_S = 0.3
"""A session that has just become idle may have finished its turn; its messages are acknowledged a moment later."""
_ARRIVED = frozenset({MessageState.SUBMITTED, MessageState.ACKNOWLEDGED})
_WAITED_FOR = frozenset({MessageState.QUEUED, MessageState.DELIVERING, MessageState.UNCONFIRMED})
"""Includes QUEUED: a message that counted as not typed may have been typed."""


@dataclass(frozen=True, slots=True)
class _Matches:
    """The messages that a text contains, by their numbers."""

    whole: int | None = None
    """The text is this message, unchanged, and nothing else."""
    among: frozenset[int] = frozenset()
    """The text contains these messages changed, or together with other text."""
    rest: str = ""
    """The text without the message that it contains unchanged."""


class DeliveryReceipts(AgentListener):
    """Records the arrival of messages. An agent reports a message up to three times; the first report counts."""

    def __init__(
        self,
        store: Store,
        notices: Notices,
        providers: Mapping[str, Provider],
        program_state: ProgramStateOf = unknown_program_state,
    ) -> None:
        self._store = store
        self._notices = notices
        self._providers = providers
        self._program_state = program_state
        self._began = store.now()
        self._prompts: dict[str, tuple[str, int | None]] = {}
        """The last prompt of each session: (its parent in the conversation, the number of the message)."""
        self._hooked: dict[str, int | None] = {}
        """The message that the last prompt hook reported, until the transcript reports its outcome."""
        self._nameless: dict[str, AcceptedInput] = {}
        """Refusals without a text that came before the parallel hook of sm reported the prompt."""
        self._acknowledged: set[str] = set()
        """Sessions without typed messages that wait for the end of a turn."""
        self._typed_words: dict[str, tuple[int, str]] = {}
        """By session: the last message that arrived with other text, and that text."""

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        """Record that the agent accepted, refused or put back a text. Returns when that is on disk."""
        session = self._store.sessions.get(session_id)
        box_reader = None if session is None else self._providers[session.provider].box_reader
        if box_reader is None:
            return
        if accepted.command:
            await self._record_command(session_id, accepted, source, box_reader)
            return
        matches = await self._matches(accepted, box_reader)
        if accepted.refused is not None:
            await self._refused(session_id, accepted, accepted.refused, matches)
            return
        refused: AcceptedInput | None = None
        if source is Source.HOOK:
            self._hooked[session_id] = matches.whole
            refused = self._nameless.pop(session_id, None)
        if accepted.parent is not None:
            if self._hooked.get(session_id) == matches.whole:
                self._hooked.pop(session_id, None)
            await self._continue(session_id, accepted.parent, iso(accepted.at), matches)
        if matches == _Matches():
            return
        for number in matches.among:  # before the state of the message ends its delivery
            self._typed_words[session_id] = number, matches.rest
        await self._record_arrival(session_id, matches, accepted, source)
        if refused is not None and accepted.at < refused.at + _PARALLEL_HOOK_S:
            await self._refused(session_id, refused, refused.refused or "", _Matches())

    @durable
    async def _record_arrival(
        self, session_id: str, matches: _Matches, accepted: AcceptedInput, source: Source
    ) -> None:
        async with self._store.transaction() as tx:
            if matches.whole is not None and (message := await _typed_to(tx, matches.whole, session_id)):
                await self._arrive_whole(tx, message, accepted, source)
            for number in sorted(matches.among):
                if not accepted.withdrawn and (message := await _typed_to(tx, number, session_id)):
                    await self._arrive_changed(tx, message, iso(accepted.at))

    @durable
    async def _record_command(
        self, session_id: str, accepted: AcceptedInput, source: Source, box_reader: BoxReader
    ) -> None:
        """Record that the agent CLI has carried out a command, or queued it. A person may type the same commands."""
        form, at = box_reader.accepted_form(accepted.text), iso(accepted.at)
        recent = [
            message
            for message in await self._store.mail.messages([session_id], _RECENT)
            if message.session_id == session_id
            and message.mode is MessageMode.COMMAND
            and message.via == TERMINAL
            and message.created_at <= at
        ]
        texts = await self._store.mail.texts([message.id for message in recent])
        async with self._store.transaction() as tx:
            for found in reversed(recent):
                message = await tx.mail.message(found.id)
                began = message.state is not MessageState.DELIVERING or message.state_at <= at
                if began and box_reader.accepted_form(texts[message.id]) == form:
                    await self._arrive_whole(tx, message, accepted, source)
                    return

    async def _matches(self, accepted: AcceptedInput, box_reader: BoxReader) -> _Matches:
        if MARK not in accepted.text:
            return _Matches()
        text = await asyncio.to_thread(box_reader.accepted_form, accepted.text)
        numbers = {int(header[1]) for header in _headers(text)}
        if not numbers:
            return _Matches()
        texts = await self._store.mail.marked_texts(numbers)
        return await asyncio.to_thread(_matches, text, texts, box_reader.accepted_form, accepted.pasted)

    async def _continue(self, session_id: str, parent: str, at: str, matches: _Matches) -> None:
        """Note that a prompt follows the entry `parent`. It replaces an earlier prompt after the same entry."""
        before = self._prompts.get(session_id)
        self._prompts[session_id] = parent, matches.whole
        if before is None or before[0] != parent or before[1] is None:
            return
        if before[1] != matches.whole:
            why = _CHANGED if before[1] in matches.among else _LEFT_OUT
            await self._put_back(before[1], session_id, why, at)

    async def _arrive_whole(
        self, tx: Transaction, message: Message, accepted: AcceptedInput, source: Source
    ) -> None:
        now = self._store.now()
        at = max(message.state_at, min(now, iso(accepted.at)))
        is_queued = message.state is MessageState.SUBMITTED and message.in_agent_queue
        queued = accepted.queued or (source is Source.HOOK and self._is_in_turn(tx, message))
        evidence, reason = _evidence(accepted, source, queued=queued), IN_ITS_QUEUE if queued else None
        if accepted.withdrawn:
            if is_queued:  # it is in the box, where a person may send, change or delete it
                await finish(tx, self._notices, message, MessageState.UNCONFIRMED, _TAKEN_BACK)
        elif (
            message.submitted_at is not None
            and message.state in _WAITED_FOR
            and iso(accepted.at) <= message.state_at
        ):
            pass  # a late report from before the message was put back
        elif message.state in _WAITED_FOR:
            self._acknowledged.discard(message.session_id or "")
            await arrive(tx, message, at, evidence, reason)
        elif (
            accepted.queued
            and message.state in _ARRIVED
            and message.reported_by_hook
            and iso(accepted.at) >= (message.submitted_at or message.state_at)
        ):
            # claude after 2.1.197 reports a prompt to its hooks before it puts the prompt into its queue, and 2.1.197
            # only when it takes the prompt out.
            message = _revoke_acknowledgement(tx, message)
            tx.mail.move_message(message, message.state, at, evidence=evidence, reason=reason)
        elif is_queued and not queued:
            tx.mail.move_message(message, message.state, at, evidence=evidence, reason=None)
        elif (
            message.state in _ARRIVED
            and source is Source.TRANSCRIPT
            and not accepted.queued
            and message.evidence != IN_CONVERSATION
        ):
            # Without this evidence, the end of the process makes the message unconfirmed.
            tx.mail.move_message(
                message, message.state, message.state_at, evidence=IN_CONVERSATION, reason=None
            )

    def _is_in_turn(self, tx: Transaction, message: Message) -> bool:
        """True if the recipient has worked on a turn since before the message was typed, as far as known."""
        session = tx.find(message.session_id)
        is_typed = message.state is MessageState.DELIVERING
        return (
            session is not None
            and is_typed
            and session.status is Status.RUNNING
            and session.status_at < message.state_at
        )

    async def _arrive_changed(self, tx: Transaction, message: Message, at: str) -> None:
        """Record that a prompt at `at` holds the message changed, or together with other text.

        An earlier report said that the message arrived unchanged. That prompt is no longer in the conversation if the
        transcript has never shown it: claude put it back into the box, where a person went on typing.
        """
        taken_back = (
            message.state in _ARRIVED
            and message.evidence != IN_CONVERSATION
            and at > (message.submitted_at or message.state_at)
        )
        if taken_back:
            message = _revoke_acknowledgement(tx, message)
        waited_for = message.state in _WAITED_FOR and message.state is not MessageState.UNCONFIRMED
        if waited_for or taken_back:
            await finish(tx, self._notices, message, MessageState.UNCONFIRMED, _CHANGED)

    async def _refused(self, session_id: str, accepted: AcceptedInput, words: str, matches: _Matches) -> None:
        """Record a prompt that a hook of the user refused, although the parallel hook of sm reported it.

        The end of a later turn may have acknowledged the message already.
        """
        nameless = not accepted.text and not accepted.kept
        if nameless and session_id not in self._hooked:
            number = await self._hooked_before(session_id, accepted)
            if number is None:
                self._nameless[session_id] = accepted
                return
            self._hooked[session_id] = number
        whole = matches.whole
        if accepted.kept:
            _, whole = self._prompts.get(session_id, ("", None))
        elif nameless:
            whole = self._hooked[session_id]
        if self._hooked.get(session_id) == whole:
            self._hooked.pop(session_id, None)
        numbers = sorted(matches.among if whole is None else {whole})
        await self._record_refusal(session_id, numbers, accepted, words, whole, nameless=nameless)

    async def _hooked_before(self, session_id: str, refused: AcceptedInput) -> int | None:
        """The message that the last prompt hook reported to an earlier daemon, if its outcome is still unknown."""
        typed = [
            message
            for message in await self._store.mail.messages([session_id], _RECENT)
            if message.session_id == session_id
            and message.via == TERMINAL
            and message.submitted_at is not None
        ]
        last = max(typed, key=lambda message: message.submitted_at or "", default=None)
        if last is None or last.state not in _ARRIVED or not last.reported_by_hook:
            return None
        submitted = last.submitted_at or ""
        is_earlier = submitted < self._began and submitted <= iso(refused.at + _PARALLEL_HOOK_S)
        return last.id if is_earlier else None

    @durable
    async def _record_refusal(
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
                words=quote_session(tx.session(session_id), words, _WORDS_MAX)
            )
            for number in numbers:
                message = await _typed_to(tx, number, session_id)
                if message is None:
                    continue
                if message.acknowledged_at is not None and message.acknowledged_at >= since:
                    message = _revoke_acknowledgement(tx, message)
                waits = message.state in _WAITED_FOR
                if not waits and (message.state is not MessageState.SUBMITTED or number != whole):
                    continue
                # Notices go to another session: the hook of this one would refuse them again.
                certain = not (accepted.kept or nameless) or message.sender == SM_ITSELF
                state = MessageState.FAILED if certain else MessageState.UNCONFIRMED
                await finish(tx, self._notices, message, state, why)

    @durable
    async def refuse_queued(self, session_id: str, number: int, refusal: PromptRefusal | None) -> None:
        """Record that a hook of the user refused a message before it came into the agent's queue.

        `refusal` is None if nothing is known but that the queue does not have the message.
        """
        async with self._store.transaction() as tx:
            message = await _typed_to(tx, number, session_id)
            if message is not None and _is_only_hooked(message):
                is_certain = refusal is not None and (refusal.is_named or message.sender == SM_ITSELF)
                state = MessageState.FAILED if is_certain else MessageState.UNCONFIRMED
                why = _NOT_QUEUED
                if refusal is not None:
                    why = _REFUSED.format(
                        words=quote_session(tx.session(session_id), refusal.words, _WORDS_MAX)
                    )
                await finish(tx, self._notices, message, state, why)

    @durable
    async def transcript_turn_ended(self, session_id: str, at: float) -> None:
        """Give up the messages that a hook reported in that turn, and of which the transcript has shown nothing.

        claude after 2.1.197 runs its hooks before it puts a prompt into its queue, and shows a refusal on the screen
        only.
        """
        before = iso(at - READS_WITHIN_S)
        async with self._store.transaction() as tx:
            for message in await tx.mail.unacknowledged(session_id):
                if _is_only_hooked(message) and message.state_at < before:
                    await finish(tx, self._notices, message, MessageState.UNCONFIRMED, _NOT_QUEUED)

    def take_typed_words(self, session_id: str, message_id: int) -> str:
        """The text that arrived together with the message, at the first call, or empty if unknown or none."""
        number, words = self._typed_words.get(session_id, (None, ""))
        if number != message_id:
            return ""
        del self._typed_words[session_id]
        return words

    async def message_in_draft(self, session_id: str, draft: str) -> str | None:
        """The text of the message that `draft` in the session's input box shows, or None if the draft is no message.

        A submitted message in the box of an idle session was put back before it was read.
        """
        session = self._store.sessions.get(session_id)
        box_reader = None if session is None else self._providers[session.provider].box_reader
        if session is None or box_reader is None:
            return None
        recent = [
            m for m in await self._store.mail.messages([session_id], _RECENT) if m.session_id == session_id
        ]
        texts = await self._store.mail.texts([m.id for m in recent])
        for message in reversed(recent):
            sender = sender_label(message.sender, self._store.sessions.get(message.sender))
            whole = render_message(sender, message.id, texts[message.id], message.own_lines)
            if (
                message.submitted_at is not None
                and message.via == TERMINAL
                and message.mode is not MessageMode.COMMAND  # a person may have typed the same command
                and box_reader.shows_message(draft, whole)
            ):
                if message.state is MessageState.SUBMITTED and await self._is_idle(session_id):
                    await self._put_back(message.id, session_id, _PUT_BACK)
                return whole
        return None

    async def _is_idle(self, session_id: str) -> bool:
        """True if the session is idle, after a wait for pending reports of an interrupted or finished turn."""

        def idle() -> bool:
            session = self._store.sessions.get(session_id)
            return session is not None and session.status is Status.IDLE

        if not await self._store.wait_until(idle, _INTERRUPT_WITHIN_S):
            return False
        await asyncio.sleep(_ENDED_WITHIN_S)
        return True

    @durable
    async def _put_back(self, number: int, session_id: str, why: str, since: str | None = None) -> None:
        """Mark a message as put back. `since`: revoke an acknowledgement from this time on, of a later turn's end."""
        async with self._store.transaction() as tx:
            message = await _typed_to(tx, number, session_id)
            works = why == _PUT_BACK and tx.session(session_id).status is not Status.IDLE
            if message is None or works:
                return
            if since is not None and message.acknowledged_at is not None and message.acknowledged_at >= since:
                message = _revoke_acknowledgement(tx, message)
            if message.state is MessageState.SUBMITTED:
                await finish(tx, self._notices, message, MessageState.UNCONFIRMED, why)

    def await_turn_end(self, session_id: str) -> None:
        """A message has arrived in another way: the end of its turn acknowledges it."""
        self._acknowledged.discard(session_id)

    def process_gone(self, session_id: str) -> None:
        for known in (self._prompts, self._hooked, self._nameless, self._typed_words):
            known.pop(session_id, None)

    @durable
    async def turn_ended(self, session_id: str, at: float) -> None:
        """Acknowledge the messages that the agent read before `at`, also in an interrupted turn.

        Messages of an earlier process are among them only if its conversation contains them (`finish_unread`). With an
        agent CLI whose queue cannot be followed, the end of a turn does not show that they were read.
        """
        if session_id in self._acknowledged:
            return
        session = self._store.sessions.get(session_id)
        state = None if session is None else self._program_state(session)
        if state is not None and state.breaks(QUEUE):
            return
        ended = iso(at)
        async with self._store.transaction() as tx:
            waiting = await tx.mail.unacknowledged(session_id)
            done = [m for m in waiting if not m.in_agent_queue and m.state_at < ended]
            for message in done:
                tx.mail.move_message(message, MessageState.ACKNOWLEDGED, tx.now, acknowledged_at=ended)
            if not waiting:  # within the transaction, so that nothing arrives in between
                self._acknowledged.add(session_id)


def _is_only_hooked(message: Message) -> bool:
    """Return whether only a hook has reported that the message waits in the agent's queue."""
    return message.state is MessageState.SUBMITTED and message.in_agent_queue and message.reported_by_hook


def _headers(text: str) -> list[re.Match[str]]:
    """The headers of messages, also inside a line: a paste may follow a draft in the same line."""
    headers: list[re.Match[str]] = []
    at = text.find(MARK)
    for _ in range(_BEGINNINGS_MAX):
        if at < 0 or len(headers) == _HEADERS_MAX:
            break
        if (header := _HEADER.match(text, at)) is not None:
            headers.append(header)
        at = text.find(MARK, at + 1)
    return headers


def _matches(
    text: str, texts: Mapping[int, tuple[str, int]], form: Callable[[str], str], pasted: bool = False
) -> _Matches:
    """Find messages in `text`.

    `texts`: as of `MailReads.marked_texts`. `form`: brings a rendered message into the form of `text`. `pasted`: see
    `AcceptedInput`.
    """
    among, rest = set[int](), ""
    for header in _headers(text):
        number = int(header[1])
        if number not in texts:
            continue
        rendered = form(f"{header[0]}\n{escape_marks(*texts[number])}")
        is_whole = text == rendered or (pasted and _letters(text) == _letters(rendered))
        if header.start() == 0 and is_whole:
            return _Matches(number)  # the message may quote others
        is_unchanged = text.startswith(rendered, header.start())
        if header.start() == 0 or is_unchanged:
            among.add(number)
        if is_unchanged and not rest:
            parts = text[: header.start()], text[header.start() + len(rendered) :]
            rest = " ".join(filter(None, (part.strip() for part in parts)))
    return _Matches(None, frozenset(among), rest)


def _letters(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())


def _revoke_acknowledgement(tx: Transaction, message: Message) -> Message:
    if message.state is not MessageState.ACKNOWLEDGED:
        return message
    return tx.mail.move_message(message, MessageState.SUBMITTED, tx.now, acknowledged_at=None)


async def _typed_to(tx: Transaction, number: int, session_id: str) -> Message | None:
    """The message with this number if it was typed to the session."""
    try:
        message = await tx.mail.message(number)
    except NotFound:
        return None
    return message if message.session_id == session_id and message.via == TERMINAL else None


def _evidence(accepted: AcceptedInput, source: Source, *, queued: bool) -> str:
    if source is Source.HOOK:
        return hook_evidence(accepted.hook, queued=queued)
    return QUEUED_BY_AGENT if queued else IN_CONVERSATION
