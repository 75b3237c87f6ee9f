"""Declarations of operations, from which the doors of sm are made. Standard library alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Most:
    """Limits a whole number, in the annotation of an argument: a larger one counts as this."""

    value: int


@dataclass(frozen=True, slots=True)
class Noun:
    """Names the values of a closed set in errors, in the annotation of an argument of a GET; else its name does."""

    value: str


class PackedFile:
    """The result of an operation whose answer is a tar.gz file.

    The use case returns an asynchronous context manager of the file, open for reading.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """Something that callers can do or see. A capability declares its operations, and binds each to its use case."""

    name: str
    """The operationId in docs/openapi.json in snake case, unique among the operations of its tag."""
    summary: str
    """One sentence, and after a blank line more: the documentation of its route."""
    method: str
    """GET for an operation that changes nothing, else POST."""
    path: str
    """The path of its route. Its one parameter, if it has one, names the target."""
    result: Any
    """The class of its result in `wire_types`, or `PackedFile`."""
    arguments: type[Any] | None = None
    """A dataclass with the arguments beside the target; None: it takes none. Those of a GET are its query: texts,
    flags, times, closed sets and whole numbers with `Most`."""
    target: str = ""
    """The documentation of the target; empty: that of the other routes below the same name, such as `sessions`."""
    takes_key: bool = True
    """False: a repetition does no more than the first call, so a POST needs no Idempotency-Key."""
    agents: bool = False
    """The sockets of sandboxed agents have its route too, not only the operator's."""
    command: str = ""
    """The command of `sm` that does it, without `sm`; empty: none."""
    button: str = ""
    """The action of its buttons in chats, which stored buttons have; empty: it has no button."""
    done: Callable[[Any], str] | None = None
    """Words the result for a person in a chat; None: `Done.`"""
    tool: str = ""
    """The name of its MCP tool, which takes the target as `session_id`; empty: it has none."""
    chat: str = ""
    """Its command in chats, without the slash. The text after the target is its only argument. Empty: it has none."""
    key: str = ""
    """Its key in live views, where it is an action on the selected session; empty: it is none."""
    title: str = ""
    """The title of the action in live views."""
    audit: str = ""
    """The action of a refusal in the audit log; empty: the name."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Additions to the JSON schema of arguments, by name."""

    @property
    def has_target(self) -> bool:
        return "{" in self.path

    def path_of(self, target: str) -> str:
        """The path of its route for one target, which must be safe in a URL."""
        before, _, rest = self.path.partition("{")
        return before + target + rest.partition("}")[2] if rest else before
