"""The JSON objects in the answers of the routes of the daemon."""

from sm.core.dataclass import dataclass
from sm.wire_types.account_answers import AccountView
from sm.wire_types.request_answers import WrittenRuleView


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The process of the daemon."""

    pid: int
    version: str
    uptime_s: float


@dataclass(frozen=True, slots=True)
class HealthView(DaemonView):
    """The daemon, and its socket."""

    socket: str
    sessions: int
    """The number of live sessions."""


@dataclass(frozen=True, slots=True)
class OrphanProcessView:
    """A live process that a session left behind when it ended."""

    session_id: str
    label: str
    """The name of the session; its id if the session was removed."""
    pid: int
    command: str
    age_s: float
    memory_bytes: int
    """Resident memory."""


@dataclass(frozen=True, slots=True)
class EndedOrphansView:
    """The orphan processes that were ended, and those that are left."""

    ended: list[OrphanProcessView]
    left: list[OrphanProcessView]


@dataclass(frozen=True, slots=True)
class CgroupsView:
    """The evidence for the processes of sessions on this host."""

    available: bool
    """True if each session has a cgroup, which also holds what left its process tree."""
    reason: str
    """The place of the cgroups, or why there can be none."""


@dataclass(frozen=True, slots=True)
class StatusOverview:
    """An overview in numbers."""

    daemon: DaemonView
    terminal_server: int | None
    """The pid of the tmux server, if the daemon has reached it; null for a session."""
    sessions: dict[str, int]
    """The number of sessions by status."""
    not_seen: dict[str, int]
    """The number of sessions that the operator has not seen since they `failed`, or since they are
    `done`."""
    orphans: int
    """Live sessions whose parent's process has ended."""
    orphan_processes: list[OrphanProcessView]
    """Live processes that ended sessions left behind. Ended by `sm kill --orphans`."""
    cgroups: CgroupsView
    dead_letters: int
    """Abandoned effects and undelivered messages."""
    requests_open: int
    warnings: int
    """The number of open warnings about sessions."""
    inbox: int
    """The number of messages that wait for the caller."""
    inbox_lines: list[str]
    """The first lines of these messages."""
    parked: list[AccountView]
    """The parked accounts; empty for a session."""
    programs: list[str]
    """The versions of agent CLIs that agents start or run, with the outcome of their check, and agents that
    run a version that was replaced. Empty for a session."""
    trouble: list[str]
    """Current failures of the daemon."""


@dataclass(frozen=True, slots=True)
class ConfigView:
    """The state of config.yaml in the daemon."""

    path: str
    mistakes: list[str]
    """Why the daemon does not apply the file, but keeps its configuration, or empty if it applies it."""
    needs_restart: list[str]
    """Sections and keys that differ, and that only a restart of the daemon applies."""
    rules: list[WrittenRuleView]
    """The rules of rules.yaml that the daemon applies, oldest first."""


@dataclass(frozen=True, slots=True)
class StoppedView:
    killed: list[str]
