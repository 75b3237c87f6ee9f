"""The JSON objects in the answers of the routes of events."""

from sm.core.dataclass import dataclass
from sm.core.states import EventType
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
