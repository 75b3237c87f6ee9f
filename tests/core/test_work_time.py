"""Time of work: what starts, what ends and what does not change it."""

from dataclasses import replace

import pytest

from sm.core.models import Session
from sm.core.pauses import Pause
from sm.core.statuses import Status
from sm.core.work_time import elapsed_s, seconds_between, track_work, worked_s
from tests.samples import session

T0, T1, T2 = (f"2026-03-01T10:0{minute}:00.000Z" for minute in range(3))
IDLE = session("aaaa1111", status=Status.IDLE)
RUNNING = replace(session("aaaa1111", status=Status.RUNNING), working_since=T0, worked_s=7.0)
PAUSE = Pause(T1, "operator", "too expensive")
SOFT = replace(PAUSE, soft=True)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (IDLE, replace(IDLE, status=Status.RUNNING), (0.0, T1)),
        (IDLE, replace(IDLE, status=Status.WAITING_INPUT), (0.0, None)),
        (RUNNING, replace(RUNNING, note="tests"), (7.0, T0)),
        (RUNNING, replace(RUNNING, status=Status.IDLE), (67.0, None)),
        (RUNNING, replace(RUNNING, status=Status.COMPLETED), (67.0, None)),
        (RUNNING, replace(RUNNING, paused=PAUSE), (67.0, None)),
        (RUNNING, replace(RUNNING, paused=SOFT), (7.0, T0)),
        (replace(RUNNING, paused=SOFT), replace(RUNNING, paused=SOFT, status=Status.IDLE), (67.0, None)),
        (replace(RUNNING, paused=PAUSE, working_since=None), replace(RUNNING, working_since=None), (7.0, T1)),
    ],
)
def test_changes_start_and_end_the_time_of_work(
    before: Session, after: Session, expected: tuple[float, str | None]
) -> None:
    tracked = track_work(before, after, T1)
    assert (tracked.worked_s, tracked.working_since) == expected


def test_time_of_work_includes_the_work_under_way() -> None:
    assert worked_s(RUNNING, T2) == 127.0


def test_time_of_work_never_shrinks_when_the_clock_is_set_back() -> None:
    assert worked_s(replace(RUNNING, working_since=T2), T0) == 7.0


def test_time_of_work_of_an_idle_session_stays() -> None:
    assert worked_s(replace(IDLE, worked_s=7.0), T2) == 7.0


def test_time_of_a_better_clock_replaces_that_of_the_wall() -> None:
    tracked = track_work(RUNNING, replace(RUNNING, status=Status.IDLE), T1, elapsed_s=5.0)
    assert (tracked.worked_s, tracked.working_since) == (12.0, None)


@pytest.mark.parametrize(("since", "until"), [("", T1), (T1, "soon"), (T1, T1), (T2, T1)])
def test_no_time_has_passed_without_a_valid_time(since: str, until: str) -> None:
    assert seconds_between(since, until) == 0.0


@pytest.mark.parametrize(
    ("started_at", "worked", "expected"),
    [
        (T1, 7.0, 60),  # the process worked 7 s, and was idle for 53 s
        (None, 0.0, 120),
        (T1, 90.9, 90),  # an earlier process has worked too
        ("2026-03-01T10:09:00.000Z", 7.0, 7),  # the clock was set back
    ],
)
def test_elapsed_time_is_at_least_the_work_of_all_processes(
    started_at: str | None, worked: float, expected: int
) -> None:
    assert elapsed_s(replace(RUNNING, created_at=T0, started_at=started_at), T2, worked) == expected
