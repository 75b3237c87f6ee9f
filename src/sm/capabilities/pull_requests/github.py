"""Runs gh, the program of GitHub, outside of every repository: a repository could name programs for git to run.

gh gets the repository and the branch by options. It has no terminal, so it asks nobody.
"""

import json
import os
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
from sm.capabilities.pull_requests.rules import HostedRepository, NewPullRequest, url_in
from sm.core.dataclass import dataclass
from sm.core.text import folded, well_formed_json
from sm.errors import ExternalError
from sm.linux.process_groups import ProgramOutput, run_limited
from sm.paths import is_within

_LIMIT_S = 60.0
_KEPT_MAX = 8 << 20
_LOG_MAX = 256 << 10
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

    def check_login(self) -> None:
        """Raises GitHubUnavailable if nobody has logged in."""
        host = self._repository.host
        done = self._run(["auth", "status", f"--hostname={host}"])
        if done.code:
            raise GitHubUnavailable(f"gh is not logged in to {host}", f"gh auth login --hostname {host}")

    def find(self, branch: str) -> OpenedPullRequest | None:
        """Find the open pull request of a branch of this repository."""
        fields = "number,url,headRefName,isCrossRepository"
        words = ("pr", "list", f"--repo={self._repository}", f"--head={branch}", "--state=open", "--limit=30")
        for entry in self.json([*words, f"--json={fields}"], list):
            is_own = entry.get("headRefName") == branch and entry.get("isCrossRepository") is False
            if is_own and (found := url_in(str(entry.get("url")))) is not None:
                return OpenedPullRequest(*found)
        return None

    def create(self, new: NewPullRequest) -> OpenedPullRequest:
        """Open a pull request."""
        done = self._run([*new.arguments(), "--body-file=-"], new.body.encode("utf-8", "replace"))
        if done.code:
            raise ExternalError(f"gh did not open the pull request: {_reason(done)}", new.command())
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
        words = ("api", f"--hostname={self._repository.host}", "--method=GET", path)
        found: list[Mapping[str, Any]] = self.json(words, list)
        return found

    def log_of(self, check: PullRequestNews) -> str:
        """The end of the log of a failed check, or an empty text if GitHub has none."""
        if check.run is None:
            return ""
        of = [f"--job={check.job}"] if check.job is not None else [check.run]
        done = self._run(
            ["run", "view", f"--repo={self._repository}", "--log-failed", *of], kept_max=_LOG_MAX
        )
        return "" if done.code else done.output.decode("utf-8", "replace")

    def json(self, arguments: Sequence[str], kind: type[Any]) -> Any:
        """The JSON that gh prints, a list or an object. Entries of a list that are no objects are left out."""
        done = self._run(arguments)
        if done.code:
            raise ExternalError(f"gh {' '.join(arguments[:2])} failed: {_reason(done)}")
        try:
            found = well_formed_json(json.loads(done.output))
        except (ValueError, RecursionError):
            found = None
        if done.is_cut or not isinstance(found, kind):
            raise ExternalError(f"gh {' '.join(arguments[:2])} has printed something else than expected")
        return [entry for entry in found if isinstance(entry, dict)] if kind is list else found

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


def _reason(done: ProgramOutput) -> str:
    lines = [line for line in done.errors.decode("utf-8", "replace").split("\n") if line.strip()]
    return folded(lines[-1], 300) if lines else f"exit code {done.code}"
