"""Reads and writes one file below a directory whose contents others can change: no link below it is followed."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from sm.core.dataclass import dataclass
from sm.linux.files import Content, directory_below, read_file

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Changed(OSError):
    """The file is not the one that was read."""


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file at `parts` below the directory `base`. Every method blocks.

    `follow`: `base` itself may be a link, of its user. `user`: the uid and gid of new files and directories, or None
    for those of this process.
    """

    base: str
    parts: tuple[str, ...]
    follow: bool = False
    user: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        return "/".join((self.base, *self.parts))

    def read(self, limit_bytes: int) -> Content:
        """Raises OSError, also for a link or something else than a regular file."""
        with self._above() as directory:
            return read_file(self.parts[-1], limit_bytes, directory=directory)

    def touch(self) -> None:
        """Set the time of the last change to now. Raises OSError."""
        with self._above() as directory:
            os.utime(self.parts[-1], dir_fd=directory, follow_symlinks=False)

    def write(
        self, pieces: Iterable[bytes], replaced: os.stat_result | None = None, aside: str | None = None
    ) -> None:
        """Write the file as a whole (0600). Missing directories are made.

        Nothing may exist in its place, except the file `replaced`, if given; that one gets the name `aside`, if given.
        Raises Changed if something else is there, and OSError; then nothing is changed.
        """
        self._make_directories()
        name = self.parts[-1]
        new = f".{name}.{os.urandom(4).hex()}"
        with self._above() as directory:
            try:
                with open(os.open(new, _NEW_FILE, 0o600, dir_fd=directory), "wb") as file:
                    file.writelines(pieces)
                    file.flush()
                    os.fsync(file.fileno())
                    if self.user is not None and self.user[0] != os.geteuid():
                        os.fchown(file.fileno(), *self.user)
                if replaced is None:
                    self._link(directory, new, name)
                else:
                    now = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if _identity(now) != _identity(replaced):
                        raise Changed(0, "it has changed meanwhile", self.path)
                    if aside is not None:
                        self._link(directory, name, aside)
                    os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
                os.fsync(directory)
            finally:
                with suppress(OSError):
                    os.unlink(new, dir_fd=directory)

    def _link(self, directory: int, name: str, other: str) -> None:
        try:
            os.link(name, other, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            raise Changed(0, "it exists meanwhile", self.path) from None

    def _make_directories(self) -> None:
        if not os.path.isdir(self.base):
            os.makedirs(self.base, 0o700, exist_ok=True)
            _give(os.open(self.base, _DIRECTORY), self.user)
        for depth in range(1, len(self.parts)):
            with directory_below(self.base, self.parts[: depth - 1], follow=self.follow) as above:
                try:
                    os.mkdir(self.parts[depth - 1], 0o700, dir_fd=above)
                except FileExistsError:
                    continue
                _give(os.open(self.parts[depth - 1], _DIRECTORY, dir_fd=above), self.user)

    @contextmanager
    def _above(self) -> Iterator[int]:
        with directory_below(self.base, self.parts[:-1], follow=self.follow) as directory:
            yield directory


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _give(descriptor: int, user: tuple[int, int] | None) -> None:
    """Change the owner of an open directory, and close it."""
    try:
        if user is not None and user[0] != os.fstat(descriptor).st_uid:
            os.fchown(descriptor, *user)
    finally:
        os.close(descriptor)
