"""Spans of time in which a session had one status, read from its events. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_ended
from sm.core.states import RESTORE, EventType
from sm.core.statuses import Status

STATUS_EVENTS = {
    EventType.SPAWNED: Status.SPAWNED,
    EventType.STARTED: Status.RUNNING,
    EventType.RUNNING: Status.RUNNING,
    EventType.REOPENED: Status.RUNNING,
    EventType.IDLE: Status.IDLE,
    EventType.WAITING_INPUT: Status.WAITING_INPUT,
    EventType.COMPLETED: Status.COMPLETED,
    EventType.ERROR: Status.ERROR,
    EventType.ABANDONED: Status.ABANDONED,
    EventType.KILLED: Status.KILLED,
}
"""The status after each event of a move. No event reports that a new session is starting."""


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """An event of a type in STATUS_EVENTS, with the parts of its metadata that the timeline needs."""

    session_id: str
    type: EventType
    timestamp: str
    source: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Span:
    status: Status
    start: str
    end: str | None
    """None if the session still has this status."""
    reason: str | None


def spans(events: Iterable[StatusEvent], since: str) -> dict[str, list[Span]]:
    """The spans of each session that end after `since`, oldest first.

    `events` are in order, with the last one of each session before `since`. Events that repeat a status continue its
    span. Omits sessions that had ended by then.
    """
    found: dict[str, list[Span]] = {}
    for event in events:
        line = found.setdefault(event.session_id, [])
        restarts = event.type is EventType.REOPENED and event.source == RESTORE
        status = Status.STARTING if restarts else STATUS_EVENTS[event.type]
        if line and line[-1].status is status:
            continue
        # A signal is recorded with the time of its emission, which may be before the previous event.
        start = max(event.timestamp, line[-1].start) if line else event.timestamp
        if line:
            line[-1] = replace(line[-1], end=start)
        line.append(Span(status, start, None, event.reason))
    shown = {s: [span for span in line if span.end is None or span.end > since] for s, line in found.items()}
    return {s: line for s, line in shown.items() if not _was_over(line, since)}


def _was_over(line: list[Span], since: str) -> bool:
    return len(line) == 1 and is_ended(line[0].status) and line[0].start <= since
