"""The JSON objects in the answers of the routes of events, and to the hooks of agents."""

from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.states import EventType, RequestState
from sm.wire_types.fields import Anything, Time


@dataclass(frozen=True, slots=True)
class EventView:
    """A recorded fact about a session."""

    seq: int
    """Rises without gaps."""
    type: EventType
    session_id: str
    parent_session_id: str | None
    timestamp: Time
    message: str
    """A sentence for people."""
    metadata: Anything


@dataclass(frozen=True, slots=True)
class EventsView:
    events: list[EventView]
    last_seq: int


class DialogOutcome(StrEnum):
    """The state of a dialog, for the hook that waits."""

    OPEN = "open"
    DECIDED = "decided"
    OVER = "over"
    """The hook prints nothing: the agent, or the person at its terminal, decides."""


@dataclass(frozen=True, slots=True)
class DialogView:
    """The decision about a dialog."""

    request: str | None
    """Null if the event is about no dialog or a closed one."""
    state: DialogOutcome
    """`over`: the hook prints nothing."""
    output: str | None
    """The text that the hook prints."""


@dataclass(frozen=True, slots=True)
class DialogTakenView:
    request: str
    state: RequestState
