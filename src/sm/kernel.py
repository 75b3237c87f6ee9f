"""The parts of the kernel that a capability uses, and the places where it registers its own."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from sm.config import Config
from sm.core.capability_parts import capability_parts
from sm.core.dataclass import dataclass
from sm.core.effects import Effect
from sm.core.models import Caller, RequestKey
from sm.core.program_states import ProgramStateOf
from sm.core.timers import Timer
from sm.equipment.project_items import ProjectItems
from sm.linux.file_threads import FileThreads
from sm.linux.session_cgroups import SessionCgroup
from sm.messaging import Messages
from sm.monitor import Monitor, Observer, UsageMeter, Watcher
from sm.monitor.recorder import TurnRule
from sm.monitor.terminal_use import UseOfTerminal
from sm.operations import Operation
from sm.paths import InstancePaths
from sm.providers.base import Provider
from sm.requests import Requests
from sm.sessions.attachments import Attachers
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import ChatUsers
from sm.sessions.keepers import Keepers
from sm.sessions.place_commands import PlaceCommands
from sm.sessions.reports import Reports
from sm.sessions.session_fields import SessionFields, SessionSums, StatusFields
from sm.sessions.spawn_parts import SpawnPart
from sm.sessions.workspaces import Workspaces
from sm.sessions.writable_paths import WritablePaths
from sm.state.endings import Endings
from sm.state.faults import Faults
from sm.state.notices import Notices
from sm.store import Store
from sm.store.audit import Record
from sm.terminals.base import Screen


async def _do_not_wait(condition: Callable[[], bool], within_s: float) -> bool:
    return condition()


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A call of an operation, of which its door knows the caller."""

    caller: Caller
    target: str
    """The reference, slug or number of the target; empty for an operation without one."""
    arguments: Any
    """An instance of `Operation.arguments`."""
    key: RequestKey | None
    file: bytes = b""
    """The body of an operation that takes a file."""
    wait_until: Callable[[Callable[[], bool], float], Awaitable[bool]] = _do_not_wait
    """Waits until the condition holds, checked after every commit, for at most so many seconds. False after that.

    Ends with an error when the caller has gone.
    """


UseCase: TypeAlias = Callable[[OperationCall], Awaitable[Any]]
"""Carries out an operation. Returns its result, or raises SmError."""


class UseCases(dict[Operation, UseCase]):
    """The use cases of the operations of capabilities."""


EffectHandler: TypeAlias = Callable[[Effect], Awaitable[str | None]]
"""Carries out an effect, after a crash of the daemon again. Returns the reason for giving up, None when done."""
TimerHandler: TypeAlias = Callable[[Timer], Awaitable[float | None]]
"""As in `daemon.due_timers`."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The parts of the kernel that capabilities use, and the places where they register."""

    config: Config
    store: Store
    authorizer: Authorizer
    notices: Notices
    endings: Endings
    faults: Faults
    providers: Mapping[str, Provider]
    spawn_parts: list[SpawnPart]
    usage: UsageMeter
    observer: Observer
    turn_rules: list[TurnRule]
    watcher: Watcher
    reports: Reports
    requests: Requests
    messages: Messages
    users: ChatUsers
    audit: Record
    workspaces: Workspaces
    monitor: Monitor
    keepers: Keepers
    writable: WritablePaths
    """The directories that sandboxed sessions could ever write."""
    screen: Screen
    """The contents of terminals."""
    place_commands: PlaceCommands
    project_items: ProjectItems
    use_of_terminal: UseOfTerminal
    program_state: ProgramStateOf
    threads: FileThreads
    """For the files of agents, which may be slow."""
    paths: InstancePaths
    timers: dict[str, TimerHandler]
    """By the kind of the timer."""
    cgroup_of: Callable[[str], SessionCgroup | None]
    """The cgroup of a session by its id, or None if this machine has none. It may block."""
    attachers: Attachers
    sums: list[SessionSums]
    """The first one answers every door."""
    steady: Callable[[], float]
    """A clock that nobody sets."""
    fields: SessionFields = field(default_factory=SessionFields)
    status_fields: StatusFields = field(default_factory=StatusFields)
    use_cases: UseCases = field(default_factory=UseCases)
    effects: dict[str, EffectHandler] = field(default_factory=dict)
    """By the kind of the effect."""
    tasks: dict[str, Callable[[], Coroutine[Any, Any, object]]] = field(default_factory=dict)
    """Run until the daemon ends, by a name for the log."""
    troubles: list[Callable[[], str | None]] = field(default_factory=list)
    """Each returns a sentence that `sm status` shows, or None without trouble."""
    at_start: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called once, before the daemon looks at its sessions."""
    on_config: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called after each change of the configuration. May raise StorageFull: the change is repeated then."""


def set_up_capabilities(kernel: Kernel) -> None:
    """Build every capability. Each registers its parts at the kernel."""
    for part in capability_parts("setup"):
        part.setup(kernel)
