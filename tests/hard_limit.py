"""The hard limit of each test, which only a hang meets, by the clock of the machine."""

import faulthandler
import os
import signal
from collections.abc import Iterator

import pytest
import pytest_timeout  # type: ignore[import-untyped]

from tests.waits import waits

LIMIT_S = 60.0
SHARED_S = 300.0
"""For the tests of a group (Docker, browser, claude) and for those with the mark `simulation`."""
FULL_S = 3600.0
"""For the tests that only `./check --full` runs, and for all of them with SM_LONG=1, which makes some of them long."""
_GRACE_S = 30.0
_SETTINGS = pytest.StashKey[pytest_timeout.Settings]()
_TRIES = 3
"""A test that does not end when its time is over is interrupted again, and then ends with its process."""


def hard_limit(item: pytest.Item, group: str | None) -> pytest.MarkDecorator | None:
    """The mark with the limit of a test, unless the test has its own."""
    if item.get_closest_marker("timeout"):
        return None
    if item.get_closest_marker("full") or os.environ.get("SM_LONG") == "1":
        return pytest.mark.timeout(FULL_S)
    if group or item.get_closest_marker("simulation"):
        return pytest.mark.timeout(SHARED_S)
    return pytest.mark.timeout(LIMIT_S)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> Iterator[None]:
    """Let the test fail with the names of its waits and with the stacks of its threads."""
    answer = yield
    item.stash[_SETTINGS] = settings
    tries = 0

    def fail(*_: object) -> None:
        nonlocal tries
        tries += 1
        signal.setitimer(signal.ITIMER_REAL, _GRACE_S)
        pytest_timeout.dump_stacks(item.config.get_terminal_writer())
        if tries > _TRIES:
            if capture := item.config.pluginmanager.getplugin("capturemanager"):
                capture.suspend_global_capture(in_=True)
            os.write(2, f"{item.nodeid} does not end\n".encode())
            faulthandler.dump_traceback(2)
            os._exit(1)
        pytest.fail(f"not within the hard limit of {settings.timeout:g} s; it waits for: {waits()}")

    signal.signal(signal.SIGALRM, fail)
    return answer


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the end of a test that has failed too: at the failure pytest-timeout stops its clock, for debuggers."""
    if (settings := node.stash.get(_SETTINGS, None)) is not None and not node.config.getoption("usepdb"):
        node.ihook.pytest_timeout_set_timer(item=node, settings=settings)
