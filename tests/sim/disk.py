"""A disk that is full for a while: no file can be written below its directory, and SQLite commits nothing."""

import errno
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from sm.store.connection import Script

_SQLITE_FULL = 13


class Disk:
    """The disk below one directory."""

    def __init__(self, directory: str) -> None:
        self._below = directory + "/"
        self.is_full = False
        self.refused = 0
        """How many writes it has refused."""

    def check_open(self, path: object, mode: object, flags: object) -> None:
        """Raise OSError for a file that is made, or written anew, while the disk is full."""
        if not self.is_full or not isinstance(path, (str, bytes)) or not isinstance(flags, int):
            return
        name = os.fsdecode(path)
        is_new = flags & os.O_TRUNC or (flags & os.O_CREAT and not os.path.lexists(name))
        if is_new and name.startswith(self._below):
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def check_call(self, function: Callable[[], Any]) -> None:
        """Raise sqlite3.OperationalError for a call that writes into a database while the disk is full."""
        if not self.is_full or not isinstance(function, partial):
            return
        text = function.args[0] if function.args else ""
        name = getattr(function.func, "__name__", "")
        if (
            isinstance(text, Script)
            or name == "commit"
            or (isinstance(text, str) and text.startswith("COMMIT"))
        ):
            self.refused += 1
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = _SQLITE_FULL
            raise error
