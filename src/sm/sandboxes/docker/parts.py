"""A Docker engine with its images and containers, as `ContainerEngine`."""

import os
import stat
from functools import partial

from sm.config import sandbox_for
from sm.core.models import Process
from sm.linux.process_root import ProcessRoot
from sm.linux.processes import is_alive
from sm.paths import INSIDE_CLIENT, INSIDE_PATH
from sm.sandboxes.containers import Container
from sm.sandboxes.docker.containers import Containers
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.engine import Engine, EngineAccess
from sm.sandboxes.docker.image import Images
from sm.sandboxes.engine import EngineContext
from sm.sandboxes.session_processes import SessionProcesses

_PATH = f"{INSIDE_CLIENT}/bin:{INSIDE_PATH}"


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
        return has_program(container.init, program)

    async def close(self) -> None:
        await self.containers.close()
        await self.images.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self.link.close()


def has_program(init: Process, program: str) -> bool | None:
    """Look for `program`, a name on the PATH of agents or an absolute path. Blocks.

    `init`: the first process of the container. None if that is unknown, because the container has ended, the daemon may
    not see its files, or the path is relative.
    """
    if "/" in program:
        candidates = [program] if program.startswith("/") else []
    else:
        candidates = [f"{folder}/{program}" for folder in _PATH.split(":")]
    try:
        with ProcessRoot(init.pid) as root:
            found = any(_is_program(root, path) for path in candidates)
    except OSError:
        return None
    # The pid may have become that of another process.
    return found if candidates and is_alive(init) else None


def _is_program(root: ProcessRoot, path: str) -> bool:
    """Raises OSError when that cannot be known."""
    try:
        status = root.status(os.fsencode(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)
