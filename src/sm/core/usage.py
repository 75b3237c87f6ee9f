"""What agents consume: tokens by kind, tools. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one API message. Counted once for each `message_id`, however often it is written."""

    message_id: str
    model: str
    at: str
    """ISO 8601."""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    """All of it; `cache_write_1h` is a part of this."""
    cache_write_1h: int = 0
    sidechain: bool = False
    """Of a sub-agent."""

    @property
    def context(self) -> int:
        """Tokens that the conversation holds after this message."""
        return self.input + self.cache_read + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Todo:
    """One entry of an agent's own list."""

    content: str
    status: str
    """`pending`, `in_progress` or `completed`, in today's versions."""
    id: str | None = None
    """Where the agent's tools name one."""


@dataclass(frozen=True, slots=True)
class ActionLine:
    """Something an agent did, in one line."""

    at: str | None
    kind: str
    """`prompt`, `text`, `tool`, `error` or `mark`."""
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool. Counted once for each `id`."""

    id: str
    name: str
    at: str
    """ISO 8601."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Shortened."""
    sidechain: bool = False


@dataclass(frozen=True, slots=True)
class FilePosition:
    """How far a file was read: `offset` bytes of the file with this inode."""

    inode: int
    offset: int
