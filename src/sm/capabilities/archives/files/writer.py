"""Writes the directory of an archive beside its place, and renames it. Every function blocks.

A crash may leave several directories of a session: `ID` is complete, `ID.new` is being written, `ID.ready` is complete
and about to take the place of `ID`, which becomes `ID.old` first. `recover` finishes the renames.
"""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sm.capabilities.archives.files.copies import copy, new_file, write_record
from sm.capabilities.archives.files.kept_transcripts import OpenFile, write_transcripts
from sm.capabilities.archives.files.merged_records import merge_records
from sm.linux.files import regular_file
from sm.store.part import OUTPUTS_MAX

TERMINAL = "terminal.txt"
"""The output of the newest process."""
_EARLIER_NAME = "terminal-{}.txt"
_EARLIER = re.compile(r"terminal-([0-9]{1,9})\.txt")
SESSION = "session.json"


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The contents of an archive beside the terminal's output."""

    records: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the file. A `.jsonl` file has one object on each line."""
    transcripts: Mapping[str, OpenFile] = field(default_factory=dict)
    """By the path below `transcripts/`, the most important first."""


def write_archive(
    directory: str,
    session_id: str,
    contents: ArchiveContents,
    lines: Sequence[str] | None,
    since_s: float = 0.0,
) -> int:
    """Write `directory/SESSION_ID/` in place of an earlier one, and keep what only the earlier one has.

    `lines`: the output of the process that began at `since_s` (seconds since the epoch), or None if its terminal is
    gone. The outputs of earlier processes stay. For transcripts see `write_transcripts`.

    Returns the bytes of transcripts that were left out because there was too little free space. Raises OSError: the
    earlier archive is unchanged.
    """
    os.makedirs(directory, 0o700, exist_ok=True)
    if os.path.islink(directory):
        raise OSError(errno.ELOOP, "it is a link", directory)
    path = f"{directory}/{session_id}"
    recover(path)
    new = f"{path}.new"
    try:
        os.mkdir(new, 0o700)
        for name, record in contents.records.items():
            write_record(f"{new}/{name}", merge_records(f"{path}/{name}", record))
        missing = write_transcripts(new, path, contents.transcripts)
        if lines is not None:
            with (
                new_file(f"{new}/{TERMINAL}") as descriptor,
                open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
            ):
                file.writelines(f"{line}\n" for line in lines)
        _keep_outputs(path, new, f"{path}.txt", since_s)
        os.rename(new, f"{path}.ready")
    except OSError:
        delete(new)  # a partial archive would only keep the disk full
        raise
    try:
        _replace(path)
    except OSError:
        delete(f"{path}.ready")
        if not os.path.lexists(path):
            with suppress(OSError):
                os.rename(f"{path}.old", path)
        raise
    with suppress(OSError):  # of an older version
        os.unlink(f"{path}.txt")
    return missing


def recover(path: str) -> None:
    """Finish what a crash interrupted between two renames, and delete what it left. Raises OSError.

    Something else than a directory in the archive's place is deleted.
    """
    delete(f"{path}.new")
    if os.path.lexists(path) and not is_directory(path):
        delete(path)
    if is_directory(f"{path}.ready"):
        _replace(path)
    else:
        delete(f"{path}.ready")
    if not os.path.lexists(path) and is_directory(f"{path}.old"):
        os.rename(f"{path}.old", path)
    delete(f"{path}.old")


def _replace(path: str) -> None:
    """Move the complete new archive to its place."""
    if os.path.lexists(path):
        delete(f"{path}.old")
        os.rename(path, f"{path}.old")
    os.rename(f"{path}.ready", path)
    _sync(os.path.dirname(path))
    delete(f"{path}.old")


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def saved_output(path: str, since_s: float) -> str | None:
    """The file with the terminal's output in the archive `path`, if it was saved after that time."""
    for file in (f"{path}/{TERMINAL}", f"{path}.txt"):
        at_s = _saved_at(file)
        if at_s is not None and at_s >= since_s:
            return file
    return None


def is_complete(path: str) -> bool:
    """False for the archive of a session whose process lived when it was written, so that more output follows."""
    try:
        with (
            regular_file(f"{path}/{SESSION}") as descriptor,
            open(descriptor, encoding="utf-8", closefd=False) as file,
        ):
            return json.load(file)["exit"] is not None
    except (OSError, ValueError, KeyError, TypeError):  # of an older version, or changed by somebody
        return True


def _keep_outputs(before: str, archive: str, old_version: str, since_s: float) -> None:
    """Take the outputs of earlier processes over from the archive `before`, with their times.

    They are numbered, the oldest first. The newest one stays the current one if there is none yet.
    """
    outputs = sorted(
        (int(found[1]), f"{before}/{name}")
        for name in _names_in(before)
        if (found := _EARLIER.fullmatch(name)) is not None
    )
    number = outputs[-1][0] if outputs else 0
    for path in (f"{before}/{TERMINAL}", old_version):
        at_s = _saved_at(path)
        if at_s is None:
            continue
        if not os.path.lexists(f"{archive}/{TERMINAL}"):
            _copy_output(path, f"{archive}/{TERMINAL}")
        elif at_s < since_s or _count_lines(path) > _count_lines(f"{archive}/{TERMINAL}"):
            outputs.append((number + 1, path))  # a terminal that was cleared has less of the same process
        break
    for number, path in outputs[1 - OUTPUTS_MAX :]:
        if _saved_at(path) is not None:
            _copy_output(path, f"{archive}/{_EARLIER_NAME.format(number)}")


def _copy_output(path: str, target: str) -> None:
    """Copy the file with its time."""
    with regular_file(path) as source:
        state = os.fstat(source)
        with new_file(target) as descriptor:
            copy(source, 0, state.st_size, descriptor)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def _count_lines(path: str) -> int:
    with regular_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return sum(1 for _ in file)


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _saved_at(path: str) -> float | None:
    """The time of the last change of a regular file, or None if there is none."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_mtime if stat.S_ISREG(state.st_mode) else None
