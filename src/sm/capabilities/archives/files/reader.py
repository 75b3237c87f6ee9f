"""Reads the files of an archive of any version. Every function blocks."""

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sm.capabilities.archives.files.older_archives import TERMINAL, has_older, older_files
from sm.capabilities.archives.files.tar_files import TAR, StoredFile, tar_files

SESSION = "session.json"


def has_archive(path: str) -> bool:
    """True if there is an archive at `path`, which is the name of its file without its end."""
    return os.path.isfile(path + TAR) or has_older(path)


@contextmanager
def stored_files(path: str) -> Iterator[Mapping[str, StoredFile]]:
    """The files of the archive by name; empty without an archive. Raises OSError."""
    if os.path.lexists(path + TAR):
        with tar_files(path + TAR) as files:
            yield files
    else:
        yield older_files(path)


def is_output_saved(path: str, since_s: float) -> bool:
    """True if the output of the terminal was saved after that time. Raises OSError."""
    with stored_files(path) as files:
        return TERMINAL in files and files[TERMINAL].at_s >= since_s


def read_output(path: str, lines: int, since_s: float) -> list[str] | None:
    """The last lines of the output that was saved after that time, or None if there is none. Raises OSError."""
    with stored_files(path) as files:
        output = files.get(TERMINAL)
        if output is None or output.at_s < since_s:
            return None
        with output.open() as part:
            text = part.read(0, part.size).decode(errors="replace")
    return list(deque(text.removesuffix("\n").split("\n") if text else (), lines))


def is_complete(path: str) -> bool:
    """False for the archive of a session whose process lived when it was written, so that more output follows."""
    try:
        with stored_files(path) as files, files[SESSION].open() as part:
            return json.loads(part.read(0, part.size))["exit"] is not None
    except (OSError, ValueError, KeyError, TypeError):  # of an older version, or changed by somebody
        return True
