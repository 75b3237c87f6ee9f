"""Work under way by two clocks: the one on the wall, which somebody may set, and a steady one."""

from dataclasses import replace

import pytest

from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.store.work_clock import WorkClock
from tests.samples import session

START = "2026-11-22T10:00:00.000Z"
IDLE = session("aaaa0001", status=Status.IDLE)
WORKING = replace(session("aaaa0002", status=Status.RUNNING), working_since=START)


class Steady:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def elapsed_s(clock: WorkClock, wall_s: float, of: Session = WORKING) -> float:
    return clock.elapsed_s(of, later(START, wall_s))


@pytest.mark.parametrize(
    ("steady_s", "wall_s", "expected"),
    [
        (60, 60, 60),
        (60, 0, 0),
        (60, -30, 0),  # set back by exactly 90 s: no step yet
        (60, -31, 60),
        (60, 150, 150),
        (60, 151, 60),
        (60, 18_060, 60),
        (5, -3, 0),
        (0, 91, 0),
    ],
)
def test_steady_clock_counts_after_a_step_of_the_other_one(
    steady_s: float, wall_s: float, expected: float
) -> None:
    steady = Steady()
    clock = WorkClock(steady)
    clock.start(WORKING, START)
    steady.now_s += steady_s
    assert elapsed_s(clock, wall_s) == expected


def test_work_before_the_start_of_the_daemon_counts() -> None:
    steady = Steady()
    clock = WorkClock(steady)
    clock.load([IDLE, WORKING], later(START, 500))
    steady.now_s += 60
    assert elapsed_s(clock, 18_000) == 560
    assert elapsed_s(clock, 18_000, IDLE) == 0


def test_work_that_was_not_measured_counts_by_the_wall() -> None:
    steady = Steady()
    measured, without = WorkClock(steady), WorkClock(None)
    for clock in (measured, without):
        clock.start(IDLE, START)
        clock.start(WORKING, START)
    again = replace(WORKING, working_since=later(START, 600))
    assert elapsed_s(measured, 18_600, again) == 18_000
    assert elapsed_s(measured, 500, again) == 0
    assert [elapsed_s(without, wall_s) for wall_s in (18_000, -60)] == [18_000, 0]
    measured.forget(WORKING.id)
    measured.forget(WORKING.id)
    assert elapsed_s(measured, 18_000) == 18_000


def test_work_that_begins_in_the_future_counts_from_now() -> None:
    steady = Steady()
    clock = WorkClock(steady)
    clock.start(WORKING, later(START, -3600))
    assert elapsed_s(clock, -3600) == 0
    steady.now_s += 5
    assert elapsed_s(clock, -3595) == 5
