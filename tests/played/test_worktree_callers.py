"""Worktrees and the callers who ask for them: which git runs for an agent, and for a caller who has gone."""

import json
import os
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

ALLOWED = "child_agents: {allow_args: true}\nlimits: {spawn_interval_s: 0}"

instance = context_fixture("function", Instance, ALLOWED)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def own_git(instance: Instance) -> tuple[str, Path]:
    """A PATH with a git that leaves a file when it runs. Returns the file too."""
    directory, ran = instance.home / "bin", instance.home / "ran"
    directory.mkdir()
    program = directory / "git"
    program.write_text(f'#!/bin/sh\ntouch {ran}\nexec /usr/bin/git "$@"\n')
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}", ran


def test_git_of_the_operator_runs_for_the_operator(instance: Instance, repo: Path) -> None:
    path, ran = own_git(instance)
    instance.sm("spawn", "Sleeper", "x", "--worktree", cwd=repo, env={"PATH": path})
    assert ran.exists()


@pytest.mark.parametrize("given_by", ["the parent", "the agent"])
def test_no_variable_of_a_session_decides_which_git_makes_the_worktree_of_its_child(
    instance: Instance, repo: Path, given_by: str
) -> None:
    """git runs beside the daemon, with the authority of the operator."""
    path, ran = own_git(instance)
    lead = instance.spawn("Sleeper", "x", "--working-dir", str(repo))["session_id"]
    env = {"env": {"PATH": path}}
    of_parent = env if given_by == "the parent" else {}
    child = {"agent_type": "Sleeper", "prompt": "x", "working_dir": str(repo), **of_parent}
    ((code, parent),) = instance.request_as(lead, ("POST", "/v1/sessions", None, child))
    assert code == "ok", parent
    grandchild = {"agent_type": "Sleeper", "prompt": "x", "name": "login", "new_worktree": True}
    of_agent = {"environment": {"PATH": path}, **env} if given_by == "the agent" else {}
    asked = ("POST", "/v1/sessions", None, {**grandchild, **of_agent})
    ((code, made),) = instance.request_as(parent["session_id"], asked)
    assert code == "ok", made
    instance.in_status(made["session_id"], "running")
    assert (repo / ".sm" / "worktrees" / "login" / ".git").exists()
    assert not ran.exists()


@pytest.mark.parametrize("has_gone", [True, False])
def test_no_session_is_made_for_a_caller_who_has_gone_while_its_worktree_was_planned(
    instance: Instance, repo: Path, has_gone: bool
) -> None:
    path, ran = own_git(instance)
    body = {"agent_type": "Sleeper", "prompt": "x", "name": "login", "cwd": str(repo), "new_worktree": True}
    content = json.dumps({**body, "environment": {"PATH": path}}).encode()
    request = b"POST /v1/sessions HTTP/1.1\r\nHost: sm\r\nContent-Type: application/json\r\n"
    instance.start_daemon()
    with instance.connected(str(instance.socket)) as connection:

        def hang_up() -> None:
            if ran.exists():  # git has run for the plan
                connection.close()
            else:
                instance.loop.interrupt_after(1, hang_up)

        connection.sendall(request + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        if has_gone:
            hang_up()
        instance.settle()
    assert ran.exists()
    assert [s["status"] for s in instance.json("ls", "--all")] == ([] if has_gone else ["running"])
    assert branches(repo) == (["main"] if has_gone else ["main", "sm/login"])
