"""Runs tests with the mark `virtual_time` on an event loop with virtual time."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.virtual_time import VirtualTime


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    is_virtual = item.get_closest_marker("virtual_time") is not None
    return {"loop": VirtualTime if is_virtual else asyncio.new_event_loop}
