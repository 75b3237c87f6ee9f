"""The lifecycle state machine. Only `decide(status, signal)` yields a new status. Pure.

`python -m sm.core.lifecycle` prints the diagram of docs/lifecycle.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sm.core.dataclass import dataclass
from sm.core.models import Signal
from sm.core.states import REQUESTED, EventType, SignalKind
from sm.core.statuses import ENDED, ENDED_OF_ANY_KIND, LIVE, Status
from sm.errors import IllegalTransition


def _table() -> dict[tuple[Status, SignalKind], Status]:
    table = {
        (Status.SPAWNED, SignalKind.LAUNCHING): Status.STARTING,
        (Status.SPAWNED, SignalKind.STARTED): Status.RUNNING,
        (Status.STARTING, SignalKind.STARTED): Status.RUNNING,
        (Status.SPAWNED, SignalKind.START_FAILED): Status.ERROR,
        (Status.STARTING, SignalKind.START_FAILED): Status.ERROR,
        # A first-run dialog delays the start of an agent until a person answers it.
        (Status.STARTING, SignalKind.ASKED): Status.WAITING_INPUT,
        (Status.WAITING_INPUT, SignalKind.STARTED): Status.RUNNING,
        (Status.IDLE, SignalKind.BUSY): Status.RUNNING,
        (Status.WAITING_INPUT, SignalKind.BUSY): Status.RUNNING,
        (Status.RUNNING, SignalKind.WENT_IDLE): Status.IDLE,
        (Status.WAITING_INPUT, SignalKind.WENT_IDLE): Status.IDLE,
        (Status.RUNNING, SignalKind.ASKED): Status.WAITING_INPUT,
        (Status.IDLE, SignalKind.ASKED): Status.WAITING_INPUT,
        (Status.IDLE, SignalKind.DETECTED_COMPLETED): Status.COMPLETED,
    }
    for live in LIVE:
        table |= {
            # An agent may report its end before the daemon has seen its start.
            (live, SignalKind.REPORTED_COMPLETED): Status.COMPLETED,
            (live, SignalKind.REPORTED_ERROR): Status.ERROR,
            (live, SignalKind.REPORTED_ABANDONED): Status.ABANDONED,
            (live, SignalKind.EXITED): Status.COMPLETED,
            (live, SignalKind.CRASHED): Status.ERROR,
            (live, SignalKind.TERMINAL_LOST): Status.ERROR,
            (live, SignalKind.KILLED): Status.KILLED,
            (live, SignalKind.PARENT_ENDED): Status.ABANDONED,
        }
    for started in LIVE[1:]:
        # Until the restart, the session is live and has no process.
        table[started, SignalKind.RESTART_PLANNED] = Status.STARTING
    for ended in ENDED:
        table |= {
            (ended, SignalKind.REOPENED): Status.RUNNING,
            (ended, SignalKind.RESTARTED): Status.STARTING,
        }
    return table


TRANSITIONS: Mapping[tuple[Status, SignalKind], Status] = MappingProxyType(_table())

_EVENTS: Mapping[Status, EventType] = {
    status: EventType(status.value) for status in Status if status not in (Status.SPAWNED, Status.STARTING)
}
_EVENTS_OF_SIGNAL = {
    SignalKind.STARTED: EventType.STARTED,
    SignalKind.REOPENED: EventType.REOPENED,
    SignalKind.RESTARTED: EventType.REOPENED,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """A move from `before` to `after`, and the event that records the move (None for no event)."""

    before: Status
    after: Status
    event: EventType | None
    signal: Signal


def is_live(status: Status) -> bool:
    return status in LIVE


def is_ended(status: Status) -> bool:
    """False also for a status that this version does not know."""
    return status in ENDED


def decide(status: Status, signal: Signal) -> Decision | None:
    """Look up the move that `signal` causes; None when the status does not change.

    An observed signal without an entry in the table is late news and changes nothing. A requested signal without
    an entry raises IllegalTransition.
    """
    after = TRANSITIONS.get((status, signal.kind))
    if after is None:
        if signal.kind in REQUESTED:
            raise IllegalTransition(
                f"a session with status {status} does not accept the signal {signal.kind}"
            )
        return None
    event = _EVENTS_OF_SIGNAL.get(signal.kind) or _EVENTS.get(after)
    return Decision(before=status, after=after, event=event, signal=signal)


def has_reached(status: Status, until: str) -> bool | None:
    """Compare `status` with the status, or `ended`, that a caller waits for. None for not yet, False for never."""
    if is_ended(status):
        return until in (status, ENDED_OF_ANY_KIND)
    return True if until == status else None


def diagram() -> str:
    """Draw the table as a Mermaid stateDiagram-v2, with one edge for each pair of statuses."""
    merged: dict[tuple[Status, Status], list[str]] = {}
    for (before, kind), after in TRANSITIONS.items():
        merged.setdefault((before, after), []).append(kind.value)
    lines = ["stateDiagram-v2", "    [*] --> spawned"]
    lines += [f"    {before} --> {after}: {', '.join(kinds)}" for (before, after), kinds in merged.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())  # noqa: T201 - the diagram is the answer
