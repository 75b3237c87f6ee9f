"""Tool calls of an agent as its transcript has them: the input of the rules for loops. Pure data."""

from typing import Any, TypeAlias

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CallStart:
    """The agent calls a tool."""

    id: str
    name: str
    digest: str
    """Of the tool and its arguments."""
    shown: str
    """The call in one line, for people."""
    at: str
    waits: bool = False
    """The call waits for something, such as `sleep 60` or `sm wait`: to repeat it is no loop."""
    is_own: bool = False
    """The call only uses sm: it sends, reads, reports or waits."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A tool call has a result."""

    id: str
    digest: str
    """Of the result."""
    error: str | None
    """The words of a failure, or None if the call did not fail."""
    at: str


@dataclass(frozen=True, slots=True)
class TurnBreak:
    """A turn has ended: the calls of the next one are not in a row with those before."""


CallItem: TypeAlias = CallStart | CallEnd | TurnBreak


@dataclass(frozen=True, slots=True)
class CallStep:
    """The state after an item of a transcript."""

    at: str
    """The time of the item, or empty if unknown."""
    state: dict[str, Any]
