"""The JSON objects in the answer of the route of the search."""

from dataclasses import dataclass

from sm.core.search_types import SearchType
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class FoundView:
    """A text with the words of a search."""

    session_id: str
    label: str
    """The name for people. It ends with the id only if another session has the same friendly name."""
    status: str
    type: SearchType
    at: Time
    excerpt: str
    """The part of the text around the words, in one line."""
