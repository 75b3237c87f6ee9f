"""`worktrees.submodules`: the submodules of a new worktree are filled, or named."""

import json
import shutil
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git
from tests.played.test_submodules import IDENTITY, make_repository
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git
filling = context_fixture("module", lambda: Instance("worktrees: {submodules: true}"))


def test_submodules_are_filled_if_the_configuration_says_so(filling: Instance, tmp_path: Path) -> None:
    inner, library, repo = tmp_path / "inner", tmp_path / "library", tmp_path / "repo"
    make_repository(inner, y="y\n")
    make_repository(library, x="x\n")
    git(library, *IDENTITY, "submodule", "--quiet", "add", str(inner), "deep")
    git(library, "commit", "-qm", "add deep")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", str(library), "libs/x")
    git(repo, *IDENTITY, "submodule", "--quiet", "update", "--init", "--recursive")
    git(repo, "commit", "-qm", "add x")
    library.rename(tmp_path / "moved")
    done = filling.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    assert (done.returncode, done.stderr) == (0, "")
    worktree = Path(json.loads(done.stdout)["worktree"]["path"])
    assert (worktree / "libs" / "x" / "x.txt").read_text() == "x\n"
    assert (worktree / "libs" / "x" / "deep" / "y.txt").read_text() == "y\n"
    assert git(worktree, "status", "--porcelain") == ""
    assert not git(worktree, "submodule", "status", "--recursive").startswith(("-", "+"))
    session_id = json.loads(done.stdout)["session_id"]
    filling.sm("kill", session_id)
    assert filling.run("rm", session_id).stderr == ""
    assert not worktree.exists()


@pytest.mark.parametrize("remotes", [[], ["upstream"], ["a", "b"]])
def test_relative_urls_begin_at_the_only_remote_or_the_repository(
    filling: Instance, tmp_path: Path, remotes: list[str]
) -> None:
    library, repo = tmp_path / "library", tmp_path / "repo"
    make_repository(library, x="x\n")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", "../library", "libs/x")
    git(repo, "commit", "-qm", "add x")
    git(repo, "config", "--unset", "submodule.libs/x.url")
    for remote in remotes:
        git(repo, "remote", "add", remote, "https://user:secret@host.invalid/team/repo")
    done = filling.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    worktree = Path(json.loads(done.stdout)["worktree"]["path"])
    if len(remotes) > 1:
        assert "libs/x is empty: sm does not use its name or its URL: ../library" in done.stdout + done.stderr
        return
    assert done.stderr == ""
    url = git(worktree / "libs" / "x", "config", "remote.origin.url")
    assert url == ("https://user:secret@host.invalid/team/library" if remotes else str(library))


def test_relative_urls_begin_at_a_remote_that_is_relative_to_the_main_worktree(
    filling: Instance, tmp_path: Path
) -> None:
    library, repo = tmp_path / "library", tmp_path / "repo"
    make_repository(library, x="x\n")
    make_repository(repo, a="a\n")
    git(repo, "remote", "add", "origin", "../origin.git")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", "../library", "libs/x")
    git(repo, "commit", "-qm", "add x")
    git(repo, "config", "--unset", "submodule.libs/x.url")
    done = filling.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    worktree = Path(json.loads(done.stdout)["worktree"]["path"])
    assert git(worktree / "libs" / "x", "config", "remote.origin.url") == str(library)


def test_url_of_the_configuration_counts_before_the_content_of_the_repository(
    filling: Instance, tmp_path: Path
) -> None:
    library, repo = tmp_path / "library", tmp_path / "repo"
    make_repository(library, x="x\n")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", str(library), "libs/x")
    git(repo, "commit", "-qm", "add x")
    git(repo, "config", "submodule.libs/x.url", "https://mirror.invalid/library")
    done = filling.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    worktree = Path(json.loads(done.stdout)["worktree"]["path"])
    assert git(worktree / "libs" / "x", "config", "remote.origin.url") == "https://mirror.invalid/library"


def test_submodule_is_not_read_from_another_repository_of_this_machine(
    filling: Instance, tmp_path: Path
) -> None:
    """Neither by its URL, which is content of the base, nor by a link in its place in the main directory."""
    private, repo = tmp_path / "private", tmp_path / "repo"
    make_repository(private, x="private\n")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", str(private), "libs/x")
    git(repo, "commit", "-qm", "add x")
    git(repo, "submodule", "--quiet", "deinit", "--all", "--force")
    shutil.rmtree(repo / ".git" / "modules")
    (repo / "libs" / "x").rmdir()
    (repo / "libs" / "x").symlink_to(private)
    done = filling.run("spawn", "Sleeper", "x", "--worktree", "--json", cwd=repo)
    assert "the submodule libs/x is empty" in done.stdout + done.stderr
    worktree = Path(json.loads(done.stdout)["worktree"]["path"])
    assert list((worktree / "libs" / "x").iterdir()) == []


def test_submodule_that_cannot_be_filled_is_named(filling: Instance, tmp_path: Path) -> None:
    library, repo = tmp_path / "library", tmp_path / "repo"
    make_repository(library, x="x\n")
    make_repository(repo, a="a\n")
    git(repo, *IDENTITY, "submodule", "--quiet", "add", str(library), "libs/x")
    git(repo, "config", "--file", ".gitmodules", "submodule.libs/x.url", "ext::sh -c 'touch /tmp/never'")
    git(repo, "config", "--unset", "submodule.libs/x.url")
    git(repo, "commit", "-qam", "add x")
    done = filling.run("spawn", "Sleeper", "x", "--worktree", cwd=repo)
    assert "the submodule libs/x is empty: sm does not use its name or its URL: ext::sh -c" in done.stderr
