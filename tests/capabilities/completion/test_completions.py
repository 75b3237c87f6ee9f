"""Tests of what follows a finished turn, with a real database. The test plays the turns and the clock's timers."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bench.completion import judge
from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.accounts.state import release
from sm.capabilities.accounts.tables import PART
from sm.capabilities.completion.listeners import Completions, TurnReader
from sm.capabilities.completion.model import CompletionTimer, TurnFollowUp
from sm.capabilities.completion.settings import AutoComplete
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.tables import PART as PART_OF_WARNINGS
from sm.config import Config
from sm.core.models import Caller, Exit, Session, Signal
from sm.core.observation import Activity, Observation, Source
from sm.core.program_states import ProgramState, ProgramStateOf, unknown_program_state
from sm.core.requests import Question, Request
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
from sm.core.timestamps import iso
from sm.core.turns import TurnWork
from sm.core.warnings import WarningKind
from sm.errors import IllegalTransition, NoTerminal
from sm.monitor.evidence import Verdict
from sm.monitor.recorder import Recorder
from sm.monitor.usage import UsageMeter
from sm.policy.unfinished import TerminalUse
from sm.sessions.reports import Reports
from sm.state.message_steps import send
from sm.state.request_steps import NewRequest, finish_request, open_request
from sm.state.session_steps import move
from sm.store import Store, Transaction
from tests import samples
from tests.capabilities.completion.rules.corpus import endings
from tests.samples import commit
from tests.state_parts import StateParts, open_parts, with_completion, with_warnings

NOW_S = 1_800_000_000.0
PARENT, CHILD, GRANDCHILD = "aaaa1111", "aaaa2222", "aaaa3333"
DONE = "Done. All 26 tests pass."
CALLER = Caller(CallerKind.SESSION, CHILD)
QUESTION = "Which database should I use, sqlite or postgres?"


@dataclass
class World:
    store: Store
    parts: StateParts
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
        await self.parts.observe(session_id, signal)

    async def end_turn(
        self, text: str, session_id: str = CHILD, *, background: int = 0, tools_used: int = 0
    ) -> None:
        """End a turn with the hook of claude; `text` is the final message."""
        self.now_s += 1
        ended = Observation(
            Source.HOOK, Activity.IDLE, self.now_s, "the turn ended", final=True, answer=text, finished=True,
            background=background,
        )  # fmt: skip
        await self.recorder.follow(
            self.session(session_id), Verdict(ended, {}), TurnWork(tools_used=tools_used, whole=True)
        )

    def timer(self, kind: CompletionTimer = CompletionTimer.COMPLETION, session_id: str = CHILD) -> Any:
        return self.store.mail.open.timers.get((session_id, kind))

    async def fire(self, kind: CompletionTimer = CompletionTimer.COMPLETION) -> float | None:
        """Call the handler of a timer that is due."""
        handlers = {
            CompletionTimer.COMPLETION: self.completions.complete,
            CompletionTimer.UNCLEAR: self.completions.report_unclear,
            CompletionTimer.REMINDER: self.completions.remind,
            CompletionTimer.MISSING_REPORT: self.completions.warn_of_missing_report,
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
    settings = AutoComplete.model_validate(config)
    worlds: list[World] = []

    def now() -> str:
        return iso(worlds[0].now_s if worlds else NOW_S)

    async def use(session: Session) -> TerminalUse:
        if worlds[0].error is not None:
            raise worlds[0].error
        return worlds[0].use

    async with open_parts(tmp_path, now) as (store, parts):
        for session_id, parent in ((PARENT, None), (CHILD, PARENT), (GRANDCHILD, CHILD)):
            live = samples.session(session_id, parent=parent, status=Status.RUNNING)
            session = replace(live, provider="claude", terminal=f"claude-{session_id}")
            if session_id == GRANDCHILD:
                session = replace(session, status=Status.COMPLETED, exit=Exit(0))
            async with store.transaction() as tx:
                await tx.insert(session, samples.LAUNCH, "Fix the tests")
        with_warnings(store, parts, WarningsSection())
        reports = Reports(store, parts.authorizer, parts.notices, parts.endings, parts.quota)
        usage = UsageMeter(store, Config(), now)
        recorder = Recorder(
            store,
            parts.notices,
            parts.faults,
            parts.providers,
            usage,
            [with_completion(store, parts, settings)],
        )
        completions = Completions(settings, store, parts.notices, reports, use)
        worlds.append(World(store, parts, reports, recorder, completions))
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
    await world.parts.observe(CHILD, Signal(SignalKind.WENT_IDLE, "title", "no spinner", iso(NOW_S)))
    await world.clear_notices()
    await world.end_turn(DONE)
    assert world.timer() is not None
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_turn_that_an_agent_begins_by_itself_keeps_the_session_live(world: World) -> None:
    """A background task that ends makes claude begin a turn. No prompt precedes this turn."""
    await world.end_turn(DONE, background=1)
    assert await world.fire() is not None
    await world.work()
    assert world.timer() is None
    await world.end_turn("The build is over. Reading its log next.")
    assert world.timer() is None
    assert world.session().status is Status.IDLE


@pytest.mark.parametrize("step_s", [3 * 3600.0, -3 * 3600.0])
async def test_each_turn_is_handled_once_when_the_clock_is_set_between_turns(
    world: World, step_s: float
) -> None:
    await world.end_turn("Reading the files.")
    world.now_s += step_s
    for _ in range(2):
        await world.work()
        await world.end_turn("Reading the files.")
    assert len(world.notices()) == 3
    await world.work()
    await world.end_turn(DONE)
    await world.fire()
    assert world.session().status is Status.COMPLETED
    assert sum("completed" in text for text in world.notices()) == 1


async def test_completed_session_is_reopened_when_the_clock_was_set_back(world: World) -> None:
    await world.end_turn(DONE)
    await world.fire()
    world.now_s -= 3 * 3600
    await world.recorder.reopen(world.session(), "hook", iso(world.now_s))
    assert world.session().status is Status.RUNNING
    await world.end_turn(DONE)
    await world.fire()
    assert world.session().status is Status.COMPLETED
    assert sum("completed" in text for text in world.notices()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Done.\x07\x00 All 26\u202e tests \x1b[201~pass.\x9b1m",
        "Done. All 26 tests pass.\n\n```\n" + "x" * 50_000,
        "Done. " + "All 26 tests pass. " * 2_700,
    ],
    ids=["control characters", "50,000 characters of code in one word", "50,000 characters in one paragraph"],
)
async def test_odd_final_message_completes_the_session_with_a_short_printable_summary(
    world: World, text: str
) -> None:
    await world.end_turn(text)
    await world.fire()
    done = world.session()
    assert (done.status, len(done.completion_message or "") <= 500) == (Status.COMPLETED, True)
    (notice,) = world.notices()
    event = next(line for line in await world.events() if " completed - " in line)
    for shown in (notice, event, done.status_reason):
        assert "Done." in shown
        assert shown.isprintable(), ascii(shown)
        assert len(shown) < 700


@pytest.mark.parametrize("text", ["", "\x00\x1b[0m\x07", "\n \t"])
async def test_final_message_without_words_completes_nothing(world: World, text: str) -> None:
    await world.end_turn(text)
    assert (world.timer(), world.session().status) == (None, Status.IDLE)
    assert world.timer(CompletionTimer.UNCLEAR) is not None


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
        await move(tx, world.parts.notices, GRANDCHILD, Signal(SignalKind.REOPENED, "t", "more", tx.now))
    await world.clear_notices()
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert (world.session().status, world.session().status_reason) == (Status.IDLE, "waiting for 1 child")
    assert world.notices() == []
    signal = Signal(SignalKind.EXITED, "process", "exited", iso(world.now_s), exit=Exit(0))
    await world.parts.observe(GRANDCHILD, signal)
    assert await world.fire() is not None  # the notice of the ending is on its way
    await world.clear_notices()
    assert await world.fire() is not None  # a quiet window begins
    assert await world.fire() is None
    assert world.session().status is Status.COMPLETED


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (TerminalUse(draft=True), "a draft is in its input box"),
        (TerminalUse(stashed=True), "a draft was put aside"),
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
    assert words not in world.session().status_reason
    assert len(world.notices()) == 1
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


async def set_tasks(world: World, *statuses: str) -> None:
    todo = [{"content": "write the docs", "status": status} for status in statuses]
    async with world.store.transaction() as tx:
        tx.measures.facts(CHILD, {"todo": todo})


async def test_open_entry_of_the_task_list_holds_the_completion(world: World) -> None:
    await set_tasks(world, "completed", "in_progress")
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert world.session().status_reason == "waiting for 1 open task of its list"
    await set_tasks(world, "completed", "completed")
    await world.clear_notices()
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_open_request_of_the_agent_holds_the_completion(world: World) -> None:
    asked = NewRequest(RequestKind.QUESTION, (Question("Which port?"),))
    notices = world.parts.notices
    request = await commit(
        world.store, lambda tx: open_request(tx, notices, tx.session(CHILD), asked, tx.now, None)
    )
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert (world.session().status, world.session().status_reason) == (Status.IDLE, "waiting for r1")
    answered = RequestState.ANSWERED
    await commit(
        world.store, lambda tx: finish_request(tx, tx.session(CHILD), request, tx.now, state=answered)
    )
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def test_undelivered_notice_holds_the_completion(world: World) -> None:
    await world.end_turn(DONE)
    await commit(
        world.store,
        lambda tx: world.parts.notices.add_for_unclear(tx, tx.session(GRANDCHILD), ""),
    )
    assert world.notices(CHILD, GRANDCHILD) != []
    assert await world.fire() is not None
    assert world.session().status_reason == "waiting for 1 message"
    await world.clear_notices()
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


@pytest.mark.parametrize(
    ("park", "reason"),
    [
        (Park(ParkKind.OPERATOR, "paused by the operator", NOW_S), "parked: paused by the operator"),
        (Park(ParkKind.LOGIN, "not logged in", NOW_S), "parked: not logged in"),
    ],
    ids=["paused", "parked"],
)
async def test_parked_account_holds_the_completion_until_it_is_free(
    world: World, park: Park, reason: str
) -> None:
    account = Account("claude-1a2b3c4d", "claude", "/c", "d" * 32)
    parked = replace(park, account=account.name)
    async with world.store.transaction() as tx:
        tx.part(PART).put(account)
        tx.part(PART).park(parked)
        await tx.update(tx.session(CHILD), account=account.name)
    await world.end_turn(DONE)
    assert await world.fire() is not None
    assert (world.session().status, world.session().status_reason) == (Status.IDLE, reason)
    await commit(world.store, lambda tx: release(tx, parked, 5.0))
    await world.clear_notices()
    await world.fire()
    await world.fire()
    assert world.session().status is Status.COMPLETED


async def hold_with_message(world: World, tx: Transaction) -> None:
    send(tx, CHILD, "operator", "one more thing")


async def hold_with_tasks(world: World, tx: Transaction) -> None:
    tx.measures.facts(CHILD, {"todo": [{"content": "write the docs", "status": "pending"}]})


async def hold_with_draft(world: World, tx: Transaction) -> None:
    world.use = TerminalUse(draft=True)


async def hold_with_typing(world: World, tx: Transaction) -> None:
    world.use = TerminalUse(typed_s=59.0)


async def hold_with_child(world: World, tx: Transaction) -> None:
    await tx.update(tx.session(GRANDCHILD), exit=None)
    signal = Signal(SignalKind.REOPENED, "t", "more", tx.now)
    await move(tx, world.parts.notices, GRANDCHILD, signal)


HOLDS = [hold_with_message, hold_with_tasks, hold_with_draft, hold_with_typing, hold_with_child]


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("kind", [CompletionTimer.REMINDER, CompletionTimer.UNCLEAR])
@pytest.mark.parametrize("config", [{"remind_after_s": (180,)}])
async def test_nothing_is_reminded_or_reported_as_unclear_while_the_session_waits(
    world: World, kind: CompletionTimer, hold: Any
) -> None:
    await world.end_turn("Reading the files.")
    await world.clear_notices()
    async with world.store.transaction() as tx:
        await hold(world, tx)
    messages, notices = dict(world.store.mail.open.messages), dict(world.store.mail.open.notices)
    assert await world.fire(kind) is not None
    assert (world.store.mail.open.messages, world.store.mail.open.notices) == (messages, notices)
    assert world.timer(kind) is not None
    assert world.session().reminders == 0


async def test_undelivered_message_holds_the_completion(world: World) -> None:
    await world.end_turn(DONE)
    async with world.store.transaction() as tx:
        send(tx, CHILD, "operator", "one more thing")
    assert await world.fire() is not None
    assert world.session().status_reason == "waiting for 1 message"


async def test_waiting_session_is_looked_at_again_only_after_a_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = world.store.measures.facts

    async def counted(session_id: str) -> dict[str, Any]:
        reads.append(session_id)
        return await read(session_id)

    await world.end_turn(DONE)
    await commit(world.store, lambda tx: hold_with_tasks(world, tx))
    assert await world.fire() is not None  # this look records the reason, which is a commit
    assert await world.fire() is not None
    monkeypatch.setattr(world.store.measures, "facts", counted)
    for _ in range(3):
        assert await world.fire() is not None
    assert reads == []
    await commit(world.store, lambda tx: tx.update(tx.session(PARENT), status_reason="another reason"))
    assert await world.fire() is not None
    assert reads == [CHILD]


async def test_dialog_that_a_person_opens_delays_the_completion(world: World) -> None:
    await world.end_turn(DONE)
    await world.parts.observe(CHILD, Signal(SignalKind.ASKED, "screen", "a dialog is open", iso(NOW_S + 9)))
    assert await world.fire() is not None
    assert world.session().status is Status.WAITING_INPUT
    await world.parts.observe(CHILD, Signal(SignalKind.WENT_IDLE, "screen", "at its prompt", iso(NOW_S + 9)))
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


# ------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("config", [{}, {"completion_quiet_s": 3.5}])
async def test_completion_quiet_s_is_the_quiet_window(world: World, config: dict[str, Any]) -> None:
    await world.end_turn(DONE)
    assert world.timer().within_s == config.get("completion_quiet_s", 10)


@pytest.mark.parametrize("config", [{}, {"idle_timeout": 60}])
async def test_idle_timeout_is_the_time_until_the_report(world: World, config: dict[str, Any]) -> None:
    await world.end_turn("Reading the files.")
    assert world.timer(CompletionTimer.UNCLEAR).within_s == config.get("idle_timeout", 600)


@pytest.mark.parametrize("config", [{}, {"detect_completion_phrases": False}])
@pytest.mark.parametrize("text", [DONE, QUESTION])
async def test_messages_are_read_only_if_completion_phrases_are_detected(
    world: World, config: dict[str, Any], text: str
) -> None:
    await world.end_turn(text)
    unread = "detect_completion_phrases" in config
    assert (world.timer(CompletionTimer.UNCLEAR) is not None) is unread
    assert (world.timer() is not None or world.requests() != []) is not unread


FARE_WELL = "Over and out."


@pytest.mark.parametrize("config", [{}, {"completion_patterns": ("over and out",)}])
async def test_completion_pattern_completes_a_session_that_used_tools(
    world: World, config: dict[str, Any]
) -> None:
    await world.end_turn(FARE_WELL, tools_used=2)
    assert (world.timer() is not None) is bool(config)
    if config:
        await world.fire()
        assert world.session().status_reason == 'user-pattern: "Over and out."'


@pytest.mark.parametrize("config", [{"completion_patterns": ("over and out",)}])
@pytest.mark.parametrize(
    ("text", "tools_used"), [(FARE_WELL, 0), ("I was not able to fix it. Over and out.", 2)]
)
async def test_completion_pattern_is_never_enough_alone(world: World, text: str, tools_used: int) -> None:
    await world.end_turn(text, tools_used=tools_used)
    assert world.timer() is None


@pytest.mark.parametrize("config", [{"completion_patterns": ("(a+)+$", "(x|x)*y")}])
async def test_catastrophic_pattern_does_not_delay_a_turn(world: World) -> None:
    await world.end_turn("a" * 49_000 + "! " + "x" * 900, tools_used=1)
    assert world.session().status is Status.IDLE


# ------------------------------------------------------------------------------------ facts of the turn


FLAG = "I removed the flag."
FAILED_WORK = TurnWork("Remove the flag", tools_used=4, errors=2, last_tool_failed=True, whole=True)


async def read_end(
    world: World,
    text: str,
    work: TurnWork,
    background: int = 0,
    program_state: ProgramStateOf = unknown_program_state,
) -> TurnFollowUp:
    """Return the result of a turn that ends with `text`, as the daemon reads it."""
    ended = Observation(
        Source.HOOK, Activity.IDLE, NOW_S, "the turn ended", final=True, answer=text, finished=True,
        background=background,
    )  # fmt: skip
    reader = TurnReader(AutoComplete(), world.store, program_state)
    follow_up = await reader.follow_up(world.session(), ended, work)
    assert follow_up is not None
    return follow_up


def completes(follow_up: TurnFollowUp) -> bool:
    return [wait.kind for wait in follow_up.waits] == [CompletionTimer.COMPLETION]


@pytest.mark.parametrize(
    ("outcomes", "is_completed"), [({}, True), ({"background": True}, True), ({"background": False}, False)]
)
async def test_words_complete_no_agent_whose_program_does_not_report_background_work(
    world: World, outcomes: dict[str, bool], is_completed: bool
) -> None:
    state = ProgramState("claude", "2.1.333", "2026-11-29", outcomes)
    worked = replace(FAILED_WORK, errors=0, last_tool_failed=False)
    found = await read_end(world, FLAG, worked, program_state=lambda session: state)
    assert completes(found) is is_completed


async def test_errors_that_the_hooks_reported_reach_the_classifier(world: World) -> None:
    worked = replace(FAILED_WORK, errors=0, last_tool_failed=False)
    assert completes(await read_end(world, FLAG, worked))
    assert not completes(await read_end(world, FLAG, FAILED_WORK))


async def test_errors_of_a_turn_that_an_earlier_daemon_saw_are_known_from_its_transcript(
    world: World,
) -> None:
    async with world.store.transaction() as tx:
        tx.measures.facts(CHILD, {"work": {**asdict(FAILED_WORK), "of a later version": 1}})
    assert not completes(await read_end(world, FLAG, TurnWork()))
    worked = replace(FAILED_WORK, errors=0, last_tool_failed=False)
    assert completes(await read_end(world, FLAG, worked)), "the transcript may still end with the turn before"


async def test_task_of_the_last_prompt_decides_and_not_that_of_the_spawn(world: World) -> None:
    plan = "1. Extract the interface\n2. Move the code behind it\n3. Delete the old module"
    assert not completes(await read_end(world, plan, TurnWork(tools_used=3, whole=True)))
    asked = TurnWork("Write a plan for the refactoring", tools_used=3, whole=True)
    assert completes(await read_end(world, plan, asked))


async def test_benchmark_classifies_as_the_daemon_does(world: World, tmp_path: Path) -> None:
    chosen = [*endings("held_out_g")[::7], *(e for e in endings("train") if e["facts"].get("background"))][
        :60
    ]
    corpus = tmp_path / "endings.jsonl"
    corpus.write_text("".join(f"{json.dumps(ending)}\n" for ending in chosen))
    for ending, judged in zip(chosen, judge(corpus), strict=True):
        facts = ending["facts"]
        if set(facts) - {"tools_used", "errors", "last_tool_failed", "background"}:
            continue  # of the store: the tests above and below
        work = TurnWork(
            ending["task"], "", facts["tools_used"], facts.get("errors", 0), facts.get("last_tool_failed", False),
            whole=True,
        )  # fmt: skip
        background = facts.get("background", 0)
        follow_up = await read_end(world, ending["text"], work, background)
        is_held = completes(follow_up) and background > 0
        assert (judged.predicted == "done") == (completes(follow_up) and not is_held), ending["text"]
        assert (judged.predicted == "question") == (follow_up.question is not None), ending["text"]


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
    timer = world.timer(CompletionTimer.UNCLEAR)
    assert timer.within_s == 600
    for _ in range(2):
        await world.completions.report_unclear(timer)
    for recipient in (PARENT, None):
        (notice,) = world.notices(recipient)
        assert "it is not clear whether its work is done" in notice
        assert '"Reading the files."' in notice
    events = await world.store.events(sessions=[CHILD], type=EventType.IDLE)
    assert [e.message for e in events].count("Child aaaa2222 is idle: completion unclear") == 1


async def remind(world: World) -> str:
    """End a turn, send the reminder that is due, and let the agent read it; return its text."""
    await world.end_turn("Reading the files.")
    await world.clear_notices()
    timer = world.timer(CompletionTimer.REMINDER)
    for _ in range(2):
        await world.completions.remind(timer)
    (message,) = world.store.mail.open.messages.values()
    text = (await world.store.mail.texts([message.id]))[message.id]
    async with world.store.transaction() as tx:
        tx.mail.move_message(message, MessageState.SUBMITTED, tx.now)
    await world.work()
    return text


@pytest.mark.parametrize("config", [{"remind_after_s": (180, 900)}])
async def test_reminders_are_sent_once_for_a_run(world: World) -> None:
    texts = [await remind(world) for _ in range(2)]
    assert ["sm tells your parent" in text for text in texts] == [False, True]
    await world.end_turn("Reading the files.")
    assert world.timer(CompletionTimer.REMINDER) is None
    assert world.session().reminders == 2
    assert world.store.part(PART_OF_WARNINGS).all_of(CHILD) == ()


def told_of_missing_report(world: World) -> list[tuple[str | None, NoticeKind]]:
    found = world.store.mail.open.notices.values()
    return [(n.recipient, n.kind) for n in found if n.session_id == CHILD and "has not reported" in n.text]


@pytest.mark.parametrize("config", [{"remind_after_s": (180, 900)}, {"remind_after_s": (180,)}])
async def test_missing_report_is_warned_of_once_in_each_idle_time_after_the_last_reminder(
    world: World, config: dict[str, Any]
) -> None:
    for _ in config["remind_after_s"]:
        await remind(world)
    for _ in range(2):
        await world.end_turn("Reading the files.")
        await world.clear_notices()
        timer = world.timer(CompletionTimer.MISSING_REPORT)
        assert timer.within_s == 10
        async with world.store.transaction() as tx:
            number = send(tx, CHILD, "operator", "one more thing")
        assert await world.fire(CompletionTimer.MISSING_REPORT) is not None, "a message is not delivered"
        assert world.store.part(PART_OF_WARNINGS).all_of(CHILD) == ()
        async with world.store.transaction() as tx:
            tx.mail.move_message(tx.mail.open.messages[number], MessageState.EXPIRED, tx.now)
        for _ in range(3):
            await world.completions.warn_of_missing_report(timer)
        (warning,) = world.store.part(PART_OF_WARNINGS).all_of(CHILD)
        assert (warning.kind, warning.value) == (WarningKind.REPORT_MISSING, len(config["remind_after_s"]))
        assert told_of_missing_report(world) == [(PARENT, NoticeKind.WARNING), (None, NoticeKind.WARNING)]
        assert world.timer(CompletionTimer.UNCLEAR) is None
        await world.work()
        assert world.store.part(PART_OF_WARNINGS).all_of(CHILD) == ()
        assert told_of_missing_report(world) == []


@pytest.mark.parametrize("config", [{"remind_after_s": (180,)}])
async def test_checkpoint_ends_the_warning_of_a_missing_report(world: World) -> None:
    await remind(world)
    await world.end_turn("Reading the files.")
    await world.clear_notices()
    timer = world.timer(CompletionTimer.MISSING_REPORT)
    for _ in range(2):
        await world.completions.warn_of_missing_report(timer)
    assert len(world.store.part(PART_OF_WARNINGS).all_of(CHILD)) == 1
    await world.reports.checkpoint(CALLER, "half of it is done", {}, None)
    assert world.store.part(PART_OF_WARNINGS).all_of(CHILD) == ()


@pytest.mark.parametrize("config", [{"remind_after_s": (180,)}])
async def test_question_gets_no_reminder(world: World) -> None:
    await world.end_turn(QUESTION)
    assert world.timer(CompletionTimer.REMINDER) is None


async def test_notices_of_idle_sessions_have_their_kind(world: World) -> None:
    await world.end_turn("Reading the files.")
    assert [n.kind for n in world.store.mail.open.notices.values()] == [NoticeKind.IDLE]
