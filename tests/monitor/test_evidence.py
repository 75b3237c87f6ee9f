"""Verdicts about an agent's activity, from event sequences of the real agent. Times are seconds from the start."""

from collections.abc import Callable

import pytest

from sm.core.faults import Fault, FaultKind
from sm.core.observation import Activity, Observation, Source
from sm.monitor.evidence import (
    AGREEMENT_S,
    FIRST_TURN_SETTLES_S,
    FRESH_S,
    LAG_S,
    PUBLISHED_S,
    SETTLED_S,
    STUCK_S,
    Ledger,
)

BUSY, BLOCKED, IDLE = Activity.BUSY, Activity.BLOCKED, Activity.IDLE
PROCESS, PROTOCOL, HOOK, FILE, TRANSCRIPT, TITLE, SCREEN = Source


def hook(at: float, activity: Activity, turn: str | None = None, *, final: bool = False) -> Observation:
    return Observation(HOOK, activity, at, "an event", turn, final=final)


def published(at: float, activity: Activity) -> Observation:
    return Observation(FILE, activity, at, "its state")


def line(at: float, activity: Activity, *, final: bool = False) -> Observation:
    return Observation(TRANSCRIPT, activity, at, "a line", final=final)


def title(at: float, activity: Activity) -> Observation:
    return Observation(TITLE, activity, at, "its title", doubtful=activity is IDLE)


def screen(at: float, activity: Activity) -> Observation:
    return Observation(SCREEN, activity, at, "its screen")


def process(at: float, *, final: bool = True) -> Observation:
    return Observation(PROCESS, BLOCKED, at, "an editor has its terminal", final=final)


def after(*observations: Observation, off: tuple[Source, ...] = ()) -> Ledger:
    ledger = Ledger(off)
    for observation in observations:
        ledger.add(observation)
    return ledger


def activity_at(ledger: Ledger, now: float) -> Activity | None:
    verdict = ledger.verdict(now)
    return None if verdict is None else verdict.observation.activity


@pytest.mark.parametrize("other", [BUSY, BLOCKED, IDLE])
@pytest.mark.parametrize("said", [BUSY, BLOCKED, IDLE])
def test_protocol_outweighs_each_weaker_source_until_its_link_is_lost(
    said: Activity, other: Activity
) -> None:
    told = Observation(PROTOCOL, said, 0, "its program")
    ledger = after(told, hook(10, other, final=True), line(11, other), title(12, other), screen(13, other))
    assert activity_at(ledger, 30) is said
    ledger.forget(PROTOCOL)
    assert activity_at(ledger, 30) is other


def test_process_that_reads_no_input_outweighs_the_protocol_of_an_idle_agent() -> None:
    ledger = after(Observation(PROTOCOL, IDLE, 0, "its program"), process(1))
    assert activity_at(ledger, 2) is BLOCKED


def test_verdict_is_none_before_any_observation() -> None:
    assert Ledger().verdict(1.0) is None
    assert Ledger().next_look(1.0) is None


def test_verdict_is_busy_from_the_prompt_until_hook_and_state_file_report_the_end() -> None:
    ledger = after(hook(0, IDLE, final=True), published(0, IDLE))
    ledger.add(hook(1, BUSY, "p1"))
    assert activity_at(ledger, 1) is BUSY  # before the state file reports the turn
    ledger.add(published(1.05, BUSY))
    ledger.add(hook(5, IDLE, "p1", final=True))
    assert activity_at(ledger, 5) is BUSY  # a user hook may continue the turn; the state file will tell
    ledger.add(published(5.05, IDLE))
    assert activity_at(ledger, 5.05) is IDLE


def test_verdict_is_idle_after_the_stop_hook_when_there_is_no_state_file() -> None:
    assert activity_at(after(hook(1, BUSY, "p1"), hook(5, IDLE, "p1", final=True)), 5) is IDLE


def test_verdict_stays_busy_when_a_user_hook_continues_the_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.1, BUSY), hook(3, IDLE, "p1", final=True))
    for now in (3, 4, 6):
        ledger.mark_read(FILE, now)
        assert activity_at(ledger, now) is BUSY
    ledger.add(hook(7, BUSY, "p1"))
    assert activity_at(ledger, 7) is BUSY


