"""A star of a session. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class StarTimer(StrEnum):
    """Stored in rows."""

    STAR = "star"
    """The star of a session ends."""


@dataclass(frozen=True, slots=True)
class Star:
    """A mark of a session by a person or an agent."""

    session_id: str
    reason: str
    by: str
    until: str
    """ISO 8601, UTC."""
