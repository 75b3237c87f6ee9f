"""Makes temporary directories of commands, and finds those that killed commands have left.

A directory belongs to the process that holds the lock of the file `sm-owner` in it. The lock ends with the process.
"""

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sm.core.dataclass import dataclass
from sm.linux.processes import environments, other_pids, working_dir
from sm.paths import is_within

GIT_DIRECTORY, MERGE, INDEX = "sm-git-", "sm-merge-", "sm-diff-"
_PREFIXES = (GIT_DIRECTORY, MERGE, INDEX)
_OWNER = "sm-owner"
_OWNER_MAX = 8192


@contextmanager
def scratch_directory(prefix: str, worktree_of: str = "") -> Iterator[str]:
    """Make a directory, and remove it afterwards. Raises OSError.

    `worktree_of`: the git directory of a repository that gets a worktree below the directory.
    """
    with tempfile.TemporaryDirectory(prefix=prefix) as directory:
        path = f"{directory}/{_OWNER}"
        descriptor = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, os.fsencode(worktree_of))
            os.rename(f"{path}.new", path)  # nobody sees the file without its lock
            yield directory
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class LeftDirectory:
    path: str
    worktree_of: str


def left_directories() -> Iterator[LeftDirectory]:
    """The directories of this user that no process uses. Each one is locked until the next one is asked for."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIXES)]
    for path in found:
        try:
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                continue
            descriptor = os.open(f"{path}/{_OWNER}", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_used(os.path.realpath(path)):
                yield LeftDirectory(path, os.fsdecode(os.read(descriptor, _OWNER_MAX)))
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _is_used(path: str) -> bool:
    """True if a command of git or of a person goes on there, although the process of sm that started it is gone."""
    named = os.fsencode(path)
    if any(named in environment for environment in environments()):
        return True
    return any(is_within(working_dir(pid) or "/", path) for pid in other_pids())
