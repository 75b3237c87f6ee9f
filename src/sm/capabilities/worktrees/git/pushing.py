"""Pushes one branch to a remote repository, without hooks and settings of either repository, and never by force."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum

from sm.capabilities.worktrees.git.calls import git, git_answer, prepared, reason_of, repository_around
from sm.capabilities.worktrees.git.remotes import (
    FETCHED,
    as_remote,
    local_place,
    push_urls,
    relative_base,
    shown_url,
)
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, UsageError
from sm.linux.process_groups import run_limited

_PROTOCOLS = ("https", "http", "ssh", "file")
_SCHEME = re.compile(r"([A-Za-z0-9+.-]+)://|([A-Za-z0-9+.-]+)::")
_MOVED = re.compile(r"([0-9a-f]{4,64})\.\.[0-9a-f]{4,64}")
_KEPT_MAX = 64_000
_TIMEOUT_S = 600.0
_NO_PROGRAMS = (
    "core.hooksPath=/dev/null", "core.alternateRefsCommand=false", "core.fsmonitor=false", "gc.auto=0",
    "maintenance.auto=false", "receive.autogc=false", "receive.denyCurrentBranch=refuse",
)  # fmt: skip
"""For git in a remote directory of this machine, which reads the configuration there."""
_ASKS = re.compile(
    r"terminal prompts disabled|could not read (Username|Password)|Permission denied \(|askpass|Authentication failed"
)


class PushState(StrEnum):
    """States of the branch of the remote, before a push."""

    NEW = "new"
    """The remote has no branch of that name."""
    BEHIND = "behind"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class RemoteBranch:
    """The branch of the remote, before a push."""

    state: PushState
    tip: str | None = None
    """The beginning of the name of its last commit, if it is behind."""


@dataclass(frozen=True, slots=True)
class PushRemote:
    """A remote repository to push to."""

    name: str
    url: str
    """Of the repository's configuration. It may have a password."""
    used: str
    """The URL that git makes of it by the user's own configuration."""
    place: str | None
    """Its directory, if it is on this machine."""
    directory: str
    """The worktree in which a person runs git to push there."""

    @property
    def shown(self) -> str:
        return shown_url(self.url)


def push_remote(top: str, name: str | None) -> PushRemote:
    """Find the remote with that name, by default `origin` or the only one.

    Raises UsageError if there is none, IllegalState for one to which sm does not push, and ExternalError.
    """
    repository = repository_around(top)
    found = push_urls(repository)
    if not found:
        raise UsageError("there is no remote to push to", "git remote add origin URL")
    if name is None:
        name = "origin" if "origin" in found else next(iter(found))
        if name != "origin" and len(found) > 1:
            names = ", ".join(folded(each, 80) for each in list(found)[:5])
            raise UsageError(f"which remote? There are {names}", "--remote REMOTE")
    if name not in found:
        raise UsageError(f"there is no remote {folded(name, 80)!r}", "git remote -v")
    if len(found[name]) > 1:
        raise IllegalState(f"the remote {folded(name, 80)} has {len(found[name])} URLs to push to")
    url = found[name][0]
    used = rewritten(url, _rules(top))
    scheme = _SCHEME.match(used)
    if scheme is not None and (scheme[1] or "").lower() not in _PROTOCOLS:
        raise IllegalState(
            f"sm does not push to the remote {folded(name, 80)}: {shown_url(used)}",
            "it pushes over https, http or ssh, and to directories of this machine",
        )
    place, base = local_place(used), relative_base(repository)
    is_relative = url.startswith((f"{base}/./", f"{base}/../"))
    return PushRemote(
        name, url, used, None if place is None else os.path.join(top, place), base if is_relative else top
    )


def _rules(top: str) -> list[tuple[str, str]]:
    """The keys and values with which the user's own configuration replaces the beginnings of URLs."""
    _, words = git_answer(top, "config", "-z", "--get-regexp", r"^url\..*\.(push)?insteadof$")
    return [(key, value) for key, _, value in (word.partition("\n") for word in words)]


