"""Paths and branches of the worktrees that sm creates."""

import pytest

from sm.capabilities.worktrees.rules import (
    BRANCH,
    PLACE,
    branch_name,
    is_name,
    map_to_repository,
    outer_repository,
    placed,
    project_of,
    repository_of,
)
from sm.paths import is_within


@pytest.mark.parametrize("name", ["a", "login", "1042", "a.b", "a-_.b", "a" * 64, "a.locks", "lock"])
@pytest.mark.parametrize("main", ["/", "/home/u/app", "/home/u/a b", "/home/u/app/.sm/worktrees/other"])
def test_repository_of_recognizes_a_worktree_placed_by_sm(main: str, name: str) -> None:
    assert is_name(name)
    assert repository_of(placed(main, PLACE, name), branch_name(BRANCH, main, name)) == main


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a..b", "a.", "a.lock", ".a", "-a", "A", "a/b", "a\n", "\na", "ä", "a" * 65]
)
def test_repository_of_rejects_a_worktree_with_an_invalid_name(name: str) -> None:
    assert not is_name(name)
    assert repository_of(placed("/home/u/app", PLACE, name), branch_name(BRANCH, "/home/u/app", name)) is None


@pytest.mark.parametrize(
    ("path", "branch"),
    [
        ("/home/u/app", "sm/app"),
        ("/home/u/app/.sm/worktrees/login", "login"),
        ("/home/u/app/.sm/worktrees/login", "sm/other"),
        ("/home/u/app/.sm/worktrees/login", "sm/login\n"),
        ("/home/u/app/.sm/worktrees/login/", "sm/login"),
        ("/home/u/app/.sm/worktrees/login/api", "sm/api"),
        ("/home/u/appXsm/worktrees/login", "sm/login"),
        ("home/u/app/.sm/worktrees/login", "sm/login"),
        ("/home/\n/app/.sm/worktrees/login", "sm/login"),
    ],
)
def test_repository_of_rejects_path_or_branch_that_sm_does_not_create(path: str, branch: str) -> None:
    assert repository_of(path, branch) is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", True),
        ("/a/", "/a/b/", True),
        ("/", "/a", True),
        ("/", "/", True),
        ("/a", "/ab", False),
        ("/a/b", "/a/c", False),
    ],
)
def test_directory_is_within_itself_and_one_around_it(first: str, second: str, expected: bool) -> None:
    assert (is_within(first, second) or is_within(second, first)) is expected


def test_map_to_repository_maps_a_worktree_directory_to_the_repository() -> None:
    path = "/r/.sm/worktrees/x"
    assert map_to_repository(f"{path}/a/b", path, "sm/x") == "/r/a/b"
    assert map_to_repository(path, path, "sm/x") == "/r"
    assert map_to_repository("/.sm/worktrees/x", "/.sm/worktrees/x", "sm/x") == "/"
    assert map_to_repository("/elsewhere", "/elsewhere", "main") == "/elsewhere"


def test_outer_repository_is_the_repository_only_for_a_worktree_root() -> None:
    assert outer_repository("/r/.sm/worktrees/x") == "/r"
    assert outer_repository("/r/.sm/worktrees/x/sub") == "/r/.sm/worktrees/x/sub"
    assert outer_repository("/r") == "/r"


@pytest.mark.parametrize(
    ("directory", "project"),
    [
        ("/r", "/r"),
        ("/r/a", "/r/a"),
        ("/r/.sm/worktrees/x", "/r"),
        ("/r/.sm/worktrees/x/a/b", "/r"),
        ("/.sm/worktrees/x", "/"),
        ("/r/.sm/worktrees", "/r/.sm/worktrees"),
        ("/r/.sm/worktrees/.lock/a", "/r/.sm/worktrees/.lock/a"),
    ],
)
def test_project_of_is_the_repository_around_a_worktree(directory: str, project: str) -> None:
    assert project_of(directory) == project
