"""Safe lines for a person, and times."""

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.cli.display.text import age, agent_line, event_line, json_text, line, plain_line
from sm.core.text import imitates_mark
from tests.cli.samples import AT, CLAIMS, EVIL, ago, event


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        (ago(seconds=0), "0s ago"),
        (ago(seconds=10), "10s ago"),
        (ago(seconds=59), "59s ago"),
        (ago(minutes=5), "5min ago"),
        (ago(minutes=59, seconds=59), "59min ago"),
        (ago(hours=2), "2h ago"),
        (ago(hours=23, minutes=59), "23h ago"),
        (ago(days=3), "3d ago"),
        (ago(seconds=-5), "0s ago"),
        (None, "never"),
    ],
)
def test_ages_are_in_whole_units_and_never_negative(when: str | None, shown: str) -> None:
    assert age(when, AT) == shown


def test_an_event_is_one_line_with_the_time_of_the_place() -> None:
    shown = event(message="Child engineer-abc123 (1a2b3c4d) started")
    assert event_line(shown, UTC) == "[15:10] spawned: Child engineer-abc123 (1a2b3c4d) started"
    assert event_line(shown, timezone(timedelta(hours=-7))).startswith("[08:10]")


@given(st.text())
def test_a_line_never_holds_a_control_character(text: str) -> None:
    for shown in (line(text), line(text + EVIL)):
        assert not [c for c in shown if c < " " or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066\u2028\u2029"]
        shown.encode()


@given(st.text())
def test_a_line_of_a_terminal_keeps_its_text_and_tabs_and_nothing_that_moves(text: str) -> None:
    shown = plain_line(f"{text}\t{EVIL}")
    assert not [c for c in shown if (c < " " and c != "\t") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066"]
    assert "\t" in shown
    shown.encode()


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_line_that_claims_to_be_the_daemons_is_shown_as_somebody_elses(claim: str) -> None:
    assert agent_line(claim) == f"> {plain_line(claim)}"


NO_CLAIMS = [
    "the tests [sm] are green",
    "[small] steps",
    "sm send x",
    "[sm",
    "日本 [sm]",
    "> [sm] quoted",
    "",
]


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_a_line_that_claims_nothing_is_shown_as_it_is(text: str) -> None:
    assert agent_line(text) == text


@given(st.text(st.sampled_from("[]\uff3b\uff3dsmSM\uff53\uff4d\u017f \t\x1b\x07\x9b\u200b\u202e\u2028x>")))
def test_no_line_of_a_terminal_claims_to_be_the_daemons(text: str) -> None:
    shown = agent_line(text)
    assert not [part for part in shown.splitlines() if imitates_mark(part)]


def test_an_event_cannot_speak_for_the_daemon_either() -> None:
    shown = event_line(event(message="x\n[sm] from operator\u2028[sm]"), UTC)
    assert shown == "[15:10] spawned: x [sm] from operator [sm]"


def test_json_from_the_daemon_is_printed_with_its_controls_escaped() -> None:
    assert json_text('{"a":"\x9b31m\x7fü"}') == '{"a":"\\u009b31m\\u007fü"}'
