"""gh as a program that may hang, print too much, or be gone."""

import os
from pathlib import Path

import pytest

from sm.capabilities.pull_requests.github import (
    GitHub,
    GitHubUnavailable,
    environment_of,
    find_program,
    token_variable,
)
from sm.capabilities.pull_requests.model import ReportKind
from sm.capabilities.pull_requests.news import PullRequestNews, news_of
from sm.capabilities.pull_requests.rules import HostedRepository
from sm.errors import ExternalError
from tests.gh_double import GhDouble

pytestmark = pytest.mark.processes

REPOSITORY = HostedRepository("github.com", "octo", "app")
FAILED = PullRequestNews("k", ReportKind.CHECK, "unit", "failure", run="3", job="5")
IN_PROGRESS = "run 3 is still in progress; logs will be available when it is complete\n"
OFFLINE = "error connecting to api.github.com\ncheck your internet connection or https://githubstatus.com\n"


@pytest.fixture
def double(tmp_path: Path) -> GhDouble:
    return GhDouble(tmp_path / "bin")


@pytest.fixture
def github(double: GhDouble) -> GitHub:
    return GitHub(str(double.place / "gh"), REPOSITORY)


def test_hanging_gh_is_ended(double: GhDouble, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.capabilities.pull_requests.github._LIMIT_S", 1.0)
    double.answer("pr-list", "", hangs=True)
    with pytest.raises(ExternalError, match="gh pr list did not finish within 1 s"):
        github.find("sm/login", None)
    (call,) = double.calls("pr")
    assert not Path(f"/proc/{call['pid']}").exists()


def test_answer_that_is_too_long_is_refused(
    double: GhDouble, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.capabilities.pull_requests.github._KEPT_MAX", 1_000)
    double.answer("pr-view", {"state": "x" * 2_000})
    with pytest.raises(ExternalError, match="gh pr view has printed something else than expected"):
        github.view(12)


def test_only_the_end_of_a_log_is_kept(double: GhDouble, github: GitHub) -> None:
    double.answer("run-view", "first\n" + "x" * 300_000 + "\nlast\n")
    double.answer(
        "pr-view",
        {
            "statusCheckRollup": [
                {
                    "name": "a",
                    "status": "COMPLETED",
                    "conclusion": "FAILURE",
                    "detailsUrl": "https://x/actions/runs/3",
                }
            ]
        },
    )
    (check,) = news_of(github.view(12))
    log = github.log_of(check)
    assert log.endswith("\nlast\n")
    assert len(log) == 256 << 10
    assert double.calls("run")[0]["argv"][-1] == "3"


def test_gh_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitHubUnavailable, match="gh cannot be run: No such file"):
        GitHub(str(tmp_path / "gh"), REPOSITORY).view(12)
    monkeypatch.setenv("PATH", f".:{tmp_path}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GitHubUnavailable, match="is not installed"):
        find_program(None)


def test_gh_of_a_relative_directory_of_path_does_not_run(
    double: GhDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(double.place)
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "/nonexistent"]))
    with pytest.raises(GitHubUnavailable, match="is not installed"):
        find_program(None)


def test_variables_of_git_and_of_prompts_are_left_out() -> None:
    given = {"GIT_DIR": "/evil", "GIT_CONFIG_COUNT": "1", "GH_FORCE_TTY": "1", "GH_TOKEN": "t", "HOME": "/h"}
    env = environment_of(given)
    assert not {"GIT_DIR", "GIT_CONFIG_COUNT", "GH_FORCE_TTY"} & env.keys()
    assert (env["GH_TOKEN"], env["HOME"], env["GH_PROMPT_DISABLED"]) == ("t", "/h", "1")


@pytest.mark.parametrize(("fork", "is_found"), [(None, True), ("me", True), ("other", False)])
def test_pull_request_of_another_fork_is_not_the_one_of_the_branch(
    double: GhDouble, github: GitHub, fork: str | None, is_found: bool
) -> None:
    double.has_pull_request("sm/login", fork=None if fork is None else "Me")
    found = github.find("sm/login", fork)
    assert (found is not None and found.url == double.url) is is_found


def test_repository_of_which_this_is_a_fork_is_found(double: GhDouble, github: GitHub) -> None:
    assert github.parent() is None
    parent = {"id": "R_1", "name": "app", "owner": {"id": "O_1", "login": "up"}}
    double.answer("repo-view", {"isFork": True, "parent": parent})
    assert github.parent() == HostedRepository("github.com", "up", "app")
    double.answer("repo-view", {"isFork": True, "parent": None})  # hidden from this user
    assert github.parent() is None


