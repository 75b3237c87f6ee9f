"""Fixtures for tests of `sm.linux`."""

from tests.linux.child_process import start
from tests.sim.pytest_hooks import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories", "start"]
