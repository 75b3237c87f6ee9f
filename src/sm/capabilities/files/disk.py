"""The files themselves: uploads, and the copies that agents read. All methods block."""

import contextlib
import errno
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence

from sm.capabilities.files.model import OperatorFile
from sm.capabilities.files.operations import FILE_MAX_BYTES
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import StorageFull
from sm.linux.files import directory_below, read_file
from sm.paths import FILES_SUFFIX, InstancePaths

_NEW = ".new"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileDisk:
    """Uploads are in a directory of the daemon. Copies are in the launch directory of a session, which its agent reads.

    A container mounts that directory read-only. An agent on this host may change its copies.
    """

    def __init__(self, paths: InstancePaths) -> None:
        self._paths = paths

    def keep(self, file_id: str, content: bytes) -> None:
        """Write an upload. Returns when it is on disk. Raises StorageFull and OSError, with nothing half-written."""
        uploads = self._paths.uploads
        with _full_disk(uploads):
            os.makedirs(uploads, 0o700, exist_ok=True)
            with directory_below(uploads, ()) as directory:
                _write(directory, file_id, directory, file_id, content, None)

    def has(self, file_id: str) -> bool:
        return os.path.lexists(f"{self._paths.uploads}/{file_id}")

    def discard(self, file_id: str) -> None:
        """Delete an upload. Idempotent."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._paths.uploads}/{file_id}")

    def place(self, session: Session, file: OperatorFile) -> None:
        """Copy an upload to the place of the session. Idempotent. Raises FileNotFoundError, StorageFull and OSError."""
        content = read_file(f"{self._paths.uploads}/{file.id}", FILE_MAX_BYTES).data
        launch = self._launch(session)
        with _full_disk(launch):
            os.makedirs(launch, 0o700, exist_ok=True)
            with directory_below(launch, ()) as base:
                # The launch directory of a container belongs to the user of its agents.
                status = os.fstat(base)
                owner = status.st_uid, status.st_gid
                with (
                    _private(base, session.id + FILES_SUFFIX, owner) as own,
                    _private(own, file.id, owner) as directory,
                ):
                    _write(own, file.id, directory, file.name, content, owner)

    def withdraw(self, session: Session, file: OperatorFile) -> None:
        """Delete a copy. Idempotent. Raises OSError, also for a link in the place of the session's directory."""
        launch, own = self._launch(session), session.id + FILES_SUFFIX
        with contextlib.suppress(FileNotFoundError), directory_below(launch, (own,)) as directory:
            _delete(file.id, directory)
        with contextlib.suppress(OSError):  # it has other files
            os.rmdir(f"{launch}/{own}")

    def remove(self, session_id: str) -> None:
        """Delete all copies of a session, wherever it ran. Idempotent. Raises OSError."""
        for launch in self._launches():
            with contextlib.suppress(FileNotFoundError), directory_below(launch, ()) as base:
                _delete(session_id + FILES_SUFFIX, base)

    def remove_strays(self, unused: Collection[str], used: Mapping[str, Collection[str]]) -> list[str]:
        """Delete what a crash has left, and return what could not be deleted. Call it before any upload.

        `unused`: the ids of uploads to keep. `used`: the ids of the files of each session. Follows no link: an agent on
        this host may have put one in the place of its directory.
        """
        problems = _delete_others(self._paths.uploads, (), unused)
        for launch in self._launches():
            for own in _names(launch):
                if own.endswith(FILES_SUFFIX):
                    kept = used.get(own.removesuffix(FILES_SUFFIX), ())
                    problems += _delete_others(launch, (own,), kept)
        return problems

    def _launch(self, session: Session) -> str:
        """The launch directory of the session on this host."""
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        return self._paths.sandbox(session.workspace).launch if sandboxed else self._paths.launch

    def _launches(self) -> Iterator[str]:
        """The launch directories of this host and of all containers."""
        yield self._paths.launch
        yield self._paths.sandbox(None).launch
        for slug in _names(f"{self._paths.state}/ws"):
            yield self._paths.sandbox(slug).launch


@contextlib.contextmanager
def _private(base: int, name: str, owner: tuple[int, int]) -> Iterator[int]:
    """Open a directory below `base`, 0700 and of the owner, after making it if it is missing. Follows no link."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=base)
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=base)
    try:
        status = os.fstat(directory)
        if (status.st_uid, status.st_gid) != owner:
            os.fchown(directory, *owner)
        os.fchmod(directory, 0o700)
        yield directory
    finally:
        os.close(directory)


def _write(
    beside: int, temporary: str, directory: int, name: str, content: bytes, owner: tuple[int, int] | None
) -> None:
    """Write a file of mode 0600 atomically, by a temporary one in another directory. Follows no link."""
    new = temporary + _NEW
    with contextlib.suppress(FileNotFoundError):  # from a crash
        os.unlink(new, dir_fd=beside)
    try:
        with open(os.open(new, _CREATE, 0o600, dir_fd=beside), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), *owner)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, name, src_dir_fd=beside, dst_dir_fd=directory)
        os.fsync(directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=beside)
        raise


def _delete(name: str, directory: int) -> None:
    """Delete a file, a link or a directory with all below it. Idempotent, and follows no link. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=directory)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=directory)


def _delete_others(base: str, parts: Sequence[str], kept: Collection[str]) -> list[str]:
    """Delete all but `kept` in `base/parts...`, and return the problems.

    Deletes a directory below `base` in which nothing is kept, and a link in its place.
    """
    problems = list[str]()

    def attempt(name: str, directory: int) -> None:
        try:
            _delete(name, directory)
        except OSError as error:
            problems.append(f"{'/'.join((base, *parts))}: {name}: {error.strerror}")

    try:
        with directory_below(base, parts) as directory:
            for name in sorted(os.listdir(directory)):
                if name not in kept:
                    attempt(name, directory)
    except FileNotFoundError:
        return problems
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            problems.append(f"{'/'.join((base, *parts))}: {error.strerror}")
    if parts and not kept:
        with contextlib.suppress(FileNotFoundError), directory_below(base, parts[:-1]) as above:
            attempt(parts[-1], above)
    return problems


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def _full_disk(directory: str) -> Iterator[None]:
    """Raise StorageFull for an OSError of a full disk. Other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull(
            f"the disk is full: cannot write a file to {directory}", "free disk space, then try again"
        ) from error
