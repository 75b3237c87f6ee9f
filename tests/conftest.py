"""Settings of all tests: time limits that scale with the load, and the tests that may start processes.

A test that starts a process has the mark `processes`. This module sets the mark for the tests of each module that has
a class with the attribute `starts_processes`, such as `Instance`, except those with the mark `simulation`. All other
tests are pure: `./check --fast` runs only them, and one that starts a process fails.

A test of the real claude has the mark `full`, unless it has `claude_core`: `./check` leaves the others to `./check
--full`. Tests that share a scarce part of the machine run one after the other, in one worker (`xdist_group`).
"""

import os
import signal
import sys
from collections.abc import Iterator

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings

from tests.claude_container import claude_inside, pytest_collection_modifyitems, pytest_terminal_summary
from tests.engine import NO_ENGINE, base_image, engine, private_engine, sandbox_image
from tests.instance import Instance
from tests.load import Limit

__all__ = [
    "base_image",
    "claude_inside",
    "engine",
    "private_engine",
    "pytest_collection_modifyitems",
    "pytest_terminal_summary",
    "sandbox_image",
]  # fixtures and hooks

# A shell starts background processes with SIGINT ignored, and every command that a test interrupts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Only the tests that name an engine use one.
os.environ["DOCKER_HOST"] = NO_ENGINE

# Results of fuzzing must not depend on the speed of the machine. SM_LONG=1 tries twenty times as many examples.
settings.register_profile("sm", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("long", settings.get_profile("sm"), max_examples=1000)
settings.load_profile("long" if os.environ.get("SM_LONG") == "1" else "sm")

_STARTS = frozenset(
    ["subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"]
)
_CLAUDE = "test_claude_"
_ENGINE = frozenset(["engine", "private_engine"])
"""Fixtures of tests with a Docker engine."""
_LOOK_EVERY_S = 10.0
_pure: pytest.Item | None = None
"""The pure test that is running."""


def _refuse_processes(event: str, arguments: object) -> None:
    if _pure is not None and event in _STARTS:
        raise AssertionError(f"{_pure.nodeid} starts a process: mark it with @pytest.mark.processes")


sys.addaudithook(_refuse_processes)


def pytest_itemcollected(item: pytest.Item) -> None:
    assert isinstance(item, pytest.Function)
    if item.get_closest_marker("simulation") is not None:  # its processes are played
        return
    if any(getattr(value, "starts_processes", False) is True for value in vars(item.module).values()):
        item.add_marker(pytest.mark.processes)
    is_claude = item.path.name.startswith(_CLAUDE)
    if is_claude and not item.get_closest_marker("claude_core"):
        item.add_marker(pytest.mark.full)
    # chromium drops its requests when a network interface of a container comes or goes: both share a worker.
    if item.get_closest_marker("browser") or not _ENGINE.isdisjoint(item.fixturenames):
        item.add_marker(pytest.mark.xdist_group("containers"))
    elif is_claude:  # each real claude takes a whole core while it starts
        item.add_marker(pytest.mark.xdist_group("claude"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _pure
    _pure = None if item.get_closest_marker("processes") else item
    try:
        return (yield)
    finally:
        _pure = None


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """Count the time limit of each test in seconds of an idle machine: the load may change while the test runs."""
    limit = Limit(settings.timeout)

    def look(*_: object) -> None:
        if limit.is_over:
            pytest_timeout.timeout_sigalrm(item, settings)
        signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY_S)

    answer: object = pytest_timeout.pytest_timeout_set_timer(item, settings)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, min(settings.timeout, _LOOK_EVERY_S))
    return answer


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as instance:
        yield instance
