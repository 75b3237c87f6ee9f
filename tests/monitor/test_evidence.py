"""What is believed of an agent, from sequences as the real one emits them. Times are seconds from the beginning."""

from collections.abc import Callable

import pytest

from sm.core.observation import Activity, Observation, Source
from sm.monitor.evidence import AGREEMENT_S, FRESH_S, LAG_S, PUBLISHED_S, SETTLED_S, STUCK_S, Ledger

BUSY, BLOCKED, IDLE = Activity.BUSY, Activity.BLOCKED, Activity.IDLE
HOOK, FILE, TRANSCRIPT, TITLE, SCREEN = Source


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


def after(*said: Observation, off: tuple[Source, ...] = ()) -> Ledger:
    ledger = Ledger(off)
    for each in said:
        ledger.add(each)
    return ledger


def believed(ledger: Ledger, now: float) -> Activity | None:
    verdict = ledger.verdict(now)
    return None if verdict is None else verdict.observation.activity


def test_nothing_is_believed_before_anyone_has_spoken() -> None:
    assert Ledger().verdict(1.0) is None
    assert Ledger().next_look(1.0) is None


def test_a_turn_from_its_prompt_to_its_end() -> None:
    ledger = after(hook(0, IDLE, final=True), published(0, IDLE))
    ledger.add(hook(1, BUSY, "p1"))
    assert believed(ledger, 1) is BUSY  # at once, before the state file says so
    ledger.add(published(1.05, BUSY))
    ledger.add(hook(5, IDLE, "p1", final=True))
    assert (
        believed(ledger, 5) is BUSY
    )  # a hook of the user's may make it go on: its state file says it in a moment
    ledger.add(published(5.05, IDLE))
    assert believed(ledger, 5.05) is IDLE


def test_the_end_of_a_turn_is_believed_at_once_where_nothing_is_published() -> None:
    assert believed(after(hook(1, BUSY, "p1"), hook(5, IDLE, "p1", final=True)), 5) is IDLE


def test_a_turn_that_a_hook_of_the_users_made_go_on_is_not_over() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.1, BUSY), hook(3, IDLE, "p1", final=True))
    for now in (3, 4, 6):
        ledger.seen(FILE, now)
        assert believed(ledger, now) is BUSY
    ledger.add(hook(7, BUSY, "p1"))
    assert believed(ledger, 7) is BUSY


def test_a_state_file_that_is_written_no_more_does_not_keep_it_busy_for_ever() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.1, BUSY), hook(3, IDLE, "p1", final=True))
    ledger.add(title(4, IDLE))
    ledger.add(screen(3 + STUCK_S, IDLE))
    ledger.seen(FILE, 3 + STUCK_S)
    assert believed(ledger, 3 + STUCK_S) is IDLE


def sub_agent(at: float, activity: Activity, who: str) -> Observation:
    return Observation(HOOK, activity, at, f"of {who}", "p1", who=who)


def of_use(at: float, activity: Activity, use: str | None) -> Observation:
    return Observation(HOOK, activity, at, f"of {use}", "p1", use=use)


@pytest.mark.parametrize(
    ("of", "before"),
    [
        (sub_agent, [hook(0, BUSY, "p1"), sub_agent(1, BLOCKED, "1"), sub_agent(2, BUSY, "2")]),
        (of_use, [of_use(1, BUSY, "1"), of_use(1, BUSY, "2"), of_use(2, BLOCKED, "1")]),
    ],
)
def test_who_asks_is_not_hidden_by_another_that_works(
    of: Callable[[float, Activity, str], Observation], before: list[Observation]
) -> None:
    ledger = after(*before, of(3, BUSY, "2"))
    verdict = ledger.verdict(3)
    assert verdict is not None
    assert (verdict.observation.activity, verdict.observation.reason) == (BLOCKED, "of 1")
    ledger.add(of(4, BUSY, "1"))
    assert believed(ledger, 4) is BUSY


