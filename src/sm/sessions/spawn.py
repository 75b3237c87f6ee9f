"""Starts sessions: from the spawn request until the process runs or the start has failed."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_ended, is_live
from sm.core.models import (
    Caller,
    Launch,
    PermissionMode,
    Process,
    RequestKey,
    Session,
    Signal,
    SpawnRequest,
    is_waiting,
)
from sm.core.observation import Source
from sm.core.states import EventType, SignalKind
from sm.core.statuses import Status
from sm.core.wording import spawn_event, subject
from sm.equipment.agent_types import Catalog
from sm.errors import (
    AgentStartFailed,
    IllegalState,
    NameTaken,
    SmError,
    WaitTimeout,
)
from sm.operations.agent_operations import WHY
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import SHOW_STATUS
from sm.policy.access import Action, paired_user
from sm.sandboxes.base import Sandbox
from sm.sessions.manager import Manager, SessionResult
from sm.sessions.plan import SpawnPlan, SpawnPlanner
from sm.sessions.workdir import allowed_workspace
from sm.state.message_steps import send
from sm.state.part_holds import check_may_start, check_not_postponed, postponed
from sm.state.pause_orders import check_not_paused
from sm.state.session_steps import move
from sm.store import Effect, Store, Transaction

START_WAIT_S = 20.0
"""Default time limit of a start, shorter than a client's time limit for an answer."""

NOT_STARTED = frozenset({Status.SPAWNED, Status.STARTING})
"""Statuses of an agent with turns that has not reported ready."""


