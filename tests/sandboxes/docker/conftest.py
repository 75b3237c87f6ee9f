"""An instance with its own label on a real engine. Whatever a test makes there is removed by that label."""

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import SandboxSection, sandbox_for
from sm.config.model import Config
from sm.core.models import Workspace
from sm.paths import InstancePaths
from sm.sandboxes.containers import Container, ContainerEventKind
from sm.sandboxes.docker.containers import Containers
from sm.sandboxes.docker.engine import PING_S, Engine
from sm.sandboxes.path_map import Mount
from tests.sim.pytest_hooks import pytest_asyncio_loop_factories
from tests.waits import until_async

__all__ = ["pytest_asyncio_loop_factories"]  # a hook

USER = 1000


class Sandboxes:
    """Containers of one instance. `settings` are values of the section `sandbox:`."""

    def __init__(self, engine: str, image: str, **settings: Any) -> None:
        self.url = engine
        self.root = Path(tempfile.mkdtemp(prefix="sm-", dir="/tmp"))
        self.root.chmod(0o755)
        self.paths = InstancePaths(f"{self.root}/sm/config.yaml", f"{self.root}/sm/state")
        self.instance = secrets.token_hex(16)
        self.settings: dict[str, Any] = {"image": image, "engine": engine, **settings}
        self.workspaces: dict[str, Workspace] = {}
        self.events: list[tuple[ContainerEventKind, Container]] = []
        self.client_writes = 0
        self.writable = set[str]()
        self.engine = self.connect()
        self.containers = self.open()
        self._running: asyncio.Task[None] | None = None

    def connect(self, ping_s: float = PING_S) -> Engine:
        """A connection of its own to the engine. The caller closes it."""
        return Engine(self.url, ping_s=ping_s)

    def give(self, path: str, uid: int) -> None:
        """Change the owner of a directory."""
        os.chown(path, uid, uid)

    def open(self) -> Containers:
        """As a new daemon of this instance."""
        containers = Containers(
            self.engine,
            self.paths,
            self.instance,
            self.settings_of,
            self.workspaces.get,
            self._write_client,
            self._record_mounts,
        )
        containers.listen(lambda kind, container: self.events.append((kind, container)))
        return containers

    async def _record_mounts(self, workspace: str | None, mounts: Iterable[Mount]) -> None:
        self.writable |= {mount.source for mount in mounts if mount.writable}

    def _write_client(self) -> None:
        launcher = Path(self.paths.client, "bin/sm")
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.touch()
        self.client_writes += 1

    def settings_of(self, workspace: Workspace | None) -> SandboxSection:
        return sandbox_for(Config.model_validate({"sandbox": self.settings}), workspace)

    def workspace(self, slug: str = "shop", **overrides: Any) -> Workspace:
        directory = self.root / slug
        directory.mkdir(exist_ok=True)
        self.give(str(directory), USER)
        made = Workspace(slug, str(directory), "2026-01-01T00:00:00Z", sandbox=overrides)
        self.workspaces[slug] = made
        return made

    def override(self, workspace: Workspace, **overrides: Any) -> Workspace:
        changed = replace(workspace, sandbox={**workspace.sandbox, **overrides})
        self.workspaces[workspace.slug] = changed
        return changed

    def docker(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", "-H", self.url, *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def inside(self, container: Container, *command: str, check: bool = True) -> str:
        """The output of a command in the container, with stderr."""
        user = f"{container.uid}:{container.gid}"
        done = subprocess.run(
            ["docker", "-H", self.url, "exec", "--user", user, container.id, *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout
        return done.stdout.strip()

    def start_inside(self, container: Container, *command: str) -> None:
        self.docker("exec", "--detach", "--user", f"{container.uid}", container.id, *command)

    async def all_in(self, containers: Containers) -> list[str]:
        return [record.name for record in await containers.list()]

    def follow(self) -> None:
        """Follow the engine's events, as the daemon does."""
        self._running = asyncio.create_task(self.containers.run())

    async def until(self, found: Callable[[], object], what: str) -> None:
        async def look() -> bool:
            return bool(found())

        await until_async(look, what)

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.containers.close()
        self.engine.close()
        ids = self.docker("ps", "-aq", "--filter", f"label=instance={self.instance}").split()
        if ids:
            self.docker("rm", "-fv", *ids)
        networks = self.docker("network", "ls", "-q", "--filter", f"label=instance={self.instance}").split()
        if networks:
            self.docker("network", "rm", *networks)
        shutil.rmtree(self.root)


Open = Callable[..., Sandboxes]


@pytest.fixture
async def open_sandboxes() -> AsyncIterator[Open]:
    """Make instances; the arguments are those of Sandboxes."""
    async with contextlib.AsyncExitStack() as stack:

        def open_one(engine: str, image: str, **settings: Any) -> Sandboxes:
            made = Sandboxes(engine, image, **settings)
            stack.push_async_callback(made.close)
            return made

        yield open_one


@pytest.fixture
async def sandboxes(open_sandboxes: Open, engine: str, sandbox_image: str) -> Sandboxes:
    return open_sandboxes(engine, sandbox_image)
