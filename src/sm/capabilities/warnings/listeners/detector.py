"""Finds the causes of warnings in the facts of sessions, and opens and closes the warnings.

Rules of tool calls and of the context follow each read of a transcript, in its transaction. The other rules look at a
session only while it works, when its timer is due. `anomalies` decides.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from sm.capabilities.warnings.model import OF_PROCESS, SessionWarning, WarningTimer
from sm.capabilities.warnings.rules import (
    BURN_PERIODS,
    Anomaly,
    LoopLimits,
    Step,
    Stillness,
    find_burn,
    find_full_context,
    find_loop,
    find_memory,
    find_no_progress,
    find_silence,
    longest_call,
    loop_goes_on,
    next_step,
    p90,
)
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.opening import Warnings
from sm.capabilities.warnings.state.rows import close_warning
from sm.capabilities.warnings.tables import PART
from sm.capabilities.warnings.text.sentences import unanswered_evidence
from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.core.next_process import GOOD_S
from sm.core.observation import Source
from sm.core.states import RequestKind
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s, iso, later
from sm.core.tool_calls import CallStep
from sm.core.warnings import WarningKind
from sm.linux.process_usage import ProcessTable, read_table, read_usage
from sm.monitor.evidence import Ledger
from sm.monitor.progress import Measurements, context_percent
from sm.providers.base import Provider
from sm.state.followers import UsageFollower
from sm.state.request_steps import open_of
from sm.store import Store, Transaction

LOOK_S = 30.0
"""How often to look at a session that works."""
_USUAL_FOR_S = 600.0
_AGAIN_S = 600.0
"""Seconds after which a size that was told to the agent itself is told to the others."""
_MIB = 1024 * 1024
_SPEAKERS = (Source.HOOK, Source.STATE_FILE, Source.TRANSCRIPT, Source.TITLE)
"""Sources that report by themselves: a screen is only looked at."""


@dataclass(slots=True)
class _Watched:
    """The signs of life of a working session that this daemon has seen."""

    progress: Stillness = field(default_factory=Stillness)
    signs: Stillness = field(default_factory=Stillness)
    reported: str = ""
    """The time of the last checkpoint that was read."""
    cpu: tuple[float, float] | None = None
    """The last look (monotonic), and the processor time of the agent's own process then."""