def test_verdict_becomes_idle_when_the_state_file_is_stuck_at_busy() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.1, BUSY), hook(3, IDLE, "p1", final=True))
    ledger.add(title(4, IDLE))
    ledger.add(screen(3 + STUCK_S, IDLE))
    ledger.mark_read(FILE, 3 + STUCK_S)
    assert activity_at(ledger, 3 + STUCK_S) is IDLE


def sub_agent(at: float, activity: Activity, who: str) -> Observation:
    return Observation(HOOK, activity, at, f"of {who}", "p1", who=who)


def tool_use(at: float, activity: Activity, use: str | None) -> Observation:
    return Observation(HOOK, activity, at, f"of {use}", "p1", use=use)


@pytest.mark.parametrize(
    ("observation", "before"),
    [
        (sub_agent, [hook(0, BUSY, "p1"), sub_agent(1, BLOCKED, "1"), sub_agent(2, BUSY, "2")]),
        (tool_use, [tool_use(1, BUSY, "1"), tool_use(1, BUSY, "2"), tool_use(2, BLOCKED, "1")]),
    ],
)
def test_verdict_stays_blocked_when_another_sub_agent_or_tool_is_busy(
    observation: Callable[[float, Activity, str], Observation], before: list[Observation]
) -> None:
    ledger = after(*before, observation(3, BUSY, "2"))
    verdict = ledger.verdict(3)
    assert verdict is not None
    assert (verdict.observation.activity, verdict.observation.reason) == (BLOCKED, "of 1")
    ledger.add(observation(4, BUSY, "1"))
    assert activity_at(ledger, 4) is BUSY


def test_verdict_stays_blocked_until_both_of_two_dialogs_are_answered() -> None:
    ledger = after(tool_use(1, BLOCKED, "u1"), tool_use(1.1, BLOCKED, "u2"), tool_use(2, BUSY, "u2"))
    assert activity_at(ledger, 2) is BLOCKED
    ledger.end_use("u1")  # a person refused the tool, which no hook reports
    ledger.add(tool_use(3, BUSY, "u3"))
    assert activity_at(ledger, 3) is BUSY


def test_late_dialog_of_a_tool_blocks_when_another_tool_was_faster() -> None:
    ledger = after(tool_use(1, BUSY, "u1"), tool_use(3, BUSY, "u2"))
    assert ledger.add(tool_use(2, BLOCKED, "u1"), 3.1)
    assert activity_at(ledger, 3.1) is BLOCKED
    assert not ledger.add(tool_use(1.5, BLOCKED, None), 3.2)


@pytest.mark.parametrize(("asks", "goes_on"), [(None, "u2"), ("u1", None)])
def test_any_progress_ends_a_dialog_of_an_unknown_tool_use(asks: str | None, goes_on: str | None) -> None:
    ledger = after(tool_use(1, BLOCKED, asks), tool_use(2, BUSY, goes_on))
    assert activity_at(ledger, 2) is BUSY


def test_verdict_stays_busy_after_an_approval_while_another_sub_agent_works() -> None:
    ledger = after(
        published(0, BUSY), sub_agent(1, BLOCKED, "a"), published(1.1, BLOCKED), sub_agent(2, BUSY, "b")
    )
    assert activity_at(ledger, 2) is BLOCKED
    ledger.add(published(5, BUSY))
    ledger.add(sub_agent(5.1, BUSY, "b"))
    assert activity_at(ledger, 5.1) is BUSY


def test_turn_end_closes_the_dialog_of_a_sub_agent() -> None:
    ledger = after(sub_agent(1, BLOCKED, "a"), hook(2, IDLE, "p1", final=True), hook(3, BUSY, "p2"))
    assert activity_at(ledger, 3) is BUSY


def test_verdict_is_blocked_when_a_background_agent_of_an_earlier_turn_asks() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(2, BUSY, "p2"))
    assert ledger.add(sub_agent(3, BLOCKED, "a"))
    assert activity_at(ledger, 3) is BLOCKED


