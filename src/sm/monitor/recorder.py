"""Writes a session's status, its reason and its conversation when the evidence changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.faults import Fault, FaultKind
from sm.core.lifecycle import is_live
from sm.core.messages import INBOX, LINK, SM_ITSELF, TERMINAL
from sm.core.models import Session, Signal
from sm.core.observation import Activity, Observation, Source
from sm.core.states import EventType, SignalKind
from sm.core.statuses import Status
from sm.core.text import folded, header_of_sm, render_message
from sm.core.timers import TimerKind
from sm.core.timestamps import epoch_s, is_later, iso
from sm.core.turns import FinishedTurn, FollowUp, ReportedEnd, TurnWork
from sm.core.wording import compaction_text, retry_text, subject
from sm.monitor.evidence import Verdict
from sm.monitor.usage import UsageMeter
from sm.providers.base import Provider
from sm.state.compactions import is_compacting
from sm.state.faults import Faults
from sm.state.notices import Notices, has_ended_alive
from sm.state.session_steps import move
from sm.state.turns import turn_ended
from sm.store import Store, Transaction, durable

_STATUSES = {
    Activity.BUSY: (Status.RUNNING, SignalKind.BUSY),
    Activity.BLOCKED: (Status.WAITING_INPUT, SignalKind.ASKED),
    Activity.IDLE: (Status.IDLE, SignalKind.WENT_IDLE),
}


_NO_WORK = TurnWork()
REOPENED_S = 15.0
"""How long sm may need to type the message that reopened a session. The last verdict is about the turn before."""


def outdated_s(session: Session, observation: Observation, now: float) -> float:
    """Seconds for which to ignore an idle agent's report from before a message reopened its session. 0 for none."""
    by_message = session.status is Status.RUNNING and session.status_source in (TERMINAL, INBOX, LINK)
    if (
        not by_message
        or observation.activity is not Activity.IDLE
        or iso(observation.at) >= session.status_at
    ):
        return 0.0
    return max(0.0, epoch_s(session.status_at) + REOPENED_S - now)


def is_unread_end(session: Session, observation: Observation, now: str) -> bool:
    """True for the end of a turn that the status of the live session does not follow yet."""
    if not is_live(session.status):
        return False
    if observation.fault is not None:
        return session.status is not Status.IDLE
    return observation.finished and is_later(iso(observation.at), session.turn_ended_at, now)