def test_of_two_that_ask_the_one_that_is_answered_leaves_the_other() -> None:
    ledger = after(of_use(1, BLOCKED, "u1"), of_use(1.1, BLOCKED, "u2"), of_use(2, BUSY, "u2"))
    assert believed(ledger, 2) is BLOCKED
    ledger.used("u1")  # a person has refused it: no hook tells of that
    ledger.add(of_use(3, BUSY, "u3"))
    assert believed(ledger, 3) is BUSY


def test_who_asks_about_a_tool_is_heard_though_another_of_its_message_was_quicker() -> None:
    ledger = after(of_use(1, BUSY, "u1"), of_use(3, BUSY, "u2"))
    assert ledger.add(of_use(2, BLOCKED, "u1"), 3.1)
    assert believed(ledger, 3.1) is BLOCKED
    assert not ledger.add(of_use(1.5, BLOCKED, None), 3.2)


@pytest.mark.parametrize(("asks", "goes_on"), [(None, "u2"), ("u1", None)])
def test_whatever_goes_on_answers_where_the_use_is_not_known(asks: str | None, goes_on: str | None) -> None:
    ledger = after(of_use(1, BLOCKED, asks), of_use(2, BUSY, goes_on))
    assert believed(ledger, 2) is BUSY


def test_what_was_granted_stays_so_while_others_work() -> None:
    ledger = after(
        published(0, BUSY), sub_agent(1, BLOCKED, "a"), published(1.1, BLOCKED), sub_agent(2, BUSY, "b")
    )
    assert believed(ledger, 2) is BLOCKED
    ledger.add(published(5, BUSY))
    ledger.add(sub_agent(5.1, BUSY, "b"))
    assert believed(ledger, 5.1) is BUSY


def test_what_was_asked_is_over_with_the_turn() -> None:
    ledger = after(sub_agent(1, BLOCKED, "a"), hook(2, IDLE, "p1", final=True), hook(3, BUSY, "p2"))
    assert believed(ledger, 3) is BUSY


def test_a_background_agent_of_the_turn_before_may_ask() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(2, BUSY, "p2"))
    assert ledger.add(sub_agent(3, BLOCKED, "a"))
    assert believed(ledger, 3) is BLOCKED


def test_a_clock_that_went_back_does_not_freeze_what_is_believed() -> None:
    ledger = after(hook(1000, IDLE, final=True))
    assert not ledger.add(hook(999, BUSY, "p1"), 1000.5)
    assert ledger.add(hook(400, BUSY, "p1"), 400.1)
    assert believed(ledger, 400.1) is BUSY


def test_the_late_end_of_the_turn_before_does_not_end_this_one() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(2, BUSY, "p2"))
    assert not ledger.add(hook(2.01, IDLE, "p1", final=True))
    assert believed(ledger, 3) is BUSY


def test_a_message_that_was_taken_within_a_turn_gives_its_end_another_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"))
    assert ledger.add(hook(4, IDLE, "p2", final=True))
    assert believed(ledger, 4) is IDLE


def test_events_that_come_out_of_order_are_read_in_the_order_in_which_they_were_emitted() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(3, IDLE, "p1", final=True))
    assert not ledger.add(hook(2.9, BUSY, "p1"))
    assert believed(ledger, 3) is IDLE


def test_an_interrupt_has_no_event_and_the_state_file_tells_of_it() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), published(3, IDLE))
    assert believed(ledger, 3) is BUSY  # it may be between two turns
    assert ledger.next_look(3) == pytest.approx(PUBLISHED_S)
    assert believed(ledger, 3 + PUBLISHED_S) is IDLE
    verdict = ledger.verdict(3 + PUBLISHED_S)
    assert verdict is not None
    assert verdict.overruled == {HOOK: "the state file says idle since"}


def test_an_interrupt_without_a_state_file_is_told_by_the_transcript() -> None:
    ledger = after(hook(0, BUSY, "p1"), line(3, IDLE, final=True), off=(FILE,))
    assert believed(ledger, 3) is IDLE