def test_ledger_accepts_observations_after_the_clock_was_set_back() -> None:
    ledger = after(hook(1000, IDLE, final=True))
    assert not ledger.add(hook(999, BUSY, "p1"), 1000.5)
    assert ledger.add(hook(400, BUSY, "p1"), 400.1)
    assert activity_at(ledger, 400.1) is BUSY


def test_late_end_of_an_earlier_turn_does_not_end_the_current_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(2, BUSY, "p2"))
    assert not ledger.add(hook(2.01, IDLE, "p1", final=True))
    assert activity_at(ledger, 3) is BUSY


def test_end_with_another_turn_id_ends_the_turn_when_a_message_joined_it() -> None:
    ledger = after(hook(0, BUSY, "p1"))
    assert ledger.add(hook(4, IDLE, "p2", final=True))
    assert activity_at(ledger, 4) is IDLE


def test_ledger_ignores_an_event_older_than_the_latest_one() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(3, IDLE, "p1", final=True))
    assert not ledger.add(hook(2.9, BUSY, "p1"))
    assert activity_at(ledger, 3) is IDLE


def test_interrupt_is_detected_by_the_state_file() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), published(3, IDLE))
    assert activity_at(ledger, 3) is BUSY  # the agent may be between two turns
    assert ledger.next_look(3) == pytest.approx(PUBLISHED_S)
    assert activity_at(ledger, 3 + PUBLISHED_S) is IDLE
    verdict = ledger.verdict(3 + PUBLISHED_S)
    assert verdict is not None
    assert verdict.overruled == {HOOK: "the state file has reported idle since then"}


def test_interrupt_is_detected_by_the_transcript_when_there_is_no_state_file() -> None:
    ledger = after(hook(0, BUSY, "p1"), line(3, IDLE, final=True), off=(FILE,))
    assert activity_at(ledger, 3) is IDLE


def test_interrupt_is_detected_when_title_and_screen_agree() -> None:
    ledger = after(hook(0, BUSY, "p1"), title(0.5, BUSY), title(3, IDLE), screen(3.1, IDLE))
    assert activity_at(ledger, 3 + AGREEMENT_S + 0.2) is BUSY  # title and screen were not checked again yet
    ledger.add(screen(3.2 + AGREEMENT_S, IDLE))
    assert activity_at(ledger, 3 + AGREEMENT_S + 0.2) is IDLE


def test_title_from_before_the_turn_does_not_end_it() -> None:
    ledger = after(title(0, IDLE), hook(5, BUSY, "p1"), off=(FILE,))
    assert activity_at(ledger, 5 + AGREEMENT_S) is BUSY  # the title may be slightly late
    ledger.add(title(5 + AGREEMENT_S, BUSY))
    assert activity_at(ledger, 60) is BUSY


def test_screen_from_before_the_turn_does_not_end_it() -> None:
    ledger = after(screen(0, IDLE), hook(5, BUSY, "p1"), off=(FILE,))
    assert activity_at(ledger, 60) is BUSY


def test_idle_title_does_not_end_a_turn_while_the_screen_shows_work() -> None:
    ledger = after(hook(0, BUSY, "p1"), title(3, IDLE), screen(4, BUSY), screen(5, BUSY), screen(6, BUSY))
    assert activity_at(ledger, 6) is BUSY


def test_verdict_stays_blocked_when_the_title_looks_idle_during_a_permission_dialog() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(1, BLOCKED, "p1"), title(1.5, IDLE))
    assert activity_at(ledger, 60) is BLOCKED


def test_approval_by_a_person_is_detected_by_the_state_file() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), published(9, BUSY))
    assert activity_at(ledger, 9) is BUSY


def test_verdict_is_busy_when_another_program_approved_immediately() -> None:
    ledger = after(published(0, BUSY), hook(1, BLOCKED, "p1"))
    assert activity_at(ledger, 1.1) is BLOCKED
    ledger.mark_read(FILE, 1 + SETTLED_S)
    assert activity_at(ledger, 1 + SETTLED_S) is BUSY


