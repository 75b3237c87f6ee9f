"""The types of the actions in live views: target, input, request to the daemon. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from sm.board.needs import BoardNeed
from sm.board.row import BoardRow
from sm.core.dataclass import dataclass

Body = Mapping[str, object]
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Target:
    """The selection: a session, or an open request (of a session that may be hidden). Both may be missing."""

    row: BoardRow | None = None
    need: BoardNeed | None = None
    workspace: str | None = None
    """The slug of the chosen workspace, or None for all."""
    audience: Sequence[str] = ()
    """The live sessions of the chosen workspace."""
    cwd: str = ""
    """The directory of the view, or empty if it has none."""

    @property
    def session_id(self) -> str | None:
        if self.need is not None:
            return self.need.session_id
        return None if self.row is None else self.row.id

    @property
    def request(self) -> Mapping[str, Any] | None:
        return None if self.need is None else self.need.request


def audience(rows: Mapping[str, BoardRow], workspace: str | None) -> Sequence[str]:
    """The live sessions of a workspace, or all live sessions if None."""
    return [row.id for row in rows.values() if row.is_live and workspace in (None, row.workspace)]


class FieldKind(StrEnum):
    """The values that a view suggests for a field."""

    TEXT = "text"
    LONG_TEXT = "long text"
    """A text of several lines."""
    AGENT_TYPE = "agent type"
    SESSION = "session"
    DIRECTORY = "directory"
    MODEL = "model"
    WORKSPACE = "workspace"
    NUMBER = "number"
    CHOICE = "choice"
    """One of `InputField.choices`."""


@dataclass(frozen=True, slots=True)
class InputField:
    """A value that the person enters before the action."""

    name: str
    title: str
    kind: FieldKind = FieldKind.TEXT
    required: bool = False
    default: Callable[[Target], str] = lambda target: ""
    hint: str = ""
    """The words that an empty field shows."""
    choices: tuple[tuple[str, str], ...] = ()
    """Each with its value and its title. The first one is the default, and its value is empty."""
    shown_with: tuple[str, str] | None = None
    """The name and the value of the field with which this one is shown. None for one that is always shown."""
    is_rare: bool = False
    """A view may hide the field until the person asks for more."""

    @property
    def options(self) -> Sequence[str]:
        """The options of the command that the field stands for, without the dashes."""
        values = [value for value, _ in self.choices if value]
        return values or [self.name.replace("_", "-")]

    def is_shown(self, given: Mapping[str, str]) -> bool:
        """True if the field is shown beside fields with these values."""
        return self.shown_with is None or given.get(self.shown_with[0], "") == self.shown_with[1]

    def problem(self, value: str) -> str | None:
        """The reason why no action can use the value, which may be empty, or None."""
        if not value:
            return f"a value is missing: {self.title}" if self.required else None
        if self.kind is FieldKind.NUMBER and not _NUMBER.fullmatch(value):
            return f"{self.title}: a number is needed"
        if self.choices and value not in dict(self.choices):
            return f"{self.title}: there is no such choice"
        return None


@dataclass(frozen=True, slots=True)
class ActionInput:
    """A person's input for an action."""

    text: str = ""
    answers: tuple[str, ...] = ()
    mode: str = "auto"
    """Of a message: `auto`, `idle` or `urgent`."""
    tree: bool = False
    files: tuple[str, ...] = ()
    """The IDs of uploaded files, for a message or a task."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """By the name of the field, without empty ones."""
    drafts: tuple[int, ...] = ()
    """The ids of the draft comments that are sent with the denial of a completion."""
    reviewed: Mapping[str, str] = field(default_factory=dict)
    """The state of the changes that they are about: the `tree`, `head` and `base`, or empty if it is not known."""


NO_WORDS = ActionInput()


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request to the daemon."""

    path: str
    body: Body
    is_long: bool = False
    """True if agents start or end by it."""
    recipients: Sequence[str] = ()
    """Sessions that each get a request of their own, with their ID as `to`."""

    @property
    def bodies(self) -> Sequence[Body]:
        """The body of each request."""
        return [{**self.body, "to": to} for to in self.recipients] or [self.body]

    def sent_words(self, failures: Sequence[str]) -> str:
        """How many recipients the daemon has taken a message for. `failures`: the error of each other one."""
        count = len(self.recipients)
        failed = f"; {len(failures)} failed: {failures[0]}" if failures else ""
        return f"{count - len(failures)} of {count} messages sent or queued{failed}"


@dataclass(frozen=True, slots=True)
class BoardAction:
    """An action on a target. `refusal` decides whether it is possible.

    A view asks for the `fields`, then the `question`, and then carries out the `call`.
    """

    name: str
    key: str
    title: str
    refusal: Callable[[Target], str | None]
    """The reason why the action is not possible, or None if it is possible."""
    command: Callable[[Target, ActionInput], tuple[str, ...]]
    """The equivalent `sm` command, with words in capitals for fields that are not known."""
    call: Callable[[Target, ActionInput], ApiCall] | None
    """None if the view does it itself, such as attach."""
    undo: str | None = None
    """The action that takes this one back, on the same target."""
    question: Callable[[Target], str] | None = None
    """Asked before the action."""
    wider: Callable[[Target], str] = lambda target: ""
    """The other answer to the question, for `ActionInput.tree`, or empty if there is none."""
    fields: tuple[InputField, ...] = ()
    needs_session: bool = True
    """False if it applies to the chosen workspace, or to all sessions."""
    fields_of_errors: Mapping[str, str] = field(default_factory=dict)
    """The field that an error is about, by the code of the error, if the words of the error name no option."""

    def command_line(self, target: Target, words: ActionInput = NO_WORDS) -> str:
        return shlex.join(self.command(target, words))

    def input_problem(self, given: Mapping[str, str]) -> str | None:
        """The reason why the values of the fields cannot be used, or None if they can."""
        if unknown := given.keys() - {field.name for field in self.fields}:
            return f"{self.name} has no field {min(unknown)!r}"
        problems = (field.problem(given.get(field.name, "")) for field in self.fields)
        return next(filter(None, problems), None)

    def field_of(self, hint: str | None, code: str = "", words: str = "") -> str:
        """The name of the field that a refusal is about, or empty if it is about none.

        The option that its hint names first, or else its words. Without one, its code decides.
        """
        fields = {option: field.name for field in self.fields for option in field.options}
        named = re.findall(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)", f"{hint or ''} {words}")
        found = (fields[option] for option in named if option in fields)
        return next(found, self.fields_of_errors.get(code, ""))
