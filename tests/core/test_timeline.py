"""Spans of statuses from events."""

from sm.core.states import RESTORE, EventType
from sm.core.statuses import Status
from sm.core.timeline import Span, StatusEvent, spans


def event(type: EventType, at: str, source: str = "hook", session_id: str = "a") -> StatusEvent:
    return StatusEvent(session_id, type, at, source, f"by {type}")


def shown(*events: StatusEvent, since: str = "") -> list[tuple[Status, str, str | None]]:
    return [(span.status, span.start, span.end) for span in spans(events, since).get("a", [])]


def test_spans_follow_the_moves_of_a_session() -> None:
    moves = [event(EventType.SPAWNED, "1"), event(EventType.STARTED, "2"), event(EventType.IDLE, "3")]
    assert shown(*moves, event(EventType.COMPLETED, "4")) == [
        (Status.SPAWNED, "1", "2"),
        (Status.RUNNING, "2", "3"),
        (Status.IDLE, "3", "4"),
        (Status.COMPLETED, "4", None),
    ]


def test_span_goes_on_when_an_event_repeats_its_status() -> None:
    moves = [event(EventType.STARTED, "1"), event(EventType.IDLE, "2"), event(EventType.IDLE, "3")]
    assert shown(*moves) == [(Status.RUNNING, "1", "2"), (Status.IDLE, "2", None)]


def test_restored_session_is_starting_and_a_reopened_one_is_running() -> None:
    ended = event(EventType.COMPLETED, "1")
    assert shown(ended, event(EventType.REOPENED, "2", RESTORE), event(EventType.STARTED, "3"))[1:] == [
        (Status.STARTING, "2", "3"),
        (Status.RUNNING, "3", None),
    ]
    assert shown(ended, event(EventType.REOPENED, "2", "inbox"))[1:] == [(Status.RUNNING, "2", None)]


def test_spans_are_never_negative_when_a_signal_was_emitted_before_the_previous_one() -> None:
    moves = [event(EventType.STARTED, "5"), event(EventType.IDLE, "4"), event(EventType.RUNNING, "6")]
    assert shown(*moves) == [(Status.RUNNING, "5", "5"), (Status.IDLE, "5", "6"), (Status.RUNNING, "6", None)]


def test_spans_before_the_time_are_omitted_and_the_one_across_it_is_whole() -> None:
    moves = [event(EventType.STARTED, "1"), event(EventType.IDLE, "2"), event(EventType.RUNNING, "6")]
    assert shown(*moves, since="4") == [(Status.IDLE, "2", "6"), (Status.RUNNING, "6", None)]
    other = event(EventType.ERROR, "7", session_id="b")
    assert spans([event(EventType.KILLED, "3"), other], "4") == {
        "b": [Span(Status.ERROR, "7", None, "by error")]
    }
    assert shown(event(EventType.KILLED, "5"), since="4") == [(Status.KILLED, "5", None)]
