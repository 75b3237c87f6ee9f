"""The operations that start, show, end, restart, describe and await sessions."""

from dataclasses import field
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.statuses import ENDED_OF_ANY_KIND, Status
from sm.operations import DoorNames, Operation
from sm.operations.access_rules import (
    ABOVE,
    EVERY_CALLER,
    OPERATOR,
    OPERATOR_AND_OWNERS,
    READ_ALSO_ITSELF,
    SEE,
    SESSION_AND_ABOVE,
    Audience,
)
from sm.operations.arguments import NEEDED, LongText, OneOf, SeenByPerson, TrustName, WaitS
from sm.wire_types.fields import EmptyView
from sm.wire_types.session_answers import (
    AllRestoredView,
    InterruptedView,
    KilledView,
    RemovedView,
    RestoredView,
    SeenView,
    SessionView,
    SessionWithOutput,
    StartedView,
    WaitView,
)


@dataclass(frozen=True, slots=True)
class AgentToStart:
    agent_type: Annotated[str, NEEDED] = ""
    prompt: LongText | None = None
    name: str | None = None
    """The friendly name, without the type."""
    title: str | None = None
    model: str | None = None
    preset: str | None = None
    args: list[str] | None = None
    """More arguments for the agent; only from the operator."""
    parent: str | None = None
    """A session, named as in a path, or null for the caller."""
    workspace: str | None = None
    """A slug, `-` for none, or null for the parent's, else that of the working directory."""
    working_dir: str | None = None
    """An absolute path."""
    cwd: str | None = None
    """The caller's directory, used without a `working_dir`."""
    worktree: str | None = None
    """The git worktree that the client made: `DIRECTORY/.sm/worktrees/NAME`."""
    new_worktree: bool | None = None
    """Make a git worktree of the repository around the working directory, and start the agent there."""
    new_copy: bool | None = None
    """The same with a copy of the working directory, which has no version control, in place of a worktree."""
    base: str | None = None
    """The commit or branch that the new worktree begins with, or null for the one that is checked out."""
    branch: str | None = None
    """The branch of the worktree. Of a new one: a branch that exists, or the name of its new branch."""
    pull_request: int | None = None
    """The pull request whose head the new worktree begins with."""
    remote_branch: str | None = None
    """The branch of a remote that the new branch follows."""
    remote: str | None = None
    """The name of the remote with the pull request or the branch. Null for `origin`, or the only one."""
    trust: TrustName | None = None
    lifecycle: str | None = None
    """`auto`, `manual` or `supervised`, or null for that of the agent type, the workspace or the configuration."""
    restart: str | None = None
    """After a crash: `never` or `on-failure`, or null for that of the agent type."""
    env: dict[str, str] | None = None
    """Variables for the agent and its children; only from the operator."""
    environment: dict[str, str] | None = None
    """The caller's environment; variables that the configuration does not name are ignored."""
    process_limits: dict[str, int] | None = None
    """The `umask` and the soft limits of the caller's shell, by the names of setrlimit(2) in lower case, -1 for
    unlimited. Ignored for the child of a session, which has its parent's. Null if the caller has no shell: the agent
    gets those of the last spawn from a shell."""
    budget: str | None = None
    """Limits for the session and all below it, such as `usd=5,tokens=2M,minutes=90`."""
    no_park: bool | None = None
    """Fail if the account of the agent is parked; by default the agent starts at its reset."""
    skip_checks: bool | None = None
    """Start the agent even if its CLI is known to open a dialog of its first start."""
    as_command: bool | None = None
    """The prompt is a command of the agent CLI, such as `/review`; only from the operator."""
    files: list[str] | None = None
    """The ids of uploaded files that belong to the prompt, at most 10; only from the operator."""
    wait_s: WaitS | None = None


@dataclass(frozen=True, slots=True)
class ForkName:
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PaneToAdopt:
    pane: Annotated[str, NEEDED] = ""
    """The pane's id in tmux: `%5`."""
    name: str | None = None
    agent_type: str | None = None
    trust: TrustName | None = None


@dataclass(frozen=True, slots=True)
class SeenMarks:
    sessions: Annotated[list[str], NEEDED] | None = None
    """Sessions, named as in a path, or null for all."""


@dataclass(frozen=True, slots=True)
class AwaitedSessions:
    sessions: Annotated[list[str], NEEDED] = field(default_factory=list)
    """Sessions, named as in a path."""
    until: Annotated[str, OneOf("status", (ENDED_OF_ANY_KIND, *Status))] | None = None
    any: bool | None = None
    """One of the sessions is enough."""
    wait_s: WaitS | None = None


@dataclass(frozen=True, slots=True)
class KnownEndings:
    sessions: list[str] | None = None


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


