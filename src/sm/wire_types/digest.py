"""The JSON objects in the answer of the route of the digest."""

from sm.core.dataclass import dataclass
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class DigestEntryView:
    session_id: str
    label: str
    """The name for people. It ends with the id only if another session has the same friendly name."""
    status: str
    """The status of a session, the kind of a request or of a warning."""
    at: Time
    text: str
    command: str
    """The command that shows more."""
    times: int
    """How often it happened: more than one only for a warning."""


@dataclass(frozen=True, slots=True)
class TreeSpendingView:
    """The spending of a session and its descendants since the beginning of the digest."""

    session_id: str
    """The root of the tree."""
    label: str
    """The name for people. It ends with the id only if another session has the same friendly name."""
    sessions: int
    """The sessions of the tree that have spent anything."""
    tokens_used: int
    """Input and output, without the cache."""
    cost_usd: float | None
    """Null if the price of a model, or some tokens, are unknown."""
    budget: str | None
    """The budget of the root, and how much of it is spent, or null without one."""
    known_cost_usd: float | None
    """The part of the cost whose prices are known, or null if there is none."""
    tokens_partial: bool
    """True if some tokens cannot be read, so that there are more."""
    is_part: bool
    """Another entry, that of the root of its tree, contains this one."""


@dataclass(frozen=True, slots=True)
class DigestView:
    """The events since a time, worst first, as far as the caller may see it."""

    since: Time
    until: Time
    ended: list[DigestEntryView]
    """Failures first."""
    requests: list[DigestEntryView]
    """Open requests; the text ends with the command to type."""
    warnings: list[DigestEntryView]
    """The newest of each session and kind."""
    live: list[DigestEntryView]
    """Sessions that may wait for somebody first."""
    spending: list[TreeSpendingView]
    """The most expensive tree first."""
    removed: int
    """Sessions that ended in this time and were removed."""
