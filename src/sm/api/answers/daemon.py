"""The JSON objects in the answers of the routes of the daemon."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.accounts import AccountView
from sm.api.fields import doc


class DaemonView(TypedDict):
    """The process of the daemon."""

    pid: int
    version: str
    uptime_s: float


class HealthView(DaemonView):
    """The daemon, and its socket."""

    socket: str
    sessions: Annotated[int, doc("The number of live sessions.")]


class OrphanProcessView(TypedDict):
    """A live process that a session left behind when it ended."""

    session_id: str
    label: Annotated[str, doc("The name of the session; its id if the session was removed.")]
    pid: int
    command: str
    age_s: float
    memory_bytes: Annotated[int, doc("Resident memory.")]


class EndedOrphansView(TypedDict):
    """The orphan processes that were ended, and those that are left."""

    ended: list[OrphanProcessView]
    left: list[OrphanProcessView]


class CgroupsView(TypedDict):
    """The evidence for the processes of sessions on this host."""

    available: Annotated[
        bool, doc("Whether each session has a cgroup, which also holds what left its process tree.")
    ]
    reason: Annotated[str, doc("The place of the cgroups, or why there can be none.")]


class StatusOverview(TypedDict):
    """An overview in numbers."""

    daemon: DaemonView
    terminal_server: Annotated[
        int | None, doc("The pid of the tmux server, if the daemon has reached it; null for a session.")
    ]
    sessions: Annotated[dict[str, int], doc("The number of sessions by status.")]
    not_seen: Annotated[
        dict[str, int],
        doc(
            "The number of sessions that the operator has not seen since they `failed`, or since they are `done`."
        ),
    ]
    orphans: Annotated[int, doc("Live sessions whose parent's process has ended.")]
    orphan_processes: Annotated[
        list[OrphanProcessView],
        doc("Live processes that ended sessions left behind. Ended by `sm kill --orphans`."),
    ]
    cgroups: CgroupsView
    dead_letters: Annotated[int, doc("Abandoned effects and undelivered messages.")]
    requests_open: int
    warnings: Annotated[int, doc("The number of open warnings about sessions.")]
    inbox: Annotated[int, doc("The number of messages that wait for the caller.")]
    inbox_lines: Annotated[list[str], doc("The first lines of these messages.")]
    parked: Annotated[list[AccountView], doc("The parked accounts; empty for a session.")]
    programs: Annotated[
        list[str],
        doc(
            "The versions of agent CLIs that agents start or run, with the outcome of their check, and agents that run"
            " a version that was replaced. Empty for a session."
        ),
    ]
    trouble: Annotated[list[str], doc("Current failures of the daemon.")]


class ConfigView(TypedDict):
    """The state of config.yaml in the daemon."""

    path: str
    mistakes: Annotated[
        list[str],
        doc("Why the daemon does not apply the file, but keeps its configuration; empty: it applies it."),
    ]
    needs_restart: Annotated[
        list[str], doc("Sections and keys that differ, and that only a restart of the daemon applies.")
    ]


class StoppedView(TypedDict):
    killed: list[str]
