"""Parts of the files in a workspace's directory that sessions get only if the operator agreed to them. Pure data."""

import hashlib
from dataclasses import field
from enum import StrEnum

from sm.core.dataclass import dataclass

CONTENT_MAX = 10_000


class ItemKind(StrEnum):
    MCP_SERVER = "mcp_server"
    AGENT_TYPE = "agent_type"
    """A definition file."""
    COMMANDS = "commands"
    """Commands that sm runs for a session."""


_WORDS = {
    ItemKind.MCP_SERVER: "MCP server",
    ItemKind.AGENT_TYPE: "agent type",
    ItemKind.COMMANDS: "commands of",
}


class ItemState(StrEnum):
    AGREED = "agreed"
    NEW = "new"
    CHANGED = "changed"
    """The operator agreed to an earlier content."""


@dataclass(frozen=True, slots=True)
class ProjectItem:
    """One part of a file in the directory of a workspace."""

    kind: ItemKind
    name: str
    file: str
    """An absolute path."""
    data: bytes = field(repr=False)
    """Every byte of the content that has an effect."""

    @property
    def key(self) -> str:
        """Identifies the item, whatever its content."""
        return self._hash()

    @property
    def id(self) -> str:
        """Identifies the item with its present content."""
        return self._hash(self.data)

    @property
    def subject(self) -> str:
        """The item in words, for people."""
        return f"{_WORDS[self.kind]} {self.name}"

    @property
    def is_cut(self) -> bool:
        """True if `content` does not show all of it."""
        return len(self.data.decode("utf-8", "replace")) > CONTENT_MAX

    @property
    def content(self) -> str:
        """The content for people, cut if it is very long."""
        text = self.data.decode("utf-8", "replace")
        if not self.is_cut:
            return text
        return f"{text[:CONTENT_MAX]}\n({len(text) - CONTENT_MAX:,} more characters in {self.file})"

    def _hash(self, *more: bytes) -> str:
        digest = hashlib.sha256()
        for part in (self.kind.encode(), _bytes(self.name), _bytes(self.file), *more):
            digest.update(b"%d:" % len(part) + part)
        return digest.hexdigest()[:32]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
