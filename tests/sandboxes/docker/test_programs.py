"""Programs looked for in a real container."""

import pytest

from sm.sandboxes.docker.parts import has_program
from tests.sandboxes.docker.conftest import Sandboxes

pytestmark = pytest.mark.processes


async def test_programs_are_found_as_an_agent_of_the_container_finds_them(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    own = sandboxes.root / "shop" / "own"
    own.write_text("#!/bin/sh\n")
    container = await sandboxes.containers.ensure(workspace)
    looked_for = {
        "python3": True,  # a link to a versioned program
        "/usr/bin/env": True,
        "dockerd": False,  # this host may have it
        "/usr/bin/npx": False,
        "/usr/bin": False,
        "/etc/passwd/x": False,
        str(own): False,  # not executable
        "tools/server": None,
        "": False,
    }
    assert {program: has_program(container.init, program) for program in looked_for} == looked_for
    own.chmod(0o755)
    assert has_program(container.init, str(own))
    sandboxes.docker("kill", container.id)
    assert has_program(container.init, "python3") is None
