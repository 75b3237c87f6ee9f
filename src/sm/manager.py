"""What can be done with sessions: every use case once, whoever asks and however it comes.

The manager decides and writes. The outside world is touched by the outbox after the commit and watched by
the watcher; both come back here with what they found.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sm import recall
from sm.agent_types import Catalog
from sm.audit import ALLOWED, REFUSED, Record
from sm.counting import Counting
from sm.endings import Endings
from sm.errors import (
    AgentStartFailed,
    IllegalState,
    NameTaken,
    NotFound,
    NotInTime,
    NotPermitted,
    OutsideFailed,
    SmError,
)
from sm.evidence import Source
from sm.family import Family
from sm.lifecycle import decide, is_ended, is_live
from sm.models import (
    OPERATOR,
    Caller,
    EventType,
    Exit,
    Launch,
    Notice,
    NoticeKind,
    Process,
    RequestKey,
    Session,
    Signal,
    SignalKind,
    SpawnRequest,
    Status,
)
from sm.notices import Notices
from sm.policy import Action, Standing, may, may_at_all
from sm.providers.base import Provider
from sm.sandboxes.base import Sandbox
from sm.spawning import Planned, Spawning
from sm.store import Effect, Open, Store, Transaction
from sm.wording import moved, spawned, subject

log = logging.getLogger(__name__)

START = "start"
TYPE = "type"
KILL = "kill"
RELEASE = "release"
"""The kinds of effects in the outbox."""


class Lost(StrEnum):
    """Why a session has no terminal any more; the value is the source of the status."""

    TERMINAL = "terminal"
    """Somebody has closed it."""
    SERVER = "tmux server"
    """It went with all others."""
    MACHINE = "machine"


_KILLED_WITHIN_S = 20.0
_NOT_STARTED = frozenset({Status.SPAWNED, Status.STARTING})


@dataclass(frozen=True, slots=True)
class Answer:
    """A session, and what the person should know besides."""

    session: Session
    warnings: tuple[str, ...] = ()


class Manager:
    """All use cases. Callers are identified by `server.py`; every method asks `policy.py` about them."""

    def __init__(
        self,
        *,
        store: Store,
        spawning: Spawning,
        sandbox: Sandbox,
        providers: Mapping[str, Provider],
        notices: Notices,
        endings: Endings,
        counting: Counting,
        audit: Record,
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._spawning = spawning
        self._sandbox = sandbox
        self._providers = providers
        self.notices = notices
        self._endings = endings
        self.counting = counting
        self._audit = audit
        self.now = now
        self.prepared: dict[str, tuple[Launch, tuple[str, ...]]] = {}
        """How a session that is about to start is started, and what its terminal runs, where that is ready already."""
        self._start_errors: dict[str, SmError] = {}
        self.killing: Counter[tuple[str, str | None]] = Counter()
        """Sessions that are being killed, each with who asked for it and is told in the answer how it ended."""

    # Who is asking, for whom

    @property
    def family(self) -> Family:
        return Family(self._store.sessions)

    def viewer(self, caller: Caller) -> Session | None:
        """The calling session; None for the operator. Raises NotPermitted for one that is no more."""
        if caller.session_id is None:
            return None
        session = self._store.sessions.get(caller.session_id)
        if session is None:
            raise NotPermitted(
                f"the calling session {caller.session_id} is not known here", "unset SM_SESSION_ID"
            )
        return session

    def find(self, caller: Caller, reference: str, action: Action = Action.SEE) -> Session:
        """The session that `reference` names, if `caller` may do `action` to it; the audit log has what was decided.

        Raises NotFound (also for what the caller may not see) and NotPermitted.
        """
        viewer = self.viewer(caller)
        if reference == "me":
            if viewer is None:
                raise NotFound("you are the operator, not a session", "name a session: sm all lists them")
            target = viewer
        else:
            try:
                target = self.family.find(viewer, reference)
            except NotFound as error:
                if viewer is not None:
                    raise self._refused(error, caller, action, reference, "no such session for it") from None
                raise
        standing = self.family.standing(viewer, target)
        related = None if viewer is None else f"to it: {standing.relation}"
        if not may(standing, action):
            who = "the operator" if viewer is None else f"session {viewer.id}"
            refusal = NotPermitted(f"{who} may not {action} session {target.id}")
            raise self._refused(refusal, caller, action, target.id, related)
        if not _goes_without_saying(standing, action):
            self._audit(str(caller), action.name.lower(), target.id, ALLOWED, related)
        return target

    def allowed(
        self, caller: Caller, action: Action, sessions: Sequence[Session], family: Family
    ) -> list[Session]:
        """Those of the sessions that `caller` may do `action` to: of a tree, what it may not is left out.

        The audit log has each of them.
        """
        viewer = self.viewer(caller)
        may_be = [s for s in sessions if may(family.standing(viewer, s), action)]
        for session in may_be:
            self._audit(str(caller), action.name.lower(), session.id, ALLOWED, "with the tree above it")
        return may_be

    def require(
        self, caller: Caller, action: Action, target: str | None = None, detail: str | None = None
    ) -> None:
        """Raises NotPermitted unless `caller` may do `action`, one that is about no session.

        `target` and `detail` are for the audit log.
        """
        if not may_at_all(caller, action):
            refusal = NotPermitted(f"only the operator may {action}")
            raise self._refused(refusal, caller, action, target, detail)
        self._audit(str(caller), action.name.lower(), target, ALLOWED, detail)

    def _refused(
        self, error: SmError, caller: Caller, action: Action, target: str | None, reason: str | None
    ) -> SmError:
        self._audit(str(caller), action.name.lower(), target, REFUSED, reason)
        error.recorded = True
        return error

    def provider(self, session: Session) -> Provider:
        return self._providers[session.provider]

    # Spawning

    async def agent_types(
        self,
        caller: Caller,
        workspace: str | None,
        current_dir: str | None,
        environment: Mapping[str, str],
    ) -> Catalog:
        """The agent types that a spawn by `caller` would find: a session's are those of its own workspace.

        For the operator `workspace` is a slug, else `current_dir` and `environment` are where and from what it
        would be made. Raises NotFound.
        """
        viewer = self.viewer(caller)
        above = None if viewer is None else await self._store.launch(viewer.id)
        return await self._spawning.agent_types(viewer, above, workspace, current_dir, environment)

    async def spawn(
        self,
        caller: Caller,
        request: SpawnRequest,
        key: RequestKey | None,
        wait_s: float,
        listens: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """Start an agent; return when its process runs, or has run and ended.

        Raises AgentStartFailed or TerminalError when there is no process (the session stays, in status error),
        NotInTime when nothing is known after `wait_s` (nothing is undone).
        """
        try:
            planned = await self._planned(caller, request)
        except SmError:
            # What was carried out before is answered as it was, though it could not be planned any more.
            earlier = await self._earlier(caller, key)
            if earlier is None:
                raise
            return Answer(await self._start_heard(caller, earlier.id, wait_s, listens))
        return await self.begin(caller, planned, key, wait_s, listens)

    async def _earlier(self, caller: Caller, key: RequestKey | None) -> Session | None:
        """The session that the same spawn has made before."""

        async def unit(tx: Transaction) -> Session | None:
            earlier = await recall.recalled(tx, caller, key)
            return None if earlier is None else tx.session(earlier)

        return None if key is None else await self._store.write(unit)

    async def _planned(self, caller: Caller, request: SpawnRequest) -> Planned:
        parent = self.viewer(caller)
        if request.parent is not None:
            parent = self.find(caller, request.parent, Action.SPAWN)
            if is_ended(parent.status) and parent.exit is not None:
                raise IllegalState(
                    f"session {parent.id} has ended, its process is gone; it cannot have children"
                )
        above = None if parent is None else await self._store.launch(parent.id)
        return await self._spawning.plan(caller, request, parent, above)

    async def begin(
        self,
        caller: Caller,
        planned: Planned,
        key: RequestKey | None,
        wait_s: float,
        listens: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """Insert a planned session and start its agent; as `spawn`."""
        session_id = planned.session.id
        argv = await self._sandbox.prepare(session_id, planned.launch, planned.token)
        self.prepared[session_id] = (planned.launch, argv)
        try:
            session = await self._store.write(lambda tx: self.insert(tx, planned, caller, key))
        except (
            Exception
        ):  # not a cancellation: the commit goes on without us, and the start needs what is prepared
            await self._unprepare(session_id)
            raise
        if session.id != session_id:  # this request was carried out before, under another id
            await self._unprepare(session_id)
        return Answer(await self._start_heard(caller, session.id, wait_s, listens), planned.warnings)

    async def _start_heard(
        self, caller: Caller, session_id: str, wait_s: float, listens: Callable[[], bool]
    ) -> Session:
        """As `start_of`, for a caller who hears of it now and needs no notice of what it raises."""
        try:
            return await self.start_of(session_id, wait_s)
        except (SmError, TimeoutError):
            if listens():
                await self.heard(caller, [session_id])
            raise

    async def insert(
        self,
        tx: Transaction,
        planned: Planned,
        caller: Caller,
        key: RequestKey | None,
        payload: Mapping[str, Any] = MappingProxyType({}),
    ) -> Session:
        """Write a planned session, and the effect that starts its agent (with `payload`).

        Raises IllegalState, NameTaken, LimitReached, RateLimited.
        """
        earlier = await recall.recalled(tx, caller, key)
        if earlier is not None:
            return tx.session(earlier)
        session = planned.session
        above = session.parent_id
        if above is not None and not self._may_have_children(tx, above):
            raise IllegalState(f"session {above} has ended or is being killed; it cannot have children")
        place = None if session.workspace is None else tx.workspace(session.workspace)
        if place is not None and place.deleted_at is not None:
            raise IllegalState(f"workspace {place.slug} is deleted; nothing is started in it any more")
        name = session.friendly_name
        if name is not None and any(is_live(s.status) and s.friendly_name == name for s in tx.all_sessions()):
            raise NameTaken(f"a live session is named {name} already", "choose another --name")
        # Not when it was planned: what the plans of two at once take must not bring them closer than they may come.
        at = self.now()
        session = replace(session, created_at=at, status_at=at)
        await self.counting.born(tx, caller, session)
        await tx.insert(session, planned.launch, planned.prompt)
        await tx.event(EventType.SPAWNED, session, at, spawned(session), {"agent_type": session.agent_type})
        for warning in planned.warnings:
            await tx.event(EventType.WARNING, session, at, f"{subject(session)} - {warning}", {})
        await tx.effect(START, session.id, payload, at)
        await recall.remember(tx, caller, key, session.id, at)
        return session

    def _may_have_children(self, tx: Transaction, session_id: str) -> bool:
        """Not once its end has begun: the child would be missed when its children are adopted, or all killed."""
        session = tx.find(session_id)
        return session is not None and session.exit is None and not tx.has_open(KILL, session_id)

    async def _unprepare(self, session_id: str) -> None:
        self.prepared.pop(session_id, None)
        await self._sandbox.forget(session_id)

    async def start_of(self, session_id: str, wait_s: float) -> Session:
        """The session, once its process runs, or has run and ended. Raises as `spawn`."""
        try:
            async with asyncio.timeout(wait_s):
                await self._store.changed(lambda: self._has_process(session_id))
        except TimeoutError:
            raise NotInTime(
                f"session {session_id} is still starting after {wait_s:g} s; it was not undone",
                f"sm status {session_id}",
            ) from None
        session = self._store.sessions[session_id]
        error = self._start_errors.pop(session_id, None)
        if session.status is Status.ERROR and session.status_source == START:
            raise error or AgentStartFailed(session.status_reason)
        return session

    async def ready(self, session_id: str, wait_s: float) -> Session:
        """The session, once its agent takes input; an agent without turns does so from exec on.

        Raises AgentStartFailed when something keeps it from that, or has ended it; NotInTime.
        """
        try:
            async with asyncio.timeout(wait_s):
                await self._store.changed(lambda: self._store.sessions[session_id].status not in _NOT_STARTED)
        except TimeoutError:
            raise NotInTime(
                f"session {session_id} is not ready after {wait_s:g} s; it goes on", f"sm why {session_id}"
            ) from None
        session = self._store.sessions[session_id]
        stuck = session.status is Status.WAITING_INPUT and session.status_source == Source.SCREEN
        if self.provider(session).has_turns and (stuck or session.status is Status.ERROR):
            raise AgentStartFailed(
                f"session {session_id}: {session.status_reason}", f"sm attach {session_id} shows it"
            )
        return session

    def _has_process(self, session_id: str) -> bool:
        """Whether it runs, or has ended: its start is settled."""
        session = self._store.sessions[session_id]
        return session.process is not None or session.status not in _NOT_STARTED

    # What the outbox found

    async def launching(self, session_id: str) -> None:
        await self.observe(
            session_id, self._signal(SignalKind.LAUNCHING, START, "its terminal is being made")
        )

    async def started(
        self, effect: Effect, process: Process | None, typed: bool, *, ready: bool = False
    ) -> None:
        """The agent's process came to be (`process` None: and has ended since).

        An agent with turns goes on starting until it says itself that it is ready, unless it was `ready` before.
        """
        signal = self._signal(SignalKind.STARTED, "process", "its process runs")

        async def unit(tx: Transaction) -> None:
            session = tx.session(effect.session_id)
            facts = {"process": process, "started_at": signal.emitted_at}
            if self.provider(session).has_turns and process is not None and not ready:
                session = await tx.update(session, **facts)
            else:
                session = await self.move(tx, session.id, signal, **facts)
            if typed:
                await tx.effect(TYPE, session.id, {}, signal.emitted_at)
            await tx.finish(effect)

        await self._store.write(unit)

    async def start_failed(self, effect: Effect, error: SmError) -> None:
        """There is no agent process, and there will be none."""
        self._start_errors[effect.session_id] = error
        reason = error.message if error.hint is None else f"{error.message}; hint: {error.hint}"
        signal = self._signal(SignalKind.START_FAILED, START, reason)

        async def unit(tx: Transaction) -> None:
            after = await self.move(tx, effect.session_id, signal, exit=Exit())
            await tx.finish(effect)
            await self._endings.process_gone(tx, after, self.move)

        await self._store.write(unit)

    async def taken(self, effect: Effect) -> None:
        """The effect is about to happen, once; a crash from here on makes it a dead letter."""

        async def unit(tx: Transaction) -> None:
            await tx.take(effect)

        await self._store.write(unit)

    async def finished(self, effect: Effect, *, dead: str | None = None) -> None:
        """The effect is done, or given up for the reason `dead`, which the session's events then tell."""

        async def unit(tx: Transaction) -> None:
            await tx.finish(effect, dead=dead)
            session = tx.find(effect.session_id)
            if dead and session is not None:
                await tx.event(EventType.WARNING, session, self.now(), f"{subject(session)} - {dead}", {})

        await self._store.write(unit)

    # What the watcher found

    def has_process(self, session_id: str, process: Process | None) -> bool:
        """Whether that is the session's process, whose end is not known yet.

        None: it had ended before anybody saw it. A restored session has another one than before.
        """
        session = self._store.sessions.get(session_id)
        return session is not None and _is_process_of(session, process, self._store.mail.open)

    async def process_ended(
        self, session_id: str, process: Process | None, exit: Exit, screen: Sequence[str] = ()
    ) -> None:
        """A process of the session is gone, and `exit` is how; `screen` is what its terminal showed last.

        What is not about the process that the session has now (`has_process`) changes nothing.
        """
        await self._process_gone(session_id, process, exit, None, screen)

    async def terminal_lost(
        self, session_id: str, process: Process | None, lost: Lost, reason: str, *, process_gone: bool
    ) -> None:
        """The terminal is gone, and with it the knowledge of how the process ended or will end; as `process_ended`."""
        await self._process_gone(session_id, process, Exit() if process_gone else None, (lost, reason))

    async def _process_gone(
        self,
        session_id: str,
        process: Process | None,
        exit: Exit | None,
        lost: tuple[Lost, str] | None,
        screen: Sequence[str] = (),
    ) -> None:
        at = self.now()

        async def unit(tx: Transaction) -> None:
            session = tx.session(session_id)
            if not _is_process_of(session, process, tx.mail.open):
                return  # told already (an ending is counted once per opening), or late: restored since
            if exit is not None and tx.has_open(KILL, session_id):
                signal = Signal(SignalKind.KILLED, KILL, "asked for with sm kill", at, exit)
            elif lost is not None or exit is None:
                source, reason = lost or (Lost.TERMINAL, "its terminal is gone")
                signal = Signal(SignalKind.TERMINAL_LOST, source, reason, at, exit)
            else:
                provider = self._providers[session.provider]
                signal = provider.read_exit(exit, at, screen=screen, session=session)
            after = await self.move(tx, session_id, signal, exit=exit)
            if after.exit is not None:
                await self._endings.process_gone(tx, after, self.move)
                if (
                    after.token_hash is None
                ):  # adopted: what comes next in a person's own terminal is none of ours
                    await tx.effect(RELEASE, after.id, {"terminal": after.terminal}, at)

        await self._store.write(unit)

    # Ending

    async def kill(
        self, caller: Caller, reference: str, key: RequestKey | None, *, force: bool, tree: bool = False
    ) -> list[Session]:
        """End the session's process and everything it started; return when they are gone.

        With `tree` its live descendants too, whether it lives itself or not, but for those that the caller may
        not kill (it does not see them). A session that has ended but whose
        process lives on keeps its status. Raises IllegalState when there is nothing left to kill, OutsideFailed
        when something would not die.
        """
        session = self.find(caller, reference, Action.KILL)
        at = self.now()

        async def unit(tx: Transaction) -> list[Session]:
            # As it is in this transaction: from its commit on none of them can have another child.
            family = Family({s.id: s for s in tx.all_sessions()})
            below = [s for s in family.descendants(session.id) if s.exit is None] if tree else []
            below = self.allowed(caller, Action.KILL, below, family)
            if await recall.recalled(tx, caller, key) is not None:
                return [session, *below]
            victims = [s for s in (session, *below) if tx.session(s.id).exit is None]
            if not victims:
                raise IllegalState(f"session {session.id} has ended ({session.status}), its process is gone")
            for victim in victims:
                if force or not tx.has_open(KILL, victim.id):
                    await tx.effect(KILL, victim.id, {"force": force, "by": str(caller)}, at)
            await recall.remember(tx, caller, key, session.id, at)
            return victims

        victims = await self._store.write(unit)
        told = Counter((v.id, caller.session_id) for v in victims)
        self.killing += told
        try:
            async with asyncio.timeout(_KILLED_WITHIN_S):
                await self._store.changed(lambda: not self._unkilled(victims))
        except TimeoutError:
            left = ", ".join(self._unkilled(victims))
            raise OutsideFailed(f"session {left} did not end within {_KILLED_WITHIN_S:g} s") from None
        finally:
            self.killing -= told
        return [self._store.sessions[v.id] for v in victims if v.id in self._store.sessions]

    def _unkilled(self, victims: Sequence[Session]) -> list[str]:
        return [
            v.id for v in victims if v.id in self._store.sessions and self._store.sessions[v.id].exit is None
        ]

    async def heard(self, caller: Caller, session_ids: Collection[str]) -> None:
        """The caller knows of these endings, because it was answered so: it need not be told again."""

        def told(open: Open) -> list[Notice]:
            return [
                n
                for n in open.notices.values()
                if n.kind is NoticeKind.ENDING
                and n.recipient == caller.session_id
                and n.session_id in session_ids
            ]

        async def unit(tx: Transaction) -> None:
            tx.mail.settle_notices(told(tx.mail.open), "heard")

        if told(self._store.mail.open):
            await self._store.write(unit)

    async def kill_all(self) -> list[str]:
        """Kill every session whose process may live (`sm daemon stop --all`); return the ids of those that died."""
        victims = [
            s for s in self._store.sessions.values() if s.exit is None and (is_live(s.status) or s.process)
        ]

        async def kill(session: Session) -> str | None:
            try:
                await self.kill(OPERATOR, session.id, None, force=False)
            except IllegalState:  # it ended by itself meanwhile
                return None
            return session.id

        died = [each for each in await asyncio.gather(*map(kill, victims)) if each]
        await self.heard(OPERATOR, died)  # also what was for a parent that has gone with them
        return died

    # The one way to a new status

    def _signal(self, kind: SignalKind, source: str, reason: str) -> Signal:
        return Signal(kind, source, reason, self.now())

    async def observe(self, session_id: str, signal: Signal) -> None:
        async def unit(tx: Transaction) -> None:
            await self.move(tx, session_id, signal)

        await self._store.write(unit)

    async def move(self, tx: Transaction, session_id: str, signal: Signal, **facts: Any) -> Session:
        """Let `signal` do what lifecycle.decide says; `facts` are recorded even when it changes no status."""
        before = tx.session(session_id)
        decision = decide(before.status, signal)
        context = {"sm_session": session_id, "sm_signal": signal.kind.value, "sm_from": before.status.value}
        if decision is None:
            log.debug("dropped a signal that changes nothing", extra=context)
            return await tx.update(before, **facts)
        if decision.after is Status.ERROR and signal.message is None:
            facts["completion_message"] = signal.reason
        after = await tx.apply(before, decision, **facts)
        log.info("moved a session", extra={**context, "sm_to": after.status.value})
        await self.notices.of_move(tx, after, decision)
        if decision.event is not None:
            metadata: dict[str, Any] = {"source": signal.source, "reason": signal.reason}
            if signal.exit is not None:
                metadata |= {"exit_code": signal.exit.code, "exit_signal": signal.exit.signal}
            if signal.message is not None:
                metadata["completion_message"] = signal.message
            await tx.event(
                decision.event, after, signal.emitted_at, moved(before, signal, decision.event), metadata
            )
        return after


def _goes_without_saying(standing: Standing, action: Action) -> bool:
    """Whether an allowed action is not recorded: what a session does to itself, and what is asked for all the time."""
    polled = action is Action.SEE or (standing.operator and action is Action.READ)
    return polled or standing.itself


def _is_process_of(session: Session, process: Process | None, open: Open) -> bool:
    """See `Manager.has_process`."""
    if session.exit is not None or session.process != process:
        return False
    # None in both: one that is being started has no process yet, and so cannot have lost it.
    starting = any(e.kind == START and e.session_id == session.id for e in open.effects.values())
    return process is not None or not starting
