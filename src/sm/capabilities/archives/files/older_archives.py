"""Reads archives of earlier versions of sm, which are directories or texts. Every function blocks.

An archive was a directory `ID/`: written as `ID.new`, renamed to `ID.ready`, and then to `ID`, after the archive before
it was renamed to `ID.old`. Still older versions wrote only the output of the terminal, to `ID.txt`. The next archive of
the session takes the place of all of these.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from sm.capabilities.archives.files.tar_files import StoredFile
from sm.linux.files import whole_file

TERMINAL = "terminal.txt"
"""The output of the newest process."""
TEXT = ".txt"
_LEFT = (".new", ".ready", ".old")
OLDER = ("", TEXT, *_LEFT)
"""The ends of the names that an archive of an earlier version may have."""


def has_older(path: str) -> bool:
    """True if earlier versions have written an archive there."""
    return is_directory(path) or os.path.isfile(path + TEXT)


def older_files(path: str) -> dict[str, StoredFile]:
    """The files by name; empty if there are none. Follows no link."""
    found = dict(_files_below(path))
    with suppress(OSError):
        found.setdefault(TERMINAL, _stored(path + TEXT))
    return found


def _files_below(path: str) -> Iterator[tuple[str, StoredFile]]:
    if not is_directory(path):
        return
    for place, directories, names in os.walk(path):
        directories.sort()
        for name in sorted(names):
            with suppress(OSError):
                yield os.path.relpath(f"{place}/{name}", path), _stored(f"{place}/{name}")


def _stored(path: str) -> StoredFile:
    """Raises OSError; FileNotFoundError also for what is no regular file."""
    state = os.lstat(path)
    if not stat.S_ISREG(state.st_mode):
        raise FileNotFoundError(path)
    return StoredFile(state.st_size, state.st_mtime, partial(whole_file, path))


def recover(path: str) -> None:
    """Finish what a crash interrupted between two renames, and delete what it left. Raises OSError.

    Something else than a directory in the archive's place is deleted.
    """
    delete(f"{path}.new")
    if os.path.lexists(path) and not is_directory(path):
        delete(path)
    if is_directory(f"{path}.ready"):
        delete(path)
        os.rename(f"{path}.ready", path)
    delete(f"{path}.ready")
    if not os.path.lexists(path) and is_directory(f"{path}.old"):
        os.rename(f"{path}.old", path)
    delete(f"{path}.old")


def delete(path: str) -> OSError | None:
    """Delete a directory, a file or a link, not what the link names. Return the error if something is left."""
    try:
        if is_directory(path):
            shutil.rmtree(path, ignore_errors=True)  # as much as possible
            if os.path.lexists(path):
                shutil.rmtree(path)  # raises the error
        else:
            os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error
    return None


def is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
