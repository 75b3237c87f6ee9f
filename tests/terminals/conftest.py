from collections.abc import AsyncIterator

import pytest

from sm.terminals.tmux.terminals import Tmux
from tests.terminals.world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.end()


@pytest.fixture
async def tmux(world: World) -> AsyncIterator[Tmux]:
    async with world.terminals() as terminals:
        yield terminals
