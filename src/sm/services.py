"""The use cases that every front door offers: HTTP and MCP today, later Telegram and the web.

A front door identifies its caller, calls only these facades and renders the result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sm.core.lifecycle import has_reached, is_ended, is_live
from sm.core.messages import Message
from sm.core.models import NO_WORKSPACE, Caller, RequestKey, Session, SpawnRequest
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.errors import IllegalState, TerminalError, UsageError
from sm.messaging.messages import BATCH_MAX, Messages, RenderedMessage
from sm.messaging.timers import MailTimers
from sm.monitor.monitor import Monitor
from sm.policy.access import Action, may, visible
from sm.requests.answers import Requests
from sm.requests.dialogs import Dialogs
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.interrupt import Interrupts
from sm.sessions.kill import Kills
from sm.sessions.manager import Manager, SessionResult
from sm.sessions.reports import Reports
from sm.sessions.restore import Restorer
from sm.sessions.sandboxing import Sandboxing
from sm.sessions.spawn import START_WAIT_S, Spawner
from sm.sessions.tree import matches
from sm.sessions.waits import WaitingSessions, WaitKind
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.terminals.base import Lifecycle, Screen

LongPoll = Callable[[Callable[[], bool], float], Awaitable[bool]]
"""Waits until a condition holds or a number of seconds has passed, and returns the condition.