def test_verdict_stays_blocked_when_a_sub_agent_event_follows_the_dialog() -> None:
    ledger = after(hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), hook(2, BUSY, "p1"))
    ledger.mark_read(FILE, 2 + SETTLED_S)
    assert activity_at(ledger, 2 + SETTLED_S) is BLOCKED


def test_late_state_file_does_not_reopen_a_dialog_whose_tool_use_continued() -> None:
    # An agent that gets little processor time publishes the end of the dialog late.
    asked = (tool_use(1, BUSY, "1"), tool_use(2, BLOCKED, "1"), published(2.3, BLOCKED))
    ledger = after(*asked, tool_use(5, BUSY, "1"))
    ledger.mark_read(FILE, 5 + 2 * SETTLED_S)
    assert activity_at(ledger, 5 + 2 * SETTLED_S) is BUSY
    ledger.mark_read(FILE, 5 + STUCK_S)
    assert activity_at(ledger, 5 + STUCK_S) is BLOCKED
    # Another dialog, or a view that was open before.
    for other in (
        after(*asked, tool_use(5, BUSY, "1"), published(5.1, BLOCKED)),
        after(published(0.5, BLOCKED), *asked[:2], tool_use(5, BUSY, "1")),
    ):
        other.mark_read(FILE, 5 + SETTLED_S)
        assert activity_at(other, 5 + SETTLED_S) is BLOCKED


def test_rejected_permission_is_detected_by_the_state_file_or_the_transcript() -> None:
    ledger = after(hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), published(5, IDLE))
    assert activity_at(ledger, 5 + PUBLISHED_S) is IDLE
    assert activity_at(after(hook(1, BLOCKED, "p1"), line(5, IDLE, final=True)), 5) is IDLE


def test_turn_end_at_the_context_limit_is_detected_by_the_state_file() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), hook(0.1, BUSY, "p1"), published(1, IDLE))
    assert activity_at(ledger, 2) is IDLE


def test_verdict_stays_busy_when_background_agents_outlive_the_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), hook(4, BUSY, "p1"))
    ledger.mark_read(FILE, 10)
    assert activity_at(ledger, 10) is BUSY


def test_late_busy_title_does_not_undo_the_end_of_a_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(4, IDLE, "p1", final=True), title(4 + LAG_S / 2, BUSY))
    assert activity_at(ledger, 5) is IDLE
    ledger.add(title(4 + 2 * LAG_S, BUSY))
    assert activity_at(ledger, 5) is BUSY


@pytest.mark.parametrize("has_file", [True, False])
def test_verdict_is_blocked_while_a_person_has_a_view_open_at_the_prompt(has_file: bool) -> None:
    ledger = after(hook(0, IDLE, final=True), screen(5, BLOCKED), off=() if has_file else (FILE,))
    ledger.add(published(0, IDLE))
    assert activity_at(ledger, 5) is BLOCKED
    ledger.add(screen(8, IDLE))
    assert activity_at(ledger, 8) is IDLE


def test_verdict_stays_busy_when_a_person_opens_a_view_during_work() -> None:
    assert activity_at(after(published(1, BUSY), screen(5, BLOCKED)), 9) is BUSY


def test_state_file_overrules_a_screen_and_title_that_look_busy() -> None:
    ledger = after(hook(0, IDLE, final=True), published(0.1, IDLE), screen(7, BUSY), title(7, BUSY))
    assert activity_at(ledger, 30) is IDLE


@pytest.mark.parametrize("missing", list(Source))
def test_busy_and_blocked_are_detected_when_any_one_source_is_missing(missing: Source) -> None:
    start = (hook(0, IDLE, final=True), published(0, IDLE), line(0, IDLE, final=True), title(0, IDLE))
    ledger = after(*start, screen(0, IDLE), off=(missing,))
    for observation in (
        hook(5, BUSY, "p1"),
        published(5.05, BUSY),
        line(5.07, BUSY),
        title(5.5, BUSY),
        screen(5.5, BUSY),
    ):
        ledger.add(observation)
    assert activity_at(ledger, 5.5) is BUSY
    for observation in (
        hook(8, BLOCKED, "p1"),
        published(8.05, BLOCKED),
        title(8.5, IDLE),
        screen(8.5, BLOCKED),
    ):
        ledger.add(observation)
    assert activity_at(ledger, 8.5) is BLOCKED