class Spawner:
    """Inserts planned sessions, waits for their start, and records the outbox's reports about it."""

    def __init__(self, store: Store, manager: Manager, planner: SpawnPlanner, sandbox: Sandbox) -> None:
        self._store = store
        self._manager = manager
        self._planner = planner
        self._sandbox = sandbox
        self.prepared: dict[str, tuple[Launch, tuple[str, ...]]] = {}
        """Launch and terminal command of sessions that are about to start. A cache: empty after a restart."""
        self._start_errors: dict[str, SmError] = {}

    async def agent_types(
        self,
        caller: Caller,
        workspace: str | None,
        current_dir: str | None,
        environment: Mapping[str, str],
    ) -> Catalog:
        """The agent types available to a spawn by `caller`; for a session those of its own workspace.

        For the operator, `workspace` is a slug; without a slug, `current_dir` and `environment` decide. Raises
        NotFound.
        """
        caller_session = self._manager.caller_session(caller)
        if caller_session is None:
            workspace = allowed_workspace(caller, workspace)
        return await self._planner.agent_types(caller_session, workspace, current_dir, environment)

    async def type_modes(
        self, caller: Caller, catalog: Catalog, environment: Mapping[str, str]
    ) -> Mapping[str, PermissionMode]:
        """The permission modes of these agent types, by name. `environment`: as for `agent_types`."""
        return await self._planner.type_modes(catalog, self._manager.caller_session(caller), environment)

    async def spawn(
        self,
        caller: Caller,
        request: SpawnRequest,
        key: RequestKey | None,
        wait_s: float,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> SessionResult:
        """Start an agent; return when its process runs, or has run and ended.

        Raises AgentStartFailed or TerminalError when the start fails (the session stays, with status error), and
        WaitTimeout after `wait_s` seconds (the start continues).
        """
        while True:
            try:
                planned = await self._planned(caller, request)
            except SmError:
                # A repeated request gets its first answer, even if it could no longer be planned.
                async with self._store.transaction(caller, key) as tx:
                    earlier = tx.replayed
                if earlier is None:
                    raise
                return SessionResult(await self.wait_for_start(caller, earlier, wait_s, is_connected))
            try:
                return await self.begin(caller, planned, key, wait_s, is_connected)
            except NameTaken:  # by another spawn since the plan
                if not request.is_name_wish:
                    raise

    async def _planned(self, caller: Caller, request: SpawnRequest) -> SpawnPlan:
        parent = self._manager.caller_session(caller)
        if request.parent is not None:
            parent = self._manager.find(caller, request.parent, Action.SPAWN)
            if is_ended(parent.status) and parent.exit is not None:
                raise IllegalState(f"session {short_label(parent)} has ended: it cannot have children")
        return await self._planner.plan(caller, request, parent)

    async def begin(
        self,
        caller: Caller,
        planned: SpawnPlan,
        key: RequestKey | None,
        wait_s: float,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> SessionResult:
        """Insert a planned session and start its agent; as `spawn`."""
        session_id = planned.session.id
        argv = await self._sandbox.prepare(planned.session, planned.launch, planned.token)
        self.prepared[session_id] = (planned.launch, argv)
        try:
            async with self._store.transaction(caller, key) as tx:
                session = await self.insert(tx, planned, caller)
        finally:
            # No session: the transaction failed, or this is a repeated request, whose session has another id.
            # If the caller was cancelled after the commit, the start still needs the files.
            if session_id not in self._store.sessions:
                await self._unprepare(session_id)
        started = await self.wait_for_start(caller, session.id, wait_s, is_connected)
        return SessionResult(started, planned.warnings, planned.launch.permission)

    async def wait_for_start(
        self, caller: Caller, session_id: str, wait_s: float, is_connected: Callable[[], bool]
    ) -> Session:
        """Wait for a start. A caller that is still connected gets the error, and no notice of it."""
        try:
            return await self._wait_for_process(session_id, wait_s)
        except SmError:
            if is_connected():
                await self._manager.acknowledge_endings(caller, [session_id])
            raise

    async def insert(
        self,
        tx: Transaction,
        planned: SpawnPlan,
        caller: Caller,
        payload: Mapping[str, Any] = MappingProxyType({}),
    ) -> Session:
        """Write a planned session and the effect that starts its agent (with `payload`), once for each request.

        Raises IllegalState, NameTaken, LimitReached, RateLimited.
        """
        if tx.replayed is not None:
            return tx.session(tx.replayed)
        session = planned.session
        for starter in (tx.find(caller.session_id), tx.find(session.parent_id)):
            if caller.session_id is not None and starter is not None:
                check_not_paused(starter)
        parent_id = session.parent_id
        if parent_id is not None and not self._may_have_children(tx, parent_id):
            raise IllegalState(f"session {parent_id} has ended or is being killed: it cannot have children")
        place = None if session.workspace is None else tx.workspace(session.workspace)
        if place is not None and place.deleted_at is not None:
            raise IllegalState(
                f"workspace {place.slug} is deleted: no session can start in it",
                Hint(
                    f"recreate the workspace: sm workspace create {place.slug} ",
                    Argument("working_dir", "PATH"),
                ),
            )
        name, others = session.friendly_name, tx.unfinished_sessions()
        if name is not None and any(is_live(s.status) and s.friendly_name == name for s in others):
            raise NameTaken(f"name {name} is already used by a live session", "choose another --name")
        for part in self._planner.parts:
            part.check_caller(tx, caller)
        # Not the user of planning: a parent may have changed hands since.
        session = replace(session, paired_user=paired_user(caller, tx.find(parent_id)))
        # Not the time of planning: the rate limit compares creation times, and plans take different times.
        at = tx.now
        session = replace(session, created_at=at, status_at=at)
        check_may_start(tx, session)
        await self._manager.quota.check_spawn(tx, caller, session)
        if planned.no_park:
            check_not_postponed(tx, session, time.time())
        if (why := postponed(session, tx.mail.open, time.time())) is not None:
            session = replace(session, status_reason=why)
        await tx.insert(session, planned.launch, planned.prompt)
        if planned.shell_limits:
            tx.put_shell_limits(planned.shell_limits)
        for addition in planned.additions:
            addition.insert(tx, session)
        await tx.event(
            EventType.SPAWNED, session, at, spawn_event(session), {"agent_type": session.agent_type}
        )
        for warning in planned.warnings:
            await tx.event(EventType.WARNING, session, at, f"{subject(session)} - {warning}", {})
        await tx.effect(EffectKind.START, session.id, payload, at)
        if planned.first_message is not None:
            send(tx, session.id, caller.name, planned.first_message)
        tx.remember(session.id)
        return session

    def _may_have_children(self, tx: Transaction, session_id: str) -> bool:
        """False once the session is being killed: the child would miss the adoption, or the kill of the tree."""
        session = tx.find(session_id)
        return session is not None and session.exit is None and not tx.has_open(EffectKind.KILL, session_id)

    async def _unprepare(self, session_id: str) -> None:
        self.prepared.pop(session_id, None)
        await self._sandbox.forget(session_id)

    async def _wait_for_process(self, session_id: str, wait_s: float) -> Session:
        """Return when the process runs, or has run and ended. Raises the errors of `spawn`."""
        if not await self._store.wait_until(
            lambda: self._has_process(session_id) or self._is_parked(session_id), wait_s
        ):
            session = self._store.sessions[session_id]
            raise WaitTimeout(
                f"session {short_label(session)} is still starting after {wait_s:g} s; the start continues",
                Hint(Use(SHOW_STATUS, name_to_type(session))),
            )
        session = self._store.sessions[session_id]
        error = self._start_errors.pop(session_id, None)
        if session.status is Status.ERROR and session.status_source == EffectKind.START:
            raise error or AgentStartFailed(session.status_reason)
        return session

    async def ready(self, session_id: str, wait_s: float) -> Session:
        """Return when the agent accepts input. An agent without turns is ready as soon as its process runs.

        Raises AgentStartFailed when a dialog or an error prevents that, and WaitTimeout.
        """
        sessions = self._store.sessions
        if not await self._store.wait_until(lambda: sessions[session_id].status not in NOT_STARTED, wait_s):
            session = sessions[session_id]
            raise WaitTimeout(
                f"session {short_label(session)} is not ready after {wait_s:g} s; the start continues",
                Hint(Use(WHY, name_to_type(session))),
            )
        session = sessions[session_id]
        stuck = session.status is Status.WAITING_INPUT and session.status_source == Source.SCREEN
        if self._manager.provider(session).has_turns and (stuck or session.status is Status.ERROR):
            raise AgentStartFailed(
                f"session {short_label(session)} did not become ready: {session.status_reason}",
                f"look at the terminal: sm attach {name_to_type(session)}",
            )
        return session

    def _is_parked(self, session_id: str) -> bool:
        return postponed(self._store.sessions[session_id], self._store.mail.open, 0.0) is not None

    def _has_process(self, session_id: str) -> bool:
        """True once the start has recorded a process, or records none. The agent may report before that."""
        session = self._store.sessions[session_id]
        if is_waiting(session):  # it has crashed
            return True
        if session.process is not None or session.status in NOT_STARTED:
            return session.process is not None
        effects = self._store.mail.open.effects.values()
        starts = any(e.kind == EffectKind.START and e.session_id == session_id for e in effects)
        return not starts or session.status is Status.KILLED

    # Reports of the outbox

    async def record_launch(self, session_id: str) -> None:
        await self._manager.observe(
            session_id, self._signal(SignalKind.LAUNCHING, EffectKind.START, "sm is starting the agent")
        )

    async def record_start(
        self, effect: Effect, process: Process | None, typed: bool, *, ready: bool = False
    ) -> None:
        """Record that the agent's process started (`process` is None if it has ended since).

        An agent with turns keeps its status until it reports that it is ready, unless it was `ready` before.
        """
        signal = self._signal(SignalKind.STARTED, "process", "the process started")

        async with self._store.transaction() as tx:
            session = tx.session(effect.session_id)
            facts = {"process": process, "started_at": signal.emitted_at}
            if self._manager.provider(session).has_turns and not ready:
                session = await tx.update(session, **facts)
            else:
                session = await move(tx, self._manager.notices, session.id, signal, **facts)
            if typed:
                await tx.effect(EffectKind.TYPE, session.id, {}, signal.emitted_at)
            await tx.finish(effect)

    async def record_no_start(self, effect: Effect) -> None:
        """Finish the start of a session that has ended before it, and record that no process will end."""
        async with self._store.transaction() as tx:
            await self._manager.endings.ended_unstarted(tx, tx.session(effect.session_id))
            await tx.finish(effect)

    async def record_failure(self, effect: Effect, error: SmError) -> None:
        """Record that the start failed. It is not retried."""
        self._start_errors[effect.session_id] = error
        reason = error.message if error.hint is None else f"{error.message}; hint: {error.hint}"
        signal = self._signal(SignalKind.START_FAILED, EffectKind.START, reason)

        async with self._store.transaction() as tx:
            await self._manager.endings.start_failed(tx, effect.session_id, signal)
            await tx.finish(effect)

    def _signal(self, kind: SignalKind, source: str, reason: str) -> Signal:
        return Signal(kind, source, reason, self._manager.now())


def process_of(payload: Mapping[str, Any]) -> Process:
    """The process in the payload of a START effect: an adopted agent, or a restored session's last process."""
    return Process(int(payload["pid"]), str(payload["started"]))


def as_payload(process: Process) -> Mapping[str, Any]:
    """The inverse of `process_of`."""
    return {"pid": process.pid, "started": process.started}
