"""Programs that a repository names do not run, whoever the operator is: all operations of `sm`, on every trick."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import sm
from tests.cli.git_tricks import TRICKS, Arena
from tests.load import scaled

pytestmark = pytest.mark.processes
_UID = 1234
"""A user of no name, as an operator who shares the uid of the containers."""


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that another user can reach."""
    with tempfile.TemporaryDirectory(prefix="sm-tricks-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(os.path.realpath(name))


def operate(arena: Arena, *, as_root: bool) -> dict[str, str | None]:
    """Run every operation on the arena; return the error of each."""
    arena.finish()
    user = [] if as_root or os.geteuid() != 0 else [str(_UID)]
    if user:
        subprocess.run(["chown", "-RhP", f"{_UID}:{_UID}", str(arena.root)], check=True)
    sources = [str(Path(__file__).parents[2]), str(Path(sm.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.git_operations", str(arena.root), *user],
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(arena.home),
            "PYTHONPATH": ":".join(sources),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PAGER": "cat",
        },
        capture_output=True,
        text=True,
        errors="replace",
        timeout=scaled(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"operation"')]
    return {line["operation"]: line["error"] for line in lines}


@pytest.fixture(params=["root", "shared uid"])
def as_root(request: pytest.FixtureRequest) -> bool:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    return bool(request.param == "root")


@pytest.mark.parametrize("name", sorted(TRICKS))
def test_no_program_that_a_repository_names_runs(root: Path, as_root: bool, name: str) -> None:
    arena = Arena(root)
    TRICKS[name](arena)
    results = operate(arena, as_root=as_root)
    ran = arena.marker.read_text() if arena.marker.exists() else "nothing"
    assert ran == "nothing", results
    assert len(results) >= 7


def test_arena_without_a_trick_is_compared_and_merged(root: Path, as_root: bool) -> None:
    """The operations of the tests above do their work."""
    results = operate(Arena(root), as_root=as_root)
    assert {name: error for name, error in results.items() if error is not None} == {}
    assert len(results) == 10
