"""Decisions about messages of two sessions that only answer each other."""

import pytest

from sm.capabilities.warnings.model import MessageExchange, Sent
from sm.capabilities.warnings.rules import ExchangeStep, delay_s, next_exchange_step, turns_of
from sm.core.timestamps import later

NOW = "2026-01-27T15:00:00.000Z"
FRESH = MessageExchange("aaaa1111", "bbbb2222")
WARNED = MessageExchange("aaaa1111", "bbbb2222", owner="aaaa1111")


def step(exchange: MessageExchange, ages_s: list[float]) -> ExchangeStep:
    """The step after a message now. `ages_s`: of the messages before it, each an answer to the one before."""
    ordered = [*sorted(ages_s, reverse=True), 0.0]
    sent = [Sent(n, "ab"[n % 2], later(NOW, -age)) for n, age in enumerate(ordered)]
    return next_exchange_step(exchange, sent, limit=4, within_s=300)


def test_several_messages_of_one_without_an_answer_are_one_turn() -> None:
    sent = [Sent(n, sender, f"at {n}") for n, sender in enumerate("aaabaab")]
    assert turns_of(sent) == ["at 0", "at 3", "at 4", "at 6"]


@pytest.mark.parametrize(
    ("ages_s", "expected"),
    [
        ([], ExchangeStep.PASS),
        ([1, 2], ExchangeStep.PASS),
        ([1, 2, 3], ExchangeStep.WARN),
        ([1, 2, 299], ExchangeStep.WARN),
        ([1, 2, 301], ExchangeStep.PASS),
        ([400] * 50, ExchangeStep.PASS),
    ],
)
def test_exchange_warns_at_the_limit_of_messages_within_the_time(
    ages_s: list[float], expected: ExchangeStep
) -> None:
    assert step(FRESH, ages_s) is expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ExchangeStep.OVER), (1, ExchangeStep.SLOW), (6, ExchangeStep.SLOW), (7, ExchangeStep.HOLD)],
)
def test_warned_exchange_slows_until_twice_the_limit_however_long_it_takes(
    number: int, expected: ExchangeStep
) -> None:
    assert step(WARNED, [5000.0] * number) is expected


def test_delays_grow_with_each_message_after_the_warning() -> None:
    assert [delay_s(count, 4) for count in (5, 6, 7, 8, 50)] == [10, 30, 120, 120, 120]
