"""Twenty agents at work in one group: the limits of Telegram hold, and no request waits for progress."""

import asyncio
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.telegram_model import BotMethod, Need, NewCall, Outgoing
from sm.services import TelegramLink
from sm.store import Store
from sm.telegram.budget import CallBudget, next_call
from sm.telegram.client import BotClient
from tests.fast_time import FastTime
from tests.telegram.conftest import sender
from tests.telegram_api import SentMessage, TelegramApi

GROUP = -1_001_000_000_001
AGENTS = 20
WORK_S = 600.0
PROGRESS_S = 20.0
PER_MINUTE = 18
CARD_WITHIN_S = 3.0
_CALL_S = 0.05
"""The duration of a call in the simulation."""


@dataclass(frozen=True, slots=True, order=True)
class Want:
    """A call that an agent causes at a time. A newer call of a subject replaces the waiting one."""

    at: float
    need: Need
    subject: str


def work(seed: int) -> list[Want]:
    """Ten minutes of 20 agents: progress every 20 s, a request of each with the edit after its answer, an ending."""
    chance = random.Random(seed)
    wants = []
    for agent in range(AGENTS):
        first = chance.uniform(0, PROGRESS_S)
        ticks = int((WORK_S - first) // PROGRESS_S) + 1
        wants += [Want(first + n * PROGRESS_S, Need.PROGRESS, f"progress {agent}") for n in range(ticks)]
        # Three agents ask in each minute and a half.
        asked = 90 * (agent // 3) + 30 * (agent % 3) + chance.uniform(0, 5)
        wants.append(Want(asked, Need.REQUEST, f"card {agent}"))
        wants.append(Want(asked + chance.uniform(6, 20), Need.ANSWER, f"outcome {agent}"))
        wants.append(Want(chance.uniform(0, WORK_S), Need.ENDING, f"ending {agent}"))
    return sorted(wants)


@dataclass(slots=True)
class Simulation:
    """The queue and the budget, without a connection. `made`: each call with the time at which it was made."""

    wants: Sequence[Want]
    made: list[tuple[float, Want]] = field(default_factory=list)

    def run(self, until_s: float = 3600.0) -> None:
        budget, now = CallBudget(), 0.0
        queue: dict[str, tuple[Want, Outgoing]] = {}
        coming = list(reversed(self.wants))
        while (coming or queue) and now < until_s:
            while coming and coming[-1].at <= now:
                want = coming.pop()
                if want.subject not in queue:
                    id = len(self.wants) - len(coming)
                    call = Outgoing(id, GROUP, BotMethod.EDIT_MESSAGE_TEXT, {}, want.need, "")
                    queue[want.subject] = want, call
            due = next_call((call for _, call in queue.values()), budget, now)
            if due.call is not None:
                subject = next(name for name, (_, call) in queue.items() if call is due.call)
                self.made.append((now, queue.pop(subject)[0]))
                budget.spend(GROUP, now)
                now += _CALL_S
            else:
                next_want = coming[-1].at if coming else until_s
                now = min(next_want, now + (until_s if due.wait_s is None else due.wait_s)) + 1e-6

    def waits(self, *needs: Need) -> Iterator[float]:
        return (at - want.at for at, want in self.made if want.need in needs)


def most_in_a_minute(times: Sequence[float]) -> int:
    return max(sum(start <= at < start + 60 for at in times) for start in times)


@pytest.mark.parametrize("seed", range(5))
def test_cards_of_twenty_agents_come_within_three_seconds(seed: int) -> None:
    simulation = Simulation(work(seed))
    simulation.run()
    assert most_in_a_minute([at for at, _ in simulation.made]) <= PER_MINUTE
    waits = list(simulation.waits(Need.REQUEST, Need.ANSWER))
    assert len(waits) == 2 * AGENTS
    assert max(waits) <= CARD_WITHIN_S
    assert len(list(simulation.waits(Need.ENDING))) == AGENTS
    assert len(list(simulation.waits(Need.PROGRESS))) >= WORK_S / 60, "progress is shown too"


@given(
    st.lists(st.floats(60, 90), min_size=1, max_size=5), st.lists(st.floats(6, 40), min_size=3, max_size=3)
)
def test_three_requests_a_minute_and_their_outcomes_never_wait_for_reports(
    gaps: list[float], answered_after: list[float]
) -> None:
    times = [sum(gaps[:number]) for number in range(1, len(gaps) + 1)]
    asked = [
        Want(at + after, need, f"{need} {number} {at}")
        for at in times
        for number, delay in enumerate(answered_after)
        for need, after in ((Need.REQUEST, 0.0), (Need.ANSWER, delay))
    ]
    rest = [
        Want(float(at), need, f"{need} {at % 5}")
        for at in range(int(times[-1]))
        for need in (Need.ENDING, Need.PROGRESS)
    ]
    simulation = Simulation(sorted([*asked, *rest]))
    simulation.run(times[-1] + 60)
    waits = list(simulation.waits(Need.REQUEST, Need.ANSWER))
    assert len(waits) == len(asked)
    assert max(waits) <= CARD_WITHIN_S + _CALL_S


@pytest.mark.full  # each pause is a tenth of a real second
@pytest.mark.skipif(os.environ.get("SM_LONG") != "1", reason="600 times of a fast clock: SM_LONG=1 runs it")
def test_twenty_agents_in_one_group_stay_below_the_limits_of_the_server(path: str) -> None:
    loop = FastTime()
    with TelegramApi(now=loop.time) as api, asyncio.Runner(loop_factory=lambda: loop) as runner:
        api.world.enforces_limits = True
        api.group(GROUP, "Fleet", is_forum=True, is_admin=True)
        began = runner.run(_ten_minutes(path, loop, api))
    calls = [call for call in api.calls if call.chat_id == GROUP]
    assert {call.status for call in calls} == {200}
    assert most_in_a_minute([call.at for call in calls]) <= PER_MINUTE
    cards = {call.parameters["text"]: call.at for call in calls if call.method == "sendMessage"}
    asked = {want.subject: want.at for want in work(0) if want.need is Need.REQUEST}
    assert len(asked) == AGENTS
    assert max(cards[card] - began - at for card, at in asked.items()) <= CARD_WITHIN_S


async def _ten_minutes(path: str, loop: FastTime, api: TelegramApi) -> float:
    """Queue the calls of `work` at their times; return the time of the begin."""
    shown = [SentMessage(GROUP, 10_000 + n, 0, api.world.bot, "progress", "progress") for n in range(AGENTS)]
    api.change(lambda world: [world.add_message(message) for message in shown])
    loop.skip_after(0.1)
    async with await Store.open(path) as store, BotClient(api.token, api.url) as client:
        sending = asyncio.create_task(sender(store, client, TelegramLink(loop.time), loop.time).run())
        began = loop.time()
        for number, want in enumerate(work(0)):
            await asyncio.sleep(max(0.0, began + want.at - loop.time()))
            async with store.transaction() as tx:
                await tx.telegram.queue(_call(want, number))
        assert await store.wait_until(lambda: not store.mail.open.outgoing, WORK_S)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
    return began


def _call(want: Want, number: int) -> NewCall:
    agent = int(want.subject.split()[1])
    if want.need in (Need.REQUEST, Need.ENDING):
        return NewCall(GROUP, BotMethod.SEND_MESSAGE, {"text": want.subject}, want.need, want.subject)
    edit = {"message_id": 10_000 + agent, "text": f"{want.subject}, change {number}"}
    return NewCall(GROUP, BotMethod.EDIT_MESSAGE_TEXT, edit, want.need, want.subject)
