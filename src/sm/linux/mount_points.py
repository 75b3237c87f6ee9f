"""Reads the mount points that a process sees."""

import os
import re

from sm.linux.kernel import kernel

_OCTAL = re.compile(rb"\\([0-7]{3})")


def mount_points(pid: int) -> frozenset[str] | None:
    """The paths of all mount points, as the process names them; None: the process has ended, or cannot be seen."""
    try:
        lines = kernel().read(f"/proc/{pid}/mountinfo").splitlines()
    except OSError:
        return None
    found = (fields[4] for fields in map(bytes.split, lines) if len(fields) > 4)
    return frozenset(os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), path)) for path in found)
