"""Finds the files of a directory that a copy of it gets."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import field

from sm.capabilities.worktrees.copies.bases import MARK
from sm.capabilities.worktrees.copies.three_way import VERSION_CONTROL
from sm.capabilities.worktrees.rules import PLACE
from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.errors import ExternalError
from sm.paths import is_within

FILES_MAX = 400_000
_SHOWN_MAX = 5


@dataclass(slots=True)
class SourceFiles:
    """Paths in the directory. `files`: with their sizes in bytes. `directories`: each one behind that around it."""

    files: list[tuple[str, int]] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    size: int = 0
    special: list[str] = field(default_factory=list)
    """Sockets, devices and FIFOs, which are left out."""
    version_control: list[str] = field(default_factory=list)
    """Directories of version control, which are left out."""
    leading_out: list[str] = field(default_factory=list)
    """Links to places outside of the directory, and absolute ones."""

    def notes(self) -> list[str]:
        """Warnings for a person about files that are left out, and about links."""
        notes = [f"not copied, as they are no files: {_named(self.special)}"] if self.special else []
        if self.version_control:
            notes.append(f"not copied, as they belong to version control: {_named(self.version_control)}")
        if self.leading_out:
            notes.append(f"links that lead out of the copy: {_named(self.leading_out)}")
        return notes


def source_files(source: str, target: str, max_bytes: int, check: Callable[[], None]) -> SourceFiles:
    """Find all files of `source`, without the worktrees and copies of sm in it. Follows no link.

    `target`: the place of the copy. `check` is called for each directory. Raises ExternalError if there are too many of
    them, and OSError for a directory that cannot be read.
    """
    found = SourceFiles()
    waiting = [""]
    while waiting:
        check()
        below = waiting.pop()
        if below:
            found.directories.append(below.rstrip("/"))
        with os.scandir(f"{source}/{below}") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"{below}{entry.name}"
                status = entry.stat(follow_symlinks=False)
                if entry.name.casefold() in VERSION_CONTROL:
                    found.version_control.append(path)
                elif stat.S_ISDIR(status.st_mode):
                    if not _is_left_out(source, path, target):
                        waiting.append(f"{path}/")
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    found.files.append((path, status.st_size))
                    found.size += status.st_size
                    if stat.S_ISLNK(status.st_mode) and _leads_out(source, path):
                        found.leading_out.append(path)
                else:
                    found.special.append(path)
        _refuse_too_many(source, found, max_bytes)
    return found


def _is_left_out(source: str, path: str, target: str) -> bool:
    full = f"{source}/{path}"
    place = f"/{path}"
    if place.endswith(f"/{os.path.dirname(PLACE)}") and os.listdir(full) == [os.path.basename(PLACE)]:
        return True  # nothing else is in it
    return place.endswith(f"/{PLACE}") or is_within(full, target) or os.path.lexists(f"{full}/.git/{MARK}")


def _leads_out(source: str, path: str) -> bool:
    target = os.readlink(f"{source}/{path}")
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return os.path.isabs(target) or inside == ".." or inside.startswith("../")


def _refuse_too_many(source: str, found: SourceFiles, max_bytes: int) -> None:
    where = folded(source, 4096)
    if found.size > max_bytes:
        raise ExternalError(
            f"{where} has more than {max_bytes // 1_000_000:,} MB, which is the limit for a copy",
            "start the agent in a smaller directory, or see worktrees.copy_max_mb in config.yaml",
        )
    if len(found.files) > FILES_MAX:
        raise ExternalError(
            f"{where} has more than {FILES_MAX:,} files, which is the limit for a copy",
            "start the agent in a smaller directory",
        )


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(folded(path, 200) for path in paths[:_SHOWN_MAX]) + more
