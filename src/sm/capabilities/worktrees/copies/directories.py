"""Reads and changes files of a directory that somebody else may change meanwhile. Follows no link below it."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.capabilities.worktrees.copies.bases import EXECUTABLE, LINK, REGULAR, TreeEntry
from sm.capabilities.worktrees.copies.three_way import Found, PathObstacle, Subdirectory
from sm.linux.files import regular_file

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class ChangedMeanwhile(Exception):
    """A path is not as it was when the merge was planned. Nothing of it was changed."""


class _Blocked(Exception):
    def __init__(self, at: str, *, is_link: bool) -> None:
        super().__init__(at)
        self.obstacle = PathObstacle(at, is_link)


class PlainDirectory:
    """A directory, by a descriptor. `temporary`: the name of files that are being written, beside their places."""

    def __init__(self, descriptor: int, temporary: str) -> None:
        self._descriptor = descriptor
        self._temporary = temporary

    def look(self, path: str) -> Found:
        """Find the file, link or directory at a path. Raises OSError for what cannot be read."""
        try:
            with self._parent(path) as (parent, name):
                return _found_in(parent, name, path)
        except FileNotFoundError:
            return None
        except _Blocked as blocked:
            return blocked.obstacle

    def content(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""
        with self._parent(path) as (parent, name), regular_file(name, directory=parent) as descriptor:
            return b"".join(_pieces(descriptor))

    def mode(self, path: str) -> int | None:
        """The permissions of a file, or None if there is none."""
        try:
            with self._parent(path) as (parent, name):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, _Blocked):
            return None
        return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None

    def delete(self, path: str, before: TreeEntry) -> None:
        """Delete a file that is as `before`, and the directories that it leaves empty.

        Raises ChangedMeanwhile, and OSError.
        """
        try:
            with self._parent(path) as (parent, name):
                if _found_in(parent, name, path) != before:
                    raise ChangedMeanwhile(path)
                os.unlink(name, dir_fd=parent)
        except (FileNotFoundError, _Blocked):
            raise ChangedMeanwhile(path) from None
        while path := os.path.dirname(path):
            with self._parent(path) as (parent, name):
                try:
                    os.rmdir(name, dir_fd=parent)
                except OSError:
                    return

    def write(
        self, path: str, before: TreeEntry | None, after: TreeEntry, content: bytes, mode: int | None
    ) -> None:
        """Put a file or a link in the place of `before`, at one stroke.

        `mode`: the permissions of a new file. Raises ChangedMeanwhile, and OSError.
        """
        try:
            with self._parent(path, make=True) as (parent, name):
                found = _found_in(parent, name, path)
                if isinstance(found, Subdirectory) and not found.files:
                    _remove_empty(parent, name)
                    found = None
                if found != before:
                    raise ChangedMeanwhile(path)
                self.clear(path)
                if after.mode == LINK:
                    os.symlink(content, os.fsencode(self._temporary), dir_fd=parent)
                else:
                    permissions = _permissions(parent, name, after, mode)
                    _write_file(parent, self._temporary, after, content, permissions)
                self._place(parent, name, path, before)
        except _Blocked:
            raise ChangedMeanwhile(path) from None

    def clear(self, path: str) -> None:
        """Delete the temporary file that a killed merge has left beside a path."""
        with suppress(FileNotFoundError, _Blocked), self._parent(path) as (parent, _):
            os.unlink(self._temporary, dir_fd=parent)

    def _place(self, parent: int, name: str, path: str, before: TreeEntry | None) -> None:
        try:
            if before is None:
                try:  # it replaces nothing that has come since
                    os.link(
                        self._temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False
                    )
                    return
                except FileExistsError:
                    raise ChangedMeanwhile(path) from None
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
            if _found_in(parent, name, path) != before:
                raise ChangedMeanwhile(path)
            os.rename(self._temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The directory around a path, as a descriptor, and the name in it. `make`: make the directories."""
        *above, name = path.split("/")
        current = os.dup(self._descriptor)
        try:
            for depth, part in enumerate(above, 1):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=current)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                        raise
                    status = os.stat(part, dir_fd=current, follow_symlinks=False)
                    at = "/".join(above[:depth])
                    raise _Blocked(at, is_link=stat.S_ISLNK(status.st_mode)) from None
                os.close(current)
                current = inner
            yield current, name
        finally:
            os.close(current)


@contextmanager
def opened(path: str, temporary: str) -> Iterator[PlainDirectory]:
    """Open a directory. Raises OSError, also for a link."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield PlainDirectory(descriptor, temporary)
    finally:
        os.close(descriptor)


def blob_name(content: bytes) -> str:
    """The name that git gives to the object with this content."""
    return _named(len(content), iter((content,)))


def _named(size: int, pieces: Iterator[bytes]) -> str:
    found = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def _pieces(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _PIECE):
        yield piece


def _found_in(parent: int, name: str, path: str) -> TreeEntry | Subdirectory | None:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return Subdirectory([f"{path}/{inner}" for inner in _files(parent, name)])
    if stat.S_ISLNK(mode):
        return TreeEntry(LINK, blob_name(os.fsencode(os.readlink(name, dir_fd=parent))))
    if not stat.S_ISREG(mode):
        return TreeEntry("", "")  # no content of a base is such a file
    with regular_file(name, directory=parent) as descriptor:
        status = os.fstat(descriptor)
        oid = _named(status.st_size, _pieces(descriptor))
    return TreeEntry(EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR, oid)


def _files(parent: int, name: str) -> Iterator[str]:
    """The paths of everything in a directory that is none itself, from there."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(descriptor) as entries:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_directory in inside:
            if is_directory:
                yield from (f"{inner}/{below}" for below in _files(descriptor, inner))
            else:
                yield inner
    finally:
        os.close(descriptor)


def _remove_empty(parent: int, name: str) -> None:
    """Delete a directory without files."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for inner in os.listdir(descriptor):
            _remove_empty(descriptor, inner)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def _permissions(parent: int, name: str, after: TreeEntry, mode: int | None) -> int | None:
    """The permissions of the file that is replaced, or of a new one, with the right to execute it as in `after`.

    None for those of the umask.
    """
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else mode
    if mode is None:
        return None
    if after.mode == EXECUTABLE:
        return mode if mode & stat.S_IXUSR else mode | (mode & 0o444) >> 2
    return mode & ~0o111


def _write_file(parent: int, name: str, after: TreeEntry, content: bytes, mode: int | None) -> None:
    given = 0o777 if after.mode == EXECUTABLE else 0o666
    descriptor = os.open(name, _NEW_FILE, given if mode is None else 0o600, dir_fd=parent)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
