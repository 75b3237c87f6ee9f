"""Fixtures of the tests of commands in the process of the test: those of tests/cli/conftest.py, played."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.played.cli.command import Sm, empty_home
from tests.played.cli.peer import Peer
from tests.sim.stage import Instance

instance = context_fixture("function", empty_home)


@pytest.fixture
def home(instance: Instance) -> Path:
    """SM_HOME."""
    return instance.home


@pytest.fixture
def state(home: Path) -> Path:
    path = home / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def peer(instance: Instance, state: Path) -> Iterator[Peer]:
    with Peer(instance, str(state / "run" / "sm.sock")) as peer:
        yield peer


@pytest.fixture
def run(instance: Instance) -> Sm:
    return Sm(instance)


@pytest.fixture
def agent(run: Sm, state: Path) -> Sm:
    """`sm` in the environment of an agent."""
    run.environ |= run.as_session(state)
    return run
