"""Waits for sessions, messages and answers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.lifecycle import has_reached, is_ended, is_live
from sm.core.messages import Message, Notice
from sm.core.models import Caller, RequestKey, Session, ancestors
from sm.core.requests import Request
from sm.core.session_index import oldest_first
from sm.core.states import MessageMode, MessageState, NoticeKind, RequestKind
from sm.core.statuses import Status
from sm.core.turns import FROM_FINAL_MESSAGE
from sm.core.wording import waits_for
from sm.errors import IllegalState, UsageError
from sm.messaging.inbox import BATCH_MAX, Inbox, RenderedMessage
from sm.messaging.messages import Messages
from sm.messaging.timers import MailTimers
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SHOW_STATUS
from sm.requests.answers import Requests
from sm.sessions.acknowledgements import acknowledge
from sm.sessions.authorizer import Authorizer
from sm.sessions.waits import WaitingSessions, WaitKind
from sm.state.notices import request_occasion
from sm.store import Store
from sm.store.history import children_of

LongPoll = Callable[[Callable[[], bool], float], Awaitable[bool]]
"""Waits until a condition holds or a number of seconds has passed, and returns the condition.

Each front door provides its own, which raises when the caller has gone.
"""
_WAITED_MAX = 200
_ENDED_SHOWN = 5
_HOLD_EVERY_S = 2.0
"""Shorter than `MailTimers.hold_notice` holds a notice."""
REPORT_EVERY_S = 20.0
_RUNS_WITHIN_S = 5.0
"""Together with the following wait shorter than a client's timeout."""
_NOT_ARRIVED = frozenset({MessageState.FAILED, MessageState.EXPIRED, MessageState.UNCONFIRMED})


@dataclass(frozen=True, slots=True)
class WaitResult:
    """The result of a wait for sessions. `reached` is None for not yet, False for no longer possible."""

    reached: bool | None
    sessions: list[Session]


