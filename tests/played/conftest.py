"""Runs tests with the mark `simulation` on the loop of simulations, and forks the processes that make worktrees."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.forked_making import forked_makings
from tests.sim.pytest_hooks import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture(autouse=True)
def _makings(request: pytest.FixtureRequest) -> Iterator[None]:
    with forked_makings() if request.node.get_closest_marker("processes") else nullcontext():
        yield
