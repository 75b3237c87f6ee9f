"""Reads the mount points that a process sees (proc(5), /proc/pid/mountinfo)."""

import os
import re

from sm.linux.kernel import kernel

_OCTAL = re.compile(rb"\\([0-7]{3})")
_REMOVED = b"//deleted"
"""The end of the mounted path after its directory was removed. No other path has two slashes."""


def mount_points(pid: int) -> frozenset[str] | None:
    """The paths of all mount points, as the process names them, or None if the process has ended or cannot be seen."""
    mounts = _mounts(pid)
    return None if mounts is None else frozenset(_decoded(point) for _, point in mounts)


def removed_mounts(pid: int) -> frozenset[str]:
    """The mount points whose directory was removed outside: they are empty, and nothing can be made in them again.

    Empty also if the process has ended, or cannot be seen.
    """
    return frozenset(_decoded(point) for root, point in _mounts(pid) or () if root.endswith(_REMOVED))


def _mounts(pid: int) -> list[tuple[bytes, bytes]] | None:
    """The mounted path and the mount point of each mount."""
    try:
        lines = kernel().read(f"/proc/{pid}/mountinfo").splitlines()
    except OSError:
        return None
    return [(fields[3], fields[4]) for fields in map(bytes.split, lines) if len(fields) > 4]


def _decoded(path: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), path))
