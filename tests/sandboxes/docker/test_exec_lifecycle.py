"""ContainerSandbox with the containers of an instance: they are made, stopped and removed around the agents."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sm.config.model import Config
from sm.core.models import Launch, Process, Session
from sm.core.states import TrustLevel
from sm.errors import SandboxUnavailable
from sm.linux import processes
from sm.linux.cgroups import container_of
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.image import Images
from tests import samples
from tests.sandboxes.docker.conftest import Sandboxes
from tests.sandboxes.terminal import Terminal, without_cgroups

pytestmark = pytest.mark.processes

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Scene:
    instance: Sandboxes
    sandbox: ContainerSandbox
    terminal: Terminal

    async def start(self, session: Session) -> Process | None:
        launch = Launch(("sleep", "1000"), f"/scratch/{session.id}", {"PATH": PATH}, {})
        pid = self.terminal.open(await self.sandbox.prepare(session, launch, "token"))
        return await self.sandbox.wait_started(session, pid)


@pytest.fixture
async def scene(sandboxes: Sandboxes, tmp_path: Path) -> AsyncIterator[Scene]:
    config = Config.model_validate({"sandbox": sandboxes.settings})
    images = Images(sandboxes.engine, config.sandbox)
    sandbox = ContainerSandbox(
        sandboxes.engine,
        sandboxes.containers,
        images,
        config,
        sandboxes.paths,
        sandboxes.workspaces.get,
        without_cgroups(),
        0.3,
    )
    terminal = Terminal(tmp_path, is_pty=True)
    with contextlib.closing(sandbox), contextlib.closing(terminal):
        yield Scene(sandboxes, sandbox, terminal)


def session(session_id: str, workspace: str | None) -> Session:
    return replace(samples.session(session_id), workspace=workspace, effective_mode=TrustLevel.SANDBOXED)


@pytest.mark.parametrize("slug", ["shop", None])
async def test_first_agent_makes_the_container_of_its_workspace(scene: Scene, slug: str | None) -> None:
    if slug is not None:
        scene.instance.workspace(slug)
    assert await scene.sandbox.require_available(scene.instance.workspaces.get(slug or "")) == ()
    process = await scene.start(session("1a2b3c4d", slug))
    container = scene.instance.containers.find(slug)
    assert process is not None and container is not None
    assert container_of(process.pid) == container.id
    assert [member.pid for member in container.members()] == [process.pid]


async def test_agent_starts_in_a_container_that_was_stopped_or_paused_by_hand(scene: Scene) -> None:
    scene.instance.workspace("shop")
    first = session("1a2b3c4d", "shop")
    for verb in ("stop", "pause"):
        assert await scene.start(first) is not None
        container = scene.instance.containers.find("shop")
        assert container is not None
        scene.instance.docker(verb, container.id)
    assert await scene.start(session("2b3c4d5e", "shop")) is not None


async def test_end_works_in_a_daemon_that_does_not_know_the_container_yet(scene: Scene) -> None:
    scene.instance.workspace("shop")
    agent = session("1a2b3c4d", "shop")
    process = await scene.start(agent)
    assert process is not None
    container = scene.instance.containers.find("shop")
    assert container is not None
    unknown = scene.instance.open()
    assert unknown.find("shop") is None
    scene.sandbox._containers = unknown
    await scene.sandbox.end(agent, process, force=True)
    assert not processes.is_alive(process)
    assert container.members() == []


async def test_nothing_starts_in_a_directory_of_root(scene: Scene) -> None:
    workspace = scene.instance.workspace("shop")
    Path(workspace.directory).rmdir()
    Path(workspace.directory).mkdir()
    with pytest.raises(SandboxUnavailable, match="belongs to root"):
        await scene.start(session("1a2b3c4d", "shop"))
