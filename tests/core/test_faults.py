"""Faults in words."""

import time
from collections.abc import Iterator

import pytest

from sm.core.faults import Fault, FaultKind, fault_reason

AT = 1_795_608_000.0  # 2026-11-25T12:00:00Z


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("resets_at", "words"),
    [
        (AT + 3600, "session limit, resets 08:00"),
        (AT + 23 * 3600, "session limit, resets 06:00"),
        (AT + 24 * 3600 + 60, "session limit, resets Nov 26 07:01"),
        (None, "session limit, resets at an unknown time"),
    ],
)
def test_reason_of_a_quota_has_the_local_time_of_its_reset(resets_at: float | None, words: str) -> None:
    assert fault_reason(Fault(FaultKind.QUOTA, "x", "session limit", resets_at), AT) == words


def test_reason_of_another_fault_has_the_words_of_the_agent() -> None:
    fault = Fault(FaultKind.SERVER, "API Error: 500", "the API failed")
    assert fault_reason(fault, AT) == "the turn failed: the API failed: API Error: 500"
    assert fault_reason(Fault(FaultKind.UNKNOWN, "", "unknown error"), AT) == "the turn failed: unknown error"
