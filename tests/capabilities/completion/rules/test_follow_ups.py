"""Tests of the decisions that follow a finished turn."""

from itertools import product
from typing import Any

import pytest

from sm.capabilities.completion.model import (
    Classification,
    CompletionTimer,
    Ending,
    TurnEnd,
    TurnFollowUp,
    Wait,
)
from sm.capabilities.completion.rules.follow_ups import after_turn, needs_approval
from sm.capabilities.completion.settings import AutoComplete
from sm.core.states import Mode

RULES = AutoComplete(completion_quiet_s=3.0, idle_timeout=60, remind_after_s=(180, 900))
DETECTING = (Mode.AUTO, Mode.SUPERVISED)


def rules_with(**keys: Any) -> AutoComplete:
    return RULES.model_copy(update=keys)


def turn(
    ending: Ending, quote: str = "some words", background: int = 0, rule: str = "done-statement"
) -> TurnEnd:
    return TurnEnd(Classification(ending, rule, quote), "A summary.", background)


def kinds(follow_up: TurnFollowUp | None) -> list[CompletionTimer]:
    return [] if follow_up is None else [wait.kind for wait in follow_up.waits]


@pytest.mark.parametrize(("mode", "ending"), list(product(list(Mode), list(Ending))))
def test_nothing_follows_in_mode_manual(mode: Mode, ending: Ending) -> None:
    follow_up = after_turn(mode, RULES, turn(ending), 0)
    assert (follow_up is None) is (mode is Mode.MANUAL)


@pytest.mark.parametrize(("mode", "ending"), list(product(list(Mode), list(Ending))))
def test_nothing_follows_when_detection_is_disabled(mode: Mode, ending: Ending) -> None:
    assert after_turn(mode, rules_with(enabled=False), turn(ending), 0) is None


@pytest.mark.parametrize("mode", DETECTING)
def test_done_turn_waits_for_the_quiet_window_in_place_of_an_idle_notice(mode: Mode) -> None:
    data = {"rule": "done-statement", "quote": "some words", "summary": "A summary.", "background": 2}
    assert after_turn(mode, RULES, turn(Ending.DONE, background=2), 0) == TurnFollowUp(
        waits=(Wait(CompletionTimer.COMPLETION, 3.0, data),), is_reported=True
    )


@pytest.mark.parametrize("mode", DETECTING)
@pytest.mark.parametrize("rule", ["work-report", "answer-to-task", "result", "user-pattern"])
def test_every_rule_of_done_waits_for_the_quiet_window(mode: Mode, rule: str) -> None:
    rules = rules_with(remind_after_s=())
    assert kinds(after_turn(mode, rules, turn(Ending.DONE, rule=rule), 0)) == [CompletionTimer.COMPLETION]


@pytest.mark.parametrize("mode", DETECTING)
@pytest.mark.parametrize(("quote", "question"), [("Which one?", "Which one?"), ("", "A summary.")])
def test_question_opens_a_request_and_sets_no_timer(mode: Mode, quote: str, question: str) -> None:
    expected = TurnFollowUp(question=question, is_reported=True)
    assert after_turn(mode, RULES, turn(Ending.QUESTION, quote), 0) == expected


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.BLOCKED])
def test_failed_and_blocked_turns_end_nothing_and_give_their_words_as_the_reason(ending: Ending) -> None:
    follow_up = after_turn(Mode.AUTO, RULES, turn(ending), 0)
    assert follow_up is not None
    assert follow_up.reason == f'{ending}: "some words"'
    assert kinds(follow_up) == [CompletionTimer.REMINDER]
    assert not follow_up.is_reported


@pytest.mark.parametrize("ending", [Ending.PROGRESS, Ending.UNCLEAR])
def test_unclear_turn_is_reported_after_the_idle_timeout(ending: Ending) -> None:
    follow_up = after_turn(Mode.AUTO, RULES, turn(ending), 0)
    assert follow_up is not None
    assert kinds(follow_up) == [CompletionTimer.UNCLEAR, CompletionTimer.REMINDER]
    assert follow_up.waits[0].seconds == 60.0
    assert (follow_up.reason, follow_up.question, follow_up.is_reported) == (None, None, False)


@pytest.mark.parametrize("sent", [2, 3])
@pytest.mark.parametrize("seconds", [(180, 900), (180,)])
def test_warning_follows_the_last_reminder_in_place_of_the_unclear_report(
    seconds: tuple[int, ...], sent: int
) -> None:
    rules = rules_with(remind_after_s=seconds)
    warning = Wait(
        CompletionTimer.MISSING_REPORT, RULES.completion_quiet_s, {"reminders": sent, "background": 2}
    )
    assert after_turn(Mode.AUTO, rules, turn(Ending.UNCLEAR, background=2), sent) == TurnFollowUp((warning,))
    failed = after_turn(Mode.AUTO, rules, turn(Ending.FAILED, background=2), sent)
    assert failed is not None
    assert failed.waits == (warning,)


def test_unclear_turn_is_reported_after_the_last_reminder_when_the_warning_is_off() -> None:
    unclear = after_turn(Mode.AUTO, RULES, turn(Ending.UNCLEAR), 2, warns=False)
    assert kinds(unclear) == [CompletionTimer.UNCLEAR]
    assert kinds(after_turn(Mode.AUTO, RULES, turn(Ending.FAILED), 2, warns=False)) == []


@pytest.mark.parametrize(("sent", "seconds"), [(0, 180.0), (1, 900.0), (2, None), (3, None)])
def test_each_reminder_is_sent_once_for_a_run(sent: int, seconds: float | None) -> None:
    follow_up = after_turn(Mode.AUTO, RULES, turn(Ending.UNCLEAR, background=1), sent)
    assert follow_up is not None
    reminders = [wait for wait in follow_up.waits if wait.kind == CompletionTimer.REMINDER]
    found = {"number": sent + 1, "background": 1}  # a reminder waits for tasks in the background
    assert reminders == ([] if seconds is None else [Wait(CompletionTimer.REMINDER, seconds, found)])


@pytest.mark.parametrize("ending", list(Ending))
def test_text_decides_nothing_when_messages_are_not_read(ending: Ending) -> None:
    rules = rules_with(detect_completion_phrases=False, remind_after_s=())
    assert kinds(after_turn(Mode.AUTO, rules, turn(ending), 0)) == [CompletionTimer.UNCLEAR]


@pytest.mark.parametrize(
    ("mode", "required", "proposed"),
    [
        (Mode.AUTO, False, False),
        (Mode.AUTO, True, True),
        (Mode.SUPERVISED, False, True),
        (Mode.SUPERVISED, True, True),
    ],
)
def test_detected_completion_needs_approval_in_mode_supervised_or_when_required(
    mode: Mode, required: bool, proposed: bool
) -> None:
    assert needs_approval(mode, rules_with(require_parent_approval=required)) is proposed
