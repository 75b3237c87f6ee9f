"""The JSON objects in the answers of the routes of sandboxes."""

from sm.core.dataclass import dataclass
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class EngineView:
    """The Docker engine. Facts are null while it cannot be used."""

    url: str
    available: bool
    problem: str | None
    """The reason why it cannot be used."""
    hint: str | None
    """The command to type."""
    version: str | None
    cgroup_version: int | None
    storage_driver: str | None
    seccomp: bool | None
    """The engine filters system calls."""
    live_restore: bool | None
    """Containers survive a restart of the engine."""
    data_root: str | None
    data_free_bytes: int | None


@dataclass(frozen=True, slots=True)
class ImageView:
    """The image of containers."""

    name: str
    id: str
    version: str | None
    """The version of sm that built it; null for an image from elsewhere."""
    agents: list[str] | None
    """`claude@2.1.197`; null for an image from elsewhere."""
    size_bytes: int
    created_at: str
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class UsageView:
    """The use of a container, and its limits. Null stands for an unknown number or no limit."""

    memory_bytes: int | None
    """Without page cache."""
    memory_limit_bytes: int | None
    pids: int | None
    pids_limit: int | None


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container of this instance."""

    name: str
    workspace: str | None
    """Null for the container for sessions without a workspace."""
    state: str
    """As the engine names it: `running`, `paused`, `exited`."""
    user: str
    """`UID:GID`"""
    sessions: list[str]
    """The ids of the live sessions in it."""
    usage: UsageView | None
    home_bytes: int
    current: bool
    """False if it was made with another configuration, version or image."""
    last_oom: Time | None
    """The last kill for lack of memory, since the start of the daemon."""
    problem: str | None
    """The reason why no session can start in it."""


@dataclass(frozen=True, slots=True)
class SandboxView:
    """The engine, the image and the containers."""

    engine: EngineView
    image_name: str
    image: ImageView | None
    containers: list[ContainerView]
    other_instances: int
    """Containers of other instances of sm on this engine."""


@dataclass(frozen=True, slots=True)
class BuildLineView:
    text: str
    step: bool
    """The line begins a step; otherwise it is output of the step before."""


@dataclass(frozen=True, slots=True)
class BuildView:
    """The progress of a build."""

    lines: list[BuildLineView]
    next: int
    """The value of `after` in the next request."""
    done: bool
    image: ImageView | None


@dataclass(frozen=True, slots=True)
class DoneView:
    container: str


@dataclass(frozen=True, slots=True)
class CommandView:
    argv: list[str]
    """The command to run in a terminal."""


@dataclass(frozen=True, slots=True)
class WritableView:
    """Paths that a sandboxed session of any time could write, wholly or in part, or replace."""

    writable: list[str]


@dataclass(frozen=True, slots=True)
class UnusedView:
    """A thing that nothing uses."""

    kind: str
    """`container`, `home` or `image`."""
    name: str
    size_bytes: int
    """The disk space that its removal frees; for an image at least."""