class WaitEnd(StrEnum):
    """The reason why a wait for a team ended."""

    REACHED = "reached"
    REQUEST = "request"
    """A session asks the caller."""
    MESSAGE = "message"
    """The caller has a message."""
    IMPOSSIBLE = "impossible"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class TeamWaitResult:
    """The result of a wait for a team."""

    why: WaitEnd
    sessions: list[Session]
    requests: list[Request]
    """The open requests to the caller."""
    unread: int
    """The number of messages on their way to the caller."""


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Waits for sessions, messages and answers. `long_poll` is the wait function of the front door."""

    _store: Store
    _authorizer: Authorizer
    _messages: Messages
    _inbox: Inbox
    _requests: Requests
    _waiting: WaitingSessions
    _timers: MailTimers

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
        """Wait until all of the named sessions, or with `any_of` one of them, have the status `until`.

        The notices of their endings to a session are held meanwhile: the result tells them.
        """
        wanted = self._named(caller, references)

        def is_over() -> bool:
            verdict = self._verdict(wanted, until, any_of=any_of)
            return verdict is not None or self._inbox.is_gone(caller)

        def left() -> list[Session]:
            return self._left(wanted, until)

        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        with self._waiting.count_wait(caller.session_id, WaitKind.SESSIONS, left):
            while True:
                if caller.session_id is not None:
                    for session_id in wanted:
                        self._timers.hold_notice(session_id, caller.mailbox)
                over = await long_poll(is_over, min(deadline - loop.time(), _HOLD_EVERY_S))
                if over or loop.time() >= deadline:
                    break
        self._check_runs(caller)
        sessions = [self._store.sessions[s] for s in wanted if s in self._store.sessions]
        for session in sessions:
            if is_ended(session.status):
                self._timers.hold_notice(session.id, caller.mailbox)
        verdict = self._verdict(wanted, until, any_of=any_of)
        if verdict is not None:
            self._waiting.end_wait(caller.session_id, WaitKind.SESSIONS)
        return WaitResult(verdict, sessions)

    async def team(
        self,
        caller: Caller,
        references: Sequence[str] | None,
        until: str,
        long_poll: LongPoll,
        wait_s: float,
        report: Callable[[str], Awaitable[None]],
        *,
        any_of: bool,
    ) -> TeamWaitResult:
        """Wait as `sessions`, but return early when the caller should act: for a message, or for a request.

        A request of which the caller was told before ends no wait. `references` of None means the live children of the
        caller. `report` is called every 20 s with a text for people. The notices of the waited sessions' endings and of
        requests are held meanwhile: `acknowledge` closes those that the result tells.
        """
        if references is None:
            references = await self._live_children(caller)
        wanted = self._named(caller, references)
        asked = {request_occasion(r): r.session_id for r in self._requests_to(caller, wanted)}
        mail = self._store.mail
        told = await mail.told_occasions(caller.mailbox, asked.values(), asked) if asked else set()

        def why() -> WaitEnd | None:
            verdict = self._verdict(wanted, until, any_of=any_of)
            if verdict is not None:
                return WaitEnd.REACHED if verdict else WaitEnd.IMPOSSIBLE
            if any(request_occasion(request) not in told for request in self._requests_to(caller, wanted)):
                return WaitEnd.REQUEST
            return WaitEnd.MESSAGE if self._unread(caller) else None

        def left() -> list[Session]:
            return self._left(wanted, until)

        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline, report_at = now + wait_s, now + REPORT_EVERY_S
        with self._waiting.count_wait(caller.session_id, WaitKind.SESSIONS, left):
            while True:
                for session_id in wanted:
                    self._timers.hold_notice(session_id, caller.mailbox)
                if caller.session_id is not None:
                    self._timers.hold_requests(caller.session_id)
                step_s = min(deadline - loop.time(), _HOLD_EVERY_S)
                over = await long_poll(lambda: why() is not None or self._inbox.is_gone(caller), step_s)
                if over or loop.time() >= deadline:
                    break
                if loop.time() >= report_at:
                    report_at += REPORT_EVERY_S
                    await report(waits_for(left(), named=True))
        self._check_runs(caller)
        self._waiting.end_wait(caller.session_id, WaitKind.SESSIONS)
        sessions = [self._store.sessions[s] for s in wanted if s in self._store.sessions]
        requests = self._requests_to(caller, wanted)
        return TeamWaitResult(why() or WaitEnd.TIMEOUT, sessions, requests, len(self._unread(caller)))

    async def _live_children(self, caller: Caller) -> list[str]:
        """Return the ids of the live children of the caller. Raises the error for a caller that has none."""
        if caller.session_id is None:
            raise _no_live_child([])
        children = self._authorizer.tree.children(caller.session_id)
        live = [s.id for s in children if is_live(s.status)]
        if not live:
            old = await self._store.history.all(children_of(caller.session_id, None))
            raise _no_live_child(sorted((*old, *children), key=oldest_first))
        return live

    async def acknowledge(self, caller: Caller, told: TeamWaitResult) -> None:
        """Close the caller's notices of endings and requests that the result of a wait tells."""
        ended = {s.id for s in told.sessions if is_ended(s.status)}
        occasions = {request_occasion(request) for request in told.requests}

        def is_told(notice: Notice) -> bool:
            is_ending = notice.kind is NoticeKind.ENDING and notice.session_id in ended
            return is_ending or (notice.kind is NoticeKind.REQUEST and notice.occasion in occasions)

        await acknowledge(self._store, caller, ended | {r.session_id for r in told.requests}, is_told)

    def _named(self, caller: Caller, references: Sequence[str]) -> list[str]:
        """The ids of the sessions to wait for. Raises UsageError, NotFound."""
        named = dict.fromkeys(references)
        if len(named) > _WAITED_MAX:
            raise UsageError(
                f"too many sessions: {len(named)}, at most {_WAITED_MAX} are allowed in one wait"
            )
        wanted = [self._authorizer.find(caller, reference).id for reference in named]
        if not wanted:
            raise UsageError("no session given")
        if caller.session_id in wanted:
            raise UsageError("a session cannot wait for itself")
        return wanted

    def _check_runs(self, caller: Caller) -> None:
        if self._inbox.is_gone(caller):
            raise IllegalState(f"session {caller.session_id} has ended: its wait was cancelled")

    def _requests_to(self, caller: Caller, wanted: Collection[str]) -> list[Request]:
        """The open requests whose notices go to the caller.

        For a caller that is no session, the requests of the waited sessions' trees.
        """
        sessions = self._store.sessions

        def is_for_caller(session: Session) -> bool:
            above = ancestors(session, sessions.get)
            if caller.session_id is None:
                return session.id in wanted or any(ancestor.id in wanted for ancestor in above)
            return next((a.id for a in above if a.exit is None), None) == caller.session_id

        open = [r for r in self._store.mail.open.requests.values() if r.open and not r.has_proposed_answer]
        return [
            r
            for r in open
            if r.kind is not RequestKind.SETUP
            and (session := sessions.get(r.session_id)) is not None
            and is_for_caller(session)
        ]

    def _unread(self, caller: Caller) -> list[Message]:
        """The messages on their way to the caller, except those that are held or wait until it is idle."""
        open = self._store.mail.open.messages.values()
        mine = (m for m in open if m.session_id == caller.mailbox)
        return [m for m in mine if m.mode is not MessageMode.IDLE and not m.is_held]

    def _left(self, wanted: Collection[str], until: str) -> list[Session]:
        """The wanted sessions that have not the status `until`."""
        sessions = [self._store.sessions[s] for s in wanted if s in self._store.sessions]
        return [s for s in sessions if not _has_reached(s, until)]

    def _verdict(self, session_ids: Sequence[str], until: str, *, any_of: bool) -> bool | None:
        sessions = self._store.sessions
        verdicts = [_has_reached(sessions[s], until) if s in sessions else False for s in session_ids]
        if any_of in verdicts:  # one True decides for any, one False for all
            return any_of
        return None if None in verdicts else not any_of

    def are_open(self, message_ids: Collection[int]) -> bool:
        """True while at least one of the messages is not final."""
        open = self._store.mail.open.messages
        return any(message_id in open for message_id in message_ids)

    async def message(
        self, caller: Caller, message: Message, long_poll: LongPoll, wait_s: float, *, settled: bool = False
    ) -> Message:
        """The message when it is final, or after `wait_s`. A caller that gets a failure here gets no notice of it.

        Returns at once while the message waits for the decision of a person or an ancestor. `settled`: also wait until
        the message is settled (`Message.settled`).
        """
        loop = asyncio.get_running_loop()
        until_s, store = loop.time() + wait_s, self._store

        def is_over() -> bool:
            now = store.mail.open.messages.get(message.id)
            return now is None or now.held_until == ""

        await long_poll(is_over, wait_s)
        while True:
            changes = store.changes
            message = await store.mail.message(message.id)
            if not settled or message.open or message.settled:
                break
            if not await long_poll(self._changed_since(changes), until_s - loop.time()):
                break
        if message.state in _NOT_ARRIVED:
            await self._messages.acknowledge(caller, message)
        return message

    def _changed_since(self, changes: int) -> Callable[[], bool]:
        return lambda: self._store.changes != changes

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
        await long_poll(lambda: not self._inbox.is_restarting(caller), _RUNS_WITHIN_S)
        # Take before the wait: a reader that repeats its request did not get the first answer.
        taken = await self._inbox.take(caller, count, key, idle=idle)
        if idle and not taken:
            inbox = self._inbox
            with self._waiting.count_wait(caller.session_id, WaitKind.MESSAGES):
                await long_poll(
                    lambda: bool(inbox.available(caller, idle=True)) or inbox.is_gone(caller),
                    wait_s or 0,
                )
            taken = await self._inbox.take(caller, count, key, idle=idle)
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


def _has_reached(session: Session, until: str) -> bool | None:
    """As `has_reached`. A session that was completed because it was idle after its turn has been idle."""
    was_idle = session.status is Status.COMPLETED and session.status_source == FROM_FINAL_MESSAGE
    return True if was_idle and until == Status.IDLE else has_reached(session.status, until)


def _no_live_child(children: Sequence[Session]) -> IllegalState:
    """The refusal of a wait for the live children. It names the newest `children`, which have all ended."""
    if not children:
        return IllegalState("there is no child to wait for", "start one with create_session")
    newest = children[-_ENDED_SHOWN:]
    listed = ", ".join(f"{s.display_name} ({s.status})" for s in reversed(newest))
    return IllegalState(
        f"all children have ended: {listed}{', and more' if len(children) > len(newest) else ''}",
        Hint("see the result: ", Use(SHOW_STATUS, newest[-1].display_name)),
    )
