"""Completes sessions whose agents say that they are done, reports those that stay idle, and sends reminders."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from sm.capabilities.completion.model import CompletionTimer, TurnEnd, TurnFacts, TurnFollowUp
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.follow_ups import after_turn, unread
from sm.capabilities.completion.settings import AutoComplete
from sm.capabilities.completion.state import (
    end_detected,
    remind,
    report_unclear,
    warn_of_missing_report,
)
from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.core.observation import Observation
from sm.core.pauses import PAUSED
from sm.core.program_states import BACKGROUND, ProgramStateOf, unknown_program_state
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.core.turns import FROM_FINAL_MESSAGE, TurnWork
from sm.core.warnings import WarningKind
from sm.errors import TerminalError
from sm.monitor.recorder import TurnRule
from sm.monitor.terminal_use import UseOfTerminal
from sm.monitor.transcript_facts import work_of
from sm.policy.unfinished import Unfinished, reason_of_person, reason_to_wait
from sm.sessions.reports import Reports
from sm.state.notices import Notices
from sm.state.part_holds import postponed
from sm.state.turns import unfinished_work
from sm.store import Store, Transaction

_AGAIN_S = 5.0
"""How often to look again, in memory, at a session that waits for something."""
_FREE = "nothing holds its completion any more"
_CLOSED_TASKS = frozenset({"completed", "cancelled", "deleted"})


@lru_cache(maxsize=1)
def _compiled(patterns: tuple[str, ...]) -> tuple[CompletionPattern, ...]:
    return tuple(map(CompletionPattern, patterns))


def open_tasks(facts: Mapping[str, Any]) -> list[Any]:
    """The entries of an agent's list of tasks that are not closed. `facts`: measured facts of the session."""
    return [task for task in facts.get("todo") or () if task.get("status") not in _CLOSED_TASKS]


def _read_turn_end(
    text: str, prompt: str, facts: TurnFacts, patterns: Sequence[CompletionPattern]
) -> TurnEnd:
    """Call the classifier, which is imported for the first message: its words and rules would slow each start."""
    from sm.capabilities.completion.rules.turn_end import read_turn_end

    return read_turn_end(text, prompt, facts, patterns)


class TurnReader(TurnRule):
    """Reads what the final message of a turn says, and decides what follows."""

    def __init__(
        self, settings: AutoComplete, store: Store, program_state: ProgramStateOf = unknown_program_state
    ) -> None:
        self._settings = settings
        self._store = store
        self._program_state = program_state

    async def follow_up(
        self, session: Session, observation: Observation, work: TurnWork
    ) -> TurnFollowUp | None:
        text = observation.answer or ""
        measured = await self._store.measures.facts(session.id)
        work = work.completed_by(work_of(measured))
        task = work.last_task or await self._store.spawn_prompt(session.id) or ""
        facts = self._facts(session.id, work, measured, observation.background)
        patterns = _compiled(self._settings.completion_patterns)
        turn = await asyncio.to_thread(_read_turn_end, text, task, facts, patterns)
        state = self._program_state(session)
        if state is not None and state.breaks(BACKGROUND):
            turn = unread(turn)  # it may work although its words say that it is done
        warns = any(f.warns_of(WarningKind.REPORT_MISSING) for f in self._store.followers)
        return after_turn(session.mode, self._settings, turn, session.reminders, warns=warns)

    def _facts(
        self, session_id: str, work: TurnWork, measured: Mapping[str, Any], background: int
    ) -> TurnFacts:
        """All that the daemon knows of the turn that has ended. It neither failed nor was interrupted."""
        unfinished, open = self._store.index.unfinished.values(), self._store.mail.open
        left = unfinished_work(unfinished, open, session_id, background=background)
        return TurnFacts(
            tools_used=work.tools_used,
            errors=work.errors,
            last_tool_failed=bool(work.last_tool_failed),
            open_tasks=len(open_tasks(measured)),
            pending_question=bool(left.requests),
            live_children=left.children,
            background=left.background,
        )


def _next_look_s() -> float:
    """Seconds until the next look at the sessions that wait: all at the same time, because each look is a wake-up."""
    return _AGAIN_S - time.monotonic() % _AGAIN_S


