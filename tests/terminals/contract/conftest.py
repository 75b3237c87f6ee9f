"""Each test of the contract runs on the default tmux server and on a named one.

`test_played_server` runs those without the mark `tmux_only` on the played server of tests/sim.
"""

from collections.abc import AsyncIterator

import pytest

from sm.terminals.base import Terminals
from tests.sim.pytest_hooks import pytest_asyncio_loop_factories
from tests.terminals.world import World

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture(params=["default server", "named server"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(None if request.param == "default server" else "sm-contract")
    yield world
    await world.end()


@pytest.fixture
async def terminals(world: World) -> AsyncIterator[Terminals]:
    async with world.terminals() as terminals:
        yield terminals
