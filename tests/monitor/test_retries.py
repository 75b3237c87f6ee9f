"""Retries of failed turns, with a real database. The test plays the failures, the prompts and the clock."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.accounts.tables import PART
from sm.config import Config
from sm.core.faults import Fault, FaultKind
from sm.core.models import Session, Signal
from sm.core.observation import Activity, Observation, Source
from sm.core.requests import Question
from sm.core.states import MessageState, RequestKind, SignalKind
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, iso
from sm.errors import NoTerminal
from sm.monitor.evidence import Verdict
from sm.monitor.recorder import Recorder
from sm.monitor.retries import Retries
from sm.monitor.usage import UsageMeter
from sm.policy.unfinished import TerminalUse
from sm.providers.readers import AcceptedInput
from sm.state.message_steps import send
from sm.state.request_steps import NewRequest, open_request
from sm.state.retries import GO_ON
from sm.state.session_steps import move
from sm.store import Store
from tests import samples
from tests.samples import commit
from tests.state_parts import StateParts, open_parts, with_completion

NOW_S = 1_800_000_000.0
PARENT, CHILD = "aaaa1111", "aaaa2222"
ACCOUNT = Account("claude-1a2b3c4d", "claude", "/c", "d" * 32)
NAMES = {
    FaultKind.OVERLOADED: "the API is overloaded",
    FaultKind.SERVER: "the API failed",
    FaultKind.NETWORK: "no connection to the API",
    FaultKind.THROTTLED: "requests are throttled",
    FaultKind.MODEL: "the model is not available",
    FaultKind.REQUEST: "the API rejects the request",
}


@dataclass
class World:
    store: Store
    parts: StateParts
    recorder: Recorder
    retries: Retries
    use: TerminalUse = field(default_factory=TerminalUse)
    error: Exception | None = None
    now_s: float = NOW_S

    @property
    def session(self) -> Session:
        return self.store.sessions[CHILD]

    async def fail(
        self, kind: FaultKind = FaultKind.OVERLOADED, source: Source = Source.HOOK, turn: str | None = None
    ) -> None:
        """End a turn with a fault."""
        self.now_s += 1
        fault = Fault(kind, "API Error: 529", NAMES[kind])
        failed = Observation(
            source, Activity.IDLE, self.now_s, f"the turn failed: {fault.name}", turn, final=True, answer="",
            fault=fault,
        )  # fmt: skip
        await self.recorder.record_fault(CHILD, failed)
        await self.recorder.follow(self.session, Verdict(failed, {}))

    async def prompt(self) -> None:
        """Begin a turn with a prompt."""
        self.now_s += 1
        await self.retries.prompt_accepted(CHILD, AcceptedInput("go on", self.now_s), Source.HOOK)
        await self.parts.observe(CHILD, Signal(SignalKind.BUSY, "hook", "a turn began", iso(self.now_s)))

    async def succeed(self) -> None:
        self.now_s += 1
        await self.retries.turn_ended(CHILD, self.now_s)
        signal = Signal(SignalKind.WENT_IDLE, "hook", "the turn ended", iso(self.now_s))
        await self.parts.observe(CHILD, signal)

    def timer(self, kind: TimerKind = TimerKind.RETRY) -> Timer | None:
        return self.store.mail.open.timers.get((CHILD, kind))

    async def fire(self) -> float | None:
        """Call the handler of the retry, at its time."""
        timer = self.timer()
        assert timer is not None
        self.now_s = max(self.now_s, epoch_s(timer.due_at))
        return await self.retries.send(timer)

    async def retry(self) -> None:
        """Let the retry come, arrive and begin its turn."""
        assert await self.fire() is None
        async with self.store.transaction() as tx:
            for message in list(tx.mail.open.messages.values()):
                tx.mail.move_message(message, MessageState.SUBMITTED, tx.now, submitted_at=tx.now)
        await self.prompt()

    async def sent(self) -> list[str]:
        ids = [m.id for m in await self.store.mail.messages([CHILD], 100)]
        return list((await self.store.mail.texts(ids)).values())

    def told(self) -> dict[str | None, str]:
        return {n.recipient: n.text for n in self.store.mail.open.notices.values() if n.session_id == CHILD}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    worlds: list[World] = []

    def now() -> str:
        return iso(worlds[0].now_s if worlds else NOW_S)

    async def use(session: Session) -> TerminalUse:
        if worlds[0].error is not None:
            raise worlds[0].error
        return worlds[0].use

    async with open_parts(tmp_path, now) as (store, parts):
        async with store.transaction() as tx:
            tx.part(PART).put(ACCOUNT)
            for session_id, parent in ((PARENT, None), (CHILD, PARENT)):
                live = samples.session(session_id, parent=parent, status=Status.RUNNING)
                terminal = f"claude-{session_id}"
                await tx.insert(
                    replace(live, provider="claude", terminal=terminal, account=ACCOUNT.name),
                    samples.LAUNCH,
                    "Fix the tests",
                )
        config = Config()
        recorder = Recorder(
            store,
            parts.notices,
            parts.faults,
            parts.providers,
            UsageMeter(store, config, now),
            [with_completion(store, parts)],
        )
        worlds.append(World(store, parts, recorder, Retries(store, use)))
        yield worlds[0]


@pytest.mark.parametrize(
    "kind", [FaultKind.OVERLOADED, FaultKind.SERVER, FaultKind.NETWORK, FaultKind.THROTTLED]
)
async def test_fault_of_the_service_sends_go_on_three_times_and_then_tells_once(
    world: World, kind: FaultKind
) -> None:
    for pause_s in (30, 120, 600):
        await world.fail(kind)
        timer = world.timer()
        assert timer is not None
        assert (timer.within_s, epoch_s(timer.due_at)) == (pause_s, world.now_s + pause_s)
        assert world.told() == {}
        await world.retry()
    await world.fail(kind)
    assert await world.sent() == [GO_ON] * 3
    assert set(world.told()) == {None, PARENT}
    for text in world.told().values():
        assert f"does not go on after 3 retries: the turn failed: {NAMES[kind]}: API Error: 529" in text
    assert (world.timer(), world.timer(TimerKind.RETRIED)) == (None, None)


@pytest.mark.parametrize("kind", [FaultKind.MODEL, FaultKind.REQUEST])
async def test_fault_that_would_repeat_is_told_and_not_retried(world: World, kind: FaultKind) -> None:
    await world.fail(kind)
    assert world.timer() is None
    assert set(world.told()) == {None, PARENT}


async def test_pending_retry_is_in_the_reason_and_in_the_event(world: World) -> None:
    await world.fail()
    assert "the API is overloaded; retry 1 of 3 at " in world.session.status_reason
    (event,) = [e for e in await world.store.events(sessions=[CHILD]) if "fault" in e.metadata]
    assert "retry 1 of 3 at " in event.message
    assert "does not go on" not in event.message


async def test_retries_are_counted_anew_after_a_turn_that_succeeded(world: World) -> None:
    await world.fail()
    await world.retry()
    await world.succeed()
    await world.prompt()
    await world.fail()
    timer = world.timer()
    assert timer is not None
    assert timer.data["number"] == 1


async def test_late_report_of_an_earlier_success_counts_nothing_anew(world: World) -> None:
    before_s = world.now_s
    await world.fail()
    await world.retries.turn_ended(CHILD, before_s)
    await world.retry()
    await world.retries.turn_ended(CHILD, before_s)
    await world.fail()
    timer = world.timer()
    assert timer is not None
    assert timer.data["number"] == 2


async def test_prompt_in_between_cancels_the_retry_and_ends_its_row(world: World) -> None:
    await world.fail()
    await world.retry()
    await world.fail()
    pending = world.timer()
    assert pending is not None
    await world.prompt()
    assert await world.retries.send(pending) is None
    assert await world.sent() == [GO_ON]
    await world.fail()
    timer = world.timer()
    assert timer is not None
    assert timer.data["number"] == 1


async def test_report_of_an_earlier_prompt_does_not_cancel_the_retry(world: World) -> None:
    accepted = AcceptedInput("go on", world.now_s)
    await world.fail()
    await world.retries.prompt_accepted(CHILD, accepted, Source.TRANSCRIPT)
    assert world.timer() is not None


async def test_retry_is_sent_once_when_its_timer_is_handled_twice(world: World) -> None:
    await world.fail()
    timer = world.timer()
    assert timer is not None
    assert [await world.retries.send(timer) for _ in range(2)] == [None, None]
    assert await world.sent() == [GO_ON]


@pytest.mark.parametrize("source", [Source.HOOK, Source.TRANSCRIPT])
async def test_second_report_of_a_failure_adds_no_retry(world: World, source: Source) -> None:
    other = Source.TRANSCRIPT if source is Source.HOOK else Source.HOOK
    await world.fail(source=source)
    first = world.timer()
    await world.fail(source=other)
    assert world.timer() == first
    await world.retry()
    await world.fail(source=source)
    await world.fail(source=other)
    timer = world.timer()
    assert timer is not None
    assert timer.data["number"] == 2


async def test_second_report_is_that_of_the_retry_if_it_failed_after_the_retry(world: World) -> None:
    """Either source may be the first, and a short back-off is over before a busy machine reports twice."""
    await world.fail(source=Source.TRANSCRIPT)
    timer = world.timer()
    assert timer is not None
    world.now_s += 0.1
    assert await world.retries.send(timer) is None
    await world.fail(source=Source.HOOK)
    again = world.timer()
    assert again is not None
    assert again.data["number"] == 2


async def park(world: World) -> None:
    parked = Park(ParkKind.OPERATOR, "paused by the operator", NOW_S, account=ACCOUNT.name)
    async with world.store.transaction() as tx:
        tx.part(PART).park(parked)


async def ask(world: World) -> None:
    asked = NewRequest(RequestKind.QUESTION, (Question("Which one?"),))
    await commit(
        world.store,
        lambda tx: open_request(tx, world.parts.notices, tx.session(CHILD), asked, tx.now, None),
    )


async def message(world: World) -> None:
    async with world.store.transaction() as tx:
        send(tx, CHILD, "operator", "stop that")


async def type_draft(world: World) -> None:
    world.use = TerminalUse(draft=True)


async def hide_terminal(world: World) -> None:
    world.error = NoTerminal("claude-aaaa2222")


@pytest.mark.parametrize("hold", [park, ask, message, type_draft, hide_terminal])
async def test_retry_waits_while_something_holds_it(world: World, hold: object) -> None:
    await world.fail()
    assert callable(hold)
    await hold(world)
    assert await world.fire() == 5.0
    assert GO_ON not in await world.sent()
    assert world.timer() is not None


async def test_retry_waits_while_the_status_says_that_the_session_works(world: World) -> None:
    await world.fail()
    signal = Signal(SignalKind.BUSY, "title", "a spinner", iso(world.now_s + 1))
    await world.parts.observe(CHILD, signal)
    assert await world.fire() == 5.0
    assert world.timer() is not None


async def test_end_of_the_session_removes_its_retry(world: World) -> None:
    await world.fail()
    done = Signal(SignalKind.REPORTED_COMPLETED, "report", "done", iso(world.now_s + 1))
    await commit(world.store, lambda tx: move(tx, world.parts.notices, CHILD, done))
    assert world.timer() is None


async def test_retries_long_ago_are_forgotten(world: World) -> None:
    await world.fail()
    await world.retry()
    forgotten = world.timer(TimerKind.RETRIED)
    assert forgotten is not None
    assert forgotten.within_s == 3600
    await world.retries.forget(forgotten)
    await world.fail()
    timer = world.timer()
    assert timer is not None
    assert timer.data["number"] == 1
