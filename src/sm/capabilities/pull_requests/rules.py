"""Chooses the repository, the title and the text of a pull request, and words the commands of a person. Pure."""

import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from sm.core.dataclass import dataclass
from sm.core.text import REFUSED, folded

TITLE_MAX = 250
BODY_MAX = 60_000
"""GitHub takes 65,536 characters."""
_TYPED_MAX = 2_000
"""The characters of a text in a command for a person."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_PLACE = re.compile(rf"({_NAME})/({_NAME}?)(?:\.git)?/?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?(:\d{1,5})?")
_OF_SCP = re.compile(r"(?:[^@/:]+@)?([^@/:]+):(?!//)/?(.+)")
_HOSTS = {"ssh.github.com": "github.com", "www.github.com": "github.com"}


@dataclass(frozen=True, slots=True)
class HostedRepository:
    """A repository of a host of pull requests."""

    host: str
    owner: str
    name: str

    def __str__(self) -> str:
        """The argument of `gh --repo`."""
        return f"{self.host}/{self.place}"

    @property
    def place(self) -> str:
        return f"{self.owner}/{self.name}"

    def is_same(self, other: "HostedRepository") -> bool:
        """True for the same repository. Hosts of pull requests ignore case."""
        return str(self).lower() == str(other).lower()


def hosted_repository(url: str) -> HostedRepository | None:
    """Find the repository that the URL of a remote names, as https, ssh or `git@HOST:OWNER/NAME`."""
    scheme, separator, _ = url.partition("://")
    if separator:
        try:
            parts = urlsplit(url)
            is_web = scheme.lower() in ("https", "http")
            host = parts.hostname or ""
            host += f":{parts.port}" if parts.port and is_web else ""
        except ValueError:
            return None
        if not (is_web or scheme.lower() in ("ssh", "git+ssh", "ssh+git")):
            return None
        path = parts.path.lstrip("/")
    elif found := _OF_SCP.fullmatch(url):
        host, path = found[1].lower(), found[2]
    else:
        return None
    place = _PLACE.fullmatch(path)
    if place is None or not place[2] or not _HOST.fullmatch(host):
        return None
    return HostedRepository(_HOSTS.get(host, host), place[1], place[2])


def named_repository(name: str, host: str) -> HostedRepository | None:
    """Find the repository that a person names, as `OWNER/NAME`, on the host of the remote."""
    place = _PLACE.fullmatch(name.removeprefix(f"{host}/"))
    return None if place is None or not place[2] else HostedRepository(host, place[1], place[2])


def repository_of_page(url: str) -> HostedRepository | None:
    """Find the repository of the page of a pull request."""
    found = re.fullmatch(r"(https?://[^/]+/[^/]+/[^/]+)/pull/\d+", url)
    return None if found is None else hosted_repository(found[1])


def default_title(subjects: Sequence[str], branch: str) -> str:
    """The first line of the first commit, else the branch. The agent has written it."""
    return next((words for subject in subjects if (words := folded(subject, TITLE_MAX))), branch)


def default_body(subjects: Sequence[str], first: str) -> str:
    """The rest of the only commit's message, or the first lines of all commits as a list."""
    text = first if len(subjects) == 1 else "\n".join(f"- {folded(subject, 200)}" for subject in subjects)
    return REFUSED.sub("", text.replace("\r\n", "\n"))[:BODY_MAX]


@dataclass(frozen=True, slots=True)
class NewPullRequest:
    """The content of a pull request that is opened."""

    repository: HostedRepository
    branch: str
    title: str
    body: str
    base: str | None
    """The branch to merge into, or None for the default one of the repository."""
    draft: bool
    fork: HostedRepository | None = None
    """The repository that has the branch, if it is another one."""

    @property
    def head_owner(self) -> str | None:
        """The owner of the branch, if it is in another repository."""
        return None if self.fork is None else self.fork.owner

    def arguments(self) -> list[str]:
        """The arguments of `gh` without the text. Each value is a part of its option, so none can be an option."""
        head = self.branch if self.fork is None else f"{self.fork.owner}:{self.branch}"
        words = ["pr", "create", f"--repo={self.repository}", f"--head={head}", f"--title={self.title}"]
        words += [] if self.base is None else [f"--base={self.base}"]
        return [*words, "--draft"] if self.draft else words

    def command(self) -> str:
        """The command with which a person opens it."""
        lines = self.body[:_TYPED_MAX].split("\n")
        body = shlex.quote(lines[0])
        if len(lines) > 1:  # on one line, as hints are
            body = f"\"$(printf '%s\\n' {shlex.join(lines)})\""
        return f"{shlex.join(['gh', *self.arguments()])} --body {body}"


def url_in(output: str) -> tuple[str, int] | None:
    """The URL and the number of the pull request in the output of `gh pr create`."""
    for line in reversed(output.split("\n")):
        if found := re.fullmatch(r"(https?://[!-~]+/pull/([1-9]\d{0,8}))/?", line.strip()):
            return found[1], int(found[2])
    return None


def up_to_last_error(log: str) -> str:
    """The log of a job of GitHub Actions without the steps that ran after the failed one."""
    kept, error, rest = log.rpartition("##[error]")
    return f"{kept}{error}{rest.partition(chr(10))[0]}" if error else log
