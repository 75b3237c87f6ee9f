"""Reads the remotes of a repository, whose URLs may have passwords and may be places of this machine."""

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from sm.capabilities.worktrees.git.git_config import parse_git_config
from sm.core.text import folded
from sm.errors import ExternalError
from sm.linux.repositories import Repository, UnreadableRepository

FETCHED = "sm-fetched"
"""The name of the remote that a command of sm reads."""

PULL_REQUESTS = "refs/sm/pull"
"""The refs of fetched pull requests: their commits are in no other branch of the repository."""


def remote_urls(repository: Repository) -> dict[str, str]:
    """The URLs of the remotes by name, without those that could be options. Raises ExternalError."""
    return {name: urls[0] for name, urls in _all_urls(repository, "url").items()}


def push_urls(repository: Repository) -> dict[str, list[str]]:
    """The URLs to push to, by the name of the remote, as `remote_urls`. Raises ExternalError."""
    return {**_all_urls(repository, "url"), **_all_urls(repository, "pushurl")}


def _all_urls(repository: Repository, key: str) -> dict[str, list[str]]:
    try:
        settings = parse_git_config(repository.config())
    except (UnreadableRepository, ValueError) as error:
        raise ExternalError(f"the configuration of {repository.common} cannot be read: {error}") from None
    found: dict[str, list[str]] = {}
    for setting in settings:
        url = setting.value
        if setting.section != "remote" or setting.name != key or not setting.subsection or not url:
            continue
        if url.startswith("-") or not setting.subsection.isprintable() or not url.isprintable():
            continue
        local = url.startswith(("./", "../"))
        found.setdefault(setting.subsection, []).append(
            os.path.join(relative_base(repository), url) if local else url
        )
    return found


def relative_base(repository: Repository) -> str:
    """The directory from which the relative URLs of remotes lead, which a person has written in the main worktree.

    Git itself begins at the top of the worktree in which it runs, where a linked one has nothing beside it.
    """
    if not repository.is_linked:
        return repository.top or repository.common
    is_main = os.path.basename(repository.common) == ".git"
    return os.path.dirname(repository.common) if is_main else repository.common


def local_place(url: str) -> str | None:
    """The directory of a remote on this machine, or None if it is elsewhere. git would use its configuration."""
    if url.startswith("file://"):
        return os.path.normpath(unquote(urlsplit(url).path))
    is_path = "://" not in url and (url.startswith("/") or ":" not in url.split("/", 1)[0])
    return os.path.normpath(url) if is_path else None


def shown_url(url: str) -> str:
    """The URL without the name and the password of a user."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return folded(url, 200)
    host, slash, path = rest.partition("/")
    return folded(f"{scheme}://{host.rpartition('@')[2]}{slash}{path}", 200)


def as_remote(url: str) -> Mapping[str, str]:
    """The variables with which git knows the URL as the remote FETCHED: not in its command line, which all may read."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"remote.{FETCHED}.url",
        "GIT_CONFIG_VALUE_0": url,
    }
