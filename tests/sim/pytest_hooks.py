"""The hook that runs tests with the mark `simulation` on the loop of simulations. A conftest.py imports it."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.sim.loop import VirtualLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    is_virtual = item.get_closest_marker("simulation") is not None
    return {"loop": VirtualLoop if is_virtual else asyncio.new_event_loop}
