"""Sessions, workspaces, callers, signals, events and checkpoints. Pure data."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.faults import Fault
from sm.core.next_process import Restarts
from sm.core.pause_states import PauseState
from sm.core.pauses import Pause
from sm.core.states import BridgeLevel, CallerKind, EventType, Mode, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.turns import FinishedTurn


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit code or signal of a process that has ended. Both are None if neither is known."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal}"
        return "unknown exit status" if self.code is None else f"exit code {self.code}"


@dataclass(frozen=True, slots=True)
class Signal:
    """An observed or requested change. `emitted_at` is when it happened (ISO 8601, UTC), not when it was read."""

    kind: SignalKind
    source: str
    reason: str
    emitted_at: str
    exit: Exit | None = None
    message: str | None = None
    answer: str | None = None
    """The agent's last words, as in `Observation.answer`."""
    turn: FinishedTurn | None = None
    """The finished turn after which the agent is idle."""
    fault: Fault | None = None
    """Why the turn that has ended failed."""
    cause: str | None = None
    """Why the process crashed, if its exit does not show it, such as a lack of memory."""


@dataclass(frozen=True, slots=True)
class Process:
    """Unique identity of a process: the kernel reuses a pid, but not with the same start time and boot.

    `started` is "BOOT_ID/TICKS": field 22 of /proc/PID/stat (proc(5)) within one boot.
    """

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class BridgeUser:
    """A person who writes in a chat network, with the authority that the operator gave to them."""

    name: str
    """The network and the user's number in it: `telegram:4711`."""
    level: BridgeLevel
    workspace: str | None = None
    """The only workspace whose sessions a paired user sees and starts. None for their own without a workspace."""

    @property
    def is_owner(self) -> bool:
        return self.level is BridgeLevel.OWNER

    @property
    def trust(self) -> TrustLevel:
        """The level as that of a session. Not for owners."""
        return TrustLevel.DIRECT if self.level is BridgeLevel.DIRECT else TrustLevel.SANDBOXED


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller. `session_id` is set for kind session only, `user` for kind bridge only."""

    kind: CallerKind
    session_id: str | None = None
    user: BridgeUser | None = None
    login: str | None = field(default=None, compare=False)
    """The login of a browser through which the operator acts. It changes nothing but the audit log."""

    def __str__(self) -> str:
        return self.name if self.session_id is None else f"session:{self.session_id}"

    @property
    def audit_name(self) -> str:
        return str(self) if self.login is None else f"{self} (web: {self.login})"

    @property
    def name(self) -> str:
        """The sender of the caller's messages, and the `answered_by` of the caller's answers."""
        if self.user is not None:
            return self.user.name
        return self.session_id or "operator"

    @property
    def mailbox(self) -> str | None:
        """The recipient of messages and notices to the caller, None for the operator. A person in a chat gets none."""
        return self.session_id if self.user is None else self.user.name


OPERATOR = Caller(CallerKind.OPERATOR)


IDENTITY = (
    "SM_SESSION_ID",
    "SM_PARENT_ID",
    "SM_WORKSPACE_ID",
    "SM_TRUST_LEVEL",
    "SM_SOCKET",
    "SM_TOKEN_FILE",
)
"""Variables that identify a session to its agent and its MCP servers. sm assigns them last, over all others."""

NO_WORKSPACE = "-"
"""Replaces the slug of sessions without a workspace."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Names of the MCP servers, skills and agent types that sessions get, or None for all."""

    mcps: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """A team boundary: agents find, start and message sessions of their own workspace only."""

    slug: str
    directory: str
    """Absolute, without symbolic links."""
    created_at: str
    trust_level: TrustLevel | None = None
    """None for `default_trust` of the configuration."""
    capabilities: Capabilities = Capabilities()
    strict_mcps: bool = False
    """Agents use the MCP servers that sm configures, and no others."""
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of keys of `sandbox:` in the configuration."""
    lifecycle: Mode | None = None
    """The mode of its sessions, or None for that of the configuration."""
    deleted_at: str | None = None
    """Sessions of a deleted workspace stay readable; no session starts in it."""


@dataclass(frozen=True, slots=True)
class Session:
    """One agent session, as stored. Times are ISO 8601 UTC with `Z`, or None."""

    id: str
    name: str
    agent_type: str
    provider: str
    status: Status
    status_source: str
    status_reason: str
    status_at: str
    mode: Mode
    created_by: str
    working_dir: str
    trust_level: TrustLevel
    effective_mode: TrustLevel
    terminal: str
    created_at: str
    friendly_name: str | None = None
    title: str | None = None
    model: str | None = None
    parent_id: str | None = None
    workspace: str | None = None
    process: Process | None = None
    exit: Exit | None = None
    started_at: str | None = None
    completed_at: str | None = None
    completion_status: str | None = None
    completion_message: str | None = None
    note: str | None = None
    archived: bool = False
    runs: int = 1
    """Number of processes started by spawn, restore and restarts."""
    token_hash: str | None = None
    conversation: str | None = None
    """The agent CLI's id of the conversation; `/clear` changes it."""
    transcript: str | None = None
    """The path of the conversation's file, as reported by the agent CLI."""
    program_version: str | None = None
    """The version of the agent CLI that its process runs, such as `2.1.332`. None if it is unknown."""
    worktree: str | None = None
    """The git worktree made for the session, absolute. The working directory is the worktree or lies in it."""
    branch: str | None = None
    """The branch made with the worktree."""
    account: str | None = None
    """The name of the account that its turns are charged to, or None if unknown or the provider has none."""
    cut_off_at: str | None = None
    """A limit of the account ended its turn at this time: it needs a message to go on."""
    mode_source: str = "child_agents.mode"
    """The setting that decided the mode, as a person would type it: `--lifecycle`, `child_agents.mode`, ..."""
    reminders: int = 0
    """Reminders sent to this run of the session."""
    turn_ended_at: str | None = None
    """The end of the last finished turn of which sm knows what follows."""
    paused: Pause | None = None
    restarts: Restarts | None = None
    """None if a crash ends the session."""
    worked_s: float = 0.0
    """Seconds of work until `working_since` (`core.work_time`)."""
    working_since: str | None = None
    """The start of the work that is under way, or None if the session does not work."""
    bound_to: str | None = None
    """A former parent, which ended: its limits and those above it still bind the session."""
    lost_parent: str | None = None
    """The parent that a loss of terminals took from the session: its restore makes it the parent again."""
    seen_at: str | None = None
    """The last time that the operator looked at the session after it had ended (`core.attention`)."""
    told_operator: bool = False
    """The operator, and no parent, was told that the session has ended."""
    paired_user: str | None = None
    """The paired user of a chat network who started the session or an ancestor of it, as `BridgeUser.name`."""
    shares_name: bool = field(default=False, compare=False)
    """Another session has the same friendly name. Not stored: SessionIndex sets it."""

    @property
    def display_name(self) -> str:
        return self.friendly_name or self.name

    @property
    def fell_back(self) -> bool:
        """True for a session that should be sandboxed and runs directly on this host."""
        return (self.trust_level, self.effective_mode) == (TrustLevel.SANDBOXED, TrustLevel.DIRECT)


