"""Protects files of a workspace that programs of this machine execute: hooks, settings of git, editors and agents.

What exists when the container is made is mounted over itself read-only. Its parent directories are mounted over
themselves too, because an agent could otherwise rename `.git` and make another one in its place. What does not exist,
and what is behind a symbolic link, cannot be protected in this way: `appeared` finds what a session made of it.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from sm.core.dataclass import dataclass
from sm.linux.files import read_or_empty, replace_private, stat_without_links
from sm.paths import InstancePaths, is_within
from sm.sandboxes.git_directory import LinkedWorktree, linked_worktree
from sm.sandboxes.path_map import Mount, PathMap

_ENTRIES_MAX = 1000
_GIT_ALSO = ("commondir", "config.worktree", "info")
"""With the files git uses another directory, or more settings; `info/attributes` names filters for files."""
_MODULES_MAX = 100
_MODULES_DEPTH = 8
_BYTES_MAX = 1 << 20
_SUFFIX = ".protected"


@dataclass(frozen=True, slots=True)
class Protected:
    """A path that agents must not change, in the directory `base`, which agents can write."""

    base: str
    path: str

    @property
    def parents(self) -> Iterator[str]:
        """The directories between `base` and `path`, outermost first."""
        names = self.path[len(self.base) + 1 :].split("/")
        for count in range(1, len(names)):
            yield "/".join((self.base, *names[:count]))


def protected_paths(directory: str, protect: Sequence[str]) -> tuple[Protected, ...]:
    """The paths that `sandbox.protect` means for a workspace at `directory`, a real path. They may not exist."""
    worktree = linked_worktree(directory)
    found = [Protected(directory, f"{directory}/{name}") for name in protect if not _is_of_git(name)]
    names = [name.removeprefix(".git/") for name in protect if _is_of_git(name)]
    if names:
        found += _of_git(directory, worktree, (*names, *_GIT_ALSO))
        if is_git_directory(directory):  # of a mount; a workspace has its files around one
            found += _of_git_directory(directory, directory, (*names, *_GIT_ALSO))
    return tuple(dict.fromkeys(found))


def writable_within(directory: str) -> str | None:
    """The directory that agents must be able to write below a protected one: that of their own linked worktree."""
    worktree = linked_worktree(directory)
    return None if worktree is None else worktree.own


def _is_of_git(name: str) -> bool:
    return name.startswith(".git/")


def _of_git(directory: str, worktree: LinkedWorktree | None, names: Sequence[str]) -> Iterator[Protected]:
    if worktree is None:
        if not _is_directory(f"{directory}/.git"):
            yield Protected(directory, f"{directory}/.git")  # a file could name another repository
        yield from _of_git_directory(directory, f"{directory}/.git", names)
        return
    # An agent could make git use another repository with these files.
    yield Protected(directory, f"{directory}/.git")
    # The files of other worktrees: their agents may run on the host.
    yield Protected(worktree.common, f"{worktree.common}/worktrees")
    for name in (*_GIT_ALSO[:2], "gitdir"):
        yield Protected(worktree.common, f"{worktree.own}/{name}")
    yield from _of_modules(worktree.common, f"{worktree.own}/modules", names)
    yield from _of_git_directory(worktree.common, worktree.common, names)


def _of_git_directory(base: str, git_directory: str, names: Sequence[str]) -> Iterator[Protected]:
    yield from (Protected(base, f"{git_directory}/{name}") for name in names)
    yield from _of_modules(base, f"{git_directory}/modules", names)


def _of_modules(base: str, modules: str, names: Sequence[str]) -> Iterator[Protected]:
    """The same in the git directories of submodules; all of `modules` when there are too many."""
    found = list(islice(_git_directories(modules, _MODULES_DEPTH), _MODULES_MAX + 1))
    if None in found or len(found) > _MODULES_MAX:
        yield Protected(base, modules)
        return
    yield from (Protected(base, f"{directory}/{name}") for directory in found for name in names)


def _git_directories(directory: str, depth: int) -> Iterator[str | None]:
    """The git directories below a directory, without links, or None if there may be more of them deeper."""
    if depth == 0:
        yield None
        return
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in islice(entries, _ENTRIES_MAX):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if is_git_directory(entry.path):
                yield entry.path
                yield from _git_directories(f"{entry.path}/modules", depth - 1)
            else:
                yield from _git_directories(entry.path, depth - 1)


def is_git_directory(path: str) -> bool:
    """Return whether git would take the directory for one of its own."""
    return os.path.lexists(f"{path}/HEAD") and _is_directory(f"{path}/objects")


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def is_mountable(protected: Protected) -> bool:
    """Return whether the path exists as a file or a directory that no symbolic link leads to."""
    try:
        mode = stat_without_links(protected.path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def fingerprints(directory: str, protect: Sequence[str]) -> dict[str, str]:
    """The state of every protected path of a workspace, by path: for `appeared`, at the start of a session."""
    return {found.path: _fingerprint(found) for found in protected_paths(directory, protect)}


def appeared(
    directory: str, protect: Sequence[str], at_start: Mapping[str, str], mounts: Sequence[Mount] = ()
) -> tuple[str, ...]:
    """The protected paths that were made, replaced or changed since `at_start`.

    `mounts`: those of the container; no agent could change what is read-only there. `at_start` is the answer of
    `fingerprints`. A linked worktree may have become another one: every path of both answers counts.
    """
    paths = PathMap(mounts)
    now = fingerprints(directory, protect)
    return tuple(
        path
        for path in sorted(at_start.keys() | now.keys())
        if now.get(path, "") != at_start.get(path, "")
        and now.get(path)
        and ((mount := paths.mount_of(path)) is None or mount.writable)
    )


def _fingerprint(protected: Protected) -> str:
    """A text that differs after every change; empty if there is nothing."""
    try:
        parts = [_identity(os.lstat(protected.path))]
    except OSError:
        return ""
    real = os.path.realpath(protected.path)
    parts.append(real)
    if is_within(real, protected.base):  # agents cannot change what a link to another place leads to
        parts += _content(real)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _content(path: str) -> Iterator[str]:
    """A text for a file, and for each file of a directory, but not for those in deeper directories."""
    with suppress(OSError):
        status = os.stat(path)
        yield _identity(status)
        if not stat.S_ISDIR(status.st_mode):
            return
        with os.scandir(path) as entries:
            for entry in sorted(islice(entries, _ENTRIES_MAX), key=lambda entry: entry.name):
                yield f"{entry.name}:{_identity(entry.stat(follow_symlinks=False))}"


def _identity(status: os.stat_result) -> str:
    return f"{status.st_ino}:{status.st_ctime_ns}"


class ProtectionRecords:
    """One file for each session in the daemon's own launch directory, which no container sees. All methods block."""

    def __init__(self, paths: InstancePaths) -> None:
        self._directory = paths.launch

    def remember(self, session_id: str, directories: Sequence[str], protect: Sequence[str]) -> None:
        """Replace the record of the session. `directories`: those that it can write. Raises OSError."""
        os.makedirs(self._directory, 0o700, exist_ok=True)
        # ASCII, so that a name that is not UTF-8 comes back as it was.
        found = dict[str, str]()
        for directory in directories:
            found |= fingerprints(directory, protect)
        replace_private(self._file(session_id), json.dumps(found).encode("ascii"))

    def appeared(
        self, session_id: str, directories: Sequence[str], protect: Sequence[str], mounts: Sequence[Mount]
    ) -> tuple[str, ...]:
        """The paths that were made or changed since `remember`; empty for a session without a record."""
        try:
            at_start = json.loads(read_or_empty(self._file(session_id), _BYTES_MAX))
        except ValueError:
            return ()
        found = (appeared(directory, protect, at_start, mounts) for directory in directories)
        return tuple(dict.fromkeys(path for paths in found for path in paths))

    def forget(self, session_id: str) -> None:
        """Idempotent."""
        with suppress(FileNotFoundError):
            os.unlink(self._file(session_id))

    def _file(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}{_SUFFIX}"
