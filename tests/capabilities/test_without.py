"""The daemon without each of the capabilities in turn."""

import os
from pathlib import Path

import pytest

from sm.capabilities import CAPABILITIES
from sm.core import capability_parts as parts
from tests.fork_server import fork_server

ASKED = {
    "setup": {"setup"},
    "tables": {"PART"},
    "settings": {"CONFIG", "CHILD_AGENTS", "AGENT", "COMMAND", "DEFINITION"},
    "operations": {"OPERATIONS"},
    "text": {"REQUESTS", "MARKS"},
}


@pytest.mark.processes
@pytest.mark.xdist_group("without")  # the fork server of one worker loads the libraries
@pytest.mark.parametrize("name", CAPABILITIES)
def test_daemon_works_without_a_capability(name: str) -> None:
    module = "tests.capabilities.without"
    fork_server().load("tests.sim.stage")  # with the libraries that a played daemon needs
    played = fork_server().run(module, [module, name], os.environ, Path.cwd())
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
