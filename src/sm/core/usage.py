"""Token usage, tool uses and to-do lists of agents. Pure data."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Self

from sm.core.dataclass import dataclass

_DATE_OF_MODEL = re.compile(r"[-@](\d{8}|latest)$", re.ASCII)

COST_DIGITS = 6
"""Decimal places of a cost in US dollars."""
UNREAD = "[unread]"
"""Follows the name of the model, if it is known, in usage whose tokens cannot be read: all its numbers are 0. Sums are
kept by name.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one API message. Counted once for each `message_id`, even if the transcript repeats it."""

    message_id: str
    model: str
    at: str
    """ISO 8601."""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    """Includes `cache_write_1h`."""
    cache_write_1h: int = 0
    sidechain: bool = False
    """Used by a sub-agent."""

    @property
    def context(self) -> int:
        """Tokens in the conversation after this message."""
        return self.input + self.cache_read + self.cache_write + self.output

    @property
    def is_unread(self) -> bool:
        """The tokens of the message could not be read."""
        return self.model.endswith(UNREAD)

    def replaces(self, stored: Self) -> bool:
        """Decide which of two readings of a message counts, as the database does: what was read, then more output."""
        if self.is_unread or stored.is_unread:
            return not self.is_unread
        return self.output >= stored.output


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token sums by kind. Each token counts in exactly one of them."""

    input: int = 0
    """Excludes tokens read from or written to the cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @classmethod
    def of(cls, usages: Iterable[Usage]) -> Self:
        return sum((cls(u.input, u.output, u.cache_read, u.cache_write) for u in usages), cls())

    @property
    def used(self) -> int:
        """Input and output. Excludes the cache, which repeats the conversation at each turn."""
        return self.input + self.output

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Todo:
    """An entry of an agent's to-do list."""

    content: str
    status: str
    """`pending`, `in_progress` or `completed` in current versions of the agent CLI."""
    id: str | None = None
    """None where the agent's tools have no ids."""


@dataclass(frozen=True, slots=True)
class SaidText:
    """A text of the agent, or a use of a tool, as `sm search` finds it."""

    key: str
    """Tells the texts of a session apart: a transcript may be read again."""
    at: str
    """ISO 8601, or empty if unknown."""
    type: str
    """`text` or `tool`."""
    text: str


@dataclass(frozen=True, slots=True)
class ActionLine:
    at: str | None
    kind: str
    """`prompt`, `text`, `tool`, `error` or `mark`."""
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Counted once for each `id`."""

    id: str
    name: str
    at: str
    """ISO 8601."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Truncated."""
    sidechain: bool = False
    digest: str = field(default="", compare=False, repr=False)
    """Of the tool and its arguments, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Read position in a file: `offset` bytes of the file with this inode."""

    inode: int
    offset: int


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """The measurements of a session, for a list. None means unknown or not counted."""

    tokens: TokenCounts | None = None
    """Includes the tokens of sub-agents."""
    cost_usd: float | None = None
    context_percent: int | None = None
    last_tool: ToolUse | None = None
    todo: tuple[int, int] | None = None
    """The finished entries of the agent's task list, and all of them."""
    model: str | None = field(default=None, compare=False)
    """The model that answered last, else the one that the session was started with."""
    answer: str | None = field(default=None, compare=False)
    """The agent's last words."""


class FollowUpKind(StrEnum):
    """Messages by which sm lets an agent go on."""

    REMINDER = "reminder"
    RETRY = "retry"


def main_model(usages: Sequence[Usage]) -> str | None:
    """The model that has the most tokens in the main conversation, else in those of sub-agents. None without usage."""
    most = max(usages, key=lambda used: (not used.sidechain, used.context), default=None)
    return None if most is None else most.model.removesuffix(UNREAD) or None


def base_model(name: str) -> str:
    """The name of a model without its date and without an option in brackets: `claude-opus-4-8`."""
    return _DATE_OF_MODEL.sub("", name.partition("[")[0].strip().lower())


def is_same_model(one: str | None, other: str | None) -> bool:
    """Return whether two names mean the same model: dated or undated, or an alias such as `opus`.

    None is no model, which is the same only as None.
    """
    if one is None or other is None:
        return one is other
    first, second = base_model(one), base_model(other)
    return first == second or _is_alias(first, second) or _is_alias(second, first)


def _is_alias(name: str, of: str) -> bool:
    """True if `name` is a family of models, a name without a number, and `of` a member of it."""
    return name.isalpha() and name in of.split("-")
