"""What is said of a session: the texts of events and reasons. Pure."""

from typing import assert_never

from sm.models import EventType, Session, Signal, SignalKind
from sm.text import folded


def subject(session: Session) -> str:
    """What an event calls the session: readers of events are mostly parents."""
    return f"{'Session' if session.parent_id is None else 'Child'} {session.id}"


def quoted(text: str) -> str:
    """An agent's own text inside a line of ours."""
    return f'"{folded(text)}"'


def spawned(session: Session) -> str:
    kind = "Session" if session.parent_id is None else "Child"
    return f"{kind} {session.display_name} ({session.id}) started"


def moved(session: Session, signal: Signal, type: EventType) -> str:
    """The line of the event that records a move; `session` is as it was before."""
    who = subject(session)
    match signal.kind:
        case SignalKind.STARTED:
            return f"{who} running"
        case SignalKind.START_FAILED:
            return f"{who} did not start: {folded(signal.reason)}"
        case SignalKind.REPORTED_COMPLETED | SignalKind.REPORTED_ERROR | SignalKind.REPORTED_ABANDONED:
            verb = "failed" if signal.kind is SignalKind.REPORTED_ERROR else type.value
            return f"{who} {verb} - {quoted(signal.message)}" if signal.message else f"{who} {verb}"
        case SignalKind.EXITED:
            return f"{who} completed (exited with code 0)"
        case SignalKind.CRASHED:
            return f"{who} crashed ({signal.exit})"
        case SignalKind.TERMINAL_LOST | SignalKind.PARENT_ENDED | SignalKind.REOPENED | SignalKind.RESTARTED:
            return f"{who} {type.value}: {folded(signal.reason)}"
        case SignalKind.KILLED:
            return f"{who} killed ({folded(signal.reason)})"
        case SignalKind.BUSY | SignalKind.WENT_IDLE | SignalKind.ASKED | SignalKind.LAUNCHING:
            return f"{who} {type.value.replace('_', ' ')}: {folded(signal.reason)}"
        case _:
            assert_never(signal.kind)