def test_end_of_a_turn_that_the_protocol_reports_counts_at_once() -> None:
    busy = Observation(PROTOCOL, BUSY, 1, "a turn began")
    ended = Observation(PROTOCOL, IDLE, 2, "the turn ended", final=True)
    assert activity_at(after(busy), 1) is BUSY
    assert activity_at(after(busy, ended, title(1.5, BUSY)), 2) is IDLE


def test_ledger_ignores_a_source_that_is_off() -> None:
    ledger = after(hook(0, BUSY), off=(HOOK,))
    assert ledger.entries == {}


def test_ledger_is_stale_when_no_source_was_seen_for_long() -> None:
    ledger = after(hook(0, BUSY, "p1"))
    assert not ledger.is_stale(FRESH_S)
    assert ledger.is_stale(FRESH_S + 1)
    ledger.add(published(1, BUSY))
    ledger.mark_read(FILE, FRESH_S)
    assert not ledger.is_stale(FRESH_S + 1)


def test_forget_removes_the_observations_of_a_source() -> None:
    ledger = after(line(5, BUSY), hook(6, IDLE, final=True))
    ledger.forget(TRANSCRIPT)
    assert set(ledger.entries) == {HOOK}


def test_agent_that_starts_with_a_prompt_is_busy_before_its_first_turn() -> None:
    starts = Observation(HOOK, BUSY, 1, "the session is starting", patience_s=30)
    ledger = after(starts, published(1.2, IDLE), title(2, IDLE), screen(2, IDLE))
    ledger.mark_read(FILE, 20)
    assert activity_at(ledger, 20) is BUSY
    assert activity_at(ledger, 32) is IDLE
    # A start event that arrives late does not wait for a turn that is already over.
    assert activity_at(after(published(3, BUSY), published(8, IDLE), starts), 9) is IDLE
    ledger = after(starts, published(1.2, IDLE), published(3, BLOCKED))
    assert activity_at(ledger, 3) is BLOCKED
    ledger = after(starts, published(1.2, IDLE), hook(4, BUSY, "p1"), hook(6, IDLE, "p1", final=True))
    assert activity_at(ledger, 6) is IDLE


def test_awaits_first_turn_until_the_agent_had_time_to_draw_its_box_after_the_prompt() -> None:
    starts = Observation(HOOK, BUSY, 1, "the session is starting", patience_s=30)
    ledger = after(starts, published(1.2, IDLE), title(2, BUSY))
    assert ledger.awaits_first_turn(2)
    assert not ledger.awaits_first_turn(31)
    for prompt in (hook(2, BUSY, "p1"), line(2, BUSY)):
        ledger = after(starts, prompt)
        assert ledger.awaits_first_turn(2 + FIRST_TURN_SETTLES_S / 2)
        assert not ledger.awaits_first_turn(2 + FIRST_TURN_SETTLES_S)
    ledger = after(starts, hook(2, BUSY, "p1"), line(2.1, BUSY), hook(9, BUSY, "p2"), line(9, BUSY))
    assert not ledger.awaits_first_turn(9.1)
    assert after(line(0.5, IDLE), starts).awaits_first_turn(2)
    assert not after(hook(1, IDLE, final=True)).awaits_first_turn(2)
    assert not after(hook(1, BUSY, "p1")).awaits_first_turn(1)
    assert not after().awaits_first_turn(2)


def test_awaits_first_turn_for_a_moment_when_the_prompt_hook_arrives_late() -> None:
    ledger = Ledger()
    ledger.add(Observation(HOOK, BUSY, 1, "the session is starting", patience_s=30), 8)
    ledger.add(hook(2, BUSY, "p1"), 9)
    # The agent draws its box after the return of the hook.
    assert ledger.awaits_first_turn(9.1)


