"""Starts sessions: from the spawn request until the process runs or the start has failed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import short_label
from sm.core.lifecycle import is_ended, is_live
from sm.core.models import (
    Caller,
    PermissionMode,
    Process,
    RequestKey,
    Session,
    SpawnRequest,
)
from sm.core.states import EventType
from sm.core.wording import spawn_event, subject
from sm.errors import (
    IllegalState,
    NameTaken,
    SmError,
)
from sm.operations.hints import Argument, Hint
from sm.operations.session_operations import SPAWN_BELOW
from sm.policy.relations import paired_user
from sm.sandboxes.base import Sandbox
from sm.sessions.authorizer import Authorizer
from sm.sessions.spawn_parts import SpawnPart
from sm.sessions.spawn_plan import SpawnPlan, SpawnPlanner
from sm.sessions.starts import AgentStarts
from sm.state.message_steps import send
from sm.state.part_holds import check_may_start, check_not_postponed, postponed
from sm.state.pause_orders import check_not_paused
from sm.state.quota import Quota
from sm.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A session after a use case, and warnings for the caller."""

    session: Session
    warnings: tuple[str, ...] = ()
    permission: PermissionMode | None = None
    """The permission mode in which a new process starts."""


@dataclass(frozen=True, slots=True, eq=False)
class Spawner:
    """Inserts planned sessions, and waits for their start."""

    _store: Store
    _authorizer: Authorizer
    _quota: Quota
    _planner: SpawnPlanner
    _parts: Sequence[SpawnPart]
    _sandbox: Sandbox
    _starts: AgentStarts

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
                return SessionResult(await self._starts.wait_for_start(caller, earlier, wait_s, is_connected))
            try:
                return await self.begin(caller, planned, key, wait_s, is_connected)
            except NameTaken:  # by another spawn since the plan
                if not request.is_name_wish:
                    raise

    async def _planned(self, caller: Caller, request: SpawnRequest) -> SpawnPlan:
        parent = self._authorizer.caller_session(caller)
        if request.parent is not None:
            parent = self._authorizer.find(caller, request.parent, SPAWN_BELOW)
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
        if any(addition.needs_caller for addition in planned.additions) and not is_connected():
            raise IllegalState("the caller has gone while the session was planned")
        session_id = planned.session.id
        argv = await self._sandbox.prepare(planned.session, planned.launch, planned.token)
        self._starts.prepared[session_id] = (planned.launch, argv)
        try:
            await planned.attachment.place()
            async with self._store.transaction(caller, key) as tx:
                session = await self.insert(tx, planned, caller)
        finally:
            await planned.attachment.finish()
            # No session: the transaction failed, or this is a repeated request, whose session has another id.
            # If the caller was cancelled after the commit, the start still needs the files.
            if session_id not in self._store.sessions:
                await self._unprepare(session_id)
        started = await self._starts.wait_for_start(caller, session.id, wait_s, is_connected)
        return SessionResult(started, planned.warnings, planned.launch.permission)

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
        for part in self._parts:
            part.check_caller(tx, caller)
        # Not the user of planning: a parent may have changed hands since.
        session = replace(session, paired_user=paired_user(caller, tx.find(parent_id)))
        # Not the time of planning: the rate limit compares creation times, and plans take different times.
        at = tx.now
        session = replace(session, created_at=at, status_at=at)
        check_may_start(tx, session)
        await self._quota.check_spawn(tx, caller, session)
        if planned.no_park:
            check_not_postponed(tx, session, time.time())
        if (why := postponed(session, tx.mail.open, time.time())) is not None:
            session = replace(session, status_reason=why)
        await tx.insert(session, planned.launch, planned.prompt)
        if planned.shell_limits:
            tx.put_shell_limits(planned.shell_limits)
        await planned.attachment.use(tx)
        for addition in planned.additions:
            await addition.insert(tx, session)
        await tx.event(
            EventType.SPAWNED, session, at, spawn_event(session), {"agent_type": session.agent_type}
        )
        for warning in planned.warnings:
            await tx.event(EventType.WARNING, session, at, f"{subject(session)} - {warning}", {})
        await tx.effect(EffectKind.START, session.id, payload, at)
        if planned.first_message is not None:
            own_lines = len(planned.attachment.lines)
            send(tx, session.id, caller.name, planned.first_message, own_lines=own_lines)
        tx.remember(session.id)
        return session

    def _may_have_children(self, tx: Transaction, session_id: str) -> bool:
        """False once the session is being killed: the child would miss the adoption, or the kill of the tree."""
        session = tx.find(session_id)
        return session is not None and session.exit is None and not tx.has_open(EffectKind.KILL, session_id)

    async def _unprepare(self, session_id: str) -> None:
        self._starts.prepared.pop(session_id, None)
        await self._sandbox.forget(session_id)


def process_of(payload: Mapping[str, Any]) -> Process:
    """The process in the payload of a START effect: an adopted agent, or a restored session's last process."""
    return Process(int(payload["pid"]), str(payload["started"]))


def as_payload(process: Process) -> Mapping[str, Any]:
    """The inverse of `process_of`."""
    return {"pid": process.pid, "started": process.started}