def rewritten(url: str, rules: Sequence[tuple[str, str]]) -> str:
    """The URL that git pushes to: the longest beginning that a rule has is replaced, first by rules for pushes.

    `rules`: as `url.BASE.pushinsteadof` and the beginning. See url.<base>.insteadOf in git-config(1).
    """
    for end in (".pushinsteadof", ".insteadof"):
        found = [(value, key[len("url.") : -len(end)]) for key, value in rules if key.endswith(end)]
        matching = [(beginning, base) for beginning, base in found if url.startswith(beginning)]
        if matching:
            beginning, base = max(matching, key=lambda rule: len(rule[0]))
            return base + url[len(beginning) :]
    return url


def push(top: str, remote: PushRemote, branch: str, *, trial: bool = False) -> RemoteBranch:
    """Push a branch to the branch of the same name. Returns what the remote had. `trial`: changes nothing there.

    Raises IllegalState if the remote has that branch with other commits, and ExternalError.
    """
    ref = f"refs/heads/{branch}"
    words = [
        "push",
        "--porcelain",
        "--no-verify",
        "--no-follow-tags",
        "--no-signed",
        "--recurse-submodules=no",
    ]
    words += ["--dry-run"] if trial else []
    if remote.place is not None:
        settings = " ".join(f"-c {setting}" for setting in _NO_PROGRAMS)
        words.append(f"--receive-pack=git {settings} receive-pack")
    code, output, errors = _pushed(top, [*words, "--", FETCHED, f"{ref}:{ref}"], as_remote(remote.url))
    for line in output.split("\n"):
        flag, _, rest = line.partition("\t")
        if rest.startswith(f"{ref}:{ref}\t"):
            return _state(flag, rest.split("\t")[1], remote, branch)
    raise _failure(reason_of(errors, code), remote, branch)


def _pushed(top: str, words: list[str], variables: Mapping[str, str]) -> tuple[int, str, bytes]:
    with prepared(top, words, network=":".join(_PROTOCOLS)) as (argv, environment):
        try:
            done = run_limited(
                argv, within_s=_TIMEOUT_S, kept_max=_KEPT_MAX, env={**environment, **variables}
            )
        except FileNotFoundError:
            raise ExternalError("git is not installed", "sudo apt-get install git") from None
        except subprocess.TimeoutExpired:
            raise ExternalError(f"git push did not finish within {_TIMEOUT_S:g} s") from None
    return done.code, done.output.decode("utf-8", "replace"), done.errors


def _state(flag: str, summary: str, remote: PushRemote, branch: str) -> RemoteBranch:
    match flag:
        case "*":
            return RemoteBranch(PushState.NEW)
        case " ":
            tips = _MOVED.fullmatch(summary)
            return RemoteBranch(PushState.BEHIND, tips and tips[1])
        case "=":
            return RemoteBranch(PushState.SAME)
        case _ if summary.startswith("[rejected]"):
            raise IllegalState(
                f"the remote {folded(remote.name, 80)} has a branch {folded(branch, 200)} with other commits",
                "sm never pushes by force; rename the branch, or merge the one of the remote into it",
            )
        case _:
            raise _failure(folded(summary, 300), remote, branch)


def _failure(why: str, remote: PushRemote, branch: str) -> ExternalError:
    for url in (remote.url, remote.used):
        why = why.replace(url, shown_url(url))
    hint = (
        "git asks nobody here: let a credential helper or an ssh agent answer, for example: gh auth setup-git"
    )
    return ExternalError(
        f"cannot push {folded(branch, 200)} to {remote.shown}: {why}", hint if _ASKS.search(why) else None
    )


def keep_pushed(top: str, remote: PushRemote, branch: str) -> None:
    """Let the repository know what the remote has now, as git does after a push."""
    git(top, "update-ref", f"refs/remotes/{remote.name}/{branch}", f"refs/heads/{branch}")