def test_an_interrupt_that_leaves_no_line_is_told_by_title_and_screen_in_agreement() -> None:
    ledger = after(hook(0, BUSY, "p1"), title(0.5, BUSY), title(3, IDLE), screen(3.1, IDLE))
    assert believed(ledger, 3 + AGREEMENT_S + 0.2) is BUSY  # nobody has looked at either since
    ledger.add(screen(3.2 + AGREEMENT_S, IDLE))
    assert believed(ledger, 3 + AGREEMENT_S + 0.2) is IDLE


def test_a_title_that_stood_before_a_turn_does_not_end_it() -> None:
    ledger = after(title(0, IDLE), hook(5, BUSY, "p1"), off=(FILE,))
    assert believed(ledger, 5 + AGREEMENT_S) is BUSY  # it may have turned a moment ago
    ledger.add(title(5 + AGREEMENT_S, BUSY))
    assert believed(ledger, 60) is BUSY


def test_a_screen_that_was_seen_before_a_turn_does_not_end_it() -> None:
    ledger = after(screen(0, IDLE), hook(5, BUSY, "p1"), off=(FILE,))
    assert believed(ledger, 60) is BUSY


def test_a_title_alone_that_stands_does_not_end_a_turn_while_the_screen_shows_work() -> None:
    ledger = after(hook(0, BUSY, "p1"), title(3, IDLE), screen(4, BUSY), screen(5, BUSY), screen(6, BUSY))
    assert believed(ledger, 6) is BUSY


def test_a_permission_looks_idle_in_the_title_and_is_none() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(1, BLOCKED, "p1"), title(1.5, IDLE))
    assert believed(ledger, 60) is BLOCKED


def test_a_permission_that_a_person_grants_has_no_event_and_the_state_file_tells_of_it() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), published(9, BUSY))
    assert believed(ledger, 9) is BUSY


def test_a_permission_that_another_program_granted_at_once_does_not_block() -> None:
    ledger = after(published(0, BUSY), hook(1, BLOCKED, "p1"))
    assert believed(ledger, 1.1) is BLOCKED
    ledger.seen(FILE, 1 + SETTLED_S)
    assert believed(ledger, 1 + SETTLED_S) is BUSY


def test_events_of_a_sub_agent_do_not_hide_the_dialog_of_another() -> None:
    ledger = after(hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), hook(2, BUSY, "p1"))
    ledger.seen(FILE, 2 + SETTLED_S)
    assert believed(ledger, 2 + SETTLED_S) is BLOCKED


def test_a_rejected_permission_leaves_no_event() -> None:
    ledger = after(hook(1, BLOCKED, "p1"), published(1.05, BLOCKED), published(5, IDLE))
    assert believed(ledger, 5 + PUBLISHED_S) is IDLE
    assert believed(after(hook(1, BLOCKED, "p1"), line(5, IDLE, final=True)), 5) is IDLE


def test_the_context_limit_ends_a_turn_without_a_word() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), hook(0.1, BUSY, "p1"), published(1, IDLE))
    assert believed(ledger, 2) is IDLE


def test_a_turn_that_ends_with_agents_in_the_background_is_not_over() -> None:
    ledger = after(hook(0, BUSY, "p1"), published(0.05, BUSY), hook(4, BUSY, "p1"))
    ledger.seen(FILE, 10)
    assert believed(ledger, 10) is BUSY


def test_the_frame_of_a_title_that_was_on_its_way_does_not_undo_the_end_of_a_turn() -> None:
    ledger = after(hook(0, BUSY, "p1"), hook(4, IDLE, "p1", final=True), title(4 + LAG_S / 2, BUSY))
    assert believed(ledger, 5) is IDLE
    ledger.add(title(4 + 2 * LAG_S, BUSY))
    assert believed(ledger, 5) is BUSY


@pytest.mark.parametrize("has_file", [True, False])
def test_a_view_that_a_person_opened_is_not_idle(has_file: bool) -> None:
    ledger = after(hook(0, IDLE, final=True), screen(5, BLOCKED), off=() if has_file else (FILE,))
    ledger.add(published(0, IDLE))
    assert believed(ledger, 5) is BLOCKED
    ledger.add(screen(8, IDLE))
    assert believed(ledger, 8) is IDLE


