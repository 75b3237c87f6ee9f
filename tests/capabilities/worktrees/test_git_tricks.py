"""Programs that a repository names do not run, whoever the operator is: all operations of `sm`, on every trick.

`./check` plays every trick on a user without a name and some on root, `./check --full` every trick on both.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities.worktrees.git_tricks import TRICKS, Arena
from tests.fork_server import fork_server

pytestmark = pytest.mark.processes
_UID = 1234
"""A user of no name, as an operator who shares the uid of the containers."""
_ROOT_CORE = frozenset(
    {
        *("bare_repositories_allowed", "filter_clean", "fsmonitor", "hooks", "include_path", "merge_driver"),
        *("safe_directories", "submodule_configuration", "variables_of_the_caller"),
    }
)
"""The tricks that `./check` plays on root too: of each kind one, and those that the owner of a file decides."""


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that another user can reach."""
    with tempfile.TemporaryDirectory(prefix="sm-tricks-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(os.path.realpath(name))


def operate(arena: Arena, user: str) -> dict[str, str | None]:
    """Run every operation on the arena; return the error of each."""
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    arena.finish()
    uid = [] if user == "root" or os.geteuid() != 0 else [str(_UID)]
    if uid:
        subprocess.run(["chown", "-RhP", f"{_UID}:{_UID}", str(arena.root)], check=True)
    done = fork_server().run(
        "tests.capabilities.worktrees.git_operations",
        ["git_operations", str(arena.root), *uid],
        {"PATH": os.environ["PATH"], "HOME": str(arena.home), "PAGER": "cat"},
        cwd=Path("/"),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"operation"')]
    return {line["operation"]: line["error"] for line in lines}


@pytest.mark.parametrize(
    ("name", "user"),
    [(name, "shared uid") for name in sorted(TRICKS)]
    + [
        pytest.param(name, "root", marks=[] if name in _ROOT_CORE else pytest.mark.full)
        for name in sorted(TRICKS)
    ],
)
def test_no_program_that_a_repository_names_runs(root: Path, name: str, user: str) -> None:
    arena = Arena(root)
    TRICKS[name](arena)
    results = operate(arena, user)
    ran = arena.marker.read_text() if arena.marker.exists() else "nothing"
    assert ran == "nothing", results
    assert len(results) >= 7


@pytest.mark.parametrize("user", ["shared uid", "root"])
def test_arena_without_a_trick_is_compared_and_merged(root: Path, user: str) -> None:
    """The operations of the tests above do their work."""
    results = operate(Arena(root), user)
    assert {name: error for name, error in results.items() if error is not None} == {}
    assert len(results) == 13
