"""The JSON objects in the answers of the routes of sandboxes."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.sandboxes.docker.image import ImageFacts
from sm.sessions.sandboxing import ContainerStatus, EngineStatus, SandboxStatus, UnusedThing
from sm.wire_types.fields import Time


class EngineView(TypedDict):
    """The Docker engine. Facts are null while it cannot be used."""

    url: str
    available: bool
    problem: Annotated[str | None, doc("The reason why it cannot be used.")]
    hint: Annotated[str | None, doc("The command to type.")]
    version: str | None
    cgroup_version: int | None
    storage_driver: str | None
    seccomp: Annotated[bool | None, doc("The engine filters system calls.")]
    live_restore: Annotated[bool | None, doc("Containers survive a restart of the engine.")]
    data_root: str | None
    data_free_bytes: int | None


class ImageView(TypedDict):
    """The image of containers."""

    name: str
    id: str
    version: Annotated[str | None, doc("The version of sm that built it; null for an image from elsewhere.")]
    agents: Annotated[list[str] | None, doc("`claude@2.1.197`; null for an image from elsewhere.")]
    size_bytes: int
    created_at: str
    warnings: list[str]


class UsageView(TypedDict):
    """The use of a container, and its limits. Null: unknown, or no limit."""

    memory_bytes: Annotated[int | None, doc("Without page cache.")]
    memory_limit_bytes: int | None
    pids: int | None
    pids_limit: int | None


class ContainerView(TypedDict):
    """A container of this instance."""

    name: str
    workspace: Annotated[str | None, doc("Null: the container for sessions without a workspace.")]
    state: Annotated[str, doc("As the engine names it: `running`, `paused`, `exited`.")]
    user: Annotated[str, doc("`UID:GID`")]
    sessions: Annotated[list[str], doc("The ids of the live sessions in it.")]
    usage: UsageView | None
    home_bytes: int
    current: Annotated[bool, doc("False: made with another configuration, version or image.")]
    last_oom: Annotated[Time | None, doc("The last kill for lack of memory, since the start of the daemon.")]
    problem: Annotated[str | None, doc("The reason why no session can start in it.")]


class SandboxView(TypedDict):
    """The engine, the image and the containers."""

    engine: EngineView
    image_name: str
    image: ImageView | None
    containers: list[ContainerView]
    other_instances: Annotated[int, doc("Containers of other instances of sm on this engine.")]


class BuildLineView(TypedDict):
    text: str
    step: Annotated[bool, doc("The line begins a step; otherwise it is output of the step before.")]


class BuildView(TypedDict):
    """The progress of a build."""

    lines: list[BuildLineView]
    next: Annotated[int, doc("The value of `after` in the next request.")]
    done: bool
    image: ImageView | None


class DoneView(TypedDict):
    container: str


class CommandView(TypedDict):
    argv: Annotated[list[str], doc("The command to run in a terminal.")]


class WritableView(TypedDict):
    """Paths that a sandboxed session of any time could write, wholly or in part, or replace."""

    writable: list[str]


class UnusedView(TypedDict):
    """A thing that nothing uses."""

    kind: Annotated[str, doc("`container`, `home` or `image`.")]
    name: str
    size_bytes: Annotated[int, doc("The disk space that its removal frees; for an image at least.")]


def sandbox_view(status: SandboxStatus) -> SandboxView:
    return {
        "engine": _engine(status.engine),
        "image_name": status.image_name,
        "image": None if status.image is None else image_view(status.image),
        "containers": [_container(container) for container in status.containers],
        "other_instances": status.other_instances,
    }


def _engine(engine: EngineStatus) -> EngineView:
    facts, error = engine.facts, engine.error
    return {
        "url": engine.url,
        "available": error is None,
        "problem": None if error is None else error.message,
        "hint": None if error is None else error.hint,
        "version": None if facts is None else facts.version,
        "cgroup_version": None if facts is None else facts.cgroup_version,
        "storage_driver": None if facts is None else facts.storage_driver,
        "seccomp": None if facts is None else facts.seccomp,
        "live_restore": None if facts is None else facts.live_restore,
        "data_root": None if facts is None else facts.data_root,
        "data_free_bytes": engine.data_free_bytes,
    }


def image_view(image: ImageFacts) -> ImageView:
    return {
        "name": image.name,
        "id": image.id,
        "version": image.version,
        "agents": None if image.agents is None else list(image.agents),
        "size_bytes": image.size_bytes,
        "created_at": image.created_at,
        "warnings": list(image.warnings()),
    }


def _container(container: ContainerStatus) -> ContainerView:
    usage = container.usage
    return {
        "name": container.name,
        "workspace": container.workspace,
        "state": container.state,
        "user": container.user,
        "sessions": list(container.sessions),
        "usage": None
        if usage is None
        else {
            "memory_bytes": usage.memory_bytes,
            "memory_limit_bytes": usage.memory_limit_bytes,
            "pids": usage.pids,
            "pids_limit": usage.pids_limit,
        },
        "home_bytes": container.home_bytes,
        "current": container.is_current,
        "last_oom": container.last_oom,
        "problem": container.problem,
    }


def unused_view(thing: UnusedThing) -> UnusedView:
    return {"kind": thing.kind, "name": thing.name, "size_bytes": thing.size_bytes}
