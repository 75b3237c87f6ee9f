"""Tests of what follows a finished turn, with a real database. The test plays the turns and the clock's timers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.core.models import Caller, Exit, Session, Signal
from sm.core.observation import Activity, Observation, Source
from sm.core.requests import Request
from sm.core.states import (
    CallerKind,
    EventType,
    MessageState,
    Mode,
    NoticeKind,
    RequestKind,
    RequestState,
    SignalKind,
)
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.core.timestamps import iso
from sm.errors import IllegalTransition, NoTerminal
from sm.monitor.completions import Completions, TurnReader
from sm.monitor.evidence import Verdict
from sm.monitor.recorder import Recorder
from sm.monitor.usage import UsageMeter
from sm.policy.completion import TerminalUse
from sm.sessions.manager import Manager
from sm.sessions.reports import Reports
from sm.state.messages import send
from sm.state.sessions import move
from sm.store import Store
from tests import samples
from tests.samples import commit
from tests.session_manager import open_manager

NOW_S = 1_800_000_000.0
PARENT, CHILD, GRANDCHILD = "aaaa1111", "aaaa2222", "aaaa3333"
DONE = "Done. All 26 tests pass."
CALLER = Caller(CallerKind.SESSION, CHILD)
QUESTION = "Which database should I use, sqlite or postgres?"


@dataclass
class World:
    store: Store
    manager: Manager
    reports: Reports
    recorder: Recorder
    completions: Completions
    use: TerminalUse = field(default_factory=TerminalUse)
    error: Exception | None = None
    now_s: float = NOW_S

    def session(self, session_id: str = CHILD) -> Session:
        return self.store.sessions[session_id]

    async def work(self, session_id: str = CHILD) -> None:
        self.now_s += 1
        signal = Signal(SignalKind.BUSY, "hook", "a turn began", iso(self.now_s))
        await self.manager.observe(session_id, signal)

    async def end_turn(self, text: str, session_id: str = CHILD, *, background: int = 0) -> None:
        """End a turn with the hook of claude; `text` is the final message."""
        self.now_s += 1
        ended = Observation(
            Source.HOOK, Activity.IDLE, self.now_s, "the turn ended", final=True, answer=text, finished=True,
            background=background,
        )  # fmt: skip
        await self.recorder.follow(self.session(session_id), Verdict(ended, {}))

    def timer(self, kind: TimerKind = TimerKind.COMPLETION, session_id: str = CHILD) -> Any:
        return self.store.mail.open.timers.get((session_id, kind))

    async def fire(self, kind: TimerKind = TimerKind.COMPLETION) -> float | None:
        """Call the handler of a timer that is due."""
        handlers = {
            TimerKind.COMPLETION: self.completions.complete,
            TimerKind.UNCLEAR: self.completions.report_unclear,
            TimerKind.REMINDER: self.completions.remind,
        }
        return await handlers[kind](self.timer(kind))

    def notices(self, recipient: str | None = PARENT, about: str = CHILD) -> list[str]:
        found = self.store.mail.open.notices.values()
        return [n.text for n in found if n.recipient == recipient and n.session_id == about]

    def requests(self) -> list[Request]:
        return [r for r in self.store.mail.open.requests.values() if r.open]

    async def events(self) -> list[str]:
        return [e.message for e in await self.store.events(sessions=[CHILD])]

    async def clear_notices(self) -> None:
        async with self.store.transaction() as tx:
            tx.mail.finish_notices(list(tx.mail.open.notices.values()), "heard")


@pytest.fixture
def config() -> dict[str, Any]:
    return {}


@pytest.fixture
async def world(tmp_path: Path, config: dict[str, Any]) -> AsyncIterator[World]:
    settings = Config.model_validate({"child_agents": {"auto_complete": config}})
    worlds: list[World] = []

    def now() -> str:
        return iso(worlds[0].now_s if worlds else NOW_S)

    async def use(session: Session) -> TerminalUse:
        if worlds[0].error is not None:
            raise worlds[0].error
        return worlds[0].use

    async with open_manager(tmp_path, now) as (store, manager):
        for session_id, parent in ((PARENT, None), (CHILD, PARENT), (GRANDCHILD, CHILD)):
            live = samples.session(session_id, parent=parent, status=Status.RUNNING)
            session = replace(live, provider="claude", terminal=f"claude-{session_id}")
            if session_id == GRANDCHILD:
                session = replace(session, status=Status.COMPLETED, exit=Exit(0))
            async with store.transaction() as tx:
                await tx.insert(session, samples.LAUNCH, "Fix the tests")
        reports = Reports(store, manager)
        usage = UsageMeter(store, settings, now)
        recorder = Recorder(store, manager, usage, TurnReader(settings, store))
        worlds.append(
            World(store, manager, reports, recorder, Completions(settings, store, manager, reports, use))
        )
        yield worlds[0]


# ----------------------------------------------------------------------------------------------- completion


async def test_done_turn_completes_the_session_after_the_quiet_window(world: World) -> None:
    await world.end_turn(DONE)
    assert (world.session().status, world.notices()) == (Status.IDLE, [])
    assert await world.fire() is None
    done = world.session()
    assert (done.status, done.status_source) == (Status.COMPLETED, "completion")
    assert done.status_reason == 'done-statement: "Done."'
    assert done.completion_message == DONE
    (notice,) = world.notices()
    assert notice.endswith(f'completed: "{DONE}"')
    assert not world.store.mail.open.timers


async def test_completion_is_told_once_when_the_timer_is_handled_twice(world: World) -> None:
    await world.end_turn(DONE)
    timer = world.timer()
    assert [await world.completions.complete(timer) for _ in range(2)] == [None, None]
    assert len(world.notices()) == 1


async def test_new_turn_in_the_quiet_window_keeps_the_session_live(world: World) -> None:
    await world.end_turn(DONE)
    timer = world.timer()
    await world.work()
    assert world.timer() is None
    await world.completions.complete(timer)
    assert world.session().status is Status.RUNNING


async def test_new_done_turn_starts_a_new_quiet_window(world: World) -> None:
    await world.end_turn(DONE)
    first = world.timer()
    await world.work()
    await world.end_turn(DONE)
    assert await world.completions.complete(first) is not None or world.session().status is Status.IDLE
    assert world.timer() is not None
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_same_end_of_a_turn_that_arrives_twice_has_one_effect(world: World) -> None:
    await world.end_turn(QUESTION)
    world.now_s -= 1
    await world.end_turn(QUESTION)
    assert len(world.requests()) == 1


async def test_end_of_a_turn_counts_when_a_weaker_source_reported_idle_first(world: World) -> None:
    await world.manager.observe(CHILD, Signal(SignalKind.WENT_IDLE, "title", "no spinner", iso(NOW_S)))
    await world.clear_notices()
    await world.end_turn(DONE)
    assert world.timer() is not None
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_report_in_the_quiet_window_ends_the_session_with_its_own_message(world: World) -> None:
    await world.end_turn(DONE)
    await world.reports.complete(CALLER, "my words", "completed", None)
    assert world.timer() is None
    assert world.session().completion_message == "my words"


async def test_report_after_a_detected_completion_replaces_its_message_and_is_not_told_again(
    world: World,
) -> None:
    await world.end_turn(DONE)
    await world.fire()
    await world.reports.complete(CALLER, "my words", "completed", None)
    assert (world.session().status, world.session().completion_message) == (Status.COMPLETED, "my words")
    assert len(world.notices()) == 1
    with pytest.raises(IllegalTransition):
        await world.reports.complete(CALLER, "again", "completed", None)


async def test_report_of_an_error_after_a_detected_completion_is_told(world: World) -> None:
    await world.end_turn(DONE)
    await world.fire()
    await world.reports.complete(CALLER, "it broke", "error", None)
    assert world.session().status is Status.ERROR
    assert [text.partition(": ")[2] for text in world.notices()] == [f'"{DONE}"', '"it broke"']


# -------------------------------------------------------------------------------------------- reasons to wait


async def test_live_child_holds_the_completion_and_gives_the_reason(world: World) -> None:
    await commit(world.store, lambda tx: tx.update(tx.session(GRANDCHILD), exit=None))
    async with world.store.transaction() as tx:
        await move(tx, world.manager.notices, GRANDCHILD, Signal(SignalKind.REOPENED, "t", "more", tx.now))
    await world.clear_notices()
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert (world.session().status, world.session().status_reason) == (Status.IDLE, "waiting for 1 child")
    assert world.notices() == []
    signal = Signal(SignalKind.EXITED, "process", "exited", iso(world.now_s), exit=Exit(0))
    await world.manager.observe(GRANDCHILD, signal)
    assert await world.fire() is not None  # the notice of the ending is on its way
    await world.clear_notices()
    assert await world.fire() is not None  # a quiet window begins
    assert await world.fire() is None
    assert world.session().status is Status.COMPLETED


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (TerminalUse(draft=True), "a draft is in its input box"),
        (TerminalUse(typed_s=5.0), "a person types in its terminal"),
        (TerminalUse(closed="a dialog is open"), "a dialog is open"),
    ],
)
async def test_person_at_the_terminal_holds_the_completion_and_the_parent_hears_of_the_idle_session(
    world: World, use: TerminalUse, words: str
) -> None:
    world.use = use
    await world.end_turn(DONE)
    for _ in range(3):
        assert await world.fire() is not None
    assert world.session().status is Status.IDLE
    assert words in world.session().status_reason
    assert len(world.notices()) == 1
    world.use = TerminalUse()
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_terminal_that_cannot_be_seen_holds_the_completion(world: World) -> None:
    world.error = NoTerminal("no terminal claude-aaaa2222")
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert "cannot be seen" in world.session().status_reason


async def test_background_task_holds_the_completion(world: World) -> None:
    await world.end_turn(DONE, background=1)
    assert await world.fire() is not None
    assert world.session().status_reason == "waiting for 1 background task"


async def test_open_entry_of_the_task_list_holds_the_completion(world: World) -> None:
    todo = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]
    async with world.store.transaction() as tx:
        tx.measures.facts(CHILD, {"todo": todo})
    await world.end_turn(DONE)
    held = world.timer()
    assert held is None or await world.completions.complete(held) is not None
    assert world.session().status is Status.IDLE


async def test_undelivered_message_holds_the_completion(world: World) -> None:
    await world.end_turn(DONE)
    async with world.store.transaction() as tx:
        send(tx, CHILD, "operator", "one more thing")
    assert await world.fire() is not None
    assert world.session().status_reason == "waiting for 1 message"


async def test_dialog_that_a_person_opens_delays_the_completion(world: World) -> None:
    await world.end_turn(DONE)
    await world.manager.observe(CHILD, Signal(SignalKind.ASKED, "screen", "a dialog is open", iso(NOW_S + 9)))
    assert await world.fire() is not None
    assert world.session().status is Status.WAITING_INPUT
    await world.manager.observe(
        CHILD, Signal(SignalKind.WENT_IDLE, "screen", "at its prompt", iso(NOW_S + 9))
    )
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


# ---------------------------------------------------------------------------------------------------- modes


async def set_mode(world: World, mode: Mode) -> None:
    await commit(world.store, lambda tx: tx.update(tx.session(CHILD), mode=mode))


@pytest.mark.parametrize("text", [DONE, QUESTION, "Reading on."])
async def test_nothing_is_detected_in_mode_manual(world: World, text: str) -> None:
    await set_mode(world, Mode.MANUAL)
    await world.end_turn(text)
    assert (world.store.mail.open.timers, world.requests()) == ({}, [])
    assert len(world.notices()) == 1


async def test_supervised_session_proposes_its_completion(world: World) -> None:
    await set_mode(world, Mode.SUPERVISED)
    await world.end_turn(DONE)
    await world.fire()
    (request,) = world.requests()
    assert (request.kind, request.text, request.evidence) == (RequestKind.COMPLETION, DONE, "completion")
    assert world.session().status is Status.IDLE
    assert len(world.notices()) == 1


@pytest.mark.parametrize("config", [{"require_parent_approval": True}])
async def test_required_approval_makes_a_proposal_in_mode_auto(world: World) -> None:
    await world.end_turn(DONE)
    await world.fire()
    assert [r.kind for r in world.requests()] == [RequestKind.COMPLETION]


@pytest.mark.parametrize("config", [{"enabled": False}])
async def test_disabled_detection_reports_only_that_the_session_is_idle(world: World) -> None:
    await world.end_turn(DONE)
    assert (world.store.mail.open.timers, len(world.notices())) == ({}, 1)


# ------------------------------------------------------------------------------------ questions and reports


async def test_question_in_prose_opens_a_request_that_new_work_cancels(world: World) -> None:
    await world.end_turn(QUESTION)
    (request,) = world.requests()
    assert (request.kind, request.text, request.evidence) == (RequestKind.QUESTION, QUESTION, "completion")
    assert world.session().status_reason == f"waiting for {request.name}"
    (notice,) = world.notices()
    assert notice.endswith(f"answer with: sm answer {request.name} TEXT")
    await world.work()
    assert world.requests() == []
    assert (await world.store.mail.request(request.id)).state is RequestState.CANCELLED
    assert world.notices() == []


async def test_failed_work_is_told_once_with_its_words_and_ends_nothing(world: World) -> None:
    await world.end_turn("I could not finish: the build fails and I cannot fix it.")
    assert world.session().status is Status.IDLE
    assert len(world.notices()) == 1


async def test_unclear_session_is_reported_to_the_parent_and_to_the_operator_once(world: World) -> None:
    await world.end_turn("Reading the files.")
    await world.clear_notices()
    timer = world.timer(TimerKind.UNCLEAR)
    assert timer.within_s == 600
    for _ in range(2):
        await world.completions.report_unclear(timer)
    for recipient in (PARENT, None):
        (notice,) = world.notices(recipient)
        assert "it is not clear whether its work is done" in notice
        assert '"Reading the files."' in notice
    events = await world.store.events(sessions=[CHILD], type=EventType.IDLE)
    assert [e.message for e in events].count("Child aaaa2222 is idle: completion unclear") == 1


@pytest.mark.parametrize("config", [{"remind_after_s": (180, 900)}])
async def test_reminders_are_sent_once_for_a_run_and_the_second_is_told_to_the_parent(world: World) -> None:
    texts = []
    for seconds in (180, 900, None):
        await world.end_turn("Reading the files.")
        await world.clear_notices()
        timer = world.timer(TimerKind.REMINDER)
        assert (None if timer is None else timer.within_s) == seconds
        if timer is None:
            break
        for _ in range(2):
            await world.completions.remind(timer)
        (message,) = world.store.mail.open.messages.values()
        texts.append((await world.store.mail.texts([message.id]))[message.id])
        async with world.store.transaction() as tx:
            tx.mail.move_message(message, MessageState.SUBMITTED, tx.now)
        told = [text for text in world.notices() if "has not reported" in text]
        assert len(told) == (0 if seconds == 180 else 1)
        await world.work()
    assert ["sm tells your parent" in text for text in texts] == [False, True]
    assert world.session().reminders == 2


@pytest.mark.parametrize("config", [{"remind_after_s": (180,)}])
async def test_question_gets_no_reminder(world: World) -> None:
    await world.end_turn(QUESTION)
    assert world.timer(TimerKind.REMINDER) is None


async def test_notices_of_idle_sessions_have_their_kind(world: World) -> None:
    await world.end_turn("Reading the files.")
    assert [n.kind for n in world.store.mail.open.notices.values()] == [NoticeKind.IDLE]
