"""Which ends of a process are followed by a restart, when, and when sm gives up."""

from dataclasses import replace

import pytest

from sm.capabilities.restarts.rules import after_end, restarts_of
from sm.core.models import Exit, Session, Signal, is_waiting, last_exit
from sm.core.next_process import GiveUp, Restart, Restarts
from sm.core.pauses import Pause
from sm.core.states import SignalKind
from sm.core.statuses import ENDED, LIVE, Status
from sm.core.timestamps import epoch_s, iso, later
from sm.errors import UsageError
from tests.samples import session

NOW = "2026-03-01T02:00:00.000Z"
CRASHED = Exit(3)


FRESH = Restarts()


def running(restarts: Restarts | None = FRESH, **facts: object) -> Session:
    before = session("aaaa1111", status=Status.RUNNING)
    facts = {"token_hash": "0" * 64, "started_at": later(NOW, -30), "restarts": restarts, **facts}
    return replace(before, **facts)  # type: ignore[arg-type]


def end(
    before: Session,
    exit: Exit = CRASHED,
    kind: SignalKind = SignalKind.CRASHED,
    now: str = NOW,
    *,
    ran_s: float | None = None,
    closed: bool = False,
) -> Restart | GiveUp | None:
    if ran_s is None:
        ran_s = max(0.0, epoch_s(now) - epoch_s(before.started_at or now))
    signal = Signal(kind, "process", "ended", now, exit)
    return after_end(before, signal, exit, now, ran_s, closed=closed)


def crash_in_a_row(ran_s: float, most: int = 3) -> list[str]:
    """The decisions for crashes of processes that run for `ran_s` seconds each, until sm gives up, at most 12."""
    restarts, at, decisions = Restarts(most), NOW, list[str]()
    while len(decisions) < 12:
        started, at = at, later(at, ran_s)
        decision = end(running(restarts, started_at=started), now=at)
        if not isinstance(decision, Restart):
            return [*decisions, str(decision and "give up")]
        decisions.append(f"{decision.restarts.count}: {decision.after_s:g}")
        restarts, at = replace(decision.restarts, next_at=None), later(at, decision.after_s)
    return decisions


# Whether


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("kind", list(SignalKind))
def test_only_failures_of_a_ready_agent_are_followed_by_a_restart(status: Status, kind: SignalKind) -> None:
    decision = end(running(status=status), kind=kind)
    ready = status in LIVE and status not in (Status.SPAWNED, Status.STARTING)
    failed = kind in (SignalKind.CRASHED, SignalKind.TERMINAL_LOST)
    assert isinstance(decision, Restart) == (ready and failed)
    assert decision is None or isinstance(decision, Restart)


@pytest.mark.parametrize("status", ENDED)
def test_ended_session_is_not_restarted_when_its_process_crashes(status: Status) -> None:
    assert end(running(Restarts(row=1, times=(NOW,)), status=status)) is None


@pytest.mark.parametrize(
    ("exit", "restarted"),
    [
        (Exit(0), False),
        (Exit(1), True),
        (Exit(3), True),
        (Exit(255), True),
        (Exit(130), False),
        (Exit(137), True),
        (Exit(None, 2), False),
        (Exit(None, 9), True),
        (Exit(None, 11), True),
        (Exit(None, 15), True),
        (Exit(), True),
    ],
    ids=str,
)
def test_exit_decides_whether_the_process_has_failed(exit: Exit, restarted: bool) -> None:
    assert isinstance(end(running(), exit), Restart) == restarted


def test_session_without_the_policy_ends_when_it_crashes() -> None:
    assert end(running(None)) is None


def test_paused_session_ends_when_it_crashes() -> None:
    assert end(running(paused=Pause(NOW, "operator", "budget"))) is None


def test_adopted_session_ends_when_it_crashes() -> None:
    assert end(running(token_hash=None)) is None


def test_session_whose_terminal_was_closed_ends() -> None:
    assert end(running(), Exit(), SignalKind.TERMINAL_LOST, closed=True) is None
    assert isinstance(end(running(), Exit(), SignalKind.TERMINAL_LOST), Restart)


def test_session_that_waits_for_a_restart_has_no_other_crash() -> None:
    assert end(running(Restarts(next_at=NOW))) is None


def test_restarted_process_that_ends_while_it_starts_counts_as_a_crash() -> None:
    tried = Restarts(times=(later(NOW, -10),), row=1, total=1)
    decision = end(running(tried, status=Status.STARTING, started_at=None))
    assert isinstance(decision, Restart)
    assert (decision.restarts.count, decision.after_s) == (2, 10)


# When, and how often


def test_delays_double_until_sm_gives_up() -> None:
    assert crash_in_a_row(0) == ["1: 5", "2: 10", "3: 20", "give up"]


def test_number_of_restarts_is_bounded_by_the_setting() -> None:
    assert crash_in_a_row(0, most=1) == ["1: 5", "give up"]
    assert crash_in_a_row(0, most=20)[:9] == [
        *("1: 5", "2: 10", "3: 20", "4: 40", "5: 80", "6: 160", "7: 300", "8: 300"),
        "6: 300",  # the first ones were more than 15 minutes ago
    ]