SPAWN_BELOW = Audience("spawn", "spawn a child of", SESSION_AND_ABOVE)
"""Moving a session also requires this permission for its new parent."""
ADD_ARGUMENTS = Audience("add_arguments", "pass extra arguments to an agent", OPERATOR)
"""The agent CLI gets them unchecked, and they can grant any permission. `child_agents.allow_args` lifts this rule."""
ATTACH_FILES = Audience("attach_files", "attach files to messages and tasks", OPERATOR)
"""Agents share files in their workspace, and a chat has no files."""
_ARCHIVE = Audience("archive", "archive", ABOVE)
SPAWN = Operation(
    "spawn",
    """Start an agent.

    Answers when the process runs, or has run and ended; with `wait_s` when the agent is ready.""",
    "POST /v1/sessions",
    StartedView,
    AgentToStart,
    audience=SPAWN_BELOW,
    rules=(ADD_ARGUMENTS, ATTACH_FILES),
    command="spawn",
    tool="create_session",
    chat="new",
    chat_form="TYPE TEXT",
    chat_help="start an agent; in a workspace: /new@WORKSPACE",
    key="n",
    title="Start an agent",
)
SHOW_STATUS = Operation(
    "session",
    "Show a session.",
    "GET /v1/sessions/{ref}",
    SessionWithOutput,
    SeenByPerson,
    audience=SEE,
    rules=(READ_ALSO_ITSELF,),
    command="status SESSION",
    tool="get_progress",
    chat="status",
    chat_form="[ID]",
    chat_help="show a session, or the counts of all",
)
KILL = Operation(
    "kill",
    "End the process of a session, and answer when the process is gone.",
    "POST /v1/sessions/{ref}/kill",
    KilledView,
    KillOptions,
    # An agent once killed all other agents.
    audience=Audience("kill", "kill", ABOVE),
    command="kill SESSION",
    tool="control_session",
    tool_action="kill",
    chat="kill",
    chat_form="ID",
    chat_help="end a session, after a button",
    key="K",
    title="Kill",
)
RESTORE = Operation(
    "restore",
    "Start an ended session again, in a new process.",
    "POST /v1/sessions/{ref}/restore",
    RestoredView,
    RestoreOptions,
    audience=Audience("restore", "restore", ABOVE),
    command="restore SESSION",
    tool="control_session",
    tool_action="restore",
    key="r",
    title="Restore",
)
RESTORE_ALL = Operation(
    "restore_all",
    "Start all sessions again that lived when tmux or the machine went down.",
    "POST /v1/restore",
    AllRestoredView,
    RestoreAllOptions,
    audience=Audience("restore_all", "restore all sessions", OPERATOR),
    command="restore --all",
)
INTERRUPT = Operation(
    "interrupt",
    "Interrupt the current turn of an agent.",
    "POST /v1/sessions/{ref}/interrupt",
    InterruptedView,
    audience=Audience("interrupt", "interrupt", ABOVE),
    command="interrupt SESSION",
    tool="control_session",
    tool_action="interrupt",
    chat="interrupt",
    chat_form="ID",
    chat_help="interrupt a session",
    key="i",
    title="Interrupt (Escape)",
)
FORK = Operation(
    "fork",
    "Start a session from a copy of the conversation of another one.",
    "POST /v1/sessions/{ref}/fork",
    StartedView,
    ForkName,
    audience=Audience("fork", "fork", ABOVE),
    command="fork SESSION",
    key="f",
    title="Fork",
)
ADOPT = Operation(
    "adopt",
    "Manage an agent that already runs in a tmux pane.",
    "POST /v1/adopt",
    StartedView,
    PaneToAdopt,
    # The caller decides the trust level of an agent that sm did not start.
    audience=Audience("adopt", "adopt an agent", OPERATOR),
    command="adopt PANE",
)
REPARENT = Operation(
    "reparent",
    "Move a session under another parent; null: the operator.",
    "POST /v1/sessions/{ref}/reparent",
    SessionView,
    NewParent,
    audience=Audience("reparent", "reparent", ABOVE),
    rules=(SPAWN_BELOW,),
    command="reparent SESSION PARENT",
    key="p",
    title="Move under another parent",
)
RENAME = Operation(
    "rename",
    "Give a session another friendly name.",
    "POST /v1/sessions/{ref}/rename",
    SessionView,
    NewName,
    audience=Audience("rename", "rename", ABOVE),
    command="rename SESSION NAME",
    key="R",
    title="Rename",
)
ARCHIVE = Operation(
    "archive",
    "Hide an ended session from lists.",
    "POST /v1/sessions/{ref}/archive",
    SessionView,
    audience=_ARCHIVE,
    command="archive SESSION",
    tool="control_session",
    tool_action="archive",
    chat="archive",
    chat_form="ID",
    chat_help="hide an ended session",
    key="x",
    title="Archive",
)
UNARCHIVE = Operation(
    "unarchive",
    "Show an archived session in lists again.",
    "POST /v1/sessions/{ref}/unarchive",
    SessionView,
    audience=_ARCHIVE,
    command="unarchive SESSION",
    chat="unarchive",
    chat_form="ID",
    chat_help="show a hidden session again",
    key="X",
    title="Unarchive",
)
MARK_SEEN = Operation(
    "seen",
    """Mark ended sessions as seen by the operator, so that lists show them no more as not seen.

    Acts that show or change one session do that too: attach, output, status of one session, send and others.""",
    "POST /v1/seen",
    SeenView,
    SeenMarks,
    # It says what a person has looked at.
    audience=Audience("mark_seen", "mark as seen", OPERATOR_AND_OWNERS),
    command="seen SESSION",
    key="m",
    title="Mark as seen",
)
REMOVE = Operation(
    "remove",
    "Delete the record of an ended session.",
    "POST /v1/sessions/{ref}/remove",
    RemovedView,
    audience=Audience("remove", "remove", ABOVE),
    command="rm SESSION",
    key="D",
    title="Delete",
)
WAIT = Operation(
    "wait",
    "Wait until sessions have a status.",
    "POST /v1/wait",
    WaitView,
    AwaitedSessions,
    audience=SEE,
    command="wait SESSION",
    tool="wait_for_sessions",
    takes_key=False,
    fields={"sessions": {"minItems": 1, "maxItems": 200}},
)
ACKNOWLEDGE = Operation(
    "heard",
    "Acknowledge the endings in an answer, so that the caller gets no notice of them.",
    "POST /v1/wait/heard",
    EmptyView,
    KnownEndings,
    audience=EVERY_CALLER,
    takes_key=False,
)
RESUME = DoorNames(command="resume", tool="control_session", tool_action="resume")
"""Of the capability of pauses, for sessions that one is in the way of."""
