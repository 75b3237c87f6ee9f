"""Finds commits of a repository that certainly come from a remote, although no remote branch has them.

A clone of a tag, a mirror and a bare clone have no remote branches. Git notes where commits come from in `FETCH_HEAD`,
in the log of a clone, and in the refs that a clone packs.
"""

import os
import re
from collections.abc import Iterable, Iterator

from sm.capabilities.worktrees.git.calls import git, repository_around
from sm.capabilities.worktrees.git.remotes import local_place, remote_urls
from sm.linux.files import read_file
from sm.linux.repositories import Repository, UnreadableRepository, find_repository
from sm.paths import is_within

_READ_MAX = 16 << 20
_NAME = "[0-9a-f]{40}|[0-9a-f]{64}"
_FETCHED = re.compile(rf"({_NAME})\t(?:not-for-merge)?\t(?:.*?' of )?(.+)")
"""A line of `FETCH_HEAD`: the URL is at the end, behind the name of a ref, which has no blank."""
_CLONED = re.compile(rf"0+ ({_NAME}) [^\t]*\tclone: from (.+)")
_PACKED = re.compile(rf"({_NAME}) (refs/\S+)")
_COLLECTED = ("packs", "commit-graph", "commit-graphs")
"""Files in `objects/info` after garbage collection, which packs local refs too."""


def fetched_commits(directory: str, outside: str) -> list[str]:
    """The commits and tags that a remote had, of those that the repository has.

    `outside`: remotes in this directory do not count, as they are removed too. Raises ExternalError and IllegalState.
    """
    repository = repository_around(directory)
    names = [name for name, url in _noted(repository) if _is_elsewhere(url, directory, outside)]
    urls = remote_urls(repository).values()
    if urls and all(_is_elsewhere(url, directory, outside) for url in urls):
        sources = [place for url in urls if (place := _place(url, directory)) is not None]
        names += (name for name in _packed(repository) if not _is_made_here(repository, name, sources))
    return _present(directory, dict.fromkeys(names))


def _noted(repository: Repository) -> Iterator[tuple[str, str]]:
    """The names of commits and tags, with the URLs that git notes beside them."""
    for line in _lines(f"{repository.own}/FETCH_HEAD"):
        if (match := _FETCHED.fullmatch(line)) is not None:
            yield match[1], match[2]
    first = next(iter(_lines(f"{repository.own}/logs/HEAD")), "")
    if (match := _CLONED.fullmatch(first)) is not None:
        yield match[1], match[2]


def _packed(repository: Repository) -> list[str]:
    """The refs that a clone has packed: all of a bare one, the tags of another. None if a later command packed some."""
    if any(os.path.lexists(f"{repository.common}/objects/info/{name}") for name in _COLLECTED):
        return []
    found = [
        match for line in _lines(f"{repository.common}/packed-refs") if (match := _PACKED.fullmatch(line))
    ]
    if repository.top is None:
        return [match[1] for match in found]
    if any(match[2].startswith("refs/heads/") for match in found):
        return []
    return [match[1] for match in found if match[2].startswith("refs/tags/")]


def _is_made_here(repository: Repository, name: str, sources: Iterable[str]) -> bool:
    """True for an object that no clone has brought: in a file of its own that no local remote has.

    A clone gets a pack, or the files of a local remote. `git pack-refs` packs local refs too.
    """
    file = f"objects/{name[:2]}/{name[2:]}"
    if not os.path.lexists(f"{repository.common}/{file}"):
        return False
    return not any(os.path.lexists(f"{found.common}/{file}") for found in map(_repository, sources) if found)


def _repository(place: str) -> Repository | None:
    try:
        return find_repository(place)
    except UnreadableRepository:
        return None


def _lines(path: str) -> list[str]:
    try:
        content = read_file(path, _READ_MAX)
    except OSError:
        return []
    lines = os.fsdecode(content.data).split("\n")
    return lines[:-1] if content.cut else lines


def _is_elsewhere(url: str, directory: str, outside: str) -> bool:
    """True for a remote that stays when the directory `outside` is removed.

    Not for the repository of a worktree there: its branches are removed with their sessions.
    """
    place = _place(url, directory)
    if place is None:
        return True
    if is_within(place, outside) or not os.path.isdir(place):
        return False
    try:
        found, around = find_repository(place), find_repository(outside)
    except UnreadableRepository:
        return False
    return found is None or around is None or found.common != around.common


def _place(url: str, directory: str) -> str | None:
    """The directory of a remote on this machine, or None if it is elsewhere."""
    place = local_place(url)
    if place is None:
        return None
    place = os.path.realpath(os.path.join(directory, place))
    # Git leaves out the ending `.git` of URLs in FETCH_HEAD.
    return place if os.path.isdir(place) else f"{place}.git"


def _present(directory: str, names: Iterable[str]) -> list[str]:
    text = "".join(f"{name}\n" for name in names)
    if not text:
        return []
    listed = git(directory, "cat-file", "--batch-check=%(objectname) %(objecttype)", text=text.encode())
    words = (line.split(" ") for line in listed.split("\n"))
    return [name for name, kind, *_ in words if kind in ("commit", "tag")]
