"""Worktrees of removed sessions whose directory is missing, as long as git has them: they are listed and pruned."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, commit, git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def ended(instance: Instance, repo: Path) -> tuple[dict[str, Any], Path]:
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    instance.sm("kill", session["session_id"])
    return session, Path(session["worktree"]["path"])


def remove_only_session(instance: Instance, session: dict[str, Any]) -> None:
    """Remove a session as another client does, which leaves its worktree."""
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))


def registered(repo: Path) -> int:
    return git(repo, "worktree", "list").count("\n")


def test_prune_forgets_a_worktree_without_work(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    shutil.rmtree(path)
    remove_only_session(instance, session)
    assert "its directory is gone" in instance.sm("worktree", "ls")
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert (registered(repo), branches(repo)) == (0, ["main"])
    assert instance.json("worktree", "ls", "--all") == []


def test_prune_keeps_and_names_commits_that_git_has_of_it(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    git(path, "checkout", "-q", "--detach")
    made = commit(path, "b")
    shutil.rmtree(path)
    remove_only_session(instance, session)
    work = f"1 commit in no other branch or tag ({git(repo, 'rev-parse', '--short', made)} b)"
    for _ in range(2):
        assert f"its directory is gone; git still knows it: {work}" in instance.sm("worktree", "ls")
        done = instance.run("worktree", "prune", "--yes")
        assert (done.returncode, done.stdout) == (0, "Kept 1 worktree\n")
        assert done.stderr == (
            f"warning: kept {path}: its directory is missing, and git still knows it: {work}; to keep it: "
            f"move the directory back, or: git branch NAME COMMIT; to delete it: "
            f"git -C {repo} worktree remove --force {path}\n"
        )
    assert registered(repo) == 1
    git(repo, "branch", "kept", made)
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert (registered(repo), branches(repo)) == (0, ["kept", "main"])


def test_command_of_the_warning_deletes_it(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    git(path, "checkout", "-q", "--detach")
    commit(path, "b")
    shutil.rmtree(path)
    remove_only_session(instance, session)
    git(repo, "worktree", "remove", "--force", str(path))
    assert instance.json("worktree", "ls", "--all") == []


def test_worktree_that_comes_back_is_looked_at_again(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    (path / "new").touch()
    away = path.rename(instance.work / "away")
    remove_only_session(instance, session)
    assert [tree["exists"] for tree in instance.json("worktree", "ls")] == [False]
    away.rename(path)
    assert "(new)" in instance.run("worktree", "prune", "--yes").stderr
    assert path.exists()


def test_worktree_that_git_has_forgotten_is_not_listed(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    shutil.rmtree(path)
    git(repo, "worktree", "prune")
    remove_only_session(instance, session)
    assert instance.json("worktree", "ls", "--all") == []


def test_rm_forgets_a_missing_worktree_whose_branch_was_renamed(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    git(path, "branch", "-m", "renamed")
    commit(path, "b")
    shutil.rmtree(path)
    done = instance.run("rm", session["session_id"])
    assert (done.returncode, done.stderr) == (0, "")
    assert (registered(repo), branches(repo)) == (0, ["main", "renamed"])
