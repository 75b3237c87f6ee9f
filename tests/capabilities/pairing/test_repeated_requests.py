"""Requests for pairing of unknown users: replies, limits and expiry, without a clock."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.pairing.model import PairRequest, PairState
from sm.capabilities.pairing.repeated_requests import (
    EXPIRES_S,
    OPEN_MAX,
    REPLY_EVERY_S,
    PairDecision,
    decide_request,
    has_expired,
    open_requests,
)
from sm.core.telegram_model import telegram_user
from sm.core.timestamps import later
from tests.samples import AT

USER = "telegram:4711"
OPEN = PairRequest(1, USER, "Ada", PairState.OPEN, AT, AT)


def others(count: int) -> list[PairRequest]:
    return [replace(OPEN, id=n, user=f"telegram:{n}") for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("known", "after_s", "decision"),
    [
        ([], 0, PairDecision.OPEN),
        ([OPEN], 0, PairDecision.TOO_SOON),
        ([OPEN], REPLY_EVERY_S - 1, PairDecision.TOO_SOON),
        ([OPEN], REPLY_EVERY_S, PairDecision.REPEAT),
        ([OPEN], EXPIRES_S - 1, PairDecision.REPEAT),
        ([OPEN], EXPIRES_S, PairDecision.OPEN),
        ([OPEN], -10, PairDecision.REPEAT),  # the clock was set back
        ([replace(OPEN, replied_at=later(AT, 700))], 1000, PairDecision.TOO_SOON),
        ([replace(OPEN, state=PairState.DENIED)], 5000, PairDecision.DENIED),
        ([replace(OPEN, state=PairState.DENIED)], EXPIRES_S, PairDecision.OPEN),
        ([replace(OPEN, state=PairState.APPROVED)], 1, PairDecision.TOO_SOON),
        ([replace(OPEN, state=PairState.APPROVED)], REPLY_EVERY_S, PairDecision.OPEN),
        (others(OPEN_MAX - 1), 0, PairDecision.OPEN),
        (others(OPEN_MAX), 0, PairDecision.FULL),
        (others(OPEN_MAX), EXPIRES_S, PairDecision.OPEN),
        ([*others(OPEN_MAX), replace(OPEN, id=99)], REPLY_EVERY_S, PairDecision.REPEAT),
        ([replace(r, state=PairState.DENIED) for r in others(50)], 0, PairDecision.OPEN),
    ],
)
def test_decide_request_replies_once_in_ten_minutes_and_keeps_at_most_twenty_open(
    known: list[PairRequest], after_s: float, decision: PairDecision
) -> None:
    assert decide_request(USER, known, later(AT, after_s)) is decision


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5000)), max_size=200))
def test_any_sequence_of_requests_keeps_the_limits(asked: list[tuple[int, int]]) -> None:
    known: dict[int, PairRequest] = {}
    replies: dict[str, list[float]] = {}
    at_s = 0.0
    for number, pause_s in asked:
        at_s += pause_s
        now, user = later(AT, at_s), telegram_user(number)
        known = {n: r for n, r in known.items() if not has_expired(r, now)}
        match decide_request(user, known.values(), now):
            case PairDecision.OPEN:
                request = PairRequest(len(asked) + len(replies), user, "x", PairState.OPEN, now, now)
                known[number] = request
                replies.setdefault(user, []).append(at_s)
            case PairDecision.REPEAT:
                known[number] = replace(known[number], replied_at=now)
                replies[user].append(at_s)
            case _:
                pass
        assert len(open_requests(known.values(), now)) <= OPEN_MAX
    for times in replies.values():
        assert all(b - a >= REPLY_EVERY_S for a, b in pairwise(times))


@pytest.mark.parametrize("number", [-1, 0, 2**52, 2**60])
def test_telegram_user_refuses_a_number_that_no_user_can_have(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        telegram_user(number)
    assert telegram_user(2**52 - 1) == f"telegram:{2**52 - 1}"
