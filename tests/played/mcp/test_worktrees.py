"""Worktrees that agents ask for by MCP: errors name arguments of the tool, and no options of a shell."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, git, make_app
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance, CONFIG)
TASK = {"title": "T", "agent_name": "Sleeper", "initial_message": "x"}


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def created(session: McpSession, **arguments: Any) -> tuple[bool, str]:
    """Call the tool. Returns whether it was refused, and its text."""
    response = session.request("tools/call", {"name": "create_session", "arguments": {**TASK, **arguments}})
    result = response["result"]
    return result["isError"], " ".join(content["text"] for content in result["content"])


@pytest.mark.parametrize(
    ("arguments", "error", "argument"),
    [
        ({"base": "main"}, "a base is only for a new worktree", ""),
        ({"worktree": False, "branch": "x"}, "a branch is only for a new worktree", ""),
        ({"worktree": True, "branch": "main"}, "branch main is checked out in", "[argument branch]"),
        ({"worktree": True, "branch": "old", "base": "main"}, "has no other base", "[argument branch]"),
        ({"worktree": True, "name": "taken"}, "taken already exists", "[argument name]"),
        ({"worktree": True, "branch": "far"}, "is only in a remote repository", "[argument base]"),
    ],
)
def test_refusal_names_arguments_of_the_tool(
    instance: Instance, repo: Path, arguments: dict[str, Any], error: str, argument: str
) -> None:
    git(repo, "branch", "old")
    git(repo, "remote", "add", "origin", "https://localhost/x")
    git(repo, "update-ref", "refs/remotes/origin/far", "HEAD")
    (repo / ".sm" / "worktrees" / "taken").mkdir(parents=True)
    lead = McpSession(instance)
    before = branches(repo)
    refused, text = created(lead, working_dir=str(repo), **arguments)
    assert refused and error in text and argument in text, text
    assert branches(repo) == before


def test_empty_base_is_no_base(instance: Instance, repo: Path) -> None:
    lead = McpSession(instance)
    refused, text = created(lead, working_dir=str(repo), worktree=True, name="login", base="")
    assert not refused, text
    instance.settle()
    assert branches(repo) == ["main", "sm/login"]
