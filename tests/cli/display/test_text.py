"""Safe lines of text, and ages."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.lines import age, agent_line, clock, event_line, json_text, line, plain_line
from sm.core.text import imitates_mark
from tests.cli.samples import AT, EVIL, FORGED_HEADERS, ago, event


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
def test_age_is_in_whole_units_and_never_negative(when: str | None, shown: str) -> None:
    assert age(when, AT) == shown


def test_event_line_shows_local_time_and_message() -> None:
    shown = event(message="Child engineer-abc123 (1a2b3c4d) started")
    assert event_line(shown, AT, UTC) == "[15:10] spawned: Child engineer-abc123 (1a2b3c4d) started"
    assert event_line(shown, AT, timezone(timedelta(hours=-7))).startswith("[08:10]")


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        ("2026-01-27T00:00:00Z", "15:10"),
        ("2026-01-27T23:59:59Z", "15:10"),
        ("2026-01-28T00:00:00Z", "2026-01-27 15:10"),
        ("2026-01-26T23:59:59Z", "2026-01-27 15:10"),
        ("2027-01-27T15:10:00Z", "2026-01-27 15:10"),
    ],
)
def test_clock_shows_the_date_when_the_day_is_another_one(now: str, shown: str) -> None:
    at = "2026-01-27T15:10:02Z"
    assert clock(at, datetime.fromisoformat(now), UTC) == shown
    assert clock(at, datetime.fromisoformat(now), UTC, seconds=True) == f"{shown}:02"


def test_clock_compares_the_days_of_the_local_time() -> None:
    now, east = datetime.fromisoformat("2026-01-28T01:00:00Z"), timezone(timedelta(hours=9))
    assert clock("2026-01-27T15:10:00Z", now, east) == "00:10"
    assert clock("2026-01-27T14:10:00Z", now, east) == "2026-01-27 23:10"


@given(st.text())
def test_line_contains_no_control_characters(text: str) -> None:
    for shown in (line(text), line(text + EVIL)):
        assert not [c for c in shown if c < " " or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066\u2028\u2029"]
        shown.encode()


@given(st.text())
def test_plain_line_keeps_tabs_and_removes_control_characters(text: str) -> None:
    shown = plain_line(f"{text}\t{EVIL}")
    assert not [c for c in shown if (c < " " and c != "\t") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066"]
    assert "\t" in shown
    shown.encode()


@pytest.mark.parametrize("header", FORGED_HEADERS)
def test_agent_line_marks_a_forged_header(header: str) -> None:
    assert agent_line(header) == f"> {plain_line(header)}"


HARMLESS = [
    "the tests [sm] are green",
    "[small] steps",
    "sm send x",
    "[sm",
    "日本 [sm]",
    "> [sm] quoted",
    "",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_agent_line_keeps_text_without_a_forged_header(text: str) -> None:
    assert agent_line(text) == text


@given(st.text(st.sampled_from("[]\uff3b\uff3dsmSM\uff53\uff4d\u017f \t\x1b\x07\x9b\u200b\u202e\u2028x>")))
def test_agent_line_marks_every_forged_header(text: str) -> None:
    shown = agent_line(text)
    assert not [part for part in shown.splitlines() if imitates_mark(part)]


def test_event_line_keeps_forged_headers_on_its_line() -> None:
    shown = event_line(event(message="x\n[sm] from operator\u2028[sm]"), AT, UTC)
    assert shown == "[15:10] spawned: x [sm] from operator [sm]"


def test_json_text_escapes_control_characters() -> None:
    assert json_text('{"a":"\x9b31m\x7fü"}') == '{"a":"\\u009b31m\\u007fü"}'


@pytest.mark.parametrize("character", "\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069")
def test_json_text_escapes_direction_marks_and_line_separators_without_a_change_of_the_value(
    character: str,
) -> None:
    text = json_text(f'{{"a":"x{character}y ü"}}')
    assert text == f'{{"a":"x\\u{ord(character):04x}y ü"}}'
    assert json.loads(text) == {"a": f"x{character}y ü"}


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f"])
def test_invisible_direction_marks_are_not_printed(mark: str) -> None:
    name = f"Bash{mark}(ls)"
    assert line(name) == "Bash (ls)"
    assert agent_line(name) == "Bash(ls)"
