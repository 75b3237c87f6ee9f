"""The daemon without each of the capabilities in turn."""

import subprocess
import sys

import pytest

from sm.capabilities import CAPABILITIES
from sm.core import capability_parts as parts

ASKED = {
    "setup": {"setup"},
    "tables": {"PART"},
    "settings": {"CONFIG", "AGENT", "COMMAND", "DEFINITION"},
    "operations": {"OPERATIONS"},
    "text": {"REQUESTS", "MARKS"},
}


@pytest.mark.processes
@pytest.mark.parametrize("name", CAPABILITIES)
def test_daemon_works_without_a_capability(name: str) -> None:
    command = [sys.executable, "-m", "tests.capabilities.without", name]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (played.returncode, played.stdout) == (0, "played\n"), played.stderr


@pytest.mark.parametrize("name", CAPABILITIES)
def test_capability_is_set_up(name: str) -> None:
    assert f"sm.capabilities.{name}.setup" in [part.__name__ for part in parts.capability_parts("setup")]


@pytest.mark.parametrize(("name", "asked"), ASKED.items())
def test_parts_of_one_name_define_what_the_kernel_asks_for(name: str, asked: set[str]) -> None:
    found = parts.capability_parts(name)
    assert found
    assert [part.__name__ for part in found if not asked & vars(part).keys()] == []


def test_capability_without_a_part_of_that_name_is_left_out() -> None:
    assert parts.capability_parts("a part that none has") == ()
