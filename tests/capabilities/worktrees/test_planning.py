"""Plans of worktrees: places and branches that are refused."""

from pathlib import Path

import pytest

from sm.capabilities.worktrees.making.planning import plan_tree
from sm.capabilities.worktrees.model import PlannedTree, TreeWish
from sm.capabilities.worktrees.rules import PLACE
from sm.errors import UsageError
from tests.git_repositories import commit, git, make_app

pytestmark = pytest.mark.processes  # git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_app(tmp_path)


def plan(repo: Path, wish: TreeWish, place: str = PLACE) -> PlannedTree:
    return plan_tree(str(repo), "login", wish, place, "sm/{name}", lambda *_: None)


@pytest.mark.parametrize("place", [".git/{name}", "api/.git/trees/{name}"])
def test_place_in_a_git_directory_is_refused(repo: Path, place: str) -> None:
    with pytest.raises(UsageError, match="cannot create worktree login in a git directory: "):
        plan(repo, TreeWish(), place)


def test_place_whose_name_only_begins_as_that_of_a_git_directory_is_planned(repo: Path) -> None:
    assert plan(repo, TreeWish(), ".github/{name}").path == f"{repo}/.github/login"


def test_invalid_name_is_no_branch_in_the_error(repo: Path) -> None:
    with pytest.raises(UsageError, match="invalid name of a worktree 'a b'"):
        plan_tree(str(repo), "a b", TreeWish(), PLACE, "sm/{name}", lambda *_: None)


def test_branch_that_only_a_remote_has_is_not_made_anew_from_another_commit(repo: Path) -> None:
    git(repo.parent, "clone", "-q", "--bare", str(repo), "origin")
    git(repo, "remote", "add", "origin", str(repo.parent / "origin"))
    git(repo, "push", "-q", "origin", "main:team/topic")
    git(repo, "fetch", "-q")
    head = commit(repo, "b\n")
    with pytest.raises(UsageError, match="is only in a remote repository: origin/team/topic") as refused:
        plan(repo, TreeWish(branch="team/topic"))
    assert "--remote-branch origin/team/topic" in str(refused.value.hint)
    anew = plan(repo, TreeWish(branch="team/topic", base="HEAD"))
    assert (anew.branch, anew.start, anew.is_new_branch) == ("team/topic", head, True)
    git(repo, "branch", "team/topic", "main~1")
    own = plan(repo, TreeWish(branch="team/topic"))
    assert (own.start, own.is_new_branch) == (git(repo, "rev-parse", "main~1"), False)
