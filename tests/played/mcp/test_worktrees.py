"""Worktrees that agents ask for by MCP: errors name arguments of the tool, and no options of a shell."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import branches, git, make_app
from tests.played.mcp.mcp_client import CONFIG, McpSession
from tests.played.test_worktree_remotes import add_remote
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
        (
            {"worktree": True, "branch": "far"},
            "is only in a remote repository",
            "[argument remote_branch; argument base]",
        ),
        ({"worktree": True, "base": "none"}, "there is no commit 'none'", "[argument base]"),
        ({"worktree": True, "pr": 1, "base": "HEAD"}, "cannot be used", "[argument base; argument pr]"),
        ({"worktree": True, "remote": "origin"}, "is only for", "[argument pr; argument remote_branch]"),
        ({"worktree": True, "remote": "up", "pr": 1}, "there is no remote 'up'", "[argument remote]"),
        ({"worktree": True, "remote_branch": "-x"}, "invalid branch name '-x'", "[argument remote_branch]"),
        ({"worktree": True, "pr": 0}, "invalid pull request 0", "[argument pr]"),
        ({"worktree": True, "pr": 10**12}, "pr: must be 1 to 999,999,999", ""),
        ({"pr": 1}, "a pull request is only for a new worktree", "[argument worktree]"),
        ({"copy": True}, "is in a git repository", "[argument worktree]"),
        ({"copy": True, "pr": 1}, "a pull request is for a git worktree", ""),
        ({"copy": True, "worktree": True}, "worktree and copy cannot be used together", ""),
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


def test_worktree_begins_with_a_pull_request_or_a_branch_of_a_remote(instance: Instance, repo: Path) -> None:
    made = {name: add_remote(repo, name) for name in ("origin", "upstream")}
    lead = McpSession(instance)

    def start_of(**arguments: Any) -> str:
        given: dict[str, Any] = {**TASK, "working_dir": str(repo), "worktree": True, **arguments}
        started = lead.call("create_session", **given)
        instance.settle()
        tree = instance.session(started["session_id"])["worktree"]
        return git(Path(tree["path"]), "rev-parse", "HEAD")

    refused, text = created(lead, working_dir=str(repo), worktree=True, pr=7)
    assert refused and "which remote has pull request 7?" in text and "[argument remote]" in text, text
    assert start_of(name="fork", pr=7, remote="origin", branch="mine") == made["origin"]
    assert start_of(name="main", pr="7", remote="upstream") == made["upstream"]
    assert start_of(name="topic", remote_branch="upstream/topic") == made["upstream"]
    assert git(repo, "config", "branch.topic.remote") == "upstream"
    assert "mine" in branches(repo)


def test_agent_works_in_a_copy_of_a_directory_without_version_control(instance: Instance) -> None:
    texts = instance.work / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("a\n")
    lead = McpSession(instance)
    refused, text = created(lead, working_dir=str(texts), worktree=True)
    assert refused and "[argument copy]" in text, text
    started = lead.call("create_session", **TASK, working_dir=str(texts), copy=True, name="login")
    instance.settle()
    place = Path(instance.session(started["session_id"])["worktree"]["path"])
    assert (place / "a.txt").read_text() == "a\n" and place != texts