@dataclass(frozen=True, slots=True, eq=False)
class Completions:
    """Handles the timers that follow a finished turn. Each handler is a `TimerHandler` of the daemon."""

    _settings: AutoComplete
    _store: Store
    _notices: Notices
    _reports: Reports
    _use_of_terminal: UseOfTerminal
    _waiting: set[str] = field(init=False, default_factory=set)
    """The sessions that waited for something at the last look."""
    _held: dict[tuple[str, str], tuple[Timer, int]] = field(init=False, default_factory=dict)
    """By timer: the timer, and the number of commits at the last look, of a session that only a commit frees."""

    async def complete(self, timer: Timer) -> float | None:
        """Complete the session, or propose its completion."""
        return await self._run(timer, self._end)

    async def report_unclear(self, timer: Timer) -> float | None:
        """Report a session that is idle for long, and not known to be done."""
        return await self._run(timer, self._report_unclear)

    async def remind(self, timer: Timer) -> float | None:
        """Remind an idle agent to report."""
        return await self._run(timer, remind)

    async def warn_of_missing_report(self, timer: Timer) -> float | None:
        """Warn of an idle agent that has not reported after its last reminder."""
        return await self._run(timer, warn_of_missing_report)

    async def _end(self, tx: Transaction, session: Session, found: Mapping[str, Any]) -> None:
        await end_detected(tx, self._reports, session, found, self._settings)

    async def _report_unclear(self, tx: Transaction, session: Session, found: Mapping[str, Any]) -> None:
        await report_unclear(tx, self._notices, session, found)

    async def _run(
        self, timer: Timer, act: Callable[[Transaction, Session, Mapping[str, Any]], Awaitable[None]]
    ) -> float | None:
        """Run `act` for the idle session of the timer, unless the session waits for something."""
        session = self._store.sessions.get(timer.subject)
        if (
            session is None
            or session.exit is not None
            or session.status not in (Status.IDLE, Status.WAITING_INPUT)
        ):
            async with self._store.transaction() as tx:
                tx.timers.take(timer)
            return None
        seen = timer, self._store.changes
        if self._held.get(timer.key) == seen:
            return _next_look_s()
        self._held.pop(timer.key, None)
        reason = await self._reason_in_store(session, timer)
        if reason is not None:
            self._held[timer.key] = seen
        else:
            reason = await self._reason_in_terminal(session)
        if reason is not None:
            self._waiting.add(session.id)
            await self._explain(session, timer, reason)
            return _next_look_s()
        if session.id in self._waiting:  # a message about the change may be on its way
            self._waiting.discard(session.id)
            await self._explain(session, timer, _FREE)  # else `sm why` names a draft that is no longer there
            return min(self._settings.completion_quiet_s, _AGAIN_S)
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if now is None or now.status is not Status.IDLE:
                return _AGAIN_S
            if reason_to_wait(unfinished_work(tx.unfinished_sessions(), tx.mail.open, now.id)) is not None:
                return _AGAIN_S
            if tx.timers.take(timer):
                await act(tx, now, timer.data)
        return None

    async def _reason_in_store(self, session: Session, timer: Timer) -> str | None:
        """The reason to wait that only a commit can change: a list of tasks changes in a turn, which sets a timer."""
        if session.status is Status.WAITING_INPUT:
            return session.status_reason
        unfinished, open = self._store.index.unfinished.values(), self._store.mail.open
        if session.paused is not None:
            return PAUSED
        background = int(timer.data.get("background", 0))
        reason = postponed(session, open, time.time())
        reason = reason or reason_to_wait(
            unfinished_work(unfinished, open, session.id, background=background)
        )
        if reason is None:
            # The database and the terminal are asked last: this is repeated while a session waits.
            tasks = open_tasks(await self._store.measures.facts(session.id))
            reason = reason_to_wait(Unfinished(open_tasks=len(tasks)))
        return reason

    async def _reason_in_terminal(self, session: Session) -> str | None:
        try:
            return reason_of_person(await self._use_of_terminal(session))
        except TerminalError as error:
            return f"its terminal cannot be seen: {error.message}"

    async def _explain(self, session: Session, timer: Timer, reason: str) -> None:
        """Record why the session is idle and not completed. Also report that it is idle, once."""
        if timer.kind != CompletionTimer.COMPLETION or session.status is not Status.IDLE:
            return
        if session.status_reason == reason:
            return
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if now is not None and now.status is Status.IDLE and tx.timers.find(now.id, timer.kind) == timer:
                now = await tx.update(now, status_reason=reason, status_source=FROM_FINAL_MESSAGE)
                await self._notices.add_for_idle(tx, now, timer.data.get("summary"))