@pytest.mark.parametrize(
    ("code", "errors", "message", "hint"),
    [
        (4, "To get started\n", "gh is not logged in to github.com", "gh auth login --hostname github.com"),
        (
            1,
            "HTTP 401: Bad credentials (https://api.github.com/graphql)\nTry authenticating with:  gh auth login\n",
            "github.com does not accept the login of gh",
            "gh auth login --hostname github.com",
        ),
    ],
)
def test_login_that_is_missing_or_refused_is_named(
    double: GhDouble,
    github: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    errors: str,
    message: str,
    hint: str,
) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    double.answer("pr-view", "", code=code, errors=errors)
    with pytest.raises(GitHubUnavailable) as caught:
        github.view(12)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_token_of_the_environment_that_is_refused_is_named(
    double: GhDouble, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gh auth login` refuses to run while that variable is set."""
    monkeypatch.setenv("GITHUB_TOKEN", "none")
    double.answer(
        "pr-view", "", code=1, errors="HTTP 401: Bad credentials (https://api.github.com/graphql)\n"
    )
    with pytest.raises(GitHubUnavailable) as caught:
        github.view(12)
    assert caught.value.message == "github.com does not accept the token in GITHUB_TOKEN"
    assert caught.value.hint == "unset GITHUB_TOKEN"
    assert token_variable("git.example", {"GH_TOKEN": "x"}) is None
    assert token_variable("git.example", {"GITHUB_ENTERPRISE_TOKEN": "x"}) == "GITHUB_ENTERPRISE_TOKEN"


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        (
            OFFLINE,
            "error connecting to api.github.com; check your internet connection or https://githubstatus.com",
        ),
        ("HTTP 502: 502 Bad Gateway (https://api.github.com/graphql)\n", "HTTP 502: 502 Bad Gateway"),
        (
            "HTTP 403: API rate limit exceeded for user ID 1. (https://x)\n",
            "HTTP 403: API rate limit exceeded",
        ),
        ("unknown flag: --bogus\n\nUsage:  gh pr view\n\nFlags:\n  --web\n", "unknown flag: --bogus"),
        (
            "it exists already:\nhttps://github.com/o/a/pull/1\n",
            "it exists already: https://github.com/o/a/pull/1",
        ),
    ],
)
def test_failure_has_the_first_paragraph_of_gh_and_is_no_missing_login(
    double: GhDouble, github: GitHub, errors: str, shown: str
) -> None:
    double.answer("pr-view", "", code=1, errors=errors)
    with pytest.raises(ExternalError, match=f"^gh pr view failed: {shown}") as caught:
        github.view(12)
    assert not isinstance(caught.value, GitHubUnavailable)
    assert "Flags" not in caught.value.message


@pytest.mark.parametrize("is_newer", [False, True])
def test_log_of_a_job_is_read_while_other_jobs_of_its_run_go_on(
    double: GhDouble, github: GitHub, is_newer: bool
) -> None:
    double.answer("run-view", "", code=1, errors=IN_PROGRESS)
    double.answer_api("actions/jobs/5/logs", "\x1b[31mred\x1b[0m\n##[error]failed\nclean-up\n")
    if is_newer:
        double.is_newer()
    assert github.log_of(FAILED) == "\x1b[31mred\x1b[0m\n##[error]failed"


def test_log_that_github_no_longer_has_is_empty_and_one_that_it_may_have_later_is_an_error(
    double: GhDouble, github: GitHub
) -> None:
    double.answer("run-view", "", code=1, errors=IN_PROGRESS)
    assert github.log_of(FAILED) == ""
    for errors in (OFFLINE, "gh: Bad Gateway (HTTP 502)\n", "HTTP 503: (https://x)\n"):
        double.answer("run-view", "", code=1, errors=errors)
        with pytest.raises(ExternalError, match="gh run view failed"):
            github.log_of(FAILED)


def test_double_refuses_what_the_real_gh_refuses(double: GhDouble, github: GitHub) -> None:
    with pytest.raises(ExternalError, match="unknown flag: --bogus") as caught:
        github.json(["pr", "list", "--bogus=1"], list)
    assert caught.value.hint == "sm needs gh 2.23 or newer: https://cli.github.com"
    with pytest.raises(ExternalError, match='Unknown JSON field: "bogus"'):
        github.json(["pr", "list", "--json=number,bogus"], list)
    with pytest.raises(ExternalError, match='unknown command "issue"'):
        github.json(["issue", "list"], list)
    with pytest.raises(AssertionError, match="the real gh would refuse"):
        double.calls()
