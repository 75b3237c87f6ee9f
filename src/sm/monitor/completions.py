"""Completes sessions whose agents say that they are done, reports those that stay idle, and sends reminders."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sm.config import Config
from sm.core.completion_pattern import CompletionPattern
from sm.core.models import Session
from sm.core.observation import Observation
from sm.core.pauses import PAUSED
from sm.core.program_states import BACKGROUND, ProgramStateOf, unknown_program_state
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import iso
from sm.core.turns import FinishedTurn, TurnEnd, TurnFacts, TurnWork
from sm.core.warnings import WarningKind
from sm.errors import TerminalError
from sm.monitor.usage import work_of
from sm.policy.completion import (
    CompletionRules,
    TerminalUse,
    Unfinished,
    after_turn,
    reason_of_person,
    reason_to_wait,
)
from sm.sessions.manager import Manager
from sm.sessions.reports import Reports
from sm.state.part_holds import postponed
from sm.state.turns import FROM_COMPLETION, unfinished_work
from sm.store import Store, Transaction
from sm.store.transaction import SessionFollower

_AGAIN_S = 5.0
"""How often to look again, in memory, at a session that waits for something."""
_FREE = "nothing holds its completion any more"
_CLOSED_TASKS = frozenset({"completed", "cancelled", "deleted"})

UseOfTerminal = Callable[[Session], Awaitable[TerminalUse]]
"""Looks at the terminal of a session. Raises TerminalError if the terminal cannot be seen."""


def rules_of(config: Config, followers: Sequence[SessionFollower]) -> CompletionRules:
    settings = config.child_agents.auto_complete
    return CompletionRules(
        enabled=settings.enabled,
        reads_messages=settings.detect_completion_phrases,
        quiet_s=settings.completion_quiet_s,
        idle_timeout_s=settings.idle_timeout,
        remind_after_s=tuple(map(float, settings.remind_after_s)),
        warns_of_missing_report=any(f.warns_of(WarningKind.REPORT_MISSING) for f in followers),
        needs_approval=settings.require_parent_approval,
    )


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
    from sm.monitor.completion import read_turn_end

    return read_turn_end(text, prompt, facts, patterns)


class TurnReader:
    """Reads what the final message of a turn says, and decides what follows."""

    def __init__(
        self, config: Config, store: Store, program_state: ProgramStateOf = unknown_program_state
    ) -> None:
        self._config = config
        self._store = store
        self._program_state = program_state

    async def read(self, session: Session, observation: Observation, work: TurnWork) -> FinishedTurn:
        """Read the end of a turn of `session`. `work`: in this turn, as far as its hooks told it."""
        text = observation.answer or ""
        measured = await self._store.measures.facts(session.id)
        work = work.completed_by(work_of(measured))
        task = work.last_task or await self._store.spawn_prompt(session.id) or ""
        facts = self._facts(session.id, work, measured, observation.background)
        patterns = _compiled(self._config.child_agents.auto_complete.completion_patterns)
        turn = await asyncio.to_thread(_read_turn_end, text, task, facts, patterns)
        rules, state = rules_of(self._config, self._store.followers), self._program_state(session)
        if state is not None and state.breaks(
            BACKGROUND
        ):  # it may work although its words say that it is done
            rules = replace(rules, reads_messages=False)
        follow_up = after_turn(session.mode, rules, turn, session.reminders)
        return FinishedTurn(iso(observation.at), follow_up)

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


class Completions:
    """Handles the timers that follow a finished turn. Each handler is a `TimerHandler` of the daemon."""

    def __init__(
        self, config: Config, store: Store, manager: Manager, reports: Reports, use_of_terminal: UseOfTerminal
    ) -> None:
        self._config = config
        self._store = store
        self._manager = manager
        self._reports = reports
        self._use_of_terminal = use_of_terminal
        self._waiting: set[str] = set()
        """The sessions that waited for something at the last look."""
        self._held: dict[tuple[str, str], tuple[Timer, int]] = {}
        """By timer: the timer, and the number of commits at the last look, of a session that only a commit frees."""

    async def complete(self, timer: Timer) -> float | None:
        """Complete the session, or propose its completion."""
        return await self._run(timer, self._end)

    async def report_unclear(self, timer: Timer) -> float | None:
        """Report a session that is idle for long, and not known to be done."""
        return await self._run(timer, self._reports.report_unclear)

    async def remind(self, timer: Timer) -> float | None:
        """Remind an idle agent to report."""
        return await self._run(timer, self._reports.remind)

    async def warn_of_missing_report(self, timer: Timer) -> float | None:
        """Warn of an idle agent that has not reported after its last reminder."""
        return await self._run(timer, self._reports.warn_of_missing_report)

    async def _end(self, tx: Transaction, session: Session, found: Mapping[str, Any]) -> None:
        await self._reports.end_detected(tx, session, found, rules_of(self._config, self._store.followers))

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
            return min(rules_of(self._config, self._store.followers).quiet_s, _AGAIN_S)
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
        if timer.kind != TimerKind.COMPLETION or session.status is not Status.IDLE:
            return
        if session.status_reason == reason:
            return
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if now is not None and now.status is Status.IDLE and tx.timers.find(now.id, timer.kind) == timer:
                now = await tx.update(now, status_reason=reason, status_source=FROM_COMPLETION)
                await self._manager.notices.add_for_idle(tx, now, timer.data.get("summary"))
