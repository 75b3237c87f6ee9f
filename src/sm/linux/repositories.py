"""Finds the directories of a git repository by reading files, without running git: somebody else may have written them.

Every read is bounded. A path in the answers is real: no symbolic link leads to it.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from sm.core.dataclass import dataclass
from sm.linux.files import read_file

_LINE_MAX = 4096
_ALTERNATES_MAX = 64 * 1024
_STORES_MAX = 64
_DEPTH_MAX = 6
"""git follows five alternates of alternates (object-file.c)."""
_ENTRIES_MAX = 4096
_CONFIG_MAX = 1 << 20


class UnreadableRepository(ValueError):
    """A file that leads git elsewhere cannot be read, or there are too many of them. The text says which."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The directories that git uses for one worktree."""

    top: str | None
    """The directory with the files, or None if there are only git's own."""
    own: str
    """The git directory of this worktree: its HEAD and its index."""
    common: str
    """The git directory that all worktrees share: configuration, objects and branches."""

    @property
    def is_linked(self) -> bool:
        return self.own != self.common

    def config(self) -> bytes:
        """The configuration that all worktrees share. Raises UnreadableRepository."""
        return _config(f"{self.common}/config")

    def worktree_config(self) -> bytes:
        """The configuration of this worktree, which git reads with `extensions.worktreeConfig`."""
        return _config(f"{self.own}/config.worktree")


def find_repository(directory: str) -> Repository | None:
    """The repository around a directory, as git finds it, or None if there is none.

    A git directory is found by its own path or from its worktree, never from below: as `safe.bareRepository=explicit`.
    Raises UnreadableRepository.
    """
    path = os.path.realpath(directory)
    if not os.path.isdir(path):
        return None
    if _is_git_directory(path):
        return _by_git_directory(path)
    device = os.stat(path).st_dev
    while True:
        if (found := repository_at(path)) is not None:
            return found
        above = os.path.dirname(path)
        if above == path or os.stat(above).st_dev != device:
            return None
        path = above


def repository_at(top: str) -> Repository | None:
    """The repository whose worktree is at `top`, a real path. Raises UnreadableRepository."""
    entry = f"{top}/.git"
    try:
        mode = os.stat(entry).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        own = os.path.realpath(entry)
    else:
        text = _line(entry)
        if not text.startswith("gitdir: "):
            raise UnreadableRepository(f"{entry} names no git directory")
        own = os.path.realpath(os.path.join(top, text.removeprefix("gitdir: ")))
    if not _is_git_directory(own):
        if stat.S_ISDIR(mode):
            return None
        raise UnreadableRepository(f"{entry} names {own}, which is no git directory")
    return Repository(top, own, _common_of(own))


def places_of(repository: Repository) -> tuple[str, ...]:
    """Every place that git reads or writes for a worktree: whoever writes one of them has a part in what git does.

    Two levels of symbolic links in the git directories, and all stores of objects (`objects/info/alternates`). Raises
    UnreadableRepository.
    """
    found = [path for path in (repository.top, repository.own, repository.common) if path is not None]
    for directory in dict.fromkeys((repository.own, repository.common)):
        found += _links(directory)
        for name in ("objects", "refs", "worktrees", "modules", "info", "logs"):
            found += _links(f"{directory}/{name}")
    if repository.top is not None:
        found.append(os.path.realpath(f"{repository.top}/.git"))
    found += _stores(os.path.realpath(f"{repository.common}/objects"))
    return tuple(dict.fromkeys(found))


