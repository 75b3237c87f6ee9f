"""Waits for sessions, messages and answers."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from sm.core.lifecycle import has_reached, is_ended
from sm.core.messages import Message
from sm.core.models import Caller, RequestKey, Session
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.errors import IllegalState, UsageError
from sm.messaging.messages import BATCH_MAX, Messages, RenderedMessage
from sm.messaging.timers import MailTimers
from sm.requests.answers import Requests
from sm.sessions.manager import Manager
from sm.sessions.waits import WaitingSessions, WaitKind
from sm.store import Store

LongPoll = Callable[[Callable[[], bool], float], Awaitable[bool]]
"""Waits until a condition holds or a number of seconds has passed, and returns the condition.

Each front door provides its own, which raises when the caller has gone.
"""
_WAITED_MAX = 200
_RUNS_WITHIN_S = 5.0
"""Together with the following wait shorter than a client's timeout."""
_NOT_ARRIVED = frozenset({MessageState.FAILED, MessageState.EXPIRED, MessageState.UNCONFIRMED})


@dataclass(frozen=True, slots=True)
class WaitResult:
    """The result of a wait for sessions. `reached` None: not yet; False: no longer possible."""

    reached: bool | None
    sessions: list[Session]


class Waits:
    """Waits for sessions, messages and answers. `long_poll` is the wait function of the front door."""

    def __init__(
        self,
        store: Store,
        manager: Manager,
        messages: Messages,
        requests: Requests,
        waiting: WaitingSessions,
        timers: MailTimers,
    ) -> None:
        self._store = store
        self._manager = manager
        self._messages = messages
        self._requests = requests
        self._waiting = waiting
        self._timers = timers

    async def sessions(
        self,
        caller: Caller,
        references: Sequence[str],
        until: str,
        long_poll: LongPoll,
        wait_s: float,
        *,
        any_of: bool,
    ) -> WaitResult:
        """Wait until all of the named sessions, or with `any_of` one of them, have the status `until`."""
        named = dict.fromkeys(references)
        if len(named) > _WAITED_MAX:
            raise UsageError(
                f"too many sessions: {len(named)}, at most {_WAITED_MAX} are allowed in one wait"
            )
        wanted = [self._manager.find(caller, reference).id for reference in named]
        if not wanted:
            raise UsageError("no session given")
        if caller.session_id in wanted:
            raise UsageError("a session cannot wait for itself")

        def is_over() -> bool:
            verdict = self._verdict(wanted, until, any_of=any_of)
            return verdict is not None or self._messages.is_gone(caller)

        with self._waiting.count_wait(caller.session_id, WaitKind.SESSIONS):
            await long_poll(is_over, wait_s)
        if self._messages.is_gone(caller):
            raise IllegalState(f"session {caller.session_id} has ended: its wait was cancelled")
        sessions = [self._store.sessions[s] for s in wanted if s in self._store.sessions]
        for session in sessions:
            if is_ended(session.status):
                self._timers.hold_notice(session.id, caller.session_id)
        verdict = self._verdict(wanted, until, any_of=any_of)
        if verdict is not None:
            self._waiting.end_wait(caller.session_id, WaitKind.SESSIONS)
        return WaitResult(verdict, sessions)

    def _verdict(self, session_ids: Sequence[str], until: str, *, any_of: bool) -> bool | None:
        sessions = self._store.sessions
        verdicts = [has_reached(sessions[s].status, until) if s in sessions else False for s in session_ids]
        if any_of in verdicts:  # one True decides for any, one False for all
            return any_of
        return None if None in verdicts else not any_of

    def are_open(self, message_ids: Collection[int]) -> bool:
        """True while at least one of the messages is not final."""
        open = self._store.mail.open.messages
        return any(message_id in open for message_id in message_ids)

    async def message(self, caller: Caller, message: Message, long_poll: LongPoll, wait_s: float) -> Message:
        """The message when it is final, or after `wait_s`. A caller that gets a failure here gets no notice of it."""
        if not await long_poll(lambda: message.id not in self._store.mail.open.messages, wait_s):
            return await self._store.mail.message(message.id)
        message = await self._store.mail.message(message.id)
        if message.state in _NOT_ARRIVED:
            await self._messages.acknowledge(caller, message)
        return message

    async def inbox(
        self,
        caller: Caller,
        limit: int | None,
        key: RequestKey | None,
        long_poll: LongPoll,
        wait_s: float | None,
    ) -> list[RenderedMessage]:
        """Take the waiting messages of the caller; with `wait_s` wait for the first one."""
        count, idle = min(limit or BATCH_MAX, BATCH_MAX), wait_s is not None
        # Wait while a restored session restarts: an orphan of the old process must not take messages.
        await long_poll(lambda: not self._messages.is_restarting(caller), _RUNS_WITHIN_S)
        # Take before the wait: a reader that repeats its request did not get the first answer.
        taken = await self._messages.take(caller, count, key, idle=idle)
        if idle and not taken:
            messages = self._messages
            with self._waiting.count_wait(caller.session_id, WaitKind.MESSAGES):
                await long_poll(
                    lambda: bool(messages.available(caller, idle=True)) or messages.is_gone(caller),
                    wait_s or 0,
                )
            taken = await self._messages.take(caller, count, key, idle=idle)
        return taken

    async def answer(self, caller: Caller, reference: str, long_poll: LongPoll, wait_s: float) -> Request:
        """The named request when it is closed, or after `wait_s`."""
        request = await self._requests.find(caller, reference)

        def is_over() -> bool:
            now = self._store.mail.open.requests.get(request.id)
            return now is None or not now.open

        if wait_s:
            asker_id = caller.session_id if caller.session_id == request.session_id else None
            with self._waiting.count_wait(asker_id, WaitKind.ANSWER):
                answered = await long_poll(is_over, wait_s)
            if answered:
                self._waiting.end_wait(asker_id, WaitKind.ANSWER)
        return await self._store.mail.request(request.id)
