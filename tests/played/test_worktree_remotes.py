"""`sm spawn --worktree` from one of several remotes: the caller names it when it is not clear which one is meant."""

from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import commit, git, make_app
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def add_remote(repo: Path, name: str) -> str:
    """Add a remote with a pull request and a branch of its own. Returns the commit of both."""
    place = repo.parent / f"{name}.git"
    git(repo, "clone", "-q", "--bare", str(repo), str(place))
    git(repo, "remote", "add", name, str(place))
    made = commit(repo, f"at {name}\n")
    git(repo, "push", "-q", name, "HEAD:refs/pull/7/head", "HEAD:refs/heads/topic")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    git(repo, "update-ref", "-d", f"refs/remotes/{name}/topic")
    return made


def start_of(instance: Instance, repo: Path, *words: str) -> str:
    """Spawn a session, and return the commit that its worktree begins with."""
    session = instance.spawn("Sleeper", "x", "--worktree", *words, cwd=repo)
    return git(Path(session["worktree"]["path"]), "rev-parse", "HEAD")


def refused(instance: Instance, repo: Path, *words: str) -> str:
    return instance.refused("spawn", "Sleeper", "x", "--worktree", *words, exit_code=2, cwd=repo)


def test_pull_request_of_a_fork_or_of_its_upstream_is_named(instance: Instance, repo: Path) -> None:
    made = {name: add_remote(repo, name) for name in ("origin", "upstream")}
    assert refused(instance, repo, "--pr", "7") == (
        "sm: which remote has pull request 7? There are origin, upstream\nhint: name it: --remote upstream\n"
    )
    found = {
        name: start_of(instance, repo, "--name", name, "--pr", "7", "--remote", name)
        for name in ("origin", "upstream")
    }
    assert found == made
    for name in ("sleeper-origin", "sleeper-upstream"):  # each one keeps its own commit
        instance.sm("kill", name)
        assert instance.run("rm", name).stderr == ""


def test_pull_request_is_that_of_origin_beside_other_remotes(instance: Instance, repo: Path) -> None:
    add_remote(repo, "deploy")
    made = add_remote(repo, "origin")
    assert start_of(instance, repo, "--pr", "7") == made


def test_pull_request_of_several_remotes_without_origin_is_named(instance: Instance, repo: Path) -> None:
    made = [add_remote(repo, name) for name in ("one", "two")]
    assert "There are one, two\nhint: name it: --remote one\n" in refused(instance, repo, "--pr", "7")
    assert start_of(instance, repo, "--pr", "7", "--remote", "two") == made[1]


@pytest.mark.parametrize("branch", ["topic", "upstream/topic"])
def test_branch_of_a_named_remote_is_followed(instance: Instance, repo: Path, branch: str) -> None:
    made = {name: add_remote(repo, name) for name in ("origin", "upstream")}
    words = ("--remote-branch", branch, "--remote", "upstream")
    assert start_of(instance, repo, *words) == made["upstream"]
    assert git(repo, "config", "branch.topic.remote") == "upstream"


def test_remote_that_is_not_there_is_refused(instance: Instance, repo: Path) -> None:
    add_remote(repo, "origin")
    assert refused(instance, repo, "--pr", "7", "--remote", "up") == (
        "sm: there is no remote 'up', only origin\nhint: choose one: --remote NAME\n"
    )


def test_remote_without_something_to_fetch_is_refused(instance: Instance, repo: Path) -> None:
    add_remote(repo, "origin")
    problem = "a remote is only for a pull request or a branch of a remote"
    assert problem in refused(instance, repo, "--remote", "origin")
    problem = instance.refused("spawn", "Sleeper", "x", "--remote", "origin", exit_code=2, cwd=repo)
    assert "a remote is only for a new worktree" in problem