def has_commit(repository: Repository) -> bool:
    """Return whether HEAD names a commit. A ref that cannot be read names none."""
    with suppress(UnreadableRepository):
        text = _line(f"{repository.own}/HEAD")
        if not text.startswith("ref: "):
            return bool(text)
        name = text.removeprefix("ref: ").strip()
        if not name.startswith("refs/") or ".." in name:
            return False
        with suppress(UnreadableRepository):
            return bool(_line(f"{repository.common}/{name}"))
        with suppress(OSError):
            packed = read_file(f"{repository.common}/packed-refs", 64 << 20).data
            return any(line.endswith(b" " + os.fsencode(name)) for line in packed.splitlines())
    return False


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory of a repository with files: its main one, or a linked worktree."""

    top: str
    branch: str | None
    """The branch that is checked out, or None for a commit without one."""


def checkouts(repository: Repository, *, is_bare: bool) -> Iterator[Checkout]:
    """All directories in which a branch of the repository is checked out. Leaves out what cannot be read.

    `is_bare`: the configuration says so, and the repository has no main directory.
    """
    common = repository.common
    with suppress(UnreadableRepository):
        if os.path.basename(common) == ".git" and not is_bare:
            yield Checkout(os.path.dirname(common), _branch_of(common))
    with suppress(OSError), os.scandir(f"{common}/worktrees") as entries:
        for entry in islice(entries, _ENTRIES_MAX):
            with suppress(UnreadableRepository):
                top = os.path.dirname(os.path.join(entry.path, _line(f"{entry.path}/gitdir")))
                yield Checkout(os.path.normpath(top), _branch_of(entry.path))


def _branch_of(own: str) -> str | None:
    for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
        with suppress(UnreadableRepository):  # the branch that the operation returns to
            return _line(f"{own}/{name}").removeprefix("refs/heads/").strip()
    text = _line(f"{own}/HEAD")
    return text.removeprefix("ref: refs/heads/").strip() if text.startswith("ref: refs/heads/") else None


def _by_git_directory(path: str) -> Repository:
    """For a git directory that the caller names: its worktree is known only where both name each other."""
    common = _common_of(path)
    if path == common and os.path.basename(path) == ".git":
        top = os.path.dirname(path)
    else:
        with suppress(UnreadableRepository):
            top = os.path.dirname(os.path.join(path, _line(f"{path}/gitdir")))
            if (found := repository_at(os.path.realpath(top))) is not None and found.own == path:
                return found
        return Repository(None, path, common)
    return Repository(top, path, common)


def _common_of(own: str) -> str:
    if not os.path.lexists(f"{own}/commondir"):
        return own
    common = os.path.realpath(os.path.join(own, _line(f"{own}/commondir")))
    if not os.path.isdir(f"{common}/objects"):
        raise UnreadableRepository(f"{own}/commondir names {common}, which is no git directory")
    return common


def _is_git_directory(path: str) -> bool:
    if not os.path.lexists(f"{path}/HEAD"):
        return False
    if os.path.lexists(f"{path}/commondir"):
        return True
    return os.path.isdir(f"{path}/objects") and os.path.isdir(f"{path}/refs")


def _line(path: str) -> str:
    """The only line of a small file. Raises UnreadableRepository, also for a link."""
    try:
        content = read_file(path, _LINE_MAX)
    except OSError as error:
        raise UnreadableRepository(f"{path} cannot be read: {error.strerror}") from None
    text = os.fsdecode(content.data).rstrip("\r\n")
    if content.cut or "\n" in text or "\0" in text:
        raise UnreadableRepository(f"{path} has more than a short line")
    return text


def _config(path: str) -> bytes:
    try:
        content = read_file(path, _CONFIG_MAX)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UnreadableRepository(f"{path} cannot be read: {error.strerror}") from None
    if content.cut:
        raise UnreadableRepository(f"{path} has more than {_CONFIG_MAX} bytes")
    return content.data


def _links(directory: str) -> Iterator[str]:
    """The real paths of the symbolic links in a directory, and its own."""
    yield os.path.realpath(directory)
    try:
        with os.scandir(directory) as entries:
            for number, entry in enumerate(islice(entries, _ENTRIES_MAX + 1)):
                if number == _ENTRIES_MAX:
                    raise UnreadableRepository(f"{directory} has more than {_ENTRIES_MAX} entries")
                if entry.is_symlink():
                    yield os.path.realpath(entry.path)
    except OSError:
        return


def _stores(objects: str) -> Sequence[str]:
    """A store of objects and those that it borrows from, as git follows them."""
    found = {objects: None}
    waiting = [(objects, 0)]
    while waiting:
        store, depth = waiting.pop()
        try:
            content = read_file(f"{store}/info/alternates", _ALTERNATES_MAX)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UnreadableRepository(f"{store}/info/alternates cannot be read: {error.strerror}") from None
        if content.cut or depth > _DEPTH_MAX:
            raise UnreadableRepository(f"{store}/info/alternates leads to too many stores of objects")
        for line in os.fsdecode(content.data).split("\n"):
            if not line or line.startswith("#"):
                continue
            if line.startswith('"') or "\0" in line:
                raise UnreadableRepository(f"{store}/info/alternates has a quoted path")
            path = os.path.realpath(os.path.join(store, line))
            if path not in found:
                found[path] = None
                waiting.append((path, depth + 1))
                if len(found) > _STORES_MAX:
                    raise UnreadableRepository(
                        f"{objects}/info/alternates leads to too many stores of objects"
                    )
    return tuple(found)
