"""The contract of terminals on the played server of tests/sim: all tests without the mark `tmux_only`."""

from collections.abc import AsyncIterator

import pytest

from tests.terminals.contract import test_events, test_keyboard, test_lifecycle, test_screen
from tests.terminals.contract.played_world import PlayedWorld

pytestmark = pytest.mark.simulation

for _module in (test_events, test_keyboard, test_lifecycle, test_screen):
    for _name, _test in vars(_module).items():
        marks = getattr(_test, "pytestmark", [])
        if _name.startswith("test_") and all(mark.name != "tmux_only" for mark in marks):
            globals()[_name] = _test


@pytest.fixture
async def world() -> AsyncIterator[PlayedWorld]:
    world = PlayedWorld()
    yield world
    await world.end()
