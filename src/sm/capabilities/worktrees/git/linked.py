"""Adds linked worktrees to a repository through the git directory that git gets here, and removes them."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress

from sm.capabilities.worktrees.git.calls import git, repository_around
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.mount_points import mount_points
from sm.paths import is_within

_REMOVAL = "sm-removal"
"""A file in the git directory of a worktree whose removal has begun."""
_LINK_MAX = 8192


def add_linked(
    source: str, common: str, path: str, *words: str, made: Callable[[str], object] = lambda own: None
) -> str:
    """Add an empty worktree at `path`. `words`: options and the commit of `git worktree add`.

    `made`: gets the git directory of the worktree before the worktree names it. Returns it too. Raises ExternalError,
    and OSError.
    """
    git(source, "worktree", "add", "--quiet", "--no-checkout", *words)
    # git wrote the path of the directory that it got.
    with open(f"{path}/.git", encoding="utf-8", errors="surrogateescape") as file:
        own = f"{common}/worktrees/{os.path.basename(file.read().rstrip())}"
    made(own)
    write_links(path, own)
    return own


def remove_linked(path: str) -> None:
    """Remove a linked worktree with all its files, and let the repository forget it. There is no time limit.

    The link to its repository goes last: a removal that was stopped halfway can be continued. Raises IllegalState for a
    worktree that is locked, or with a mount in it. Raises ExternalError if a file cannot be removed.
    """
    repository, name = repository_around(path), _REMOVAL
    check_removable(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        os.close(os.open(f"{repository.own}/{_REMOVAL}", flags, 0o666))
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in os.listdir(directory):
                if name != ".git":
                    _remove_entry(name, directory)
            os.unlink(name := ".git", dir_fd=directory)
        finally:
            os.close(directory)
        os.rmdir(path)
    except OSError as error:
        what = folded(os.fsdecode(error.filename or name), 200)
        raise ExternalError(f"cannot remove {what}: {error.strerror}") from None
    forget_linked(repository.common, path)


def check_removable(path: str) -> None:
    """Raise IllegalState for a worktree that is locked, or with a mount in it, and ExternalError for none at all."""
    repository = repository_around(path)
    # Else whoever wrote `.git` here has chosen which worktree git forgets.
    if repository.top != path or not repository.is_linked or not _names(repository.own, path):
        raise IllegalState("it and its git directory do not name each other")
    if os.path.lexists(f"{repository.own}/locked"):
        raise IllegalState("it is locked; to unlock it: git worktree unlock")
    for mount in mount_points(os.getpid()) or ():
        if is_within(mount, path):
            raise IllegalState(f"something is mounted at {folded(mount, 4096)}")


def _remove_entry(name: str, directory: int) -> None:
    """Remove a file, or a directory with its files. Follows no link."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=directory)


def is_half_removed(own: str) -> bool:
    """True if the removal of the worktree with this git directory has begun: files that are gone are no work."""
    return os.path.isfile(f"{own}/{_REMOVAL}")


def forget_linked(common: str, path: str) -> None:
    """Let the repository forget the worktree at this path, whose directory is gone, and no other one."""
    for own in missing_linked(common, path):
        shutil.rmtree(own, ignore_errors=True)


def missing_linked(common: str, path: str) -> list[str]:
    """The git directories that the repository has for a worktree at this path, whose directory is missing."""
    if os.path.lexists(f"{path}/.git"):
        return []
    with suppress(OSError), os.scandir(f"{common}/worktrees") as entries:
        return [entry.path for entry in entries if _names(entry.path, path)]
    return []


def contains_linked(common: str, path: str) -> bool:
    """True if the repository has another worktree inside of the one at this path. Raises ExternalError."""
    try:
        with os.scandir(f"{common}/worktrees") as entries:
            return any(
                (_link_of(entry.path) or "").startswith(f"{path}/")
                for entry in entries
                if not _names(entry.path, path)
            )
    except OSError as error:
        raise ExternalError(f"cannot read {folded(common, 4096)}/worktrees: {error.strerror}") from None


def _names(own: str, path: str) -> bool:
    """True if the git directory of a worktree names the one at this path."""
    return _link_of(own) == f"{path}/.git"


def _link_of(own: str) -> str | None:
    """The `.git` of the worktree that its git directory names. None if that cannot be read."""
    try:
        with open(f"{own}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
            named = file.read(_LINK_MAX).rstrip("\n")
    except OSError:
        return None
    return os.path.normpath(os.path.join(own, named))


def write_links(path: str, own: str) -> None:
    """Let the worktree and its git directory name each other."""
    _write(f"{path}/.git", f"gitdir: {own}\n")
    _write(f"{own}/gitdir", f"{path}/.git\n")


def write_head(own: str, branch: str) -> None:
    """Let the git directory of a worktree be on a branch, which may have no commit."""
    _write(f"{own}/HEAD", f"ref: refs/heads/{branch}\n")
    _write(f"{own}/commondir", "../..\n")


def _write(path: str, text: str) -> None:
    """Write a small file as a whole: a process that is killed here, or a full disk, leaves no empty one."""
    data = os.fsencode(text)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        # Over the former text, and blank lines for the rest of that, which git ignores.
        os.pwrite(descriptor, data.ljust(os.fstat(descriptor).st_size, b"\n"), 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