class TurnRule:
    """Decides what follows the end of a turn that neither failed nor was interrupted. The method does nothing here."""

    async def follow_up(self, session: Session, observation: Observation, work: TurnWork) -> FollowUp | None:
        """Decide by the final message. `work`: in this turn, as far as its hooks told it. None to do nothing."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Recorder:
    """Records changes of sessions. Every call returns when the change is on disk."""

    _store: Store
    _notices: Notices
    _faults: Faults
    _providers: Mapping[str, Provider]
    _usage: UsageMeter
    _rules: Sequence[TurnRule]

    async def record_start(self, session_id: str, source: str, reason: str) -> None:
        await self._usage.begin_process(session_id)
        await self._observe(session_id, SignalKind.STARTED, source, reason, self._store.now())

    async def record_obstacle(self, session: Session, reason: str, at: str) -> None:
        """Record a problem at the agent's start that a person has to solve."""
        if session.status is Status.WAITING_INPUT and session.status_reason != reason:
            await self._explain(session, Source.SCREEN, reason, at)
        else:
            await self._observe(session.id, SignalKind.ASKED, Source.SCREEN, reason, at)

    async def follow(
        self,
        session: Session,
        verdict: Verdict,
        work: TurnWork = _NO_WORK,
        failure: Observation | None = None,
        finish: Observation | None = None,
    ) -> None:
        """Make the status follow the verdict.

        `work`: in the turn that the verdict ends, by its hooks. `failure`: the report that the last turn failed.
        `finish`: the report that it finished, if the source of the verdict may not know of the end.
        """
        observation = verdict.observation
        if finish is not None and observation.activity is Activity.IDLE and observation.answer is None:
            observation = finish
        # A source that only shows that the agent is idle may be faster than the one that knows why.
        late = failure if observation.activity is Activity.IDLE and observation.fault is None else None
        if observation.source is Source.PROTOCOL and observation.fault is not None:
            late = observation  # the program says that it is idle before it says why
        if late is not None and session.status is Status.IDLE:
            words = self._words(session, late)
            if session.status_reason != words:
                await self._explain(session, late.source, words, max(iso(late.at), session.status_at))
            return
        observation = late or observation
        stronger = tuple(Source)[: tuple(Source).index(observation.source)]
        why = [verdict.overruled[source] for source in stronger if source in verdict.overruled]
        words = self._words(session, observation)
        reason = f"{words} ({'; '.join(why)})" if why else words
        wanted, signal = _STATUSES[observation.activity]
        turn, now = None, self._store.now()
        if observation.finished and is_later(iso(observation.at), session.turn_ended_at, now):
            turn = await self._finished_turn(session, observation, work)
        if session.status is not wanted:
            at = iso(observation.at)
            at = at if is_later(at, session.status_at, now) else session.status_at
            await self._observe(
                session.id,
                signal,
                observation.source,
                reason,
                at,
                observation.answer,
                turn,
                observation.fault,
            )
        elif turn is not None:  # a weaker source has reported first that the agent is idle
            await self._end_turn(session.id, turn, observation.answer)
        elif (wanted is Status.WAITING_INPUT and session.status_reason != reason) or (
            observation.cleared and is_later(iso(observation.at), session.status_at, now)
        ):
            await self._explain(session, observation.source, reason, iso(observation.at))

    async def _finished_turn(
        self, session: Session, observation: Observation, work: TurnWork
    ) -> FinishedTurn:
        follow_up = None
        for rule in self._rules:
            follow_up = follow_up or await rule.follow_up(session, observation, work)
        return FinishedTurn(iso(observation.at), follow_up)

    def _words(self, session: Session, observation: Observation) -> str:
        """The reason in the observation, with the retry or the compaction that follows a failed turn."""
        compact = self._providers[session.provider].compact
        if observation.fault is not None and observation.fault.kind is FaultKind.CONTEXT_FULL:
            if compact is None or not is_compacting(self._store.mail.open, session.id):
                return observation.reason
            return f"{observation.reason}; {compaction_text(compact.text)}"
        retry = self._store.mail.open.timers.get((session.id, TimerKind.RETRY))
        if observation.fault is None or retry is None:
            return observation.reason
        return f"{observation.reason}; {retry_text(retry)}"

    @durable
    async def keep_end(self, end: ReportedEnd) -> None:
        async with self._store.transaction() as tx:
            if tx.find(end.session_id) is not None:
                tx.turn_ends.keep(end)

    @durable
    async def forget_end(self, session_id: str) -> None:
        async with self._store.transaction() as tx:
            tx.turn_ends.remove(session_id)

    @durable
    async def record_fault(self, session_id: str, observation: Observation) -> None:
        """Record the fault of a turn, if it failed. The hook and the transcript both report it."""
        if observation.fault is not None:
            async with self._store.transaction() as tx:
                await self.add_fault(tx, session_id, observation)

    async def record_peer(self, session_id: str, name: str) -> None:
        """Record that a message of another agent, which did not go through sm, has begun a turn."""
        async with self._store.transaction() as tx:
            session = tx.find(session_id)
            if session is not None:
                who = f"named {folded(name, 80)} " if name else ""
                text = f"{subject(session)} - another agent {who}has sent it a message past sm"
                await tx.event(EventType.WARNING, session, tx.now, text, {"peer": folded(name, 80)})

    async def add_fault(self, tx: Transaction, session_id: str, observation: Observation) -> None:
        """As `record_fault`, in a transaction that also records that the source was read."""
        if observation.fault is not None:
            await self._faults.record(
                tx, session_id, observation.fault, observation.at, observation.turn, observation.source
            )

    async def reopen(self, session: Session, source: str, at: str, prompt: str = "") -> None:
        """Reopen an ended session whose process got a new task. `prompt`: the task, if it is known."""
        is_new = is_later(at, session.status_at, self._store.now())
        if has_ended_alive(session) and is_new and not await self._is_of_sm(session, prompt):
            await self._observe(session.id, SignalKind.REOPENED, source, "the agent got a new task", at)

    async def _is_of_sm(self, session: Session, prompt: str) -> bool:
        """True if the prompt is a message of sm itself, which the agent had in its queue before the session ended."""
        number, reader = header_of_sm(prompt), self._providers[session.provider].box_reader
        if number is None or reader is None:
            return False
        texts = await self._store.mail.texts([number])
        message = render_message(SM_ITSELF, number, texts.get(number, ""))
        return reader.accepted_form(prompt) == reader.accepted_form(message)

    async def learn(
        self, session_id: str, conversation: str | None, transcript: str | None, model: str | None
    ) -> None:
        session = self._store.sessions.get(session_id)
        if session is None:
            return
        if transcript and transcript != session.transcript:
            await self._usage.add_transcript(session.id, transcript)
        reported = {"conversation": conversation, "transcript": transcript}
        facts = {key: value for key, value in reported.items() if value and value != getattr(session, key)}
        if model and session.model is None:  # a later process of the session uses the same model
            facts["model"] = model
        if facts:
            await self._update(session.id, facts)
        if model:
            await self._usage.set_model(session.id, model)

    @durable
    async def _update(self, session_id: str, facts: Mapping[str, Any]) -> None:
        async with self._store.transaction() as tx:
            await tx.update(tx.session(session_id), **facts)

    @durable
    async def _explain(self, session: Session, source: str, reason: str, at: str) -> None:
        """Change the reason of a status.

        A waiting session waits for another answer, a failure becomes known, or an idle agent's conversation is cleared.
        """
        async with self._store.transaction() as tx:
            now = tx.session(session.id)
            if now.status is session.status:
                await tx.update(now, status_source=source, status_reason=reason, status_at=at)

    @durable
    async def _observe(
        self,
        session_id: str,
        kind: SignalKind,
        source: str,
        reason: str,
        at: str,
        answer: str | None = None,
        turn: FinishedTurn | None = None,
        fault: Fault | None = None,
    ) -> None:
        signal = Signal(kind, source, reason, at, answer=answer, turn=turn, fault=fault)
        async with self._store.transaction() as tx:
            await move(tx, self._notices, session_id, signal)

    @durable
    async def _end_turn(self, session_id: str, turn: FinishedTurn, answer: str | None) -> None:
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            is_new = is_later(turn.ended_at, session.turn_ended_at, tx.now)
            if session.status is Status.IDLE and is_new:
                session = await turn_ended(tx, session, turn)
                if turn.follow_up is None or not turn.follow_up.is_reported:
                    await self._notices.add_for_idle(tx, session, answer)
