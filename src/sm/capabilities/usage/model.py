"""The records of a report of usage. Pure data."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.core.statuses import Status
from sm.core.usage import FollowUpKind, TokenCounts


@dataclass(frozen=True, slots=True)
class UsedSession:
    """A session of the report, which may be removed."""

    id: str
    agent_type: str
    model: str | None
    """The model that it used most, or None if unknown."""
    account: str | None
    root: str | None
    """The topmost session of its tree that the caller sees, or None if it was removed with all its ancestors."""
    created_at: str
    completed_at: str | None
    """The time of its completion, or None if it has ended in another way or not at all."""
    seconds: float = 0
    """From its start to its completion."""
    cost_usd: float | None = None
    """None if unknown."""
    live: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True)
class UsedTokens:
    """The usage of a session with one model."""

    session_id: str
    at: str
    """The slot, or any time in it, or empty if unknown."""
    model: str
    tokens: TokenCounts
    cost_usd: float | None
    """None if the price is unknown."""
    is_unread: bool = False
    """The tokens cannot be read."""


@dataclass(frozen=True, slots=True)
class UsageRecords:
    """All that was recorded since the beginning of the report. The times are ISO 8601 in UTC, or slots."""

    tokens: Sequence[UsedTokens] = ()
    work: Sequence[tuple[str, str, float]] = ()
    """(session, slot, seconds)"""
    endings: Sequence[tuple[str, str, Status]] = ()
    """(session, time, kind)"""
    follow_ups: Sequence[tuple[str, str, FollowUpKind]] = ()
    """(session, time, kind)"""
