"""A repository that may have refs of reviews is asked by git, and no other."""

from pathlib import Path

import pytest

from sm.capabilities.worktrees.git.review_refs import keep_tree, may_have_trees
from tests.git_repositories import git, make_app

pytestmark = pytest.mark.processes  # git
ID = "aaaa1111"


def test_refs_are_found_as_files_and_when_they_are_packed(tmp_path: Path) -> None:
    repo = make_app(tmp_path)
    assert not may_have_trees(str(repo), ID)
    keep_tree(str(repo), ID, git(repo, "rev-parse", "HEAD^{tree}"))
    assert may_have_trees(str(repo), ID)
    git(repo, "pack-refs", "--all")
    assert not (repo / ".git" / "refs" / "sm" / "reviews" / ID).exists()
    assert may_have_trees(str(repo), ID)
    assert not may_have_trees(str(repo), "bbbb2222")


def test_repository_that_cannot_be_read_may_have_refs_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    repo = make_app(tmp_path)
    (repo / ".git" / "packed-refs").mkdir()
    assert may_have_trees(str(repo), ID)
    assert not may_have_trees(str(tmp_path / "gone"), ID)
