"""The home directory of a container, in which agents write the files that the daemon reads.

Agents can put links, pipes and large files at any place in it. Every access walks from the home directory down without
following links, and reads a bounded number of bytes.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import InvalidPath
from sm.linux.files import Content, directory_below, read_file
from sm.paths import INSIDE_HOME, InstancePaths
from sm.sandboxes.path_map import Mount, PathMap


class ContainerHome:
    """The home directory of a container; `directory` is its path on the host."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._map = PathMap([Mount(directory, INSIDE_HOME, writable=True)])

    def host_path(self, inside: str) -> str | None:
        """The path on the host of a path that an agent reports, or None if it is not below the home directory."""
        try:
            return self._map.to_host(inside)
        except InvalidPath:
            return None

    def read(self, path: str, limit_bytes: int) -> Content:
        """Read at most `limit_bytes` of a regular file (a path on the host). Raises OSError, also for a link."""
        with self._above(path) as (directory, name):
            return read_file(name, limit_bytes, directory=directory)

    def has_file(self, path: str) -> bool:
        """Return whether a regular file exists (a path on the host). Does not open it."""
        try:
            with self._above(path) as (directory, name):
                return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def add_file(self, path: str, content: bytes, user: tuple[int, int] | None) -> None:
        """Write a 0600 file as a whole unless something exists at `path` (a path on the host).

        Missing directories are made. `user`: the uid and gid of the new file and the new directories, or None for those
        of this process. Raises OSError.
        """
        if not os.path.isdir(self.directory):
            os.makedirs(self.directory, 0o700, exist_ok=True)
            _give(os.open(self.directory, _DIRECTORY), user)
        parts = os.path.relpath(path, self.directory).split("/")
        for depth in range(1, len(parts)):
            with directory_below(self.directory, parts[: depth - 1]) as above:
                try:
                    os.mkdir(parts[depth - 1], 0o700, dir_fd=above)
                except FileExistsError:
                    continue
                _give(os.open(parts[depth - 1], _DIRECTORY, dir_fd=above), user)
        with self._above(path) as (directory, name):
            _create(directory, name, content, user)

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds `path`, and the last part of `path`. Raises OSError."""
        *parts, name = os.path.relpath(path, self.directory).split("/")
        if ".." in parts or name in (".", ".."):
            raise FileNotFoundError(path)
        with directory_below(self.directory, parts) as directory:
            yield directory, name


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _give(descriptor: int, user: tuple[int, int] | None) -> None:
    """Change the owner of an open directory, and close it."""
    try:
        if user is not None and user[0] != os.fstat(descriptor).st_uid:
            os.fchown(descriptor, *user)
    finally:
        os.close(descriptor)


def _create(directory: int, name: str, content: bytes, user: tuple[int, int] | None) -> None:
    """Write under another name, then link: a crash leaves no half of a file under `name`."""
    new = f".{name}.{os.urandom(4).hex()}"
    try:
        with open(os.open(new, _NEW_FILE, 0o600, dir_fd=directory), "wb") as file:
            file.write(content)
            file.flush()
            if user is not None and user[0] != os.geteuid():
                os.fchown(file.fileno(), *user)
        os.link(new, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        pass
    finally:
        with suppress(OSError):
            os.unlink(new, dir_fd=directory)


HomeOf: TypeAlias = Callable[[Session], ContainerHome | None]
"""The home directory of a session's container, or None if the session runs on this host."""


def homes(paths: InstancePaths) -> HomeOf:
    def home_of(session: Session) -> ContainerHome | None:
        if session.effective_mode is not TrustLevel.SANDBOXED:
            return None
        return ContainerHome(paths.sandbox(session.workspace).home)

    return home_of


def on_host(session: Session) -> None:
    """A `HomeOf` without containers."""
