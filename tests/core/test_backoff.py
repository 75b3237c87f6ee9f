"""Delays between retries."""

from sm.core.backoff import Backoff


def test_backoff_doubles_the_delay_up_to_the_maximum() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_backoff_starts_with_the_first_delay_again_after_reset() -> None:
    backoff = Backoff(1.0, 30.0)
    first = [backoff.next_s() for _ in range(3)]
    backoff.reset()
    assert [backoff.next_s() for _ in range(3)] == first
