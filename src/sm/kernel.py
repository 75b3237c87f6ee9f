"""The parts of the kernel that a capability uses, and the places where it registers its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sm.config import Config
from sm.core.capability_parts import capability_parts
from sm.core.models import Caller, RequestKey
from sm.core.timers import Timer
from sm.monitor import Observer, UsageMeter, Watcher
from sm.operations import Operation
from sm.providers.base import Provider
from sm.requests import Requests
from sm.sessions.manager import Manager
from sm.sessions.plan import SpawnPlanner
from sm.sessions.session_fields import SessionField
from sm.store import Store


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A call of an operation, of which its door knows the caller."""

    caller: Caller
    target: str
    """The reference, slug or number of the target; empty for an operation without one."""
    arguments: Any
    """An instance of `Operation.arguments`."""
    key: RequestKey | None


UseCase: TypeAlias = Callable[[OperationCall], Awaitable[Any]]
"""Carries out an operation. Returns its result, or raises SmError."""
TimerHandler: TypeAlias = Callable[[Timer], Awaitable[float | None]]
"""As in `daemon.due_timers`."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The parts of the kernel that capabilities use, and the places where they register."""

    config: Config
    store: Store
    manager: Manager
    providers: Mapping[str, Provider]
    planner: SpawnPlanner
    usage: UsageMeter
    observer: Observer
    watcher: Watcher
    requests: Requests
    timers: dict[str, TimerHandler]
    """By the kind of the timer."""
    steady: Callable[[], float]
    """A clock that nobody sets."""
    fields: list[SessionField] = field(default_factory=list)
    use_cases: dict[Operation, UseCase] = field(default_factory=dict)
    """Of the operations of capabilities."""
    at_start: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called once, before the daemon looks at its sessions."""
    on_config: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Called after each change of the configuration. May raise StorageFull: the change is repeated then."""


def set_up_capabilities(kernel: Kernel) -> None:
    """Build every capability. Each registers its parts at the kernel."""
    for part in capability_parts("setup"):
        part.setup(kernel)
