"""Runs gh, the program of GitHub, outside of every repository: a repository could name programs for git to run.

gh gets the repository and the branch by options. It has no terminal, so it asks nobody. Every option and field that is
used here exists since gh 2.23, the one of Debian 12.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from sm.capabilities.pull_requests.news import (
    VIEWED,
    PullRequestNews,
    RemoteComment,
    id_of_review,
    review_comments,
)
from sm.capabilities.pull_requests.rules import (
    HostedRepository,
    NewPullRequest,
    named_repository,
    up_to_last_error,
    url_in,
)
from sm.core.dataclass import dataclass
from sm.core.text import folded, well_formed_json
from sm.errors import ExternalError
from sm.linux.process_groups import ProgramOutput, run_limited
from sm.paths import is_within

_LIMIT_S = 60.0
_KEPT_MAX = 8 << 20
_LOG_MAX = 256 << 10
_NOT_LOGGED_IN = 4
"""The exit code of gh without any token for the host, see `gh help exit-codes`."""
_TOKEN_REFUSED = re.compile(r"\bHTTP 401\b")
_TEMPORARY = re.compile(r"\bHTTP (?:5\d\d|429)\b|^error connecting to ")
_TOO_OLD = re.compile(r"unknown (?:flag|command)|Unknown JSON field", re.IGNORECASE)
_ESCAPES = "--allow-escape-sequences"
_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
_ENTERPRISE_TOKENS = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
_NOT_FOR_GH = ("GH_REPO", "GH_HOST", "GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "CLICOLOR_FORCE")
_VARIABLES = {
    "GH_PROMPT_DISABLED": "1",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_EDITOR": "false",
    "GH_BROWSER": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "NO_COLOR": "1",
}


class GitHubUnavailable(ExternalError):
    """gh is not there, or nobody has logged in with it."""


@dataclass(frozen=True, slots=True)
class OpenedPullRequest:
    """A pull request on GitHub."""

    url: str
    number: int


class GitHub:
    """The repository of a remote, through gh. Every method raises ExternalError when gh fails or takes too long."""

    def __init__(self, program: str, repository: HostedRepository) -> None:
        self._program = program
        self._repository = repository

    def find(self, branch: str, owner: str | None) -> OpenedPullRequest | None:
        """Find the open pull request of a branch. `owner`: of the fork that has the branch, else None."""
        fields = "number,url,headRefName,isCrossRepository,headRepositoryOwner"
        words = ("pr", "list", f"--repo={self._repository}", f"--head={branch}", "--state=open", "--limit=30")
        for entry in self.json([*words, f"--json={fields}"], list):
            is_same = entry.get("headRefName") == branch and entry.get("isCrossRepository") is (
                owner is not None
            )
            if is_same and (owner is None or _login(entry.get("headRepositoryOwner")) == owner.lower()):
                found = url_in(str(entry.get("url")))
                if found is not None:
                    return OpenedPullRequest(*found)
        return None

    def parent(self) -> HostedRepository | None:
        """The repository of which this one is a fork."""
        found = self.json(["repo", "view", str(self._repository), "--json=isFork,parent"], dict)
        parent = found.get("parent")
        if found.get("isFork") is not True or not isinstance(parent, dict):
            return None
        return named_repository(f"{_login(parent.get('owner'))}/{parent.get('name')}", self._repository.host)

    def create(self, new: NewPullRequest) -> OpenedPullRequest:
        """Open a pull request."""
        done = self._run([*new.arguments(), "--body-file=-"], new.body.encode("utf-8", "replace"))
        if done.code:
            raise self._failure("gh did not open the pull request", done, new.command())
        found = url_in(done.output.decode("utf-8", "replace"))
        if found is None:
            raise ExternalError(
                "gh has printed no URL of a pull request", f"gh pr list --repo {self._repository}"
            )
        return OpenedPullRequest(*found)

    def view(self, number: int) -> Mapping[str, Any]:
        """The state, checks, reviews and comments of a pull request, for `news_of`."""
        words = ("pr", "view", f"--repo={self._repository}", f"--json={VIEWED}")
        found: Mapping[str, Any] = self.json([*words, str(number)], dict)
        return found

    def comments_of(self, number: int, review: PullRequestNews) -> list[RemoteComment]:
        """The text of a review and its comments."""
        path = f"repos/{self._repository.owner}/{self._repository.name}/pulls/{number}/reviews"
        id = id_of_review(review, self._api(f"{path}?per_page=100"))
        return review_comments(review, [] if id is None else self._api(f"{path}/{id}/comments?per_page=100"))

    def _api(self, path: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.json([*self._request(path)], list)
        return found

    def _request(self, path: str) -> tuple[str, ...]:
        return ("api", f"--hostname={self._repository.host}", "--method=GET", path)

    def log_of(self, check: PullRequestNews) -> str:
        """The end of the log of a failed check, or an empty text if GitHub has none.

        Raises ExternalError if it may have one later.
        """
        if check.run is None:
            return ""
        of = [f"--job={check.job}"] if check.job is not None else [check.run]
        log = self._log("run", "view", f"--repo={self._repository}", "--log-failed", *of)
        if log or check.job is None:
            return log
        # gh shows no log before all jobs of the run have finished. GitHub has that of each finished job.
        path = f"repos/{self._repository.owner}/{self._repository.name}/actions/jobs/{check.job}/logs"
        return up_to_last_error(self._log(*self._request(path)))

    def _log(self, *arguments: str) -> str:
        done = self._run(arguments, kept_max=_LOG_MAX)
        if done.code and _ESCAPES in done.errors.decode("utf-8", "replace"):
            done = self._run([*arguments, _ESCAPES], kept_max=_LOG_MAX)  # an option that gh 2.23 lacks
        if done.code:
            failure = self._failure(f"gh {' '.join(arguments[:2])} failed", done)
            if isinstance(failure, GitHubUnavailable) or _TEMPORARY.search(_reason(done)):
                raise failure
            return ""
        return done.output.decode("utf-8", "replace")

    def json(self, arguments: Sequence[str], kind: type[Any]) -> Any:
        """The JSON that gh prints, a list or an object. Entries of a list that are no objects are left out."""
        done = self._run(arguments)
        if done.code:
            raise self._failure(f"gh {' '.join(arguments[:2])} failed", done)
        try:
            found = well_formed_json(json.loads(done.output))
        except (ValueError, RecursionError):
            found = None
        if done.is_cut or not isinstance(found, kind):
            raise ExternalError(f"gh {' '.join(arguments[:2])} has printed something else than expected")
        return [entry for entry in found if isinstance(entry, dict)] if kind is list else found

    def _failure(self, what: str, done: ProgramOutput, hint: str | None = None) -> ExternalError:
        """The error of a failed call. gh tells by the exit code or the status of HTTP that a login is missing.

        `gh auth status` would not tell: it calls each token invalid also while GitHub cannot be reached.
        """
        host, reason = self._repository.host, _reason(done)
        login = f"gh auth login --hostname {host}"
        if done.code == _NOT_LOGGED_IN:
            return GitHubUnavailable(f"gh is not logged in to {host}", login)
        if _TOKEN_REFUSED.search(reason):
            variable = token_variable(host, os.environ)
            if variable is not None:
                return GitHubUnavailable(
                    f"{host} does not accept the token in {variable}", f"unset {variable}"
                )
            return GitHubUnavailable(f"{host} does not accept the login of gh", login)
        if _TOO_OLD.match(reason):
            return ExternalError(f"{what}: {reason}", "sm needs gh 2.23 or newer: https://cli.github.com")
        return ExternalError(f"{what}: {reason}", hint)

    def _run(
        self, arguments: Sequence[str], text: bytes = b"", *, kept_max: int | None = None
    ) -> ProgramOutput:
        try:
            return run_limited(
                [self._program, *arguments],
                within_s=_LIMIT_S,
                kept_max=kept_max or _KEPT_MAX,
                env=environment_of(os.environ),
                text=text,
            )
        except subprocess.TimeoutExpired:
            shown = " ".join(arguments[:2])
            raise ExternalError(f"gh {shown} did not finish within {_LIMIT_S:g} s", "try again") from None
        except OSError as error:
            raise GitHubUnavailable(f"gh cannot be run: {error.strerror}") from None


def find_program(top: str | None) -> str:
    """The path of gh. Raises GitHubUnavailable. `top`: the worktree of an agent, of which no program runs."""
    places = [place for place in os.get_exec_path() if os.path.isabs(place)]
    found = shutil.which("gh", path=os.pathsep.join(places))
    if found is None:
        raise GitHubUnavailable("gh, the program of GitHub, is not installed", "https://cli.github.com")
    real = os.path.realpath(found)
    if top is not None and is_within(real, top):
        raise GitHubUnavailable(f"gh is a program of the worktree, which does not run: {folded(real, 4096)}")
    return found


def environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of gh: those of the caller without the ones that direct git, or that let gh ask or print more."""
    mine = {
        name: value
        for name, value in given.items()
        if not name.startswith("GIT_") and name not in _NOT_FOR_GH
    }
    return mine | _VARIABLES


def token_variable(host: str, given: Mapping[str, str]) -> str | None:
    """The variable whose token gh uses for a host instead of a login."""
    is_cloud = host == "github.com" or host.endswith(".ghe.com")
    names = _TOKENS if is_cloud else _ENTERPRISE_TOKENS
    return next((name for name in names if given.get(name)), None)


def _login(owner: object) -> str:
    """The name of a user or an organisation of GitHub, which ignores case."""
    return str(owner.get("login") or "").lower() if isinstance(owner, dict) else ""


def _reason(done: ProgramOutput) -> str:
    """The first paragraph of the errors. After it, gh explains its options."""
    words = ""
    for line in done.errors.decode("utf-8", "replace").strip().split("\n"):
        if not line.strip():
            break
        words += f"{'' if not words else ' ' if words.endswith(':') else '; '}{line.strip()}"
    return folded(words, 300) or f"exit code {done.code}"
