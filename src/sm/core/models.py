"""Sessions and what belongs to them: workspaces, callers, signals, events, checkpoints. Pure data.

The store and the API convert rows and JSON to these classes.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sm.core.states import CallerKind, EventType, Mode, SignalKind, TrustLevel
from sm.core.statuses import Status


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended. Both None: it ended and nobody can say how."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal}"
        return "an unknown end" if self.code is None else f"exit code {self.code}"


@dataclass(frozen=True, slots=True)
class Signal:
    """Something observed. `emitted_at` is when it happened (ISO 8601, UTC), not when it was read."""

    kind: SignalKind
    source: str
    reason: str
    emitted_at: str
    exit: Exit | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """One process, for ever: a pid is reused, a pid with its start time and boot is not.

    `started` is "BOOT_ID/TICKS": field 22 of /proc/PID/stat (proc(5)) within one boot.
    """

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as `server.py` found out. `session_id` is set for kind session only."""

    kind: CallerKind
    session_id: str | None = None

    def __str__(self) -> str:
        return "operator" if self.session_id is None else f"session:{self.session_id}"


OPERATOR = Caller(CallerKind.OPERATOR)


IDENTITY = (
    "SM_SESSION_ID",
    "SM_PARENT_ID",
    "SM_WORKSPACE_ID",
    "SM_TRUST_LEVEL",
    "SM_SOCKET",
    "SM_TOKEN_FILE",
)
"""The variables that identify a session to its agent and its MCP servers: assigned last, by sm alone."""

NO_WORKSPACE = "-"
"""What is written where a slug could stand, for the sessions without a workspace."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What sessions are given of what lies about. Each: the names, or None for all there are."""

    mcps: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """A team boundary: what is in it can be found, started and written to from within, and from nowhere else."""

    slug: str
    directory: str
    """Absolute, without links."""
    created_at: str
    trust_level: TrustLevel | None = None
    """Of its sessions; None: `default_trust` of the configuration."""
    capabilities: Capabilities = Capabilities()
    strict_mcps: bool = False
    """Whether its sessions get no MCP servers but those that sm gives them."""
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    """What differs from `sandbox:` in the configuration, by key."""
    deleted_at: str | None = None
    """Its sessions stay readable; nothing new is started in it."""


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
    """How many processes the session has had by spawn and restore; each run ends once."""
    token_hash: str | None = None
    conversation: str | None = None
    """The agent CLI's own id of what is said in the session; it may change (`/clear`)."""
    transcript: str | None = None
    """The file in which the agent CLI keeps it, as it said itself."""
    worktree: str | None = None
    """The git worktree that was made for it, absolute; its working directory is this or lies in it."""
    branch: str | None = None
    """The branch that was made with the worktree."""

    @property
    def display_name(self) -> str:
        return self.friendly_name or self.name


def ancestors(session: Session, find: Callable[[str], Session | None]) -> Iterator[Session]:
    """The session's parent, the parent of that one, and so on. `find` takes an id. A circle of parents is left."""
    seen = {session.id}
    parent = find(session.parent_id or "")
    while parent is not None and parent.id not in seen:
        yield parent
        seen.add(parent.id)
        parent = find(parent.parent_id or "")


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start a session's process, kept with the session (0600: it holds secrets)."""

    argv: tuple[str, ...]
    working_dir: str
    """Absolute; the start fails when it is not there any more."""
    environment: Mapping[str, str] = field(repr=False)
    """The whole environment but for TERM, which is the terminal's."""
    inherited: Mapping[str, str] = field(repr=False)
    """What came from the caller's shell: a child of this session takes these."""
    typed_prompt: str | None = field(default=None, repr=False)
    """A first line to type once the process runs."""
    prompt_file: str | None = field(default=None, repr=False)
    """Text for the file that SM_PROMPT_FILE names."""
    flags: tuple[str, ...] = ()
    """The program and the options that every later process of the session is started with too (`sm restore`)."""
    has_prompt: bool = False
    """Whether the process is given something to do when it starts."""
    mcp_config: str | None = field(default=None, repr=False)
    """Text for the file of MCP servers that the argv names (`Places.mcp_file`): it holds secrets, and is not stored."""


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
    """An Idempotency-Key with a digest of the request it came with: the same key for another request is an error."""

    text: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """What a caller asks for. Nothing in here says who the caller is."""

    agent_type: str
    prompt: str | None = None
    name: str | None = None
    model: str | None = None
    preset: str | None = None
    extra_args: tuple[str, ...] = ()
    parent: str | None = None
    working_dir: str | None = None
    current_dir: str | None = None
    """Where the operator's command ran: the working directory when none is asked for."""
    trust: str | None = None
    title: str | None = None
    workspace: str | None = None
    """A slug, or `-` for none; None: the parent's, else the one whose directory is the nearest around its own."""
    worktree: str | None = None
    branch: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The caller's environment as sent; the manager keeps what is configured, nothing of it for a session's child."""


def digest(token: str) -> str:
    """SHA-256 of a session's token. Only the digest is stored: whoever reads the database cannot use it."""
    return hashlib.sha256(token.encode()).hexdigest()
