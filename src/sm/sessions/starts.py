"""Waits for the starts of agents, and records the reports of the outbox about them."""

from collections.abc import Callable, Mapping
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.models import Caller, Launch, Process, Session, Signal, is_waiting
from sm.core.observation import Source
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.errors import AgentStartFailed, SmError, WaitTimeout
from sm.operations.agent_operations import READ_OUTPUT, WHY
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SHOW_STATUS
from sm.providers.base import Provider
from sm.sessions.acknowledgements import acknowledge_endings
from sm.state.endings import Endings
from sm.state.notices import Notices
from sm.state.part_holds import postponed
from sm.state.session_steps import move
from sm.store import Effect, Store

START_WAIT_S = 20.0
"""Default time limit of a start, shorter than a client's time limit for an answer."""

NOT_STARTED = frozenset({Status.SPAWNED, Status.STARTING})
"""Statuses of an agent with turns that has not reported ready."""


_ACCEPTED_WITHIN_S = 20.0
"""A claude that resumes a conversation is ready, or has refused it, after about a second on an idle machine."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentStarts:
    _store: Store
    _notices: Notices
    _endings: Endings
    _providers: Mapping[str, Provider]
    prepared: dict[str, tuple[Launch, tuple[str, ...]]] = field(init=False, default_factory=dict)
    """Launch and terminal command of sessions that are about to start. A cache: empty after a restart."""
    _errors: dict[str, SmError] = field(init=False, default_factory=dict)

    async def wait_for_start(
        self, caller: Caller, session_id: str, wait_s: float, is_connected: Callable[[], bool]
    ) -> Session:
        """Wait for a start. A caller that is still connected gets the error, and no notice of it."""
        try:
            return await self._wait_for_process(session_id, wait_s)
        except SmError:
            if is_connected():
                await acknowledge_endings(self._store, caller, [session_id])
            raise

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
        error = self._errors.pop(session_id, None)
        if session.status is Status.ERROR and session.status_source == EffectKind.START:
            raise error or AgentStartFailed(session.status_reason)
        return session

    async def wait_for_agent(
        self, caller: Caller, session_id: str, is_connected: Callable[[], bool]
    ) -> Session:
        """Wait until the agent has accepted its conversation; see `Restorer.restore`."""
        session = await self.wait_for_start(caller, session_id, START_WAIT_S, is_connected)
        if not self._providers[session.provider].has_turns:
            return session

        def now() -> Session:
            return self._store.sessions.get(session_id, session)

        await self._store.wait_until(lambda: now().status not in NOT_STARTED, _ACCEPTED_WITHIN_S)
        if now().status is not Status.ERROR:
            return now()
        if is_connected():
            await acknowledge_endings(self._store, caller, [session_id])
        raise AgentStartFailed(
            f"the agent of session {short_label(session)} ended at its start: {now().status_reason}",
            Hint("read its last output: ", Use(READ_OUTPUT, name_to_type(session))),
        )

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
        if self._providers[session.provider].has_turns and (stuck or session.status is Status.ERROR):
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
        signal = self._signal(SignalKind.LAUNCHING, EffectKind.START, "sm is starting the agent")
        async with self._store.transaction() as tx:
            await move(tx, self._notices, session_id, signal)

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
            if self._providers[session.provider].has_turns and not ready:
                session = await tx.update(session, **facts)
            else:
                session = await move(tx, self._notices, session.id, signal, **facts)
            if typed:
                await tx.effect(EffectKind.TYPE, session.id, {}, signal.emitted_at)
            await tx.finish(effect)

    async def record_no_start(self, effect: Effect) -> None:
        """Finish the start of a session that has ended before it, and record that no process will end."""
        async with self._store.transaction() as tx:
            await self._endings.ended_unstarted(tx, tx.session(effect.session_id))
            await tx.finish(effect)

    async def record_failure(self, effect: Effect, error: SmError) -> None:
        """Record that the start failed. It is not retried."""
        self._errors[effect.session_id] = error
        reason = error.message if error.hint is None else f"{error.message}; hint: {error.hint}"
        signal = self._signal(SignalKind.START_FAILED, EffectKind.START, reason)

        async with self._store.transaction() as tx:
            await self._endings.start_failed(tx, effect.session_id, signal)
            await tx.finish(effect)

    def _signal(self, kind: SignalKind, source: str, reason: str) -> Signal:
        return Signal(kind, source, reason, self._store.now())