def test_a_view_over_an_agent_at_work_does_not_block_it() -> None:
    assert believed(after(published(1, BUSY), screen(5, BLOCKED)), 9) is BUSY


def test_a_screen_that_quotes_does_not_outweigh_what_is_published() -> None:
    ledger = after(hook(0, IDLE, final=True), published(0.1, IDLE), screen(7, BUSY), title(7, BUSY))
    assert believed(ledger, 30) is IDLE


@pytest.mark.parametrize("gone", list(Source))
def test_busy_and_blocked_are_seen_at_once_whichever_source_is_missing(gone: Source) -> None:
    start = (hook(0, IDLE, final=True), published(0, IDLE), line(0, IDLE, final=True), title(0, IDLE))
    ledger = after(*start, screen(0, IDLE), off=(gone,))
    for said in (
        hook(5, BUSY, "p1"),
        published(5.05, BUSY),
        line(5.07, BUSY),
        title(5.5, BUSY),
        screen(5.5, BUSY),
    ):
        ledger.add(said)
    assert believed(ledger, 5.5) is BUSY
    for said in (hook(8, BLOCKED, "p1"), published(8.05, BLOCKED), title(8.5, IDLE), screen(8.5, BLOCKED)):
        ledger.add(said)
    assert believed(ledger, 8.5) is BLOCKED


def test_a_source_that_is_off_says_nothing() -> None:
    ledger = after(hook(0, BUSY), off=(HOOK,))
    assert ledger.entries == {}


def test_it_is_stale_when_nothing_was_seen_for_long_and_fresh_while_a_file_stands() -> None:
    ledger = after(hook(0, BUSY, "p1"))
    assert not ledger.is_stale(FRESH_S)
    assert ledger.is_stale(FRESH_S + 1)
    ledger.add(published(1, BUSY))
    ledger.seen(FILE, FRESH_S)
    assert not ledger.is_stale(FRESH_S + 1)


def test_what_was_seen_of_another_conversation_is_forgotten() -> None:
    ledger = after(line(5, BUSY), hook(6, IDLE, final=True))
    ledger.forget(TRANSCRIPT)
    assert set(ledger.entries) == {HOOK}


def test_an_agent_that_starts_with_a_prompt_is_not_idle_before_its_first_turn() -> None:
    starts = Observation(HOOK, BUSY, 1, "it starts", patience_s=30)
    ledger = after(starts, published(1.2, IDLE), title(2, IDLE), screen(2, IDLE))
    ledger.seen(FILE, 20)
    assert believed(ledger, 20) is BUSY
    assert believed(ledger, 32) is IDLE
    # What comes late, because the daemon was away or the machine is busy, awaits nothing that has been.
    assert believed(after(published(3, BUSY), published(8, IDLE), starts), 9) is IDLE
    ledger = after(starts, published(1.2, IDLE), published(3, BLOCKED))
    assert believed(ledger, 3) is BLOCKED
    ledger = after(starts, published(1.2, IDLE), hook(4, BUSY, "p1"), hook(6, IDLE, "p1", final=True))
    assert believed(ledger, 6) is IDLE


def test_published_idle_of_before_the_first_turn_does_not_end_it_on_a_busy_machine() -> None:
    starts = Observation(HOOK, BUSY, 1, "it starts", patience_s=30)
    # The title changes before the hook of the prompt comes, and before the state file is written.
    ledger = after(starts, published(1.2, IDLE), title(9, BUSY))
    ledger.seen(FILE, 9.9)
    assert believed(ledger, 9.9) is BUSY
    ledger.seen(FILE, 10.6)
    assert believed(ledger, 10.6) is IDLE
    # The whole turn was shorter than the time between two looks at the file.
    assert believed(after(starts, published(1.2, IDLE), title(9, BUSY), published(9.3, IDLE)), 9.9) is IDLE
