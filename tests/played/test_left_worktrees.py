"""Worktrees that stay: of a stopped removal, of an earlier version of sm, of an agent that moved its branch."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def ended(instance: Instance, repo: Path, name: str = "login") -> tuple[dict[str, Any], Path]:
    """A session that has ended, and its worktree."""
    session = instance.spawn("Sleeper", "x", "--worktree", "--name", name, cwd=repo)
    instance.sm("kill", session["session_id"])
    return session, Path(session["worktree"]["path"])


def remove_only_session(instance: Instance, session: dict[str, Any]) -> None:
    """Remove a session as another client does, which leaves its worktree."""
    instance.request_as(None, ("POST", f"/v1/sessions/{session['session_id']}/remove"))


def test_prune_finishes_a_removal_that_was_stopped(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    remove_only_session(instance, session)
    # As a removal that was killed leaves it.
    (Path(git(path, "rev-parse", "--absolute-git-dir")) / "sm-removal").touch()
    (path / "api" / "a.txt").unlink()
    (path / "new").touch()
    assert "(new)" in instance.run("worktree", "prune", "--yes").stderr
    assert path.exists()
    (path / "new").unlink()
    assert instance.sm("worktree", "prune", "--yes") == f"Removed {path}\n"
    assert (path.exists(), branches(repo)) == (False, ["main"])
    assert git(repo, "worktree", "list").count("\n") == 0


def test_discard_keeps_a_worktree_into_which_sm_cannot_look(instance: Instance, repo: Path) -> None:
    session, path = ended(instance, repo)
    (Path(git(path, "rev-parse", "--absolute-git-dir")) / "index").write_text("not an index")
    done = instance.run("rm", session["session_id"], "--discard", "--yes")
    assert (done.returncode, path.exists()) == (0, True)
    assert f"kept the worktree {path}: " in done.stderr
