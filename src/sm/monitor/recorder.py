"""Writes a session's status, its reason and its conversation when the evidence changes."""

from collections.abc import Mapping
from typing import Any

from sm.core.lifecycle import is_ended
from sm.core.models import Session, Signal
from sm.core.observation import Activity, Source
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.monitor.evidence import Verdict
from sm.monitor.usage import UsageMeter
from sm.sessions.manager import Manager
from sm.store import Store, durable

_STATUSES = {
    Activity.BUSY: (Status.RUNNING, SignalKind.BUSY),
    Activity.BLOCKED: (Status.WAITING_INPUT, SignalKind.ASKED),
    Activity.IDLE: (Status.IDLE, SignalKind.WENT_IDLE),
}


class Recorder:
    """Every call returns when it is on disk."""

    def __init__(self, store: Store, manager: Manager, usage: UsageMeter) -> None:
        self._store = store
        self._manager = manager
        self._usage = usage

    async def started(self, session_id: str, source: str, reason: str) -> None:
        """Its agent takes input."""
        await self._usage.ends(session_id, None)
        await self._observe(session_id, SignalKind.STARTED, source, reason, self._manager.now())

    async def stuck(self, session: Session, reason: str, at: str) -> None:
        """Something keeps it from starting, and a person has to do something about it."""
        if session.status is Status.WAITING_INPUT and session.status_reason != reason:
            await self._explain(session, Source.SCREEN, reason, at)
        else:
            await self._observe(session.id, SignalKind.ASKED, Source.SCREEN, reason, at)

    async def follow(self, session: Session, verdict: Verdict) -> None:
        """Make the status of a session that has not ended what the verdict says."""
        said = verdict.said
        stronger = tuple(Source)[: tuple(Source).index(said.source)]
        why = [verdict.overruled[source] for source in stronger if source in verdict.overruled]
        reason = f"{said.reason} ({'; '.join(why)})" if why else said.reason
        wanted, signal = _STATUSES[said.activity]
        if session.status is not wanted:
            at = max(iso(said.at), session.status_at)
            await self._observe(session.id, signal, said.source, reason, at)
        elif wanted is Status.WAITING_INPUT and session.status_reason != reason:
            await self._explain(session, said.source, reason, iso(said.at))

    async def reopen(self, session: Session, source: str, at: str) -> None:
        """An ended session whose process got more to do works again."""
        if is_ended(session.status) and session.exit is None and at > session.status_at:
            await self._observe(session.id, SignalKind.REOPENED, source, "it was given more to do", at)

    async def learn(
        self, session_id: str, conversation: str | None, transcript: str | None, model: str | None
    ) -> None:
        """Keep what was learned about the conversation; without a change nothing is written."""
        session = self._store.sessions.get(session_id)
        if session is None:
            return
        if transcript and transcript != session.transcript:
            await self._usage.heard_of(session.id, transcript)
        found = {"conversation": conversation, "transcript": transcript}
        facts = {key: value for key, value in found.items() if value and value != getattr(session, key)}
        if model and session.model is None:  # a later process of the session shall run on the same
            facts["model"] = model
        if facts:
            await self._update(session.id, facts)
        if model:
            await self._usage.runs_on(session.id, model)

    @durable
    async def _update(self, session_id: str, facts: Mapping[str, Any]) -> None:
        async with self._store.transaction() as tx:
            await tx.update(tx.session(session_id), **facts)

    @durable
    async def _explain(self, session: Session, source: str, reason: str, at: str) -> None:
        """The same status for another reason: it waits for another answer."""
        async with self._store.transaction() as tx:
            now = tx.session(session.id)
            if now.status is session.status:
                await tx.update(now, status_source=source, status_reason=reason, status_at=at)

    @durable
    async def _observe(self, session_id: str, kind: SignalKind, source: str, reason: str, at: str) -> None:
        await self._manager.observe(session_id, Signal(kind, source, reason, at))
