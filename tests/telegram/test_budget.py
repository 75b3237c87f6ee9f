"""The budget of calls: no sequence of calls exceeds the limits, and the order follows the need."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sm.core.telegram_model import BotMethod, Need, Outgoing
from sm.telegram.budget import ALL_PER_SECOND, CHAT_BURST, GROUP_PER_MINUTE, CallBudget, next_call

GROUP, PRIVATE = -1_001_000_000_001, 1001
CHATS = st.sampled_from([GROUP, GROUP - 1, PRIVATE, PRIVATE + 1, None])
NEEDS = st.sampled_from(list(Need))
# Multiples of a power of two: sums of the times are exact.
PAUSES = st.sampled_from([0.0, 0.125, 0.5, 1.0, 8.0])


def call(id: int, chat_id: int | None = PRIVATE, need: Need = Need.ANSWER) -> Outgoing:
    return Outgoing(id, chat_id, BotMethod.SEND_MESSAGE, {"text": "x"}, need, "")


def most_within(times: list[float], window_s: float) -> int:
    """The largest number of times in any half-open window of this length."""
    return max((sum(start <= at < start + window_s for at in times) for start in times), default=0)


@given(st.lists(st.tuples(PAUSES, CHATS, NEEDS), max_size=200))
def test_calls_that_the_budget_allows_never_exceed_a_limit(
    tries: list[tuple[float, int | None, Need]],
) -> None:
    budget, now = CallBudget(), 1000.0
    made: list[tuple[float, int | None, Need]] = []
    for pause, chat, need in tries:
        now += pause
        if budget.wait_s(chat, need, now) <= 0:
            budget.spend(chat, now)
            made.append((now, chat, need))
    assert most_within([at for at, _, _ in made], 1.0) <= ALL_PER_SECOND
    for chat in {chat for _, chat, _ in made} - {None}:
        times = [at for at, other, _ in made if other == chat]
        assert all(most_within(times, span) <= CHAT_BURST + span for span in (1.0, 2.0, 10.0))
        if chat is not None and chat < 0:
            assert most_within(times, 60.0) <= GROUP_PER_MINUTE[Need.ANSWER]
            progress = [at for at, other, need in made if other == chat and need is Need.PROGRESS]
            assert most_within(progress, 60.0) <= GROUP_PER_MINUTE[Need.PROGRESS]


@given(st.lists(st.tuples(st.sampled_from([0.5, 1.0, 2.0]), NEEDS), min_size=60, max_size=150))
def test_calls_to_one_busy_group_never_exceed_the_limits_of_a_minute(tries: list[tuple[float, Need]]) -> None:
    budget, now = CallBudget(), 1000.0
    made: list[tuple[float, Need]] = []
    for pause, need in tries:
        now += pause
        if budget.wait_s(GROUP, need, now) <= 0:
            budget.spend(GROUP, now)
            made.append((now, need))
    for least, most in GROUP_PER_MINUTE.items():
        # Calls of less need stop earlier, so that those of more need find room.
        for at, need in made:
            if need >= least:
                assert sum(at - 60 < other <= at for other, _ in made) <= most


@given(st.lists(st.tuples(PAUSES, CHATS, NEEDS), max_size=100), CHATS, NEEDS)
def test_call_is_allowed_after_the_wait_that_the_budget_named(
    tries: list[tuple[float, int | None, Need]], chat: int | None, need: Need
) -> None:
    budget, now = CallBudget(), 1000.0
    for pause, other, of in tries:
        now += pause
        if budget.wait_s(other, of, now) <= 0:
            budget.spend(other, now)
    wait = budget.wait_s(chat, need, now)
    assert wait <= 60
    assert budget.wait_s(chat, need, now + wait) <= 1e-9


def test_chat_allows_a_burst_of_three_and_then_one_each_second() -> None:
    budget = CallBudget()
    for _ in range(3):
        assert budget.wait_s(PRIVATE, Need.ANSWER, 0.0) == 0
        budget.spend(PRIVATE, 0.0)
    assert budget.wait_s(PRIVATE, Need.ANSWER, 0.0) == 1.0
    assert budget.wait_s(PRIVATE + 1, Need.ANSWER, 0.0) == 0
    assert budget.wait_s(None, Need.ANSWER, 0.0) == 0


def test_progress_leaves_a_part_of_a_groups_minute_to_requests() -> None:
    budget = CallBudget()
    for second in range(60):
        if budget.wait_s(GROUP, Need.PROGRESS, float(second)) <= 0:
            budget.spend(GROUP, float(second))
    assert budget.wait_s(GROUP, Need.PROGRESS, 59.5) == 0.5
    assert budget.wait_s(GROUP, Need.REQUEST, 59.5) == 0


@given(st.integers(1, 5000))
def test_closed_chat_allows_no_call_before_its_time(retry_after_s: int) -> None:
    budget = CallBudget()
    budget.spend(PRIVATE, 10.0)
    budget.close(PRIVATE, 10.0 + retry_after_s)
    budget.close(PRIVATE, 10.5)
    assert budget.wait_s(PRIVATE, Need.ANSWER, 10.0) == retry_after_s
    assert budget.wait_s(PRIVATE, Need.ANSWER, 9.5 + retry_after_s) == 0.5
    assert budget.wait_s(PRIVATE, Need.ANSWER, 10.0 + retry_after_s) == 0
    assert budget.wait_s(PRIVATE + 1, Need.ANSWER, 10.0) == 0


def test_supergroup_inherits_the_budget_of_its_group() -> None:
    budget = CallBudget()
    for _ in range(3):
        budget.spend(-500, 0.0)
    budget.move(-500, GROUP)
    assert budget.wait_s(GROUP, Need.ANSWER, 0.0) == 1.0
    budget.move(-501, GROUP)
    assert budget.wait_s(GROUP, Need.ANSWER, 0.0) == 1.0


@given(st.lists(st.tuples(CHATS, NEEDS), max_size=40))
def test_next_call_is_the_most_needed_and_oldest_that_may_be_made(
    waiting: list[tuple[int | None, Need]],
) -> None:
    budget = CallBudget()
    budget.close(GROUP, 100.0)
    calls = [call(id, chat, need) for id, (chat, need) in enumerate(waiting, 1)]
    due = next_call(reversed(calls), budget, 0.0)
    open = [each for each in calls if each.chat_id != GROUP]
    if open:
        assert due.call == min(open, key=lambda each: (each.need, each.id))
    else:
        assert (due.call, due.wait_s) == (None, 100.0 if calls else None)


@given(st.lists(st.tuples(CHATS, NEEDS), max_size=60))
def test_every_waiting_call_is_made_in_order_within_its_chat_and_need(
    waiting: list[tuple[int | None, Need]],
) -> None:
    budget, now = CallBudget(), 0.0
    left = {id: call(id, chat, need) for id, (chat, need) in enumerate(waiting, 1)}
    made: list[Outgoing] = []
    for _ in range(500):
        due = next_call(left.values(), budget, now)
        if due.call is not None:
            budget.spend(due.call.chat_id, now)
            made.append(left.pop(due.call.id))
        elif due.wait_s is None:
            break
        else:
            now += due.wait_s + 1e-9
    assert not left
    for chat_id, need in {(each.chat_id, each.need) for each in made}:
        ids = [each.id for each in made if (each.chat_id, each.need) == (chat_id, need)]
        assert ids == sorted(ids)


def test_call_is_allowed_after_its_wait_also_where_sums_of_times_are_rounded() -> None:
    chance, budget, now = random.Random(1), CallBudget(), 0.1
    for _ in range(2000):
        now += chance.uniform(0, 0.5)
        now += budget.wait_s(PRIVATE, Need.ANSWER, now)
        assert budget.wait_s(PRIVATE, Need.ANSWER, now) == 0
        budget.spend(PRIVATE, now)
