"""Parks after failed turns, and the order in which sessions go on: the whole grid."""

from dataclasses import replace

import pytest

from sm.capabilities.accounts.model import Park, ParkKind
from sm.capabilities.accounts.rules import (
    AHEAD_MAX_S,
    WaitingSession,
    followers,
    go_first,
    park,
    retry_pause_s,
)
from sm.core.faults import Fault, FaultKind

NOW = 1_000_000.0
PARKED = {FaultKind.QUOTA, FaultKind.LOGIN, FaultKind.BILLING}
QUOTA = Park(ParkKind.QUOTA, "session limit", NOW - 50, NOW + 100)


def quota(resets_at: float | None, model: str = "", name: str = "session limit") -> Fault:
    return Fault(FaultKind.QUOTA, "You've hit your ...", name, resets_at, model)


@pytest.mark.parametrize("before", [None, QUOTA])
@pytest.mark.parametrize("is_attempt", [False, True])
@pytest.mark.parametrize("kind", sorted(set(FaultKind) - PARKED))
def test_fault_of_the_service_or_the_request_parks_nothing(
    kind: FaultKind, is_attempt: bool, before: Park | None
) -> None:
    assert park(Fault(kind, "x"), NOW, before, is_attempt=is_attempt) is None


@pytest.mark.parametrize("resets_at", [None, NOW - 1, NOW, NOW + AHEAD_MAX_S + 1])
def test_quota_without_a_usable_reset_is_tried_again_with_doubled_pauses(resets_at: float | None) -> None:
    parked = park(quota(resets_at), NOW, None, is_attempt=False)
    pauses: list[float] = []
    now = NOW
    while parked is not None and len(pauses) < 6:
        assert parked.until is not None
        pauses.append(parked.until - now)
        now = parked.until
        fault = quota(None if resets_at is None else min(resets_at, now) if resets_at <= NOW else now + 1e9)
        parked = park(fault, now, parked, is_attempt=True)
        assert parked is not None
        assert parked.since == NOW
    assert pauses == [300, 600, 1200, 2400, 3600, 3600]


def test_quota_waits_for_its_reset() -> None:
    assert park(quota(NOW + 60, "opus", "Opus limit"), NOW, None, is_attempt=False) == Park(
        ParkKind.QUOTA, "Opus limit", NOW, NOW + 60, "opus"
    )


def test_attempt_that_meets_another_limit_waits_for_the_reset_of_that_one() -> None:
    due = QUOTA.until or 0.0
    parked = park(quota(due + 86_400, name="weekly limit"), due, QUOTA, is_attempt=True)
    assert parked == Park(ParkKind.QUOTA, "weekly limit", QUOTA.since, due + 86_400, tries=1)


@pytest.mark.parametrize(
    ("resets_at", "until"),
    [
        (None, QUOTA.until),
        (NOW - 5, QUOTA.until),
        (NOW + 50, QUOTA.until),
        (QUOTA.until, QUOTA.until),
        (NOW + 500, NOW + 500),
    ],
)
def test_turn_of_another_session_changes_a_park_only_with_a_later_reset(
    resets_at: float | None, until: float
) -> None:
    assert park(quota(resets_at), NOW, QUOTA, is_attempt=False) == replace(QUOTA, until=until)


@pytest.mark.parametrize("kind", [FaultKind.LOGIN, FaultKind.BILLING])
@pytest.mark.parametrize("before", [None, QUOTA])
def test_login_and_billing_park_without_a_time(kind: FaultKind, before: Park | None) -> None:
    parked = park(Fault(kind, "Please run /login", "not logged in"), NOW, before, is_attempt=False)
    assert parked == Park(ParkKind(kind.value), "not logged in", NOW)
    again = park(Fault(kind, "Please run /login", "not logged in"), NOW + 5, parked, is_attempt=False)
    assert again == parked


@pytest.mark.parametrize("kind", [ParkKind.LOGIN, ParkKind.BILLING, ParkKind.OPERATOR])
def test_quota_does_not_end_a_park_without_a_time(kind: ParkKind) -> None:
    before = Park(kind, "x", NOW - 5)
    assert park(quota(NOW + 60), NOW, before, is_attempt=False) == before


def test_pause_never_exceeds_an_hour() -> None:
    assert max(retry_pause_s(tries) for tries in (0, 4, 50, 10_000)) == 3600


A, B, C = WaitingSession("a", 3.0), WaitingSession("b", 2.0), WaitingSession("c", 9.0, cut_off=True)


def test_one_session_goes_first_and_the_others_follow_one_by_one() -> None:
    assert go_first([]) is None
    assert go_first([A, B]) == B
    assert go_first([A, B, C]) == C
    assert followers([A, B], NOW, 5) == [(B, NOW + 5), (A, NOW + 10)]
    assert followers([A, B, C], NOW, 0) == [(C, NOW), (B, NOW), (A, NOW)]
    assert followers([], NOW, 5) == []
