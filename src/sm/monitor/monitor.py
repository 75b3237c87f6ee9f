"""Provides the evidence, actions, progress, output and summaries of agents to the front doors."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sm.config import Config
from sm.core.dataclass import dataclass
from sm.core.estimates import Sample
from sm.core.models import Session
from sm.core.timestamps import epoch_s, iso, later
from sm.core.tree_totals import Totals
from sm.core.usage import SessionUsage, TokenCounts, ToolUse, Usage, main_model
from sm.errors import ExternalError, NoServer, NoTerminal, TerminalUnreachable
from sm.monitor.observer import Observer
from sm.monitor.processes import Watcher
from sm.monitor.progress import (
    DONE,
    TASK_CHECKPOINTS,
    Measurements,
    context_percent,
    report,
    without_words,
)
from sm.monitor.summary import Summary, SummaryResult
from sm.monitor.usage import UsageMeter
from sm.providers.base import Provider
from sm.sessions.cleanup import started_s
from sm.sessions.keepers import SessionKeeper
from sm.sessions.session_fields import SessionSums
from sm.sessions.waits import WaitingSessions
from sm.store import Store
from sm.terminals.base import Screen
from sm.wire_types.agent_answers import ActionView, ProgressView

_SUMMARY_ACTIONS = 60
_LAST_LINES = 50
_AHEAD_S = 60.0
"""Actions with a time further ahead than this are dropped: an agent can write any time into its transcript.
Must not exceed the time that `sm tail --follow` looks back: a later action would hide all others until then.
"""


@dataclass(frozen=True, slots=True)
class Output:
    """The last lines of a terminal. `archived`: the terminal is closed, and its output was saved before."""

    lines: list[str]
    archived: bool


@dataclass(eq=False)
class Monitor:
    """Shows agents. Callers first check permissions with `Sessions.find` and `Sessions.may_read`."""

    _config: Config
    _store: Store
    _providers: Mapping[str, Provider]
    _observer: Observer
    _watcher: Watcher
    _usage: UsageMeter
    _waiting: WaitingSessions
    _summary: Summary
    _terminals: Screen
    _keeper: SessionKeeper
    _sums: Sequence[SessionSums]
    """Of capabilities."""

    def __post_init__(self) -> None:
        observer = self._observer
        self.now = observer.now
        self.hook = observer.hook
        self.ledger = observer.ledger
        self.facts = observer.facts
        self.tool_use = observer.tool_use
        self.blocked_reason = observer.blocked_reason

    @property
    def tmux_silent(self) -> Collection[str]:
        """The ids of sessions for which tmux does not answer."""
        return self._watcher.unverified - self._watcher.engine_silent

    @property
    def engine_silent(self) -> Collection[str]:
        """The ids of sessions whose agent has ended while the container engine does not answer."""
        return self._watcher.engine_silent

    def activity_s(self, session_id: str) -> int | None:
        """The time of the last output of the session's terminal, in seconds since the epoch."""
        return self._watcher.activity.get(session_id)

    def is_stale(self, session_id: str) -> bool:
        """True if no source confirms the session's status."""
        return session_id in self._watcher.unverified or self._observer.is_stale(session_id)

    async def output(self, session: Session, lines: int) -> Output:
        """The last lines of the session's terminal, or of its saved output once the terminal is closed.

        A restart closes it for a moment. Raises NoTerminal or NoServer when both are gone, and TerminalUnreachable.
        """
        try:
            return Output(await self._terminals.capture(session.terminal, lines), archived=False)
        except (NoTerminal, NoServer):
            if session.exit is None and session.process is not None:
                raise
            saved = await self._keeper.read(session.id, lines, started_s(session))
            if saved is None:
                raise
            return Output(saved, archived=True)

    async def last_output(self, session: Session) -> list[str]:
        """As `output`, a few lines; none if they are gone."""
        try:
            return (await self.output(session, _LAST_LINES)).lines
        except ExternalError:
            return []

    async def last_words(self, session: Session) -> str | None:
        """The last line that the session printed, or None if there is none, or if it cannot be read now."""
        with contextlib.suppress(TerminalUnreachable):
            return await self.read_last_words(session)
        return None

    async def read_last_words(self, session: Session) -> str | None:
        """Read the last line that the session printed; None if there is none. Raises TerminalUnreachable."""
        try:
            lines = (await self.output(session, _LAST_LINES)).lines
        except TerminalUnreachable:
            raise
        except ExternalError:
            return None
        return next((line.strip() for line in reversed(lines) if line.strip()), None)

    async def actions(self, session: Session, count: int) -> list[ActionView]:
        """The last `count` actions of the transcript and events of the session, oldest first."""
        reader = self._providers[session.provider].readers.transcripts
        kept = partial(self._keeper.transcripts, session.id)
        actions = () if reader is None else await self._usage.actions(session, reader, count, kept)
        events = await self._store.events(sessions=[session.id], limit=count)
        now = self._store.now()
        acts = [ActionView(at, a.kind, a.text) for a in actions if (at := _comparable(a.at, now)) is not None]
        acts += [ActionView(e.timestamp, "event", f"{e.type}: {e.message}") for e in events]
        acts.sort(key=lambda act: act.timestamp)
        return acts[-count:] if count else []

    async def summarize(self, session: Session) -> SummaryResult:
        launch, acts, screen = await asyncio.gather(
            self._store.launch(session.id), self.actions(session, _SUMMARY_ACTIONS), self.last_output(session)
        )
        return await self._summary.summarize(session, launch, acts, screen)

    async def progress(self, session: Session, count: int, *, may_read: bool) -> ProgressView:
        """The progress of the session, with the newest `count` checkpoints."""
        checkpoints, measured = await asyncio.gather(
            self._store.checkpoints(session.id, max(count, TASK_CHECKPOINTS)), self._measured(session)
        )
        output = await self.last_output(session) if may_read else []
        if (screen := self._providers[session.provider].readers.screen) is not None:
            output = list(screen.output(output))
        samples = await self._samples(session)
        now = self._store.now()
        work_s = self._store.work.elapsed_s(session, now)
        shown = report(session, checkpoints, output, now, measured, samples, work_s)
        mode = await self._observer.permission_modes.current(session)
        if mode is not None:
            shown = replace(shown, permission_mode=mode.mode, permission_source=mode.source or None)
        shown = replace(shown, checkpoints=shown.checkpoints[max(0, len(checkpoints) - count) :])
        return shown if may_read else without_words(shown, session)

    async def _samples(self, session: Session) -> Sequence[Sample]:
        """The completed sessions of the same agent type."""
        return [sample for sums in self._sums for sample in await sums.samples(session.agent_type)]

    async def answers(self, sessions: Sequence[Session]) -> dict[str, str]:
        """The last words of agents, by id, with one query for all sessions. Omits agents that said nothing."""
        facts = await self._store.measures.facts_of(session.id for session in sessions)
        return {session_id: found["answer"] for session_id, found in facts.items() if found.get("answer")}

    def take_measured(self) -> set[str]:
        """The ids of the sessions whose stored usage has changed since the last call. For one caller only."""
        return self._usage.take_changed()

    async def usages(self, sessions: Sequence[Session]) -> dict[str, SessionUsage]:
        """The measurements of sessions, by id, with two queries for all of them."""
        ids = [s.id for s in sessions]
        found, facts = await asyncio.gather(self._store.usage.of(ids), self._store.measures.facts_of(ids))
        return {s.id: self._usage_of(s, found.get(s.id, []), facts.get(s.id, {})) for s in sessions}

    def _usage_of(self, session: Session, usages: Sequence[Usage], facts: Mapping[str, Any]) -> SessionUsage:
        provider, model = self._providers[session.provider], facts.get("model")
        counted = self._config.child_agents.progress
        measured = Measurements(
            context_tokens=facts.get("context_tokens"),
            context_window=_context_window(provider, model, facts),
        )
        last_tool = _last_tool(facts.get("last_tool"), self._store.now())
        todo = facts.get("todo")
        shown = SessionUsage(
            last_tool=last_tool if counted.enable_tool_tracking else None,
            todo=(sum(t["status"] == DONE for t in todo), len(todo)) if todo else None,
            model=model or session.model,
            answer=facts.get("answer"),
        )
        if not self._counts_tokens:
            return shown
        sums = Totals.of(usages, provider.cost_usd)
        return replace(
            shown,
            tokens=sums.tokens if sums.measured and not sums.unread else None,
            cost_usd=sums.cost_usd,
            context_percent=context_percent(measured),
        )

    @property
    def _counts_tokens(self) -> bool:
        return self._config.child_agents.progress.enable_token_tracking and self._store.usage.counts

    def activity(self, session_id: str) -> str | None:
        """The current activity of the agent: a wait for other sessions, or the activity that its hooks report."""
        return self._waiting.activity(session_id) or self._observer.activity(session_id)

    async def _measured(self, session: Session) -> Measurements | None:
        provider = self._providers[session.provider]
        if provider.readers.transcripts is None and provider.link is None:
            return None
        measures = self._store.measures
        positions, used, tools, facts, usual = await asyncio.gather(
            measures.positions(session.id),
            self._store.usage.of([session.id]),
            measures.tools(session.id),
            measures.facts(session.id),
            self._store.usage.usual_tokens(session.agent_type),
        )
        usages = used.get(session.id, [])
        model = facts.get("model")
        todo = facts.get("todo")
        counted = self._config.child_agents.progress
        # A count from before counting was switched off is incomplete, and an unreadable count is not zero.
        is_counted = provider.link is not None or any(p.inode for p in positions.values())
        counts_tokens = self._counts_tokens and is_counted
        if not counts_tokens:
            usages, usual = [], None
            facts = {name: value for name, value in facts.items() if name != "context_tokens"}
        if not counted.enable_tool_tracking:
            tools = {}
            facts = {name: value for name, value in facts.items() if name != "last_tool"}
        is_unread = any(used.is_unread for used in usages)
        return Measurements(
            tokens=TokenCounts.of(u for u in usages if not u.sidechain)
            if counts_tokens and not is_unread
            else None,
            is_unread=is_unread,
            subagents=TokenCounts.of(u for u in usages if u.sidechain),
            tools=tools,
            last_tool=_last_tool(facts.get("last_tool"), self._store.now()),
            context_tokens=facts.get("context_tokens"),
            context_window=_context_window(provider, model, facts),
            cost_usd=provider.cost_usd(usages) if usages else None,
            current_activity=self.activity(session.id),
            todo=[(t["status"], t["content"]) for t in todo] if todo else None,
            estimate=usual,
            model=model or main_model(usages) or session.model,
            prices_as_of=provider.prices_as_of,
        )


def _context_window(provider: Provider, model: str | None, facts: Mapping[str, Any]) -> int | None:
    """The most tokens that the model can read: as the agent's link reports, else as the provider knows."""
    reported = facts.get("context_window")
    if isinstance(reported, int):
        return reported
    return provider.context_window(model, facts.get("version", "")) if model else None


def _last_tool(value: Any, now: str) -> ToolUse | None:
    """The stored tool use; None without a usable time: the agent wrote the stored value."""
    if not isinstance(value, Mapping) or _comparable(value.get("timestamp"), now) is None:
        return None
    return ToolUse("", value["name"], value["timestamp"], value.get("args") or {})


def _comparable(at: object, now: str) -> str | None:
    """The normalized time, so that times sort as text; None for no time or one far ahead. Never raises."""
    if not isinstance(at, str):
        return None
    try:
        shown = iso(epoch_s(at))
    except (ValueError, OverflowError):
        return None
    return shown if shown <= later(now, _AHEAD_S) else None
