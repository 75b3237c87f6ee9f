"""The operations that show, end, restart and describe one session."""

from dataclasses import dataclass
from typing import Annotated

from sm.operations import Operation
from sm.operations.arguments import NEEDED, SeenByPerson
from sm.wire_types.session_answers import (
    AllRestoredView,
    InterruptedView,
    KilledView,
    RemovedView,
    RestoredView,
    SessionView,
    SessionWithOutput,
)


@dataclass(frozen=True, slots=True)
class KillOptions:
    """The way to end a session."""

    force: bool | None = None
    """Kill without a grace period."""
    tree: bool | None = None
    """Kill all descendants too."""


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The way to start a session again."""

    tree: bool | None = None
    """Restore the ended descendants too."""
    go_on: bool | None = None
    """Tell agents whose turn was cut off to go on with it."""
    trust: str | None = None
    """`direct`: a session that fell back runs on this host from now on. Only for the operator."""


@dataclass(frozen=True, slots=True)
class RestoreAllOptions:
    """The way to start sessions again."""

    go_on: bool | None = None
    """Tell agents whose turn was cut off to go on with it."""


@dataclass(frozen=True, slots=True)
class NewParent:
    """The new parent of a session."""

    parent: str | None = None
    """A session, named as in a path, or null for the operator."""


@dataclass(frozen=True, slots=True)
class NewName:
    """The new name of a session."""

    name: Annotated[str, NEEDED] = ""
    """The friendly name, without the type."""


SHOW_STATUS = Operation(
    "session",
    "Show a session.",
    "GET",
    "/v1/sessions/{ref}",
    SessionWithOutput,
    SeenByPerson,
    command="status SESSION",
    tool="get_progress",
    chat="status",
    agents=True,
)
KILL = Operation(
    "kill",
    "End the process of a session, and answer when the process is gone.",
    "POST",
    "/v1/sessions/{ref}/kill",
    KilledView,
    KillOptions,
    command="kill SESSION",
    tool="control_session",
    tool_action="kill",
    chat="kill",
    agents=True,
)
RESTORE = Operation(
    "restore",
    "Start an ended session again, in a new process.",
    "POST",
    "/v1/sessions/{ref}/restore",
    RestoredView,
    RestoreOptions,
    command="restore SESSION",
    tool="control_session",
    tool_action="restore",
    agents=True,
)
RESTORE_ALL = Operation(
    "restore_all",
    "Start all sessions again that lived when tmux or the machine went down.",
    "POST",
    "/v1/restore",
    AllRestoredView,
    RestoreAllOptions,
    command="restore --all",
)
INTERRUPT = Operation(
    "interrupt",
    "Interrupt the current turn of an agent.",
    "POST",
    "/v1/sessions/{ref}/interrupt",
    InterruptedView,
    command="interrupt SESSION",
    tool="control_session",
    tool_action="interrupt",
    chat="interrupt",
    agents=True,
)
REPARENT = Operation(
    "reparent",
    "Move a session under another parent, or under the operator if null.",
    "POST",
    "/v1/sessions/{ref}/reparent",
    SessionView,
    NewParent,
    command="reparent SESSION PARENT",
    agents=True,
)
RENAME = Operation(
    "rename",
    "Give a session another friendly name.",
    "POST",
    "/v1/sessions/{ref}/rename",
    SessionView,
    NewName,
    command="rename SESSION NAME",
    agents=True,
)
ARCHIVE = Operation(
    "archive",
    "Hide an ended session from lists.",
    "POST",
    "/v1/sessions/{ref}/archive",
    SessionView,
    command="archive SESSION",
    tool="control_session",
    tool_action="archive",
    chat="archive",
    agents=True,
)
UNARCHIVE = Operation(
    "unarchive",
    "Show an archived session in lists again.",
    "POST",
    "/v1/sessions/{ref}/unarchive",
    SessionView,
    command="unarchive SESSION",
    chat="unarchive",
    agents=True,
)
REMOVE = Operation(
    "remove",
    "Delete the record of an ended session.",
    "POST",
    "/v1/sessions/{ref}/remove",
    RemovedView,
    command="rm SESSION",
    agents=True,
)
