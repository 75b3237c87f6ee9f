"""Makes the calls that wait in the database: in the order of their need, within the budget, each once.

The row of a call in the outbox is taken before the call begins, and removed after it ends. So a call whose answer was
lost, by the network or by the end of the daemon, is known. Such a message is sent once more, with the mark "(again)".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from sm.core.backoff import Backoff
from sm.core.effects import EffectState
from sm.core.telegram_model import SENDS_ONCE, BotMethod, Need, NewCall, Outgoing
from sm.core.telegram_text import marked_again, plain_parameters
from sm.core.telegram_threads import TOPIC, session_of_progress
from sm.services import Telegram, TelegramLink
from sm.telegram.backlog import crowded_chats, summary
from sm.telegram.budget import CallBudget, next_call
from sm.telegram.client import BotClient
from sm.telegram.outcome import (
    NO_SUCH_BOT,
    AnswerLost,
    CallFailed,
    Conflict,
    Done,
    Flooded,
    Migrated,
    NotSent,
    Outcome,
    Rejected,
    Unauthorized,
)
from sm.telegram.topics import Topics

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_CALL_WITHIN_S = 60.0
_LOST_ANSWERS_MAX = 2


class Sender:
    """One task that makes all calls except polls. `clock` is monotonic, `wall` is the time of day."""

    def __init__(
        self,
        telegram: Telegram,
        client: BotClient,
        link: TelegramLink,
        topics: Topics,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._telegram = telegram
        self._queue = telegram.queue
        self._topics = topics
        self._client = client
        self._link = link
        self._clock = clock
        self._wall = wall
        self._budget = CallBudget()
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    async def run(self) -> None:
        """Make calls until cancelled, or until Telegram refuses the token."""
        await self._recover()
        while self._link.off is None:
            calls = self._queue.calls
            if crowded_chats(calls.values()):
                await self._queue.summarize(crowded_chats, summary)
                continue
            begun = self._queue.begun
            due = next_call(calls.values(), self._budget, self._clock())
            if (call := begun or due.call) is not None:
                pause_s = await self._make(call)
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
                continue
            await self._queue.wait(calls, self._choose, due.wait_s)

    def _choose(self, calls: Iterable[Outgoing]) -> Outgoing | None:
        """The call to begin with the transaction that adds it. A topic may have to be made first."""
        call = next_call(calls, self._budget, self._clock()).call
        return None if call is None or TOPIC in call.parameters else call

    async def _recover(self) -> None:
        """Read which chats are closed, and handle the calls that the end of the daemon interrupted."""
        for chat in await self._telegram.chats():
            left = chat.closed_until - self._wall()
            if left > 0:
                self._budget.close(chat.chat_id, self._clock() + left)
        await self._topics.recover()
        for call in list(self._queue.calls.values()):
            if call.state is EffectState.TAKEN:
                await self._answer_lost(call)

    async def _make(self, call: Outgoing) -> float | None:
        """Make the call and record its outcome. Returns the seconds to wait before any other call."""
        if TOPIC in call.parameters and (creation := await self._topics.begin(call)) is not None:
            return await self._make_topic(call, creation)
        if call.state is not EffectState.TAKEN:
            begun = await self._queue.begin(call)
            if begun is None:
                return None
            call = begun
        made = call
        if TOPIC in call.parameters:
            placed = await self._topics.placed(call)
            if placed is None:  # it changes a topic that does not exist
                await self._finish(call, Done())
                return None
            made = placed
        if call.lost_answers:
            made = replace(made, parameters=marked_again(made.parameters))
        return await self._record(call, await self._outcome(made))

    async def _outcome(self, call: Outgoing) -> Outcome:
        self._budget.spend(call.chat_id, self._clock())
        try:
            async with asyncio.timeout(_CALL_WITHIN_S):
                return await self._client.make(call)
        except TimeoutError:
            return AnswerLost("no answer in time")

    async def _make_topic(self, call: Outgoing, creation: Outgoing) -> float | None:
        """Make the topic that the call needs. The call keeps its turn."""
        outcome = await self._outcome(creation)
        await self._topics.record(call, outcome)
        match outcome:
            case Done() | Rejected():
                self._backoff.reset()
                return None
            case AnswerLost():
                return self._backoff.next_s()
            case failure:
                return await self._record(call, failure)

    async def _record(self, call: Outgoing, outcome: Outcome) -> float | None:
        match outcome:
            case Done():
                self._backoff.reset()
                if (
                    outcome.at is not None and call.method in SENDS_ONCE
                ):  # an edit has the time of its message
                    self._link.clock_ahead_s = self._wall() - outcome.at
                await self._finish(call, outcome)
            case Rejected() if outcome.is_harmless:
                self._backoff.reset()
                await self._finish(call, Done())
            case Rejected() if outcome.is_markup and "parse_mode" in call.parameters:
                await self._queue.again(call, parameters=plain_parameters(call.parameters))
            case Rejected() if call.method == BotMethod.SET_MESSAGE_REACTION:
                self._backoff.reset()
                await self._reply_instead(call)
            case Rejected() if outcome.is_missing_thread and TOPIC in call.parameters:
                await self._topics.deleted(call)
            case Rejected() if outcome.is_missing_message and session_of_progress(call.subject) is not None:
                await self._queue.forget_card(call)
            case Rejected():
                self._backoff.reset()
                log.warning("telegram refused a call of %s: %s", call.method, outcome.reason)
                await self._queue.drop(call, outcome.reason)
            case Flooded():
                await self._close(call, outcome.retry_after_s)
            case Migrated():
                await self._migrate(call, outcome.chat_id)
            case NotSent() | Conflict():
                await self._queue.again(call)
                return self._backoff.next_s()
            case AnswerLost():
                await self._answer_lost(call)
                await self._wait_for_answer()
            case Unauthorized():
                self._link.off = NO_SUCH_BOT
                await self._queue.again(call)
        return None

    async def _finish(self, call: Outgoing, done: Done) -> None:
        await self._queue.finish(call, done.message_id, done.thread_id, summary)

    async def _wait_for_answer(self) -> None:
        """Wait until Telegram answers a harmless call. So an outage costs one message one attempt, not each message."""
        while self._link.off is None:
            await asyncio.sleep(self._backoff.next_s())
            try:
                async with asyncio.timeout(_CALL_WITHIN_S):
                    await self._client.user_name()
            except CallFailed as failed:
                if isinstance(failed.failure, Unauthorized):
                    self._link.off = NO_SUCH_BOT
            except TimeoutError:
                pass
            else:
                return

    async def _reply_instead(self, call: Outgoing) -> None:
        """Make the reply of a reaction that the chat does not allow. It is none of the refused calls that count."""
        new = None
        if (said := call.parameters.get("instead")) is not None:
            new = NewCall(call.chat_id, BotMethod.SEND_MESSAGE, said, Need(call.need), call.about, call.about)
        await self._queue.replace(call, new)

    async def _answer_lost(self, call: Outgoing) -> None:
        """A message is sent once more; every other call may be repeated until an answer comes."""
        if call.method not in SENDS_ONCE:
            await self._queue.again(call)
        elif call.lost_answers + 1 >= _LOST_ANSWERS_MAX:
            await self._queue.drop(call, "the answer of telegram was lost twice")
        else:
            await self._queue.again(call, lost_answers=call.lost_answers + 1)

    async def _close(self, call: Outgoing, retry_after_s: float) -> None:
        """Make no call to the chat until the time has passed, also after a restart of the daemon."""
        log.warning("telegram asked to wait for %d s", retry_after_s)
        await self._queue.close_chat(call, self._wall() + retry_after_s)
        if call.chat_id is not None:
            self._budget.close(call.chat_id, self._clock() + retry_after_s)
        else:
            await asyncio.sleep(retry_after_s)

    async def _migrate(self, call: Outgoing, new: int) -> None:
        assert call.chat_id is not None
        await self._queue.migrate_chat(call, new)
        self._budget.move(call.chat_id, new)