def test_idle_state_file_from_before_a_turn_is_not_believed_while_the_title_moves() -> None:
    # An agent that gets little processor time publishes the new turn late.
    ledger = after(published(1, IDLE), hook(3, BUSY, "p1"), title(5, BUSY))
    ledger.mark_read(FILE, 6.1)
    assert activity_at(ledger, 6.1) is BUSY
    # A turn that was interrupted at once has no other end.
    ledger.add(title(7, IDLE))
    ledger.mark_read(FILE, 7.1)
    assert activity_at(ledger, 7.1) is IDLE


def test_idle_state_file_from_before_the_first_turn_does_not_end_that_turn() -> None:
    starts = Observation(HOOK, BUSY, 1, "the session is starting", patience_s=30)
    # The title changes before the prompt hook arrives and before the state file is written.
    ledger = after(starts, published(1.2, IDLE), title(9, BUSY))
    ledger.mark_read(FILE, 12)
    assert activity_at(ledger, 12) is BUSY
    assert activity_at(ledger, 31) is IDLE
    # The whole turn was shorter than the interval between two reads of the state file.
    assert activity_at(after(starts, published(1.2, IDLE), title(9, BUSY), published(9.3, IDLE)), 9.9) is IDLE


def test_idle_state_file_from_before_a_start_that_arrives_late_does_not_end_the_first_turn() -> None:
    starts = Observation(HOOK, BUSY, 1, "the session is starting", patience_s=30)
    ledger = after(published(0.5, IDLE), line(1.5, BUSY), title(2, BUSY), title(2.4, IDLE))
    ledger.add(starts, 5)
    ledger.forget(TRANSCRIPT, SCREEN)  # as at each start
    ledger.mark_read(FILE, 5)
    assert activity_at(ledger, 5) is BUSY
    ledger.add(published(6, BUSY))
    ledger.add(published(8, IDLE))
    assert activity_at(ledger, 8 + PUBLISHED_S) is IDLE


@pytest.mark.parametrize("activity", [BUSY, IDLE])
def test_verdict_is_blocked_while_the_process_cannot_read_its_terminal(activity: Activity) -> None:
    ledger = after(hook(0, activity), published(0, activity), process(5))
    ledger.add(published(6, activity))
    ledger.add(screen(7, activity))
    verdict = ledger.verdict(60)
    assert verdict is not None and verdict.observation.source is PROCESS
    assert set(verdict.overruled) == {HOOK, FILE, SCREEN}
    ledger.forget(PROCESS)
    assert activity_at(ledger, 60) is activity


def test_verdict_is_busy_while_the_turn_of_a_suspended_agent_continues() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0, BUSY), process(5, final=False))
    assert activity_at(ledger, 6) is BUSY
    ledger.add(hook(7, IDLE, "p1", final=True))
    ledger.add(published(7, IDLE))
    assert activity_at(ledger, 9) is BLOCKED


FAULT = Fault(FaultKind.SERVER, "API Error: 500", "the API failed")


def failed(source: Source, at: float) -> Observation:
    return Observation(source, IDLE, at, "the turn failed", final=True, fault=FAULT)


@pytest.mark.parametrize(
    ("observations", "fails"),
    [
        ([], False),
        ([hook(1, BUSY), failed(HOOK, 2)], True),
        ([hook(1, BUSY), failed(TRANSCRIPT, 2)], True),
        ([hook(1, BUSY), failed(HOOK, 2), published(3, IDLE), screen(4, IDLE)], True),
        ([failed(HOOK, 2), hook(3, BUSY)], False),
        ([failed(TRANSCRIPT, 2), hook(3, BUSY)], False),
        ([failed(HOOK, 2), line(3, BUSY)], False),
        ([hook(1, BUSY), hook(2, IDLE, final=True)], False),
    ],
)
def test_failure_is_that_of_the_last_turn(observations: list[Observation], fails: bool) -> None:
    failure = after(*observations).failure
    assert (failure is not None) is fails
