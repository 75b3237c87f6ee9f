"""`sm spawn --worktree` of sandboxed sessions: only before anything has run in a container of the workspace."""

import json
import os
from pathlib import Path

import pytest

from sm.paths import INSIDE_SOCKET_DIR
from tests.fixtures import context_fixture
from tests.git_repositories import branches, git, make_app
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


def set_up_words(instance: SandboxInstance, repo: Path, *commands: str) -> tuple[str, ...]:
    """Configure the set-up, and return the words that start a sandboxed session with a worktree."""
    text = instance.config.read_text()
    instance.config.write_text(f"{text}\nworktrees: {{setup: {json.dumps(commands)}}}\n")
    instance.sm("daemon", "stop")
    instance.sm("daemon", "start")
    words = ("spawn", "Sleeper", "x", "--trust", "sandboxed", "--worktree", "--name", "login")
    return (*words, "--working-dir", str(repo / "api"))


def test_setup_of_a_sandboxed_session_runs_in_its_container(instance: SandboxInstance) -> None:
    repo = make_app(instance.work)
    session = instance.json(*set_up_words(instance, repo, "echo $SM_SOCKET > where.txt"), cwd=repo)
    path = Path(session["worktree"]["path"])
    assert (path / "where.txt").read_text() == f"{INSIDE_SOCKET_DIR}/s\n"
    assert session["status"] == "running"
    inside = [p for p in instance.world.kernel.processes.values() if p.place in instance.containers]
    assert "sleep" in [process.argv[0] for process in inside if process.exit is None]


def test_tree_stays_when_the_setup_of_a_sandboxed_session_fails(instance: SandboxInstance) -> None:
    repo = make_app(instance.work)
    refused = instance.refused(*set_up_words(instance, repo, "echo broken", "exit 3"), exit_code=9, cwd=repo)
    assert "the set-up of the worktree ended with exit code 3: + echo broken | broken | + exit 3" in refused
    assert ": a sandboxed session may have changed the programs that git runs" in refused
    (tree,) = instance.get("/v1/worktrees")
    assert (tree["state"], tree["label"], tree["exists"]) == ("made", "sleeper-login", True)


def test_half_made_tree_of_a_sandboxed_session_is_removed_when_its_process_is_killed(
    instance: SandboxInstance,
) -> None:
    """The session has started nothing yet, so that no sandboxed session could have changed what git runs."""
    repo = make_app(instance.work)
    directory = instance.home / "bin"
    directory.mkdir()
    program = directory / "git"
    program.write_text(
        '#!/bin/sh\ncase " $* " in *" checkout "*) kill -9 $PPID;; esac\nexec /usr/bin/git "$@"\n'
    )
    program.chmod(0o755)
    words = ("spawn", "Sleeper", "x", "--trust", "sandboxed", "--worktree", "--name", "login")
    env = {"PATH": f"{directory}:{os.environ['PATH']}"}
    refused = instance.refused(*words, "--working-dir", str(repo), exit_code=9, cwd=repo, env=env)
    assert "the process that makes worktrees has ended" in refused
    assert not (repo / ".sm").exists()
    assert branches(repo) == ["main"]
    assert instance.json("worktree", "ls", "--all") == []


def test_reviewed_trees_stay_where_a_sandboxed_session_could_have_changed_what_git_runs(
    instance: SandboxInstance,
) -> None:
    repo = make_app(instance.work)
    words = ("spawn", "Sleeper", "x", "--working-dir", str(repo))
    direct = instance.json(*words, "--trust", "direct")["session_id"]
    ref = f"refs/sm/reviews/{direct}/x"
    git(repo, "update-ref", ref, "main^{tree}")
    instance.json(*words, "--trust", "sandboxed")
    instance.sm("kill", direct)
    instance.sm("rm", direct)
    instance.settle()
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/sm") == ref
