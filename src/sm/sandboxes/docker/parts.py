"""A Docker engine with its images and containers, as `ContainerEngine`."""

from functools import partial

from sm.config import sandbox_for
from sm.sandboxes.containers import Container
from sm.sandboxes.docker import programs
from sm.sandboxes.docker.containers import Containers
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.engine import Engine, EngineAccess
from sm.sandboxes.docker.image import Images
from sm.sandboxes.engine import EngineContext
from sm.sandboxes.session_processes import SessionProcesses


class DockerEngine:
    """`ContainerEngine` for Docker. `access`: the way to the engine, by default that of this machine."""

    def __init__(self, context: EngineContext, access: EngineAccess | None = None) -> None:
        self._context = context
        config = context.config
        self.link = Engine(config.sandbox.engine, answered=context.engine_answered, access=access)
        self.images = Images(self.link, config.sandbox, context.image_found)
        self.containers = Containers(
            self.link,
            context.paths,
            context.instance,
            partial(sandbox_for, config),
            context.workspace,
            context.write_client,
            context.record_mounts,
        )
        self._sandbox: ContainerSandbox | None = None

    def make_sandbox(self, session_processes: SessionProcesses) -> ContainerSandbox:
        context = self._context
        self._sandbox = ContainerSandbox(
            self.link,
            self.containers,
            self.images,
            context.config,
            context.paths,
            context.workspace,
            session_processes,
        )
        return self._sandbox

    def has_program(self, container: Container, program: str) -> bool | None:
        return programs.has_program(container.init, program)

    async def close(self) -> None:
        await self.containers.close()
        await self.images.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self.link.close()
