"""The contract of Sandbox on containers of the played engine of tests/sim."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sm.config import Config
from sm.core.states import TrustLevel
from sm.sandboxes.docker.docker_sandbox import ContainerSandbox
from sm.sandboxes.docker.image import Images
from tests import samples
from tests.sandboxes import test_sandbox_contract
from tests.sandboxes.docker.played_sandboxes import PlayedSandboxes
from tests.sandboxes.terminal import without_cgroups
from tests.sandboxes.test_sandbox_contract import ID, Place
from tests.sim.engine import IMAGE
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedProcess
from tests.sim.programs import Running
from tests.sim.shell import shell
from tests.sim.world import World, world_on

pytestmark = pytest.mark.simulation

NOT_PLAYED = {
    "test_contract_runs_with_another_shell_when_it_is_installed": "it is about shells of this machine",
    "test_agent_file_without_an_interpreter_line_runs_as_a_shell_script": "no file runs",
    **dict.fromkeys(
        (
            "test_agent_has_the_umask_and_the_soft_limits_of_its_launch",
            "test_agent_without_limits_has_those_of_its_terminal",
            "test_kernel_prefers_an_agent_when_memory_runs_out",
        ),
        "only real processes have limits of the kernel",
    ),
    "test_end_also_ends_the_processes_that_the_agent_started": "the played shell starts nothing in the background",
}
globals().update(
    {
        name: test
        for name, test in vars(test_sandbox_contract).items()
        if name.startswith("test_") and name not in NOT_PLAYED
    }
)


async def record(program: Running) -> None:
    """Write the arguments and the environment of the agent into a file, as the real recorder, and wait."""
    process = program.process
    content = {
        "argv": process.argv[3:],
        "cwd": process.cwd,
        "pid": process.inside,
        "env": dict(process.environ),
    }
    Path(program.file("record")).write_text(json.dumps(content))
    await asyncio.sleep(100_000)


async def end_at_once(program: Running) -> None:
    """Do nothing, as `true`."""


class PlayedTerminal:
    """Runs commands in terminals of a world."""

    def __init__(self, world: World, working_dir: Path) -> None:
        self._world = world
        self._working_dir = working_dir
        self._opened: list[PlayedProcess] = []

    def open(self, argv: Sequence[str]) -> int:
        name = f"terminal-{len(self._opened)}"
        pane = self._world.server.add(name, "test", name, str(self._working_dir), tuple(argv))
        pane.process.environ = {"TERM": "sm-256color $x", "SECRET_OF_ANOTHER": "1"}
        self._opened.append(pane.process)
        return pane.process.pid

    async def exited(self, pid: int | None = None) -> int:
        process = next(p for p in reversed(self._opened) if pid in (None, p.pid))
        async with asyncio.timeout(60):
            while process.exit is None:  # noqa: ASYNC110 - another process ends it
                await asyncio.sleep(0.001)
        assert process.exit.code is not None
        return process.exit.code


class Pids:
    def __init__(self, world: World) -> None:
        self._world = world

    def host_pid(self, inside: int) -> int | None:
        found = (p for p in self._world.kernel.processes.values() if p.inside == inside)
        return next((process.pid for process in found), None)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    with world_on(loop, "", 1, in_memory=False) as world:
        world.engine.start()
        image = world.engine.images[IMAGE]
        world.engine.images[IMAGE] = replace(image, programs=(*image.programs, "true", "touch"))
        world.programs.installed.update(sh=shell, python3=record, true=end_at_once)
        yield world
        await world.programs.end()


@pytest.fixture
def terminal(world: World, tmp_path: Path) -> PlayedTerminal:
    (tmp_path / "elsewhere").mkdir()
    return PlayedTerminal(world, tmp_path / "elsewhere")


@pytest.fixture
def work(place: Place) -> Path:
    folder = place.base / "work 'of' $HOME ünï\n"
    folder.mkdir()
    return folder


@pytest.fixture
async def place(world: World) -> AsyncIterator[Place]:
    made = PlayedSandboxes(world)
    workspace = made.workspace("w")
    config = Config.model_validate({"sandbox": made.settings})
    sandbox = ContainerSandbox(
        made.engine,
        made.containers,
        Images(made.engine, config.sandbox),
        config,
        made.paths,
        made.workspaces.get,
        without_cgroups(),
    )
    session = replace(samples.session(ID), workspace="w", effective_mode=TrustLevel.SANDBOXED)
    launch = Path(made.paths.sandbox("w").launch)
    seen = made.paths.agent_paths(ID, sandboxed=True)
    base = Path(workspace.directory)
    yield Place(sandbox, session, launch, seen, base, "python3", Pids(world))
    await sandbox.forget(ID)
    sandbox.close()
    await made.close()
