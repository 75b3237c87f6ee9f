"""`sm spawn --worktree` of sandboxed sessions: only before anything has run in a container of the workspace."""

from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.sim.sandbox_stage import SandboxInstance, open_instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", open_instance)


def test_first_sandboxed_session_of_a_workspace_gets_a_worktree(instance: SandboxInstance) -> None:
    repo = make_app(instance.work)
    words = ("spawn", "Sleeper", "x", "--trust", "sandboxed", "--worktree", "--working-dir", str(repo))
    session = instance.json(*words, "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    assert session["working_dir"] == str(path)
    assert (git(path, "status", "--porcelain"), session["effective_mode"]) == ("", "sandboxed")
    refused = instance.refused(*words, "--name", "other", exit_code=5, cwd=repo)
    assert "a sandboxed session may have changed the programs that git runs" in refused
    assert not (path.parent / "other").exists()
