"""Declarations of operations, from which the doors of sm are made. Standard library alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any

from sm.core.dataclass import dataclass
from sm.operations.access_rules import Audience


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


@dataclass(frozen=True, slots=True)
class EventStream:
    """The result of an operation whose answer is a stream of events."""

    data: Any
    """The type of the JSON of each event."""
    id: str | None = None
    """The meaning of the `id` line, or None if events have none."""


@dataclass(frozen=True, slots=True)
class SessionsResult:
    """The result of an operation on a session and perhaps on its descendants. Each door shows the sessions itself."""

    sessions: Sequence[Any]
    """The sessions (`core.models.Session`) that it has changed, the named one first if it is among them."""
    working: Sequence[str] = ()
    """The ids of those that may still spend."""
    warnings: Sequence[str] = ()
    """Sentences for people."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DoorNames:
    """The names of an operation at the doors of sm, with which hints name it."""

    command: str = ""
    """The command of `sm` that does it, without `sm`, or empty if none does."""
    tool: str = ""
    """The name of its MCP tool, or empty if it has none. That of a capability is made from it, and takes the target as
    `session_id`."""
    tool_action: str = ""
    """The `action` of the tool, if several operations share it. Those of capabilities take `tree` alone."""
    chat: str = ""
    """Its command in chats, without the slash, or empty if it has none. The text after the target is the only argument
    of that of a capability."""
    chat_form: str = ""
    """The arguments of that command, for its usage. For a capability empty means the target and one text."""
    chat_help: str = ""
    """The words of that command in the help of the bot, or empty for the summary."""
    key: str = ""
    """Its key in live views, where it is an action, or empty if it is none. That of a capability is an action on the
    selected session."""
    title: str = ""
    """The title of the action in live views."""

    @property
    def verb(self) -> str:
        """The words of the command before its arguments."""
        return " ".join(takewhile(lambda word: word.isalpha() and word.islower(), self.command.split()))


@dataclass(frozen=True, slots=True, eq=False)
class Operation(DoorNames):
    """Something that callers can do or see. A capability binds each of its operations to a use case.

    Those of the kernel are declared in `sm.operations`, and `api.routes` carries them out.
    """

    name: str
    """The operationId in docs/openapi.json in snake case, unique among the operations of its tag."""
    summary: str
    """The documentation of its route: one sentence, and after a blank line more."""
    route: str
    """Its method and its path: GET for an operation that changes nothing, else POST, or DELETE if it only deletes the
    target. The one parameter of the path, if it has one, names the target."""
    result: Any
    """The class of its result in `wire_types`, `SessionsResult`, `PackedFile` or an `EventStream`. None if its messages
    belong to another protocol."""
    arguments: type[Any] | None = None
    """A dataclass with the arguments beside the target, or None if it takes none. Those of a GET are its query: texts,
    flags, times, closed sets and whole numbers with `Most`. So are those of an operation that takes a file."""
    target: str = ""
    """The documentation of the target. Empty for that of the other routes below the same name, such as `sessions`."""
    takes_key: bool = True
    """False if a repetition does no more than the first call, so that a POST needs no Idempotency-Key."""
    reads_body: bool = True
    """False if the body of a POST is not read."""
    file_max_bytes: int = 0
    """The limit of the body if that is a file, or 0 if it is a JSON object. Only the operator may call it then."""
    creates: bool = False
    """The answer has the HTTP status 201."""
    audience: Audience = field(kw_only=True)
    """The callers that may call it: for its target, if that is a session, a workspace or a thing of a session."""
    rules: Sequence[Audience] = ()
    """The audiences that also decide: about what the answer has, about some arguments, or about a session or a thing
    that an argument names."""
    on_host: bool = False
    """Only the operator's socket has its route. Else the sockets of sandboxed agents have it too, if sessions are in
    the audience."""
    button: str = ""
    """The action of its buttons in chats, which stored buttons have, or empty if it has no button."""
    done: Callable[[Any], str] | None = None
    """Words the result for a person in a chat, or None for `Done.`"""
    audit: str = ""
    """The action of a refusal in the audit log, or empty for the name."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Additions to the JSON schema of arguments, by name."""

    @property
    def method(self) -> str:
        return self.route.split()[0]

    @property
    def path(self) -> str:
        return self.route.split()[1]

    @property
    def agents(self) -> bool:
        """True if the sockets of sandboxed agents have its route."""
        return self.audience.has_sessions and not self.on_host

    @property
    def has_target(self) -> bool:
        return "{" in self.path

    def path_of(self, target: str) -> str:
        """The path of its route for one target, which must be safe in a URL."""
        before, _, rest = self.path.partition("{")
        return before + target + rest.partition("}")[2] if rest else before
