"""The audit log: caller, action, session and decision of each request, but never the content of messages.

`state/log/audit.jsonl` has one JSON object per line: `time who what target decision reason`. A line is written before
the decision takes effect, with one write to an open file, so a killed daemon loses no line.
"""

import errno
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress

from sm.core.text import folded

log = logging.getLogger(__name__)

ALLOWED = "allowed"
REFUSED = "refused"

Record = Callable[[str, str, str | None, str, str | None], None]
"""The type of `Audit.record`."""

_BYTES = 5 * 1024 * 1024
_FILES = 3
_WORD_MAX = 80
_REASON_MAX = 200
_LOOKED_AT = 1_000


class Audit:
    """The log, mode 0600, rotated by size. A full disk loses lines, but never fails a request."""

    def __init__(self, path: str, now: Callable[[], str], *, most_bytes: int = _BYTES) -> None:
        self._path = path
        self._now = now
        self._most_bytes = most_bytes
        self._file: int | None = None
        self._failing = False

    def record(self, who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        """Write one line; never raises. `target` is a session id, or the reference that matched no session."""
        line = {
            "time": self._now(),
            "who": folded(who, _WORD_MAX),
            "what": folded(what, _WORD_MAX),
            # Cut before `folded` scans the text: a caller may send a text as long as a request.
            "target": None if target is None else folded(target[:_LOOKED_AT], _WORD_MAX),
            "decision": decision,
            "reason": None if reason is None else folded(reason[:_LOOKED_AT], _REASON_MAX),
        }
        try:
            self._write(json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            self.close()
            if not self._failing:
                log.warning("could not write to the audit log: %s", error.strerror)
            self._failing = True
        else:
            self._failing = False

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        status = os.fstat(self._file)
        size = status.st_size
        if status.st_nlink == 0:  # the file was deleted: lines written to it are lost
            self.close()
            self._file, size = self._open(), 0
        elif size and size + len(line) > self._most_bytes:
            self._rotate()
            self._file, size = self._open(), 0
        if os.write(self._file, line) < len(line):
            os.ftruncate(self._file, size)  # a partial line would merge with the next line
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path, flags, 0o600)
        os.fchmod(file, 0o600)
        return file

    def _rotate(self) -> None:
        self.close()
        for number in range(_FILES, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            with suppress(FileNotFoundError):
                os.replace(older, f"{self._path}.{number}")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
