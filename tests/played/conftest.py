"""Runs tests with the mark `simulation` on the loop of simulations."""

from tests.sim.pytest_hooks import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
