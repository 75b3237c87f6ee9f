"""Steps of the system's clock, which neither open, tell nor end a warning and forget no crash. A real database."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.restarts.listeners import CrashRule
from sm.capabilities.warnings.listeners.detector import Detector
from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.settings import ContextUse, WarningsSection
from sm.capabilities.warnings.tables import PART
from sm.core.models import Exit, Process, Session, Signal
from sm.core.next_process import Restarts
from sm.core.states import SignalKind
from sm.core.timestamps import epoch_s, iso
from sm.core.warnings import WarningKind
from sm.state.session_steps import move
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.state_parts import StateParts, open_parts, with_warnings

SETTINGS = WarningsSection(context=ContextUse(do="nudge"))
ID = "aaaa1111"
STEPS = pytest.mark.parametrize("step_s", [3 * 3600, -5 * 3600], ids=["forward", "back"])


@dataclass
class Clocks:
    steady_s: float = 1000.0
    step_s: float = 0.0
    """How far the system's clock was set."""

    def steady(self) -> float:
        return self.steady_s

    def now(self) -> str:
        return iso(epoch_s(AT) + self.steady_s - 1000.0 + self.step_s)


@dataclass
class Bench:
    clocks: Clocks
    store: Store
    parts: StateParts
    detector: Detector

    @property
    def session(self) -> Session:
        return self.store.sessions[ID]

    async def start(self) -> None:
        """Record a new process."""
        async with self.store.transaction() as tx:
            signal = Signal(SignalKind.STARTED, "process", "the process started", tx.now)
            process = Process(10_000_000 + self.session.runs, "another boot/0")
            if self.session.restarts is not None:
                await tx.update(self.session, restarts=replace(self.session.restarts, next_at=None))
            await move(tx, self.parts.notices, ID, signal, process=process, started_at=tx.now)

    async def crash(self) -> str | None:
        """Record the end of the process. Returns the reason of the status."""
        async with self.store.transaction() as tx:
            await self.parts.endings.process_ended(tx, tx.session(ID), Exit(None, 9), ())
        return self.session.status_reason

    async def look(self) -> None:
        await self.detector.look(self.store.mail.open.timers[ID, WarningTimer.WATCH])

    def warnings(self) -> list[WarningKind]:
        return [warning.kind for warning in self.store.part(PART).all_of(ID)]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    clocks = Clocks()
    async with open_parts(tmp_path, clocks.now, steady=clocks.steady) as (store, parts):
        made = replace(session(ID), provider="claude", token_hash="0" * 64, restarts=Restarts())

        async def facts(_: str) -> Mapping[str, Any]:
            return {}

        async with store.transaction() as tx:
            await tx.insert(made, LAUNCH, None)
        parts.endings.rules.append(CrashRule())
        warnings = with_warnings(store, parts, SETTINGS)
        detector = Detector(
            SETTINGS, store, parts.providers, warnings, lambda _: None, lambda _: None, facts, clocks.steady
        )
        bench = Bench(clocks, store, parts, detector)
        await bench.start()
        yield bench


@STEPS
async def test_step_of_the_clock_neither_ends_crash_loop_nor_forgets_crashes(
    bench: Bench, step_s: float
) -> None:
    assert await bench.crash() == "restart 1 of 3 in 5 s (signal 9)"
    bench.clocks.steady_s += 5
    await bench.start()
    bench.clocks.steady_s += 20
    bench.clocks.step_s += step_s
    await bench.look()
    assert bench.warnings() == [WarningKind.CRASH_LOOP]
    assert await bench.crash() == "restart 2 of 3 in 10 s (signal 9)"
    bench.clocks.steady_s += 10
    await bench.start()
    bench.clocks.steady_s += 600
    await bench.look()
    assert bench.warnings() == []
    assert await bench.crash() == "restart 1 of 3 in 5 s (signal 9)"


@STEPS
async def test_step_of_the_clock_before_the_first_look_is_no_pause_of_progress(
    bench: Bench, step_s: float
) -> None:
    bench.clocks.step_s += step_s
    bench.clocks.steady_s += 5
    await bench.look()
    assert bench.warnings() == []
    bench.clocks.steady_s += 1200
    await bench.look()
    assert bench.warnings() == [WarningKind.NO_PROGRESS]


@STEPS
async def test_step_of_the_clock_does_not_tell_others_of_a_nudged_warning(
    bench: Bench, step_s: float
) -> None:
    async def is_told() -> bool:
        """Follow facts of a full context: have the others been told?"""
        async with bench.store.transaction() as tx:
            full = {"model": "claude-haiku-4-5", "context_tokens": 190_000}
            await bench.detector.follow_facts(tx, ID, full, ())
        (warning,) = bench.store.part(PART).all_of(ID)
        assert warning.kind is WarningKind.CONTEXT
        return warning.told

    assert not await is_told()
    bench.clocks.step_s += step_s
    bench.clocks.steady_s += 599
    assert not await is_told()
    bench.clocks.steady_s += 1
    assert await is_told()
