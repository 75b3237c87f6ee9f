"""Summary of a timeline: waits, failures, and the load over time."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.board.lane_summary import load_of, summary_of
from sm.board.lanes import lanes
from sm.board.words import without_subject
from sm.client.live_stream import Json
from sm.core.timestamps import epoch_s, iso
from sm.web import lane_view
from sm.web.lane_view import lane_fields

BEGIN_S = epoch_s("2026-01-27T22:00:00.000Z")


def at(minutes: float) -> str:
    return iso(BEGIN_S + 60 * minutes)


def timeline(*found: tuple[str, list[tuple[str, float, float | None]]]) -> Json:
    made = [
        {
            "session_id": name,
            "label": f"engineer-{name}",
            "parent_session_id": None,
            "created_at": at(0),
            "spans": [
                {
                    "status": status,
                    "start": at(start),
                    "end": None if end is None else at(end),
                    "reason": None,
                }
                for status, start, end in spans
            ],
        }
        for name, spans in found
    ]
    return cast(Json, {"since": at(0), "until": at(120), "sessions": made})


def event(seq: int, kind: str, session: str, minutes: float) -> dict[str, Any]:
    text = f"{kind} of {session}\N{RIGHT-TO-LEFT OVERRIDE}"
    return {"seq": seq, "type": kind, "session_id": session, "timestamp": at(minutes), "message": text}


NIGHT = timeline(
    ("a", [("running", 0, 10), ("waiting_input", 10, 100), ("error", 100, None)]),
    ("b", [("running", 0, 60), ("waiting_input", 60, 70), ("running", 70, 90), ("abandoned", 90, None)]),
    ("c", [("waiting_input", -30, 30), ("killed", 30, None)]),
)
EVENTS = [event(7, "error", "a", 100), event(5, "abandoned", "b", 90), event(3, "killed", "c", 30)]


def test_summary_adds_up_waits_and_lists_failures_by_time() -> None:
    summary = summary_of(lanes(NIGHT, EVENTS))
    assert summary.waiting_words == "Waiting for you: 2h 10min in total, 3 times, the longest 1h 30min"
    assert (summary.longest_id, summary.longest_label) == ("a", "engineer-a")
    assert summary.failure_words == "2 failures"
    assert [(lane.session_id, mark.seq) for lane, mark in summary.failures] == [("b", 5), ("a", 7)]


def test_quiet_night_says_that_nothing_waited_or_failed() -> None:
    summary = summary_of(lanes(timeline(("a", [("running", 0, None)]))))
    assert (summary.waiting_words, summary.failure_words) == ("Waiting for you: never", "Nothing failed")
    assert (summary.longest_id, summary.longest_s) == ("", 0.0)


def test_load_counts_each_session_once_in_a_part() -> None:
    waiting, working = load_of(lanes(NIGHT), BEGIN_S, BEGIN_S + 7200, 4)
    assert waiting == [2, 2, 2, 1]  # a span is also in the part that begins with its end
    assert working == [2, 1, 1, 1]
    assert load_of([], BEGIN_S, BEGIN_S, 2) == ([0, 0], [0, 0])


def test_lanes_for_browsers_have_seconds_and_safe_words() -> None:
    fields = lane_fields(NIGHT, EVENTS, ["message"])
    assert (fields["since"], fields["until"], fields["cut"]) == (BEGIN_S, BEGIN_S + 7200, ["message"])
    first = fields["lanes"][0]
    assert first["spans"][1] == ["waiting_input", BEGIN_S + 600, BEGIN_S + 6000, ""]
    assert first["spans"][-1][2] == BEGIN_S + 7200
    assert first["marks"] == [["error", BEGIN_S + 6000, "error of a<U+202E>", 7]]
    assert fields["lanes"][2]["marks"] == []  # somebody wanted that end
    assert fields["words"]["waiting_input"] == "waiting"
    assert [failure["seq"] for failure in fields["summary"]["failures"]] == [5, 7]


async def test_events_after_the_end_of_the_timeline_cut_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_view, "_MARKS_MAX", 2)
    found = {
        "error": [event(1, "error", "a", 100), event(2, "error", "a", 200)],
        "message": [event(3, "message", "a", 10), event(4, "message", "a", 20)],
    }

    async def get(path: str, asked: dict[str, str], **more: object) -> object:
        return NIGHT if path == "/v1/timeline" else {"events": found.get(asked["type"], [])}

    fields = await lane_view._read(cast(Any, SimpleNamespace(get=get)), cast(Any, None), {})
    assert fields["cut"] == ["message"]
    assert sorted(mark[3] for mark in fields["lanes"][0]["marks"]) == [1, 3, 4]


@pytest.mark.parametrize(
    ("event", "rest"),
    [
        ("Child login crashed (signal 9)", "crashed (signal 9)"),
        ("Session login (1a2b3c4d) started", "started"),
        ("Session 1a2b3c4d: message 3 failed", "message 3 failed"),
        ("42 addresses", "42 addresses"),
    ],
)
def test_text_of_an_event_without_its_session(event: str, rest: str) -> None:
    assert without_subject(event) == rest
