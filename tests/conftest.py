"""Settings of all tests: limits that scale with the load, and which tests may start processes.

A test that starts a process bears the mark `processes`. The mark is set here for the tests of each module that names
a class with the attribute `starts_processes`, such as `Instance`. All other tests are pure, and `./check --fast` runs
those alone: a pure test that starts a process all the same is refused.
"""

import os
import signal
import sys
from collections.abc import Iterator

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings

from tests.instance import Instance
from tests.load import scaled

# A shell starts what it puts into the background with SIGINT ignored, and that would be inherited by every
# command that a test wants to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What fuzzing finds must not depend on the speed of the machine. SM_LONG=1 looks twenty times as long.
settings.register_profile("sm", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("long", settings.get_profile("sm"), max_examples=1000)
settings.load_profile("long" if os.environ.get("SM_LONG") == "1" else "sm")

_STARTS = frozenset(
    ["subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"]
)
_pure: pytest.Item | None = None
"""The pure test that runs now."""


def _refuse_processes(event: str, arguments: object) -> None:
    if _pure is not None and event in _STARTS:
        raise AssertionError(f"{_pure.nodeid} starts a process: mark it with @pytest.mark.processes")


sys.addaudithook(_refuse_processes)


def pytest_itemcollected(item: pytest.Item) -> None:
    assert isinstance(item, pytest.Function)
    if any(getattr(each, "starts_processes", False) is True for each in vars(item.module).values()):
        item.add_marker(pytest.mark.processes)


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
    """Scale the limit of each test, which is in seconds of an idle machine."""
    scaled_settings = settings._replace(timeout=scaled(settings.timeout))
    return pytest_timeout.pytest_timeout_set_timer(item, scaled_settings)


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as made:
        yield made
