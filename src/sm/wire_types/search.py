"""Found texts in answers."""

from sm.core.dataclass import dataclass
from sm.core.statuses import Tolerant
from sm.wire_types.fields import Time


class SearchType(Tolerant):
    """The values are stored in the database, so they never change."""

    PROMPT = "prompt"
    MESSAGE = "message"
    TEXT = "text"
    """A text of the agent in its conversation."""
    TOOL = "tool"
    """A use of a tool with its arguments."""
    REQUEST = "request"
    CHECKPOINT = "checkpoint"
    NOTE = "note"
    RESULT = "result"
    """The message of a completion."""
    TERMINAL = "terminal"
    """The output of a session that has ended."""


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
