"""scripts/newest: its help, and its one line without npm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

SCRIPT = Path(__file__).parents[1] / "scripts" / "newest"


def newest(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script beside an npm that reaches no registry."""
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    npm.chmod(0o755)
    python = str(Path(sys.executable).parent)
    environ = {
        "PATH": f"{tmp_path}:{python}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    return subprocess.run(
        ["sh", SCRIPT, *arguments], env=environ, capture_output=True, text=True, check=False
    )


def test_newest_prints_one_line_and_succeeds_when_npm_is_away(tmp_path: Path) -> None:
    done = newest(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith("claude could not be installed, so nothing was tried: npm failed")
    assert [path.name for path in tmp_path.iterdir()] == ["npm"]


def test_newest_explains_itself_and_tries_nothing_with_help(tmp_path: Path) -> None:
    done = newest(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "scripts/newest VERSION" in done.stdout
