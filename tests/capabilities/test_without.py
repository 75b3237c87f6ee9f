"""The daemon without each of the capabilities in turn."""

import subprocess
import sys

import pytest

from sm.capabilities import CAPABILITIES
from sm.core import capability_parts as parts


@pytest.mark.processes
@pytest.mark.parametrize("name", CAPABILITIES)
def test_daemon_works_without_a_capability(name: str) -> None:
    command = [sys.executable, "-m", "tests.capabilities.without", name]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (played.returncode, played.stdout) == (0, "played\n"), played.stderr


@pytest.mark.parametrize("name", CAPABILITIES)
def test_capability_has_the_parts_that_the_kernel_asks_for(name: str) -> None:
    assert f"sm.capabilities.{name}.setup" in [part.__name__ for part in parts.capability_parts("setup")]


def test_capability_without_a_part_of_that_name_is_left_out() -> None:
    assert parts.capability_parts("a part that none has") == ()