class Detector(UsageFollower):
    """Handles the timers of warnings, and follows the facts of transcripts.

    `ledger`, `activity_s`, `facts_of`: the evidence for a session, the time of the last output of its terminal, and the
    facts of its transcripts.
    """

    def __init__(
        self,
        settings: WarningsSection,
        store: Store,
        providers: Mapping[str, Provider],
        warnings: Warnings,
        ledger: Callable[[str], Ledger | None],
        activity_s: Callable[[str], int | None],
        facts_of: Callable[[str], Awaitable[Mapping[str, Any]]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._store = store
        self._providers = providers
        self._warnings = warnings
        self._ledger = ledger
        self._activity_s = activity_s
        self._facts_of = facts_of
        self._monotonic = monotonic
        self._watched: dict[str, _Watched] = {}
        self._opened: dict[int, float] = {}
        """When open warnings began (monotonic), by id."""
        self._usual: dict[str, tuple[float, float | None]] = {}
        self._table: tuple[float, ProcessTable] | None = None
        loop = self._settings.loop
        rules = self._settings
        self._shortest_s = min(rules.no_progress.after, rules.no_progress.tool_after, rules.silent.after)
        self._loop = LoopLimits(loop.limit, loop.failures)

    # Transcripts

    async def follow_facts(
        self, tx: Transaction, session_id: str, facts: Mapping[str, Any], calls: Sequence[CallStep]
    ) -> None:
        """Follow the facts of a session in the transaction that stores them."""
        session = tx.find(session_id)
        if session is None:
            return
        for step in calls:
            loop = find_loop(step.state, self._loop)
            known = tx.part(PART).find(session_id, WarningKind.LOOP)
            goes_on = loop is not None and known is not None and loop_goes_on(loop, known)
            await self._take(tx, session_id, WarningKind.LOOP, loop, goes_on=goes_on)
        percent = self._context_percent(session, facts)
        full = find_full_context(percent, self._settings.context.limit)
        await self._take(
            tx,
            session_id,
            WarningKind.CONTEXT,
            full,
            goes_on=self._is_old(tx, session_id, WarningKind.CONTEXT),
        )

    def _context_percent(self, session: Session, facts: Mapping[str, Any]) -> int | None:
        model, tokens = facts.get("model"), facts.get("context_tokens")
        if not model or tokens is None:
            return None
        window = self._providers[session.provider].context_window(model, facts.get("version", ""))
        return context_percent(Measurements(context_tokens=tokens, context_window=window))

    # Timers

    async def look(self, timer: Timer) -> float | None:
        """Look at a session that works. Returns the seconds until the next look."""
        if self._store.mail.open.timers.get(timer.key) != timer:
            return None
        session = self._store.sessions.get(timer.subject)
        lasts = any(w.kind in OF_PROCESS for w in self._store.part(PART).all_of(timer.subject))
        works = session is not None and session.working_since is not None
        if session is None or session.exit is not None or not (works or lasts):
            self._watched.pop(timer.subject, None)
            async with self._store.transaction() as tx:
                tx.timers.take(timer)
            return None
        if session.paused is not None:
            return LOOK_S
        found = await self._find(session, works=works)
        steps = [
            kind
            for kind, finding in found.items()
            if next_step(finding, self._known(session.id, kind), goes_on=True) is not None
        ]
        if steps:
            async with self._store.transaction() as tx:
                if tx.timers.find(timer.subject, WarningTimer.WATCH) != timer:
                    return None
                for kind in steps:
                    finding, known = found[kind], tx.part(PART).find(session.id, kind)
                    goes_on = self._is_old(tx, session.id, kind)
                    if kind is WarningKind.NO_PROGRESS and finding is not None and known is not None:
                        goes_on = finding.value >= known.value + known.limit
                    await self._take(tx, session.id, kind, finding, goes_on=goes_on)
        return self._next_look_s()

    def _next_look_s(self) -> float:
        """Seconds until the next look: at the same time for all sessions, because each look is a wake-up."""
        every_s = min(LOOK_S, self._shortest_s)
        return every_s - self._monotonic() % every_s

    def _known(self, session_id: str, kind: WarningKind) -> SessionWarning | None:
        return next((w for w in self._store.part(PART).all_of(session_id) if w.kind is kind), None)

    async def _find(self, session: Session, *, works: bool) -> dict[WarningKind, Anomaly | None]:
        """The findings of the rules that apply to the session now."""
        found: dict[WarningKind, Anomaly | None] = {}
        process = session.process
        if process is not None and self._settings.memory.do != "off":
            table = await self._processes()
            rss = table.tree_rss(process)
            used = None if rss is None else rss / _MIB
            found[WarningKind.MEMORY] = find_memory(used, self._settings.memory.limit)
        if session.restarts is not None:
            ran_s = self._store.runs.elapsed_s(session, self._store.now())
            if ran_s >= GOOD_S:
                found[WarningKind.CRASH_LOOP] = None
        if not works:
            return found
        watched = self._watched.setdefault(session.id, _Watched())
        has_turns = self._providers[session.provider].has_turns
        facts = await self._facts_of(session.id) if has_turns else {}
        found[WarningKind.NO_PROGRESS] = await self._no_progress(session, watched, facts)
        if has_turns:
            found[WarningKind.SILENT] = self._silence(session, watched, facts)
            found[WarningKind.BURN] = await self._burn(session)
        return found

    async def _no_progress(
        self, session: Session, watched: _Watched, facts: Mapping[str, Any]
    ) -> Anomaly | None:
        rule, now_s = self._settings.no_progress, self._monotonic()
        wall_s = epoch_s(self._store.now())
        since = session.working_since or self._store.now()
        tool: str | None = None
        if self._providers[session.provider].has_turns:
            # The terminal of a working agent with turns always moves: it draws an animation.
            grown = str(facts.get("grew_at") or "")
            call = longest_call(facts.get("calls") or {})
            tool = None if call is None else call[0]
        else:
            printed = self._activity_s(session.id)
            grown = "" if printed is None else iso(printed)
        sign = (since, grown, watched.reported)
        age_s = min(wall_s - max(map(epoch_s, filter(None, sign))), self._works_for_s(session))
        still_s = watched.progress.seconds(sign, age_s, now_s)
        found = find_no_progress(still_s, tool, after_s=rule.after, tool_after_s=rule.tool_after)
        if found is None:
            return None
        # A checkpoint is progress too. It is read only now, because most looks find progress without it.
        checkpoints = await self._store.checkpoints(session.id, 1)
        reported = checkpoints[-1].timestamp if checkpoints else ""
        if reported in (watched.reported, ""):
            return found
        watched.reported = reported
        age_s = max(0.0, wall_s - max(epoch_s(reported), epoch_s(since)))
        watched.progress = Stillness()
        still_s = watched.progress.seconds((since, grown, reported), min(age_s, still_s), now_s)
        return find_no_progress(still_s, tool, after_s=rule.after, tool_after_s=rule.tool_after)

    def _silence(self, session: Session, watched: _Watched, facts: Mapping[str, Any]) -> Anomaly | None:
        rule, now_s = self._settings.silent, self._monotonic()
        wall_s = epoch_s(self._store.now())
        ledger = self._ledger(session.id)
        entries = {} if ledger is None else ledger.entries
        spoken = [entries[s].observation.at for s in _SPEAKERS if s in entries]
        times = [
            *spoken,
            self._activity_s(session.id) or 0.0,
            epoch_s(session.working_since or session.status_at),
        ]
        if facts.get("grew_at"):
            times.append(epoch_s(facts["grew_at"]))
        age_s = min(wall_s - max(times), self._works_for_s(session))
        silent_s = watched.signs.seconds(tuple(times), age_s, now_s)
        usage = None if session.process is None else read_usage(session.process.pid)
        before, percent = watched.cpu, None
        watched.cpu = None if usage is None else (now_s, usage.cpu_s)
        if before is not None and usage is not None and now_s > before[0]:
            percent = 100 * (usage.cpu_s - before[1]) / (now_s - before[0])
        if percent is None and self._known(session.id, WarningKind.SILENT) is not None:
            percent = rule.limit  # the first look of a daemon cannot end what the last one has found
        return find_silence(silent_s, percent, after_s=rule.after, limit=rule.limit)

    def _works_for_s(self, session: Session) -> float:
        """Seconds of work under way. A sign of life counts only since then."""
        return self._store.work.elapsed_s(session, self._store.now())

    async def _burn(self, session: Session) -> Anomaly | None:
        rule = self._settings.burn
        if rule.do == "off":
            return None
        usual = await self._usual_rate(session.agent_type)
        if usual is None:
            return None
        now = self._store.now()
        begin = later(now, -rule.after * BURN_PERIODS / 2)
        used = await self._store.usage.tokens_between(session.id, begin, now)
        return find_burn(
            [(epoch_s(at), tokens) for at, tokens in used],
            usual,
            epoch_s(now),
            after_s=rule.after,
            limit=rule.limit,
        )

    async def _usual_rate(self, agent_type: str) -> float | None:
        """The p90 of tokens a minute of the completed sessions of the type; None for too few of them."""
        known, now_s = self._usual.get(agent_type), self._monotonic()
        if known is not None and now_s < known[0] + _USUAL_FOR_S:
            return known[1]
        rate = p90(await self._store.usage.token_rates(agent_type))
        self._usual[agent_type] = now_s, rate
        return rate

    async def _processes(self) -> ProcessTable:
        """Every process, read at most once in `LOOK_S` for all sessions."""
        now_s = self._monotonic()
        if self._table is None or now_s - self._table[0] > 0.9 * LOOK_S:
            self._table = now_s, await asyncio.to_thread(read_table)
        return self._table[1]

    async def report_unanswered(self, timer: Timer) -> float | None:
        """Warn of a request that has been open for too long, and wait for the next one."""
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if session is not None and session.paused is not None and timer.key in tx.mail.open.timers:
                return LOOK_S
            if not tx.timers.take(timer) or session is None:
                return None
            request = next(
                (
                    r
                    for r in open_of(tx.mail.open.requests, session.id, list(RequestKind))
                    if r.id == timer.data.get("request")
                ),
                None,
            )
            if request is not None:
                after_s = self._settings.unanswered.after
                await self._warnings.open_warning(
                    tx,
                    session,
                    WarningKind.UNANSWERED,
                    value=after_s,
                    limit=after_s,
                    evidence=unanswered_evidence(request, after_s),
                )
        return None

    # Warnings

    def _is_old(self, tx: Transaction, session_id: str, kind: WarningKind) -> bool:
        known = tx.part(PART).find(session_id, kind)
        return known is not None and self._age_s(tx, known) >= _AGAIN_S

    def _age_s(self, tx: Transaction, warning: SessionWarning) -> float:
        """Seconds since the warning opened, by the steady clock from the first call on."""
        if warning.id not in self._opened:
            open = {w.id for warnings in tx.part(PART).rows.values() for w in warnings}
            self._opened = {id: at_s for id, at_s in self._opened.items() if id in open}
            before_s = max(0.0, epoch_s(tx.now) - epoch_s(warning.opened_at))
            self._opened[warning.id] = self._monotonic() - before_s
        return self._monotonic() - self._opened[warning.id]

    async def _take(
        self, tx: Transaction, session_id: str, kind: WarningKind, finding: Anomaly | None, *, goes_on: bool
    ) -> None:
        """Carry out the step that follows from a finding."""
        session, known = tx.find(session_id), tx.part(PART).find(session_id, kind)
        step = next_step(finding, known, goes_on=goes_on)
        if session is None or step is None or session.paused is not None:
            return
        if step is Step.CLOSE:
            await close_warning(tx, session, kind)
        elif finding is None:
            return
        elif step is Step.OPEN:
            opened = await self._warnings.open_warning(
                tx, session, kind, value=finding.value, limit=finding.limit, evidence=finding.evidence
            )
            if opened is not None:
                self._age_s(tx, opened)
        elif known is not None:
            await self._warnings.tell(tx, session, known, finding.evidence)