def test_crash_after_more_than_the_window_does_not_count() -> None:
    decisions = crash_in_a_row(500)
    assert [d.partition(":")[0] for d in decisions] == ["1", "2", *["2"] * 10]
    assert decisions[-1].endswith(": 300")


@pytest.mark.parametrize(("ago_s", "count"), [(0, 2), (899.5, 2), (900, 1), (901, 1)])
def test_crash_counts_for_fifteen_minutes(ago_s: float, count: int) -> None:
    tried = Restarts(times=(later(NOW, -ago_s),), row=1, total=1)
    decision = end(running(tried))
    assert isinstance(decision, Restart)
    assert (decision.restarts.count, decision.words) == (count, f"restart {count} of 3")


def test_delay_of_a_very_long_row_is_the_longest() -> None:
    decision = end(running(Restarts(row=5000, total=5000)))
    assert isinstance(decision, Restart)
    assert decision.after_s == 300


@pytest.mark.parametrize(("ran_s", "row"), [(599.9, 3), (600, 1), (86_400, 1)])
def test_good_run_of_ten_minutes_begins_a_new_row(ran_s: float, row: int) -> None:
    tried = Restarts(times=(later(NOW, -10), later(NOW, -5)), row=2, total=2)
    decision = end(running(tried, started_at=later(NOW, -ran_s)))
    assert isinstance(decision, Restart)
    after = decision.restarts
    assert (after.row, after.total, decision.after_s) == (row, 3, 5 * 2 ** (row - 1))


def test_restart_remembers_the_crash_and_its_own_time() -> None:
    decision = end(running(), Exit(None, 9))
    assert isinstance(decision, Restart)
    after = decision.restarts
    assert (after.times, after.next_at) == ((NOW,), later(NOW, 5))
    assert last_exit(running(after)) == Exit(None, 9)
    assert is_waiting(running(after))
    assert not is_waiting(running(replace(after, next_at=None)))
    assert not is_waiting(running(None))


def test_reason_says_how_often_it_was_tried() -> None:
    for most, words in ((1, "1 restart in 15 minutes"), (3, "3 restarts in 15 minutes")):
        decision = end(running(Restarts(most, times=(NOW,) * most, row=most)))
        assert decision == GiveUp(f"gave up after {words}")


# A clock that is set


@pytest.mark.parametrize("step_h", [-48, -5, -1])
def test_restarts_stay_bounded_when_the_clock_is_set_back(step_h: float) -> None:
    at = iso(epoch_s(NOW) + step_h * 3600)
    tried = Restarts(times=(later(NOW, -30), later(NOW, -20), later(NOW, -5)), row=3, total=3)
    assert isinstance(end(running(tried), now=at), GiveUp)


def test_earlier_crashes_are_forgotten_a_window_after_the_clock_was_set_back() -> None:
    back = iso(epoch_s(NOW) - 5 * 3600)
    tried = Restarts(times=(later(NOW, -5),), row=1, total=1)
    first = end(running(tried), now=back)
    assert isinstance(first, Restart)
    assert first.restarts.times == (back, back)
    second = end(running(replace(first.restarts, next_at=None), started_at=back), now=later(back, 901))
    assert isinstance(second, Restart)
    assert second.restarts.count == 1


@pytest.mark.parametrize("step_h", [-48, -5, 5, 48])
def test_crashes_still_count_when_the_clock_is_set_during_the_run(step_h: float) -> None:
    tried = Restarts(times=(later(NOW, -950), later(NOW, -60)), row=2, total=2)
    at = iso(epoch_s(NOW) + step_h * 3600)
    decision = end(running(tried), now=at, ran_s=30)
    assert isinstance(decision, Restart)
    assert (decision.restarts.times, decision.after_s) == ((later(at, -60), at), 20)


def test_clock_set_forward_while_no_daemon_runs_makes_a_run_long_at_most_once() -> None:
    forward = iso(epoch_s(NOW) + 5 * 3600)
    tried = Restarts(times=(later(NOW, -5),) * 3, row=3, total=3)
    decision = end(running(tried), now=forward)
    assert isinstance(decision, Restart)
    assert decision.restarts.count == 1


# The policy


@pytest.mark.parametrize(
    ("requested", "of_type", "expected"),
    [
        (None, "never", None),
        (None, "on-failure", Restarts(7)),
        ("never", "on-failure", None),
        ("on-failure", "never", Restarts(7)),
    ],
)
def test_spawn_overrides_the_policy_of_the_agent_type(
    requested: str | None, of_type: str, expected: Restarts | None
) -> None:
    assert restarts_of(requested, of_type, 7) == expected


@pytest.mark.parametrize("policy", ["", "always", "ON-FAILURE", "on_failure", "never ", "\x1b[31m", "nan"])
def test_unknown_policy_is_refused(policy: str) -> None:
    with pytest.raises(UsageError, match="invalid value for --restart"):
        restarts_of(policy, "never", 3)
