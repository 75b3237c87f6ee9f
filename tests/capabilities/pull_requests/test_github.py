"""gh as a program that may hang, print too much, or be gone."""

import os
from pathlib import Path

import pytest

from sm.capabilities.pull_requests.github import GitHub, GitHubUnavailable, environment_of, find_program
from sm.capabilities.pull_requests.news import news_of
from sm.capabilities.pull_requests.rules import HostedRepository
from sm.errors import ExternalError
from tests.gh_double import GhDouble

pytestmark = pytest.mark.processes

REPOSITORY = HostedRepository("github.com", "octo", "app")


@pytest.fixture
def double(tmp_path: Path) -> GhDouble:
    return GhDouble(tmp_path / "bin")


@pytest.fixture
def github(double: GhDouble) -> GitHub:
    return GitHub(str(double.place / "gh"), REPOSITORY)


def test_hanging_gh_is_ended(double: GhDouble, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.capabilities.pull_requests.github._LIMIT_S", 1.0)
    double.answer("auth-status", "", hangs=True)
    with pytest.raises(ExternalError, match="gh auth status did not finish within 1 s"):
        github.check_login()
    (call,) = double.calls("auth")
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
        GitHub(str(tmp_path / "gh"), REPOSITORY).check_login()
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
