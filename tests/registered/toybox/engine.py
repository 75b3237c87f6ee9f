"""`ContainerEngine` for `toybox`, for played daemons."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from sm.core.models import Process, Workspace
from sm.errors import IllegalState, NotFound
from sm.linux.processes import identify
from sm.sandboxes.base import Sandbox
from sm.sandboxes.containers import Container, ContainerListener, ContainerRecord
from sm.sandboxes.engine import EngineContext, EngineFacts
from sm.sandboxes.host import HostSandbox
from sm.sandboxes.images import BuildRequest, ImageBuild, ImageFacts, UnusedImage
from sm.sandboxes.session_processes import SessionProcesses
from tests.sim.programs import WAY_IN

_FACTS = EngineFacts(
    version="1.0",
    cgroup_version=2,
    storage_driver="shelf",
    seccomp=True,
    live_restore=True,
    data_root="/",
    memory=1 << 30,
    nofile_max=None,
)
_IMAGE = ImageFacts("sha256:toy", "toys", None, None, None, None, 1000, "2026-01-01T00:00:00.000000Z")


class ToyboxLink:
    def __init__(self, url: str) -> None:
        self.url = url

    async def facts(self) -> EngineFacts:
        return _FACTS

    def enter_command(
        self, container: Container, directory: str, variables: Sequence[str], argv: Sequence[str]
    ) -> list[str]:
        return ["toybox", container.id, directory, *variables, "--", *argv]


class ToyboxImages:
    name = "toys"
    build: ImageBuild | None = None

    def listen(self, listener: object) -> None:
        """There are no builds."""

    def seen(self, name: str) -> ImageFacts:
        return _IMAGE

    async def find(self, name: str) -> ImageFacts:
        return _IMAGE

    async def require(self, name: str) -> ImageFacts:
        return _IMAGE

    async def start_build(self, request: BuildRequest) -> ImageBuild:
        raise IllegalState("a toybox needs no image")

    async def unused(self) -> Sequence[UnusedImage]:
        return ()

    async def remove(self, images: Sequence[UnusedImage]) -> None:
        """There is none."""


@dataclass
class ToyboxContainers:
    instance: str
    made: dict[str | None, Container] = field(default_factory=dict)

    def find(self, workspace: str | None) -> Container | None:
        return self.made.get(workspace)

    def of_pid(self, pid: int) -> None:
        return None

    def first_processes(self) -> list[Process]:
        return []

    def expect(self) -> None:
        """Does nothing: the box is always there."""

    def listen(self, listener: ContainerListener) -> None:
        """A box never ends by itself."""

    def problem(self, workspace: str | None) -> None:
        return None

    def image_changed(self) -> None:
        """The image never changes."""

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def adopt(self) -> None:
        """An earlier daemon's boxes are made again."""

    async def ensure(self, workspace: Workspace | None) -> Container:
        key = None if workspace is None else workspace.slug
        init = identify(os.getppid()) or Process(1, "boot/1")
        box = Container(f"box-{key}", f"box-{key}", key, os.geteuid(), os.getegid(), init, "", ())
        return self.made.setdefault(key, box)

    async def list(self, *, all_instances: bool = False) -> tuple[ContainerRecord, ...]:
        return tuple(self._record(box) for box in self.made.values())

    def _record(self, box: Container) -> ContainerRecord:
        labels = {"instance": self.instance, "type": "workspace", "workspace": box.workspace or ""}
        user = f"{box.uid}:{box.gid}"
        return ContainerRecord(box.id, box.name, labels, "running", 0, user, _IMAGE.id, 0, ())

    async def is_current(self, record: ContainerRecord, workspace: Workspace | None) -> bool:
        return True

    async def stop(self, workspace: str | None, *, force: bool = False) -> None:
        if self.made.pop(workspace, None) is None:
            raise NotFound("no such box")

    async def remove(self, workspace: str | None, *, force: bool = False) -> None:
        await self.stop(workspace, force=force)

    async def remove_all(self) -> tuple[str, ...]:
        names = tuple(box.name for box in self.made.values())
        self.made.clear()
        return names


class ToyboxSandbox(HostSandbox):
    """`Sandbox` that says what it did for whom."""

    def __init__(
        self, context: EngineContext, containers: ToyboxContainers, processes: SessionProcesses
    ) -> None:
        super().__init__(context.paths, processes, way_in=WAY_IN)
        self._context = context
        self._containers = containers

    async def require_available(self, workspace: Workspace | None) -> tuple[str, ...]:
        await self._containers.ensure(workspace)
        return ("in a toybox",)


class ToyboxEngine:
    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self.link = ToyboxLink(context.config.sandbox.engine or "")
        self.images = ToyboxImages()
        self.containers = ToyboxContainers(context.instance)
        self._sandbox: ToyboxSandbox | None = None

    def make_sandbox(self, session_processes: SessionProcesses) -> Sandbox:
        self._sandbox = ToyboxSandbox(self._context, self.containers, session_processes)
        return self._sandbox

    def has_program(self, container: Container, program: str) -> bool:
        return program != "nothing"

    async def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
