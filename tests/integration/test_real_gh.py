"""The real gh with `sm pr`, connected to a GitHub on loopback.

SM_TEST_GH names another gh than that of PATH.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.pull_requests.github import GitHub, GitHubUnavailable
from sm.capabilities.pull_requests.model import ReportKind
from sm.capabilities.pull_requests.news import PullRequestNews
from sm.capabilities.pull_requests.rules import HostedRepository, NewPullRequest
from sm.errors import ExternalError
from tests import gh_options
from tests.browser import skip_without
from tests.fixtures import context_fixture
from tests.git_repositories import commit, git, make_app
from tests.instance import Instance
from tests.local_github import HOST, JOB, PAGE, REPOSITORY, RUN, LocalGitHub

pytestmark = pytest.mark.processes

shared = context_fixture("module", Instance)
FAILED = PullRequestNews("k", ReportKind.CHECK, "unit", "failure", run=str(RUN), job=str(JOB))


@pytest.fixture(scope="module")
def program() -> str:
    found = os.environ.get("SM_TEST_GH") or shutil.which("gh")
    skip_without(found, "gh")
    assert found is not None
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalGitHub]:
    with LocalGitHub(tmp_path) as running:
        yield running
    assert running.unknown == []


@pytest.fixture
def github(server: LocalGitHub, program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GitHub:
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path / "gh"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GITHUB_ENTERPRISE_TOKEN", raising=False)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return GitHub(program, HostedRepository(HOST, "octo", "app"))


def test_gh_has_the_options_and_fields_that_its_double_knows(program: str) -> None:
    known = gh_options.known()["commands"]
    found = gh_options.options_of(program)["commands"]
    for command, words in known.items():
        for kind in ("options", "fields"):
            assert set(words[kind]) <= set(found[command][kind])


def test_pull_request_is_opened_and_followed_by_the_real_gh(
    shared: Instance, server: LocalGitHub, program: str, tmp_path: Path
) -> None:
    repo, origin = make_app(shared.work), shared.work / "origin.git"
    git(shared.work, "clone", "-q", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", REPOSITORY)
    (shared.home / ".gitconfig").write_text(f'[url "{origin}"]\n\tinsteadOf = {REPOSITORY}\n')
    session = shared.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    made = commit(Path(session["worktree"]["path"]), "Fix the login\n")
    (tmp_path / "gh").symlink_to(program)
    env = {**server.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    server.state, server.goes_on = "MERGED", True
    shown = shared.sm("pr", "sleeper-login", "--draft", "--watch", env=env)
    assert shown.splitlines() == [
        "Pushed sm/login to origin: 1 commit",
        f"Opened pull request 12: {PAGE}",
        f"Following pull request 12 of sleeper-login: {PAGE}",
        "check ci / unit: failure; sent to the agent as message 1",
        "review by alice: changes requested; sent to the agent as message 2",
        "comment by alice: commented; sent to the agent as message 3",
        "pull request 12 is merged; sent to the agent as message 4",
    ]
    assert git(origin, "rev-parse", "sm/login") == made
    (created,) = server.created
    assert {name: created[name] for name in ("title", "headRefName", "baseRefName", "draft")} == {
        "title": "Fix the login",
        "headRefName": "sm/login",
        "baseRefName": "main",
        "draft": True,
    }
    log, review, said, _ = (letter["text"] for letter in letters(shared, session))
    assert "| E   assert 1 == 2\n| ##[error]Process completed with exit code 1.\n\nIf the cause" in log
    assert "1. the whole change\n    | Please change this\n\n2. api/a.txt:1\n   code:\n    | +a\n" in review
    assert "| Nice" in said


def letters(instance: Instance, session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = instance.json(
        "inbox", "--take", env=instance.as_session(session["session_id"])
    )
    return found


@pytest.mark.parametrize("goes_on", [False, True])
def test_log_of_a_failed_job_is_the_same_during_its_run_and_after_it(
    server: LocalGitHub, github: GitHub, goes_on: bool
) -> None:
    server.goes_on = goes_on
    log = github.log_of(FAILED)
    assert "E   assert 1 == 2" in log
    assert log.rstrip().endswith("##[error]Process completed with exit code 1.")
    assert "Post job" not in log


def test_fork_and_its_parent_are_found(server: LocalGitHub, github: GitHub) -> None:
    assert (github.find("sm/login", None), github.parent()) == (None, None)
    server.parent = {"id": "R_up", "name": "app", "owner": {"id": "O_2", "login": "up"}}
    assert github.parent() == HostedRepository(HOST, "up", "app")


def test_branch_of_a_fork_is_the_head_of_a_pull_request_elsewhere(
    server: LocalGitHub, github: GitHub, program: str
) -> None:
    up, fork = HostedRepository(HOST, "up", "app"), HostedRepository(HOST, "octo", "app")
    GitHub(program, up).create(NewPullRequest(up, "sm/login", "Fix", "text", "main", False, fork))
    (created,) = server.created
    assert (created["repositoryId"], created["headRefName"], created["body"]) == (
        "R_up",
        "octo:sm/login",
        "text",
    )


def test_missing_login_is_told_from_an_outage(
    server: LocalGitHub, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for failure in ((502, {"message": "Bad Gateway"}), (403, {"message": "API rate limit exceeded"})):
        server.failure = failure
        with pytest.raises(ExternalError, match=f"gh pr view failed: HTTP {failure[0]}") as caught:
            github.view(12)
        assert not isinstance(caught.value, GitHubUnavailable)
    server.failure = None
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "wrong")
    with pytest.raises(GitHubUnavailable, match=f"{HOST} does not accept the token in GH_ENTERPRISE_TOKEN"):
        github.view(12)
    monkeypatch.delenv("GH_ENTERPRISE_TOKEN")
    with pytest.raises(GitHubUnavailable, match=f"gh is not logged in to {HOST}"):
        github.view(12)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "any")
    with pytest.raises(ExternalError, match="gh pr view failed: ") as caught:
        github.view(12)
    assert not isinstance(caught.value, GitHubUnavailable)
