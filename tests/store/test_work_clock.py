"""Work under way by two clocks: the one on the wall, which somebody may set, and a steady one."""

from dataclasses import replace

import pytest

from sm.core.models import Exit, Session
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.store.work_clock import RunClock, WorkClock
from tests.samples import session

START = "2026-11-22T10:00:00.000Z"
IDLE = session("aaaa0001", status=Status.IDLE)
WORKING = replace(session("aaaa0002", status=Status.RUNNING), working_since=START)


class Clocks:
    """A steady clock, and the system clock in seconds after START. A step changes only the latter."""

    def __init__(self, wall_s: float = 0) -> None:
        self.steady_s = 1000.0
        self.wall_s = wall_s

    def now(self) -> str:
        return later(START, self.wall_s)

    def steady(self) -> float:
        return self.steady_s

    def pass_time(self, seconds: float, *, step_s: float = 0) -> None:
        self.steady_s += seconds
        self.wall_s += seconds + step_s

    def elapsed_s(self, clock: WorkClock, of: Session = WORKING, *, earlier_s: float = 0) -> float:
        """The work until now, or until some time earlier."""
        return clock.elapsed_s(of, later(START, self.wall_s - earlier_s))


@pytest.mark.parametrize("step_s", [0, 80, -80, -60, 2, -3, 18_000, -18_000])
def test_step_of_the_system_clock_is_no_work(step_s: float) -> None:
    clocks = Clocks()
    clock = WorkClock(clocks.now, clocks.steady)
    clock.start(WORKING)
    clocks.pass_time(60, step_s=step_s)
    assert clocks.elapsed_s(clock) == pytest.approx(60)
    assert clocks.elapsed_s(clock, earlier_s=20) == pytest.approx(40)
    assert clocks.elapsed_s(clock, earlier_s=70) == 0


def test_work_before_the_start_of_the_daemon_counts() -> None:
    clocks = Clocks(500)
    clock = WorkClock(clocks.now, clocks.steady)
    clock.load([IDLE, WORKING])
    clocks.pass_time(60, step_s=18_000)
    assert clocks.elapsed_s(clock) == pytest.approx(560)
    assert clocks.elapsed_s(clock, IDLE) == 0


def test_work_that_was_not_measured_counts_by_the_wall() -> None:
    clocks = Clocks()
    measured, without = WorkClock(clocks.now, clocks.steady), WorkClock(clocks.now, None)
    for clock in (measured, without):
        clock.start(IDLE)
        clock.start(WORKING)
    again = replace(WORKING, working_since=later(START, 600))
    clocks.wall_s = 500
    assert clocks.elapsed_s(measured, again) == 0
    clocks.wall_s = 18_600
    assert clocks.elapsed_s(measured, again) == 18_000
    assert clocks.elapsed_s(without) == 18_600
    for _ in range(2):
        measured.follow(WORKING, replace(WORKING, working_since=None))
    assert clocks.elapsed_s(measured) == 18_600
    clocks.wall_s = -60
    assert clocks.elapsed_s(without) == 0


def test_run_clock_measures_the_process_that_runs() -> None:
    clocks = Clocks()
    clock = RunClock(clocks.now, clocks.steady)
    running = replace(IDLE, started_at=START)
    clock.follow(IDLE, running)
    clocks.pass_time(20, step_s=18_000)
    assert clocks.elapsed_s(clock, replace(running, status=Status.RUNNING)) == pytest.approx(20)
    assert clocks.elapsed_s(clock, replace(running, exit=Exit(0))) == 0
    again = replace(running, started_at=clocks.now())
    clock.follow(running, again)
    clocks.pass_time(7, step_s=-18_000)
    assert clocks.elapsed_s(clock, again) == pytest.approx(7)
    clock.follow(again, replace(again, started_at=None))
    assert clocks.elapsed_s(clock, replace(again, started_at=None)) == 0


def test_work_that_begins_in_the_future_counts_from_now() -> None:
    clocks = Clocks(-3600)
    clock = WorkClock(clocks.now, clocks.steady)
    clock.start(WORKING)
    assert clocks.elapsed_s(clock) == 0
    clocks.pass_time(5)
    assert clocks.elapsed_s(clock) == pytest.approx(5)
