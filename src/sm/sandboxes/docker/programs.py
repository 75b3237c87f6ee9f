"""Looks for programs in a container, as its agents see its files, without running anything in it."""

import os
import stat

from sm.core.models import Process
from sm.linux.process_root import ProcessRoot
from sm.linux.processes import is_alive
from sm.paths import INSIDE_CLIENT, INSIDE_PATH

_PATH = f"{INSIDE_CLIENT}/bin:{INSIDE_PATH}"


def has_program(init: Process, program: str) -> bool | None:
    """Look for `program`, a name on the PATH of agents or an absolute path. Blocks.

    `init`: the first process of the container. None if that is unknown, because the container has ended, the daemon may
    not see its files, or the path is relative.
    """
    if "/" in program:
        candidates = [program] if program.startswith("/") else []
    else:
        candidates = [f"{folder}/{program}" for folder in _PATH.split(":")]
    try:
        with ProcessRoot(init.pid) as root:
            found = any(_is_program(root, path) for path in candidates)
    except OSError:
        return None
    # The pid may have become that of another process.
    return found if candidates and is_alive(init) else None


def _is_program(root: ProcessRoot, path: str) -> bool:
    """Raises OSError when that cannot be known."""
    try:
        status = root.status(os.fsencode(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)