Each front door provides its own, which raises when the caller has gone.
"""
_WAITED_MAX = 200
_RUNS_WITHIN_S = 5.0
"""Together with the following wait shorter than a client's timeout."""
_NOT_ARRIVED = frozenset({MessageState.FAILED, MessageState.EXPIRED, MessageState.UNCONFIRMED})


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Narrows a list of sessions."""

    status: str = "all"
    search: str = ""
    workspace: str | None = None
    """A slug; `-`: sessions without a workspace; None: all."""
    archived: bool = False
    """Include archived sessions."""


class Sessions:
    """Finds, lists, starts and kills sessions, within the permissions of the caller."""

    def __init__(
        self,
        store: Store,
        manager: Manager,
        workspaces: Workspaces,
        spawner: Spawner,
        kills: Kills,
        timers: MailTimers,
        terminals: Lifecycle,
    ) -> None:
        self._store = store
        self._manager = manager
        self._workspaces = workspaces
        self._spawner = spawner
        self._kills = kills
        self._timers = timers
        self._terminals = terminals
        self.find = manager.find
        self.caller_session = manager.caller_session
        self.acknowledge_endings = manager.acknowledge_endings
        self.agent_types = spawner.agent_types

    # Lists

    def visible(self, caller: Caller, *, archived: bool = False) -> list[Session]:
        """The sessions that exist for `caller`, oldest first."""
        caller_session = self.caller_session(caller)
        sessions = self._store.sessions.values()
        return [s for s in sessions if visible(caller_session, s) and (archived or not s.archived)]

    def list_sessions(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        return self.apply_filter(caller, self.visible(caller, archived=filter.archived), filter)

    def siblings(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        """The other children of the caller's parent; for the operator the sessions without a parent."""
        caller_session = self.caller_session(caller)
        parent = caller_session.parent_id if caller_session else None
        return [s for s in self.others(caller, filter) if s.parent_id == parent]

    def others(self, caller: Caller, filter: SessionFilter) -> list[Session]:
        caller_session = self.caller_session(caller)
        seen = self.visible(caller, archived=filter.archived)
        return self.apply_filter(caller, [s for s in seen if s is not caller_session], filter)

    def children(self, caller: Caller, reference: str, *, archived: bool) -> list[Session]:
        """The children of the named session; of the caller where `reference` is `-`."""
        tree, caller_session = self._manager.tree, self.caller_session(caller)
        if reference != "-":
            children = tree.children(self.find(caller, reference).id)
        else:
            children = tree.roots() if caller_session is None else tree.children(caller_session.id)
        return [s for s in children if visible(caller_session, s) and (archived or not s.archived)]

    def descendants(self, caller: Caller, session_id: str) -> list[Session]:
        """The visible descendants, nearest first."""
        caller_session = self.caller_session(caller)
        return [s for s in self._manager.tree.descendants(session_id) if visible(caller_session, s)]

    def apply_filter(
        self, caller: Caller, sessions: Iterable[Session], filter: SessionFilter
    ) -> list[Session]:
        """The sessions that pass the filter. Raises NotFound for an unknown workspace."""
        if filter.search:
            sessions = [s for s in sessions if matches(s, filter.search)]
        if filter.status != "all":
            sessions = [s for s in sessions if s.status == filter.status]
        if filter.workspace is None:
            return list(sessions)
        named = filter.workspace
        slug = None if named == NO_WORKSPACE else self._workspaces.find(caller, named).slug
        return [s for s in sessions if s.workspace == slug]

    def event_scope(
        self, caller: Caller, reference: str | None, workspace: str | None, *, recursive: bool
    ) -> list[str] | None:
        """The ids of the sessions whose events the caller asks for; None for all."""
        caller_session = self.caller_session(caller)
        if reference is None and caller_session is None:
            if workspace is None:
                return None
            everything = self._store.sessions.values()
            return [s.id for s in self.apply_filter(caller, everything, SessionFilter(workspace=workspace))]
        session = self.find(caller, reference or "me")
        tree = self._manager.tree
        below = tree.descendants(session.id) if recursive else tree.children(session.id)
        return [session.id, *(s.id for s in below if visible(caller_session, s))]

    # One session

    def may_read(self, caller: Caller, session: Session) -> bool:
        """True when the caller may read the contents of a visible session. A session may read its own."""
        relation = self._manager.tree.relation(self.caller_session(caller), session)
        return relation.is_self or may(relation, Action.READ)

    def without_hidden_names(self, caller: Caller, session: Session) -> Session:
        """The session without the ids of sessions that the caller cannot see. The caller's own is complete."""
        caller_session = self.caller_session(caller)
        if caller_session is None or caller_session.id == session.id:
            return session
        if session.parent_id is not None and self.is_hidden(caller_session, session.parent_id):
            session = replace(session, parent_id=None)
        kind, _, creator = session.created_by.partition(":")
        if creator and self.is_hidden(caller_session, creator):
            session = replace(session, created_by=kind)
        return session

    def is_hidden(self, caller_session: Session | None, session_id: str | None) -> bool:
        session = self._store.sessions.get(session_id or "")
        return session is not None and not visible(caller_session, session)

    def is_orphan(self, session: Session) -> bool:
        """True when the session is live and the process of its parent has ended."""
        parent = self._store.sessions.get(session.parent_id or "")
        parent_ended = parent is not None and is_ended(parent.status) and parent.exit is not None
        return parent_ended and is_live(session.status)

    # Changes

    async def spawn(
        self,
        caller: Caller,
        wanted: SpawnRequest,
        key: RequestKey | None,
        wait_s: float | None,
        is_connected: Callable[[], bool],
    ) -> SessionResult:
        """Start an agent; with `wait_s` return when the agent is ready, or after that time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + (wait_s or 0.0)
        start_wait_s = START_WAIT_S if wait_s is None else wait_s
        answer = await self._spawner.spawn(caller, wanted, key, start_wait_s, is_connected)
        if wait_s is None:
            return answer
        ready = await self._spawner.ready(answer.session.id, max(0.0, until_s - loop.time()))
        return replace(answer, session=ready)

    async def kill(
        self,
        caller: Caller,
        reference: str,
        key: RequestKey | None,
        *,
        force: bool,
        tree: bool,
        is_connected: Callable[[], bool],
    ) -> list[Session]:
        """End the session's process, with `tree` also the processes of its descendants."""
        killed = await self._kills.kill(caller, reference, key, force=force, tree=tree)
        for session in killed:
            self._timers.hold_notice(session.id, caller.session_id)
        if is_connected():
            await self._manager.acknowledge_endings(caller, [s.id for s in killed])
        return killed

    def may_stop_daemon(self, caller: Caller) -> None:
        """Raises NotPermitted."""
        self._manager.require(caller, Action.STOP_DAEMON)

    async def end_all(self) -> list[str]:
        """Kill every session and close every terminal; return the ids of the killed sessions."""
        killed = await self._kills.kill_all()
        with suppress(TerminalError):  # terminals of ended sessions are useless without a daemon
            for pane in (await self._terminals.snapshot()).values():
                await self._terminals.close(pane.name)
        return killed


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


class Reads:
    """The part of the store that front doors read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.wait_until = store.wait_until
        self.events = store.events
        self.checkpoints = store.checkpoints
        self.dead_letters = store.dead_letters

    @property
    def sessions(self) -> Mapping[str, Session]:
        return self._store.sessions

    @property
    def last_seq(self) -> int:
        return self._store.last_seq


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The state of the daemon, and the event that stops it."""

    socket: str
    started_s: float
    """time.monotonic() at the start."""
    trouble: Callable[[], Sequence[str]]
    """The current failures of the daemon's functions."""
    stopping: asyncio.Event
    """Set to stop the daemon."""


@dataclass(frozen=True, slots=True)
class Services:
    """All use cases. Every front door gets only this object."""

    sessions: Sessions
    records: Records
    restorer: Restorer
    adoptions: Adoptions
    interrupts: Interrupts
    workspaces: Workspaces
    sandboxing: Sandboxing
    reports: Reports
    requests: Requests
    dialogs: Dialogs
    messages: Messages
    waits: Waits
    monitor: Monitor
    terminals: Screen
    store: Reads
    daemon: DaemonInfo
