"""The contract of an engine on the played one of tests/sim: the tests of containers on a real engine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.sandboxes.docker import test_containers, test_engine_faults
from tests.sandboxes.docker.conftest import Open
from tests.sandboxes.docker.played_sandboxes import PlayedEngineProcess, PlayedSandboxes
from tests.sim.engine import ENGINE_URL, IMAGE
from tests.sim.loop import VirtualLoop
from tests.sim.world import World, world_on

pytestmark = pytest.mark.simulation

for _module in (test_containers, test_engine_faults):
    globals().update({n: test for n, test in vars(_module).items() if n.startswith("test_")})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    with world_on(loop, "", 1, in_memory=False) as world:
        yield world


@pytest.fixture
def engine() -> str:
    return ENGINE_URL


@pytest.fixture
def sandbox_image() -> str:
    return IMAGE


@pytest.fixture
def private_engine(world: World) -> PlayedEngineProcess:
    process = PlayedEngineProcess(world.engine)
    process.start()
    return process


@pytest.fixture
async def open_sandboxes(world: World) -> AsyncIterator[Open]:
    world.engine.start()
    async with contextlib.AsyncExitStack() as stack:

        def open_one(engine: str, image: str, **settings: Any) -> PlayedSandboxes:
            made = PlayedSandboxes(world, **settings)
            stack.push_async_callback(made.close)
            return made

        yield open_one


@pytest.fixture
async def sandboxes(open_sandboxes: Open) -> PlayedSandboxes:
    made = open_sandboxes(ENGINE_URL, IMAGE)
    assert isinstance(made, PlayedSandboxes)
    return made


@pytest.fixture
async def private(open_sandboxes: Open) -> PlayedSandboxes:
    made = open_sandboxes(ENGINE_URL, IMAGE)
    assert isinstance(made, PlayedSandboxes)
    return made
