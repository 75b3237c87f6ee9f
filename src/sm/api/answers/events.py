"""The JSON objects in the answers of the routes of events."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.states import EventType
from sm.wire_types.fields import Anything, Time


class EventView(TypedDict):
    """A recorded fact about a session."""

    seq: Annotated[int, doc("Rises without gaps.")]
    type: EventType
    session_id: str
    parent_session_id: str | None
    timestamp: Time
    message: Annotated[str, doc("A sentence for people.")]
    metadata: Anything


class EventsView(TypedDict):
    events: list[EventView]
    last_seq: int
