"""Retries of failed turns: the whole grid."""

import pytest

from sm.core.faults import FaultKind
from sm.policy.retries import RetryLimits, pause_before_retry_s

LIMITS = RetryLimits(3, (30, 120, 600))
RETRIED = {FaultKind.THROTTLED, FaultKind.OVERLOADED, FaultKind.SERVER, FaultKind.NETWORK}


@pytest.mark.parametrize("tries", range(5))
@pytest.mark.parametrize("kind", FaultKind)
def test_each_fault_is_retried_or_is_only_told(kind: FaultKind, tries: int) -> None:
    expected = (30.0, 120.0, 600.0)[tries] if kind in RETRIED and tries < 3 else None
    assert pause_before_retry_s(kind, tries, LIMITS) == expected


@pytest.mark.parametrize(
    ("limits", "tries", "expected"),
    [(RetryLimits(0, (30,)), 0, None), (RetryLimits(5, (30, 60)), 4, 60), (RetryLimits(3, ()), 0, None)],
)
def test_retries_follow_their_configuration(limits: RetryLimits, tries: int, expected: float | None) -> None:
    assert pause_before_retry_s(FaultKind.OVERLOADED, tries, limits) == expected
