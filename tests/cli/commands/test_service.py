"""systemd reads the unit that `sm service` writes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.played.cli.test_service import UNIT


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_valid_when_a_path_has_special_characters(run: Sm, home: Path) -> None:
    odd = home / 'a "b" 100% $HOME'
    odd.mkdir()
    run("service", "install", environ={"SM_HOME": str(odd)})
    runtime = {"XDG_RUNTIME_DIR": str(home), "HOME": str(home), "PATH": os.environ["PATH"]}
    command = ["systemd-analyze", "--user", "verify", str(home / UNIT)]
    checked = subprocess.run(command, env=runtime, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
