"""Where a worktree of sm's lies: one rule for who makes, believes and removes one."""

import pytest

from sm.core.worktrees import above, is_name, main_of, outside, overlap, placed


@pytest.mark.parametrize("name", ["a", "login", "1042", "a.b", "a-_.b", "a" * 64, "a.locks", "lock"])
@pytest.mark.parametrize("main", ["/", "/home/u/app", "/home/u/a b", "/home/u/app/.sm/worktrees/other"])
def test_what_is_placed_is_known_again(main: str, name: str) -> None:
    assert is_name(name)
    assert main_of(*placed(main, name)) == main


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a..b", "a.", "a.lock", ".a", "-a", "A", "a/b", "a\n", "\na", "ä", "a" * 65]
)
def test_what_is_no_name_is_in_no_worktree(name: str) -> None:
    assert not is_name(name)
    assert main_of(*placed("/home/u/app", name)) is None


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
def test_what_sm_does_not_make_is_none_of_its_worktrees(path: str, branch: str) -> None:
    assert main_of(path, branch) is None


@pytest.mark.parametrize(
    ("one", "other", "they_do"),
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
def test_directories_overlap_when_one_is_in_the_other(one: str, other: str, they_do: bool) -> None:
    assert overlap(one, other) is they_do
    assert overlap(other, one) is they_do


def test_what_a_directory_of_a_worktree_stands_for_is_outside_of_it() -> None:
    path = "/r/.sm/worktrees/x"
    assert outside(f"{path}/a/b", path, "sm/x") == "/r/a/b"
    assert outside(path, path, "sm/x") == "/r"
    assert outside("/.sm/worktrees/x", "/.sm/worktrees/x", "sm/x") == "/"
    assert outside("/elsewhere", "/elsewhere", "main") == "/elsewhere"


def test_the_worktrees_of_a_worktree_lie_beside_it() -> None:
    assert above("/r/.sm/worktrees/x") == "/r"
    assert above("/r/.sm/worktrees/x/sub") == "/r/.sm/worktrees/x/sub"
    assert above("/r") == "/r"
