"""Tests of the reasons for which an idle session waits."""

import pytest

from sm.policy.unfinished import TerminalUse, Unfinished, reason_of_person, reason_to_wait


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (Unfinished(), None),
        (Unfinished(children=1), "waiting for 1 child"),
        (Unfinished(children=3, messages=1), "waiting for 3 children"),
        (Unfinished(messages=1), "waiting for 1 message"),
        (Unfinished(messages=2), "waiting for 2 messages"),
        (Unfinished(requests=("r5", "r7")), "waiting for r5, r7"),
        (Unfinished(background=1), "waiting for 1 background task"),
        (Unfinished(background=2), "waiting for 2 background tasks"),
        (Unfinished(open_tasks=2), "waiting for 2 open tasks of its list"),
    ],
)
def test_unfinished_work_is_a_reason_to_wait(left: Unfinished, reason: str | None) -> None:
    assert reason_to_wait(left) == reason


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (TerminalUse(), None),
        (TerminalUse(typed_s=60.0), None),
        (TerminalUse(typed_s=59.9), "a person types in its terminal"),
        (TerminalUse(draft=True), "a draft is in its input box"),
        (
            TerminalUse(stashed=True),
            "a draft was put aside; it comes back into the input box with the next message",
        ),
        (TerminalUse(closed="a dialog is open"), "its input box takes no text: a dialog is open"),
    ],
)
def test_person_at_the_terminal_is_a_reason_to_wait(use: TerminalUse, reason: str | None) -> None:
    assert reason_of_person(use) == reason
