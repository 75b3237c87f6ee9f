"""Fills the submodules of a new worktree, from the objects of the main directory where it has them, else from the URL.

Their git directories are made here and not by `git submodule`, which would run what their configurations name.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import urljoin

from sm.capabilities.worktrees.git.calls import git
from sm.capabilities.worktrees.git.git_config import GitSetting, parse_git_config, write_git_config
from sm.capabilities.worktrees.git.linked import write_links
from sm.capabilities.worktrees.git.long_commands import Report, git_with_progress
from sm.capabilities.worktrees.git.remotes import FETCHED, as_remote, relative_base, shown_url
from sm.capabilities.worktrees.git.submodules import links_in_index
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError, SmError
from sm.linux.files import read_file
from sm.linux.parent_death import die_with_parent
from sm.linux.repositories import Repository, UnreadableRepository, repository_at

_DEPTH_MAX = 5
_MODULES_MAX = 1 << 20
_COPY_S = 600.0


@dataclass(frozen=True, slots=True)
class _Submodule:
    """A submodule at `path` in the worktree. `commit`: the one that the worktree has."""

    path: str
    commit: str
    name: str
    url: str


def fill_submodules(
    top: str, main: str | None, report: Report, cancelled: threading.Event, within_s: float, depth: int = 1
) -> list[str]:
    """Fill the submodules of the worktree `top`, also those in them. Returns notes about those that stay empty.

    `main`: the same directory in the main worktree, or None if it has none. Raises Cancelled.
    """
    notes = list[str]()
    repository = repository_at(top)
    if repository is None:
        return notes
    for submodule in _submodules(top, repository, notes):
        report(f"filling the submodule {folded(submodule.path, 200)}", None)
        inside = f"{top}/{submodule.path}"
        above = None if main is None else f"{main}/{submodule.path}"
        try:
            _fill(submodule, inside, repository, above, report, cancelled, within_s)
        except (SmError, OSError) as error:
            why = error.message if isinstance(error, SmError) else error.strerror
            notes.append(f"the submodule {folded(submodule.path, 200)} is empty: {why}")
            continue
        if depth < _DEPTH_MAX:
            nested = fill_submodules(inside, above, report, cancelled, within_s, depth + 1)
            notes += [f"{folded(submodule.path, 200)}: {note}" for note in nested]
    return notes


def _submodules(top: str, repository: Repository, notes: list[str]) -> Iterator[_Submodule]:
    links = links_in_index(top)
    if not links:
        return
    try:
        settings = parse_git_config(read_file(f"{top}/.gitmodules", _MODULES_MAX).data)
    except (OSError, ValueError) as error:
        notes.append(f"the submodules are empty: .gitmodules cannot be read: {folded(str(error), 200)}")
        return
    found: dict[str, dict[str, str]] = {}
    for setting in settings:
        if setting.section == "submodule" and setting.name in ("path", "url") and setting.value:
            found.setdefault(setting.subsection, {})[setting.name] = setting.value
    known = _settings_of(repository)
    chosen = {s.subsection: s.value for s in known if (s.section, s.name) == ("submodule", "url")}
    for name, values in found.items():
        path = values.get("path", "").rstrip("/")
        if path not in links:
            continue
        # As in git, the repository's own configuration counts before .gitmodules.
        named = chosen.get(name) or values.get("url", "")
        url = _absolute(named, _base_url(known, repository))
        if url is None or not _is_safe(name):
            notes.append(
                f"the submodule {folded(path, 200)} is empty: sm does not use its name or its URL: "
                f"{shown_url(named)}"
            )
        else:
            yield _Submodule(path, links[path], name, url)


def _is_safe(name: str) -> bool:
    """True for a name that is a path below the directory of submodules."""
    return name.isprintable() and not name.startswith(("/", "-")) and ".." not in name.split("/")


def _absolute(url: str, base: str | None) -> str | None:
    """The URL, or None for one that could be an option or a program. `base`: at which a relative one begins."""
    if url.startswith(("./", "../")):
        if base is None:
            return None
        if "://" in base:
            url = urljoin(f"{base.rstrip('/')}/", url)
        else:
            host, colon, path = base.rpartition(":")
            url = f"{host}{colon}{os.path.normpath(os.path.join(path, url))}"
    return url if url and url.isprintable() and not url.startswith("-") and "::" not in url else None


def _base_url(settings: Sequence[GitSetting], repository: Repository) -> str | None:
    """The URL at which relative ones begin, as in git: that of the remote, else the directory of the repository."""
    remotes = {s.subsection: s.value for s in settings if (s.section, s.name) == ("remote", "url")}
    if "origin" in remotes or len(remotes) == 1:
        url = remotes.get("origin") or next(iter(remotes.values()))
        if url is not None and url.startswith(("./", "../")):
            return os.path.join(relative_base(repository), url)
        return url
    top, name = os.path.split(repository.common)
    return top if name == ".git" and not remotes else None


def _settings_of(repository: Repository) -> Sequence[GitSetting]:
    try:
        return parse_git_config(repository.config())
    except (UnreadableRepository, ValueError):
        return ()


def _fill(
    submodule: _Submodule,
    inside: str,
    repository: Repository,
    main: str | None,
    report: Report,
    cancelled: threading.Event,
    within_s: float,
) -> None:
    """Raises ExternalError, OSError and Cancelled, with an empty directory left behind."""
    if os.path.realpath(inside) != inside or (os.path.isdir(inside) and os.listdir(inside)):
        raise ExternalError("its directory is not empty, or a link")
    own = f"{repository.own}/modules/{submodule.name}"
    os.makedirs(own)
    try:
        _make_git_directory(own, inside, submodule, main)
        os.makedirs(inside, exist_ok=True)
        write_links(inside, own)
        os.unlink(f"{own}/gitdir")  # only of linked worktrees
        if not _has(inside, submodule.commit):
            git_with_progress(
                inside,
                *(
                    "fetch",
                    "--progress",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--no-recurse-submodules",
                    "--",
                ),
                *(FETCHED, "+refs/heads/*:refs/remotes/origin/*"),
                report=report,
                cancelled=cancelled,
                within_s=within_s,
                variables=as_remote(submodule.url),
                # Whoever wrote the base could name any repository of this machine.
                network="https:http:ssh",
            )
        if not _has(inside, submodule.commit):
            raise ExternalError(
                f"no branch of {shown_url(submodule.url)} has the commit {submodule.commit[:12]}"
            )
        git_with_progress(
            inside,
            *("checkout", "--progress", "--force", "--no-recurse-submodules", "--detach", submodule.commit),
            report=report,
            cancelled=cancelled,
            within_s=within_s,
        )
    except BaseException:
        shutil.rmtree(inside, ignore_errors=True)
        os.makedirs(inside, exist_ok=True)
        shutil.rmtree(own, ignore_errors=True)
        raise


def _make_git_directory(own: str, inside: str, submodule: _Submodule, main: str | None) -> None:
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        os.makedirs(f"{own}/{name}")
    settings = [
        GitSetting("core", "", "repositoryformatversion", "0"),
        GitSetting("core", "", "bare", "false"),
        GitSetting("core", "", "worktree", os.path.relpath(inside, own)),
        GitSetting("remote", "origin", "url", submodule.url),
        GitSetting("remote", "origin", "fetch", "+refs/heads/*:refs/remotes/origin/*"),
    ]
    _write(f"{own}/config", write_git_config(settings))
    _write(f"{own}/HEAD", f"{submodule.commit}\n".encode())
    there = None
    if main is not None and os.path.realpath(main) == main:  # no link to another repository
        there = repository_at(main)
    if there is not None and not os.path.lexists(f"{there.common}/objects/info/alternates"):
        _copy(f"{there.common}/objects/.", f"{own}/objects")
        for name in ("refs/remotes", "packed-refs"):
            if os.path.exists(f"{there.common}/{name}"):
                _copy(f"{there.common}/{name}", f"{own}/{os.path.dirname(name)}")


def _copy(source: str, target: str) -> None:
    """Copy a directory or a file, as hard links where that is possible: objects of git never change."""
    words = ("cp", "--archive", "--no-dereference")
    for link in (("--link",), ()):
        done = subprocess.run(
            [*words, *link, "--", source, target],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent(),
            timeout=_COPY_S,
            check=False,
        )
        if not done.returncode:
            return
    raise ExternalError(f"cannot copy its objects: {folded(done.stderr.decode('utf-8', 'replace'), 200)}")


def _has(inside: str, commit: str) -> bool:
    with suppress(ExternalError):
        git(inside, "cat-file", "-e", f"{commit}^{{commit}}")
        return True
    return False


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
