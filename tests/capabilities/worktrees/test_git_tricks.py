"""Programs that a repository names do not run, whoever the operator is: all operations of `sm`, on every trick.

`./check` plays every trick on a user without a name and some on root, those that only name a program together in one
repository. `./check --full` plays every trick alone on both users.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities.worktrees.git_tricks import SETTINGS, TRICKS, Arena
from tests.fork_server import fork_server
from tests.memory_files import short_place

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
_NAKED: Mapping[str, tuple[Sequence[str], str]] = {
    "fsmonitor": (["status"], ""),
    "diff_external": (["diff"], ""),
    "pager": (["-c", "diff.external=", "diff", "HEAD~1", "HEAD"], ""),
    "editor": (["commit", "--allow-empty"], ""),
    "ssh_and_askpass": (["ls-remote", "ssh://localhost/x"], ""),
    "credential_helper": (["credential", "fill"], "protocol=https\nhost=localhost\n\n"),
    "difftool_and_mergetool": (["difftool", "-y", "-t", "evil"], ""),
    "interactive_filter": (
        ["-c", "add.interactive.useBuiltin=true", "-c", "diff.external=", "add", "-p"],
        "q\n",
    ),
    "alternate_refs_command": (["rev-list", "--alternate-refs"], ""),
    "trailer_command": (["interpret-trailers", "--trailer", "sign=x"], "x\n"),
    "other_programs": (["archive", "--format=evil", "HEAD"], ""),
}
"""For each setting of a program that git heeds in a repository, a command of git that runs it, and its input."""
_NEVER = frozenset({"alias", "pack_objects_hook"})
"""Git heeds no alias of its own commands, and no such hook of a repository."""


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that another user can reach."""
    with tempfile.TemporaryDirectory(
        prefix="sm-tricks-", dir=short_place(), ignore_cleanup_errors=True
    ) as name:
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
        {
            "PATH": os.environ["PATH"],
            "HOME": str(arena.home),
            "PAGER": "cat",
            "TMPDIR": short_place(),
        },
        cwd=Path("/"),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"operation"')]
    return {line["operation"]: line["error"] for line in lines}


def cases() -> Iterator[Any]:
    for user in ("shared uid", "root"):
        for name in sorted(TRICKS):
            is_core = name not in SETTINGS and (user != "root" or name in _ROOT_CORE)
            yield pytest.param(name, user, marks=[] if is_core else [pytest.mark.full])


@pytest.mark.parametrize(("name", "user"), [*cases()])
def test_no_program_that_a_repository_names_runs(root: Path, name: str, user: str) -> None:
    arena = Arena(root)
    arena.plant(name)
    results = operate(arena, user)
    assert arena.ran() == [], results
    assert len(results) >= 7


@pytest.mark.parametrize("user", ["shared uid", "root"])
def test_no_program_of_any_setting_runs_while_all_operations_do_their_work(root: Path, user: str) -> None:
    arena = Arena(root)
    for name in SETTINGS:
        arena.plant(name)
    results = operate(arena, user)
    assert arena.ran() == [], results
    assert {name: error for name, error in results.items() if error is not None} == {}
    assert len(results) == 13


def test_git_runs_the_program_of_each_setting_beside_all_others(root: Path) -> None:
    """No setting hides another one in the test above."""
    arena = Arena(root)
    for name in SETTINGS:
        arena.plant(name)
    (arena.common / "objects/info/alternates").write_text(f"{arena.copied()}/objects\n")
    arena.finish()
    for arguments, text in _NAKED.values():
        mine, terminal = os.openpty()  # git starts no pager without a terminal
        subprocess.run(
            ["git", "-C", str(arena.tree), *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(arena.home), "TERM": "xterm"},
            input=text.encode(),
            stdout=terminal,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        os.close(terminal)
        os.close(mine)
    assert {mark.partition(":")[0] for mark in arena.ran()} == set(_NAKED)
    assert set(SETTINGS) == _NAKED.keys() | _NEVER


@pytest.mark.parametrize("user", ["shared uid", "root"])
def test_arena_without_a_trick_is_compared_and_merged(root: Path, user: str) -> None:
    """The operations of the tests above do their work."""
    results = operate(Arena(root), user)
    assert {name: error for name, error in results.items() if error is not None} == {}
    assert len(results) == 13
