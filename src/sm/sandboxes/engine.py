"""The contract of an engine that runs containers. docs/architecture.md says what a package of an engine has."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from sm.config import Config
from sm.core.dataclass import dataclass
from sm.core.models import Process, Workspace
from sm.paths import InstancePaths
from sm.sandboxes.base import Sandbox
from sm.sandboxes.containers import Container, ContainerListener, ContainerRecord, RecordMounts
from sm.sandboxes.images import BuildRequest, ImageBuild, ImageFacts, UnusedImage
from sm.sandboxes.session_processes import SessionProcesses


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Properties of the engine and of its machine. `memory` is in bytes."""

    version: str
    cgroup_version: int
    storage_driver: str
    seccomp: bool
    live_restore: bool
    data_root: str
    memory: int
    nofile_max: int | None
    """The hard limit of open files of the engine's process; None when it cannot be read."""


class EngineLink(Protocol):
    """The connection to an engine. Never raises before the first use: most daemons use no container."""

    @property
    def url(self) -> str:
        """The place of the engine."""

    async def facts(self) -> EngineFacts:
        """Ask the engine. Raises SandboxUnavailable if it does not serve."""

    def enter_command(
        self, container: Container, directory: str, variables: Sequence[str], argv: Sequence[str]
    ) -> list[str]:
        """The command that runs `argv` in a container at a person's terminal. `variables`: NAME, or NAME=VALUE."""


class EngineImages(Protocol):
    """The images of an engine. Whatever asks the engine raises SandboxUnavailable when it does not answer."""

    @property
    def name(self) -> str:
        """The image of containers whose workspace names no other one."""

    @property
    def build(self) -> ImageBuild | None:
        """The build that runs, or the last one."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each successful build."""

    def seen(self, name: str) -> ImageFacts | None:
        """The image with this name as it was last found. Does not ask the engine."""

    async def find(self, name: str) -> ImageFacts | None:
        """The image with this name; None if the engine has none."""

    async def require(self, name: str) -> ImageFacts:
        """The image with this name. Raises ImageMissing if the engine has none."""

    async def start_build(self, request: BuildRequest) -> ImageBuild:
        """Begin a build, or join the one that runs with the same request. Raises IllegalState while another runs."""

    async def unused(self) -> Sequence[UnusedImage]:
        """Images of `sm sandbox build` that have no name and no container."""

    async def remove(self, images: Sequence[UnusedImage]) -> None:
        """Remove images. One that has got a name or a container meanwhile stays."""


class EngineContainers(Protocol):
    """The containers of an instance: one for each workspace (its slug), and one for sessions without one (None).

    The first four methods, `listen` and `problem` do no I/O. Whatever asks the engine raises SandboxUnavailable.
    """

    def find(self, workspace: str | None) -> Container | None:
        """The container of a workspace if its first process lives."""

    def of_pid(self, pid: int) -> Container | None:
        """The container in which a process runs."""

    def first_processes(self) -> list[Process]:
        """The first process of each container that runs. Thread-safe."""

    def expect(self) -> None:
        """Let `run` connect to the engine, because containers with sessions should exist."""

    def listen(self, listener: ContainerListener) -> None:
        """Call `listener` from the event loop when a container dies or uses up its memory."""

    def problem(self, workspace: str | None) -> str | None:
        """The reason why no session can start in the container, if it ended too often."""

    def image_changed(self) -> None:
        """Compare the image of each container again when a session needs it."""

    async def run(self) -> None:
        """Follow the engine. Runs until it is cancelled."""

    async def adopt(self) -> None:
        """Find the containers of this instance."""

    async def ensure(self, workspace: Workspace | None) -> Container:
        """The running container of a workspace. Makes, starts and continues it."""

    async def list(self, *, all_instances: bool = False) -> tuple[ContainerRecord, ...]:
        """The containers of this instance, or of all instances of sm on the engine, running or not."""

    async def is_current(self, record: ContainerRecord, workspace: Workspace | None) -> bool:
        """Return whether the container would be made with the same options now."""

    async def stop(self, workspace: str | None, *, force: bool = False) -> None:
        """Raises NotFound, and IllegalState if processes live in it, unless `force`."""

    async def remove(self, workspace: str | None, *, force: bool = False) -> None:
        """Stop and remove. The container's home stays. Raises as `stop`."""

    async def remove_all(self) -> tuple[str, ...]:
        """Stop and remove every container of this instance, also with live processes. Returns their names."""


class ContainerEngine(Protocol):
    """An engine with everything that sessions need of it. Made in the event loop that uses it."""

    @property
    def link(self) -> EngineLink:
        """The connection."""

    @property
    def images(self) -> EngineImages:
        """The images."""

    @property
    def containers(self) -> EngineContainers:
        """The containers."""

    def make_sandbox(self, session_processes: SessionProcesses) -> Sandbox:
        """Make the sandbox of sessions in containers. Called once."""

    def has_program(self, container: Container, program: str) -> bool | None:
        """Look for `program`, a name on the PATH of agents or a path, in a container. Blocks. None if unknown."""

    async def close(self) -> None:
        """Drop connections and unfinished work. Agents and containers go on."""


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The daemon, as an engine sees it."""

    config: Config
    paths: InstancePaths
    instance: str
    workspace: Callable[[str], Workspace | None]
    """Finds a workspace by its slug. None for a deleted one."""
    write_client: Callable[[], object]
    """Writes the directory `paths.client`. Blocks."""
    record_mounts: RecordMounts
    """Awaited before a container is made or started. No container is made if it fails."""
    engine_answered: Callable[[], Awaitable[None]]
    """Awaited after each answer of the engine."""
    image_found: Callable[[], Awaitable[None]]
    """Awaited when an image was found or built."""


MakeEngine = Callable[[EngineContext], ContainerEngine]
