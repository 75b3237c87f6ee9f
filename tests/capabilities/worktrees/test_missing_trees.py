"""The work that git keeps for a worktree whose directory is missing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.worktrees.missing_trees import missing_work
from sm.capabilities.worktrees.own_trees import OwnTree
from tests.git_repositories import commit, git, make_app

pytestmark = pytest.mark.processes  # git


class MissingTree:
    """A worktree of the repository `app`, which loses its directory when it is looked at."""

    def __init__(self, directory: Path) -> None:
        self.repo, self.path = make_app(directory), directory / "tree"
        git(self.repo, "worktree", "add", "-q", "-b", "sm/login", str(self.path))
        self.own = Path(git(self.path, "rev-parse", "--absolute-git-dir"))
        start, common = git(self.repo, "rev-parse", "HEAD"), str(self.repo / ".git")
        self.tree = OwnTree(str(self.path), "sm/login", str(self.repo), start, common)

    def detached_commit(self) -> str:
        git(self.path, "switch", "-q", "--detach")
        return commit(self.path, "b\n")

    def work(self) -> list[str]:
        if self.path.exists():
            shutil.rmtree(self.path)
        return list(missing_work(self.tree))


@pytest.fixture
def missing(tmp_path: Path) -> MissingTree:
    return MissingTree(tmp_path)


def test_untouched_worktree_has_no_work(missing: MissingTree) -> None:
    assert missing.work() == []


def test_commits_of_the_new_branch_alone_are_no_work(missing: MissingTree) -> None:
    commit(missing.path, "b\n")
    assert missing.work() == []


@pytest.mark.parametrize(
    "kept", ["refs/heads/other", "refs/tags/v1", "refs/remotes/origin/x", "refs/sm/pull/7", "refs/stash"]
)
def test_commit_of_no_branch_is_work_unless_another_ref_keeps_it(missing: MissingTree, kept: str) -> None:
    made = missing.detached_commit()
    assert missing.work() == [f"1 commit in no other branch or tag ({made[:7]} b)"]
    git(missing.repo, "update-ref", kept, made)
    # A stash is deleted without a word.
    assert missing.work() == (
        [] if kept != "refs/stash" else [f"1 commit in no other branch or tag ({made[:7]} b)"]
    )


@pytest.mark.parametrize("is_new", [True, False])
def test_commits_of_a_new_branch_count_beside_other_work(missing: MissingTree, is_new: bool) -> None:
    commit(missing.path, "of the branch\n")
    made = missing.detached_commit()
    missing.tree = replace(missing.tree, is_new_branch=is_new)
    more = " and 1 more" if is_new else ""
    count = "2 commits" if is_new else "1 commit"
    assert missing.work() == [f"{count} in no other branch or tag ({made[:7]} b{more})"]


@pytest.mark.parametrize("is_born", [True, False])
def test_staged_changes_are_work(missing: MissingTree, is_born: bool) -> None:
    if not is_born:
        git(missing.path, "switch", "-q", "--orphan", "new")
        assert missing.work() == []
        missing.path.mkdir()
        (missing.path / ".git").write_text(f"gitdir: {missing.own}\n")
    (missing.path / "new").write_text("staged\n")
    git(missing.path, "add", "new")
    assert missing.work() == ["staged changes"]


def test_refs_of_the_worktree_alone_are_work(missing: MissingTree) -> None:
    made = missing.detached_commit()
    git(missing.path, "update-ref", "refs/worktree/mine", made)
    git(missing.path, "switch", "-q", "sm/login")
    (missing.path / "blob").write_text("b\n")
    git(missing.path, "update-ref", "refs/worktree/blob", git(missing.path, "hash-object", "-w", "blob"))
    assert missing.work() == [
        f"1 commit in no other branch or tag ({made[:7]} b)",
        "the object of refs/worktree/blob",
    ]


@pytest.mark.parametrize("name", ["sub", "a/sub", "sub/modules/inner"])
@pytest.mark.parametrize("known", ["nowhere", "the main worktree", "a remote"])
def test_commits_of_a_submodule_are_work_unless_they_are_elsewhere(
    missing: MissingTree, name: str, known: str
) -> None:
    own = missing.own / "modules" / name
    if name == "sub/modules/inner":
        git(missing.repo, "init", "-q", "--bare", str(missing.own / "modules" / "sub"))
    git(missing.repo, "clone", "-q", "--bare", str(missing.repo), str(own))
    made = git(missing.repo, "rev-parse", "--short", "HEAD")
    if known == "a remote":
        git(own, "update-ref", "refs/remotes/origin/main", "HEAD")
    if known == "the main worktree":
        shutil.copytree(own, missing.repo / ".git" / "modules" / name)
    found = missing.work()
    if known == "nowhere":
        (words,) = found
        assert name in words
        assert made in words
    else:
        assert found == []


def test_submodule_of_which_git_cannot_list_the_commits_is_work(missing: MissingTree) -> None:
    own = missing.own / "modules" / "sub"
    git(missing.repo, "clone", "-q", "--bare", str(missing.repo), str(own))
    shutil.rmtree(own / "objects")
    (own / "objects").mkdir()
    assert "git cannot list its commits" in missing.work()[0]


def test_repository_that_is_gone_keeps_no_work(missing: MissingTree) -> None:
    missing.detached_commit()
    shutil.rmtree(missing.repo)
    assert missing.work() == []
