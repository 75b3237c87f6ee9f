"""Settings of all tests: their hard limits, their groups, and which of them may start processes.

A test that starts a process has the mark `processes`. This module sets the mark for the tests of each module that has
a class with the attribute `starts_processes`, such as `Instance`, except those with the mark `simulation`. All other
tests are pure: `./check --fast` runs only them, and one that starts a process fails.

A test of the real claude has the mark `full`, unless it has `claude_core`: `./check` leaves the others to `./check
--full`. Tests that share a scarce part of the machine run one after the other, in one worker (groups.py).
"""

import functools
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from sm.store import connection
from sm.store.connection import inspect
from sm.store.migrations import migrate
from tests.claude_container import claude_inside, pytest_terminal_summary
from tests.engine import NO_ENGINE, engine, own_engine, private_engine
from tests.engine_images import base_image, sandbox_image
from tests.groups import CLAUDE, group_of, pytest_collection_modifyitems
from tests.hard_limit import hard_limit, pytest_exception_interact, pytest_timeout_set_timer
from tests.instance import Instance
from tests.memory_files import use_memory
from tests.process_modules import INTEGRATION, is_left_out, may_start_processes
from tests.shared_rewriting import rewrite_share
from tests.sim.lives import buried
from tests.sim.replacing import replaced
from tests.sim.template import inspect_or_copy, migrate_fast

__all__ = [
    "base_image",
    "claude_inside",
    "engine",
    "own_engine",
    "private_engine",
    "pytest_collection_modifyitems",
    "pytest_exception_interact",
    "pytest_terminal_summary",
    "pytest_timeout_set_timer",
    "sandbox_image",
]  # fixtures and hooks

# Imports and collected tests stay until the end. To look through them again and again doubles the time of collection.
gc.disable()

# A shell starts background processes with SIGINT ignored, and every command that a test interrupts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of repositories and scratch directories are made and removed: in memory that takes half as long.
use_memory()

# Only the tests that name an engine use one.
os.environ["DOCKER_HOST"] = NO_ENGINE

# Results of fuzzing must not depend on the speed of the machine. SM_LONG=1 tries twenty times as many examples.
settings.register_profile("sm", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("long", settings.get_profile("sm"), max_examples=1000)
settings.load_profile("long" if os.environ.get("SM_LONG") == "1" else "sm")

_STARTS = frozenset(
    ["subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"]
)
_LOG_ROOM_BYTES = connection._LOG_ROOM_BYTES
_pure: pytest.Item | None = None
"""The pure test that is running."""
_TASKS_MAX = 5_000
"""Tasks of dropped daemons between two full collections: they hold half a million objects."""
_frozen_tasks = 0
_OPEN_FILES_MAX = 200
"""Files that are open after a pure test: a few dozen are usual, and most shells permit 1,024."""
_open_files_max = _OPEN_FILES_MAX


def _refuse_processes(event: str, arguments: object) -> None:
    if _pure is not None and event in _STARTS:
        raise AssertionError(f"{_pure.nodeid} starts a process: mark it with @pytest.mark.processes")


sys.addaudithook(_refuse_processes)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules whose tests are all left out."""
    return is_left_out(collection_path, config.option.markexpr) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep the modules and tests out of all later collections of garbage, each of which would walk through them.

    A test of a played daemon makes a tenth of a million objects, most of which end with their last reference. The
    process that gives the tests to workers keeps all reports, and makes no garbage.
    """
    rewrite_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 10, 10)
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    assert isinstance(item, pytest.Function)
    group = None
    if item.get_closest_marker("simulation") is None:  # processes of a simulation are played
        if _starts_processes(item.module):
            item.add_marker(pytest.mark.processes)
        if item.get_closest_marker("processes"):
            assert may_start_processes(item.path), f"{item.path} needs a word of tests/process_modules.py"
        if item.path.name.startswith(CLAUDE) and not item.get_closest_marker("claude_core"):
            item.add_marker(pytest.mark.full)
        group = group_of(item)
    if INTEGRATION in item.path.parents:
        assert item.get_closest_marker("processes"), (
            f"no phase has {item.nodeid}, a pure test in {INTEGRATION.name}"
        )
    if mark := hard_limit(item, group):
        item.add_marker(mark)


def _freeze(generation: int) -> None:
    """Collect the garbage of a generation, and leave all that is not garbage out of later collections."""
    global _frozen_tasks
    gc.collect(generation)
    gc.freeze()
    _frozen_tasks = buried()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Let pytest and the end of Python find nothing to look through, which would take 15 seconds."""
    if browser := sys.modules.get("tests.browser"):
        browser.shared_chromium.end()
    _freeze(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Let each pure test leave only few files open, also those that tests share."""
    global _pure, _open_files_max
    is_pure = _pure is not None
    if nextitem is None:  # also ends what earlier tests with processes shared, such as an engine
        _pure = None
    yield
    if is_pure and (number := open_files()) > _open_files_max:
        gc.collect()
        if (number := open_files()) > _open_files_max:
            _open_files_max = number + _OPEN_FILES_MAX  # blames no later test for these
            raise AssertionError(
                f"{number} files are open: this test and those before it do not close theirs"
            )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@functools.cache
def _starts_processes(module: ModuleType) -> bool:
    return any(getattr(value, "starts_processes", False) is True for value in vars(module).values())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    global _pure
    _pure = None if item.get_closest_marker("processes") else item
    try:
        return (yield)
    finally:
        _pure = None
        if browser := sys.modules.get("tests.browser"):  # imported by the first module that uses it
            browser.shared_chromium.leave(nextitem)
        if buried() - _frozen_tasks > _TASKS_MAX:
            _freeze(0)


@pytest.fixture(scope="session", autouse=True)
def copied_databases() -> Iterator[None]:
    """Let this process make a new database as a copy, and wait for no disk.

    The migrations of one, and the waits of its commits, take longer than most tests of a store.
    """
    with replaced(
        (connection, "inspect", inspect_or_copy),
        (connection, "migrate", migrate_fast),
        (connection, "_LOG_ROOM_BYTES", 1 << 16),
    ):
        yield


@pytest.fixture
def migrated_databases() -> Iterator[None]:
    """Make each new database with its migrations, and wait for the disk, as the daemon does."""
    with replaced(
        (connection, "inspect", inspect),
        (connection, "migrate", migrate),
        (connection, "_LOG_ROOM_BYTES", _LOG_ROOM_BYTES),
    ):
        yield


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance() as instance:
        yield instance