def is_pausing(session: Session) -> bool:
    """True while a pause is ordered, and the session may still spend."""
    return session.paused is not None and session.paused.state is PauseState.PAUSING


def is_waiting(session: Session) -> bool:
    """True while the session has no process because its restart is not due yet."""
    return session.restarts is not None and session.restarts.next_at is not None


def is_between_processes(session: Session) -> bool:
    """True from a crash until the next process runs: also while the restart is due, and its account is parked."""
    restarts = session.restarts
    return restarts is not None and restarts.total > 0 and session.started_at is None and session.exit is None


def last_exit(session: Session) -> Exit:
    """How the process ended that the newest restart replaces; unknown without one."""
    restarts = session.restarts
    return Exit() if restarts is None else Exit(restarts.exit_code, restarts.exit_signal)


def ancestors(session: Session, find: Callable[[str], Session | None]) -> Iterator[Session]:
    """Yield the parent, the grandparent and so on. `find` takes an id. Stops at a cycle of parents."""
    seen = {session.id}
    parent = find(session.parent_id or "")
    while parent is not None and parent.id not in seen:
        yield parent
        seen.add(parent.id)
        parent = find(parent.parent_id or "")


@dataclass(frozen=True, slots=True)
class PermissionMode:
    """An agent CLI's setting for the actions that it runs unasked, in the words of that agent CLI."""

    mode: str
    source: str
    """The setting that decided it, as a person would name it, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Command, directory and environment of a session's process, stored with the session. Holds secrets."""

    argv: tuple[str, ...]
    working_dir: str
    """Absolute. The start fails when the directory no longer exists."""
    environment: Mapping[str, str] = field(repr=False)
    """The complete environment except TERM, which the terminal sets."""
    inherited: Mapping[str, str] = field(repr=False)
    """The variables taken from the caller's shell. Children of this session inherit them."""
    added: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of `sm spawn --env`. They override the configuration, and children inherit them."""
    typed_prompt: str | None = field(default=None, repr=False)
    """A first line to type once the process runs."""
    prompt_file: str | None = field(default=None, repr=False)
    """Text for the file that SM_PROMPT_FILE names."""
    flags: tuple[str, ...] = ()
    """The program and the options that `sm restore` uses again."""
    has_prompt: bool = False
    """The process gets a task at its start."""
    has_own_tools: bool = False
    """The process gets the MCP server of sm."""
    mcp_config: str | None = field(default=None, repr=False)
    """Text of the MCP configuration file (`InstancePaths.mcp_file`). Holds secrets; not stored in the database."""
    process_limits: Mapping[str, int] = field(default_factory=dict)
    """The umask and the soft limits (`linux.process_limits`); without a name, the process has its terminal server's.

    Children of this session inherit them.
    """
    permission: PermissionMode | None = None
    """The permission mode that the process starts in, if it is known and its provider has such modes."""


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded fact; `seq` rises without gaps."""

    seq: int
    type: EventType
    session_id: str
    parent_session_id: str | None
    timestamp: str
    message: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    timestamp: str
    message: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An Idempotency-Key and a digest of its request. The same key for another request is an error."""

    text: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """The body of a spawn request. None of its fields identifies the caller."""

    agent_type: str
    prompt: str | None = None
    name: str | None = None
    is_name_wish: bool = False
    """Take the nearest valid name that is free in place of one that is refused."""
    model: str | None = None
    preset: str | None = None
    extra_args: tuple[str, ...] = ()
    parent: str | None = None
    working_dir: str | None = None
    current_dir: str | None = None
    """The directory of the operator's command: the default of `working_dir`."""
    trust: str | None = None
    title: str | None = None
    lifecycle: str | None = None
    """The mode, or None for that of the agent type, the workspace or the configuration."""
    workspace: str | None = None
    """A slug, or `-` for none. None for the parent's workspace, else the innermost one that contains the directory."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables added to the agent's environment."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The caller's environment. The manager keeps the configured variables, and none for a child of a session."""
    process_limits: Mapping[str, int] = field(default_factory=dict)
    """The umask and the soft limits of the caller's shell (`linux.process_limits`), or empty if it has no shell."""
    no_park: bool = False
    """Fail if the account of the agent is parked, in place of waiting for its reset."""
    additions: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of capabilities, by name."""
    skip_checks: bool = False
    """Start the agent even if its CLI is known to open a dialog."""
    as_command: bool = False
    """The prompt is a command of the agent CLI, such as `/review`, and no text for the model."""
    files: tuple[str, ...] = ()
    """The ids of uploaded files that belong to the prompt."""


def digest(token: str) -> str:
    """SHA-256 of a session's token. The database holds the digest only, so a reader of it cannot authenticate."""
    return hashlib.sha256(token.encode()).hexdigest()
