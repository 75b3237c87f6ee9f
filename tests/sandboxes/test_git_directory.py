"""Linked worktrees, found without running git."""

import os
import subprocess
from pathlib import Path

import pytest

from sm.sandboxes.git_directory import LinkedWorktree, linked_worktree

pytestmark = pytest.mark.processes  # git makes the repositories


def git(*arguments: object, where: Path) -> None:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", *identity, *map(str, arguments)], cwd=where, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    path.mkdir()
    git("init", "-q", where=path)
    git("commit", "-q", "--allow-empty", "-m", "first", where=path)
    return path


@pytest.fixture
def worktree(repository: Path) -> Path:
    path = repository.parent / "shop-feature"
    git("worktree", "add", "-q", path, where=repository)
    return path


def test_linked_worktree_names_the_git_directory_of_its_repository(repository: Path, worktree: Path) -> None:
    common = f"{repository}/.git"
    assert linked_worktree(str(worktree)) == LinkedWorktree(f"{common}/worktrees/shop-feature", common)


def test_linked_worktree_of_a_bare_repository_is_found(repository: Path) -> None:
    bare = repository.parent / "shop.git"
    git("clone", "-q", "--bare", repository, bare, where=repository)
    path = repository.parent / "tree"
    git("worktree", "add", "-q", path, where=bare)
    assert linked_worktree(str(path)) == LinkedWorktree(f"{bare}/worktrees/tree", str(bare))


def test_linked_worktree_with_relative_paths_is_found(repository: Path, worktree: Path) -> None:
    """git worktree add --relative-paths, since git 2.48."""
    own = repository / ".git/worktrees/shop-feature"
    (worktree / ".git").write_text("gitdir: ../shop/.git/worktrees/shop-feature\n")
    (own / "gitdir").write_text("../../../../shop-feature/.git\n")
    assert linked_worktree(str(worktree)) is not None


def test_repository_and_plain_directory_are_no_linked_worktrees(repository: Path) -> None:
    assert linked_worktree(str(repository)) is None
    assert linked_worktree(str(repository.parent)) is None


def test_submodule_is_no_linked_worktree(repository: Path) -> None:
    outer = repository.parent / "outer"
    outer.mkdir()
    git("init", "-q", where=outer)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository, "inner", where=outer)
    assert (outer / "inner/.git").is_file()
    assert linked_worktree(str(outer / "inner")) is None


@pytest.mark.parametrize(
    "text",
    [
        "gitdir: {other}/.git",
        "gitdir: {other}",
        "gitdir: /etc",
        "gitdir: /",
        "gitdir: ",
        "gitdir: \0",
        "",
        "x" * 9000,
    ],
)
def test_git_file_that_names_a_foreign_directory_is_not_believed(
    repository: Path, worktree: Path, text: str
) -> None:
    (worktree / ".git").write_text(text.format(other=repository))
    assert linked_worktree(str(worktree)) is None


def test_worktree_of_another_directory_is_not_believed(repository: Path, worktree: Path) -> None:
    """An agent copies the .git file of another workspace, whose repository it wants."""
    thief = repository.parent / "thief"
    thief.mkdir()
    (thief / ".git").write_bytes((worktree / ".git").read_bytes())
    assert linked_worktree(str(thief)) is None


def test_forged_entry_cannot_lead_to_a_foreign_directory(repository: Path, worktree: Path) -> None:
    """The entry is in a directory that the agent can write; only its `commondir` leads out of it."""
    forged = worktree / "forged/worktrees/w"
    forged.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {forged}\n")
    (forged / "gitdir").write_text(f"{worktree}/.git\n")
    (forged / "commondir").write_text("../..\n")
    assert linked_worktree(str(worktree)) is None  # not a repository
    (worktree / "forged/objects").mkdir()
    (worktree / "forged/HEAD").write_text("ref: refs/heads/main\n")
    assert linked_worktree(str(worktree)) == LinkedWorktree(str(forged), str(worktree / "forged"))
    (forged / "commondir").write_text(f"{repository}/.git\n")
    assert linked_worktree(str(worktree)) is None


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_git_file_that_is_a_link_or_a_pipe_is_ignored(worktree: Path, kind: str) -> None:
    file = worktree / ".git"
    file.rename(worktree / "real")
    if kind == "link":
        file.symlink_to("real")
    else:
        os.mkfifo(file)
    assert linked_worktree(str(worktree)) is None
