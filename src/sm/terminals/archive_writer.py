"""Writes the directory of an archive beside its place, and renames it. Every function blocks."""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sm.core.archive_retention import OUTPUTS_MAX
from sm.linux.files import regular_file

TERMINAL = "terminal.txt"
"""The output of the newest process."""
_EARLIER_NAME = "terminal-{}.txt"
_EARLIER = re.compile(r"terminal-([0-9]{1,9})\.txt")
SESSION = "session.json"
_CUT = "cut.json"
_TRANSCRIPTS_MAX_BYTES = 256 * 2**20
_SHARE_OF_FREE_SPACE = 4
"""An archive takes at most this part of the free space, so that a few of them do not fill the disk."""
_PIECE_BYTES = 8 * 2**20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


OpenFile: TypeAlias = Callable[[], AbstractContextManager[int | None]]
"""Opens a file for reading, as a descriptor; None: it is gone."""


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
    """Write `directory/SESSION_ID/` in place of an earlier one.

    `lines`: the output of the process that began at `since_s` (seconds since the epoch); None: its terminal is gone.
    The outputs of earlier processes stay. Agents decide how large their transcripts are, so all of them get
    `_TRANSCRIPTS_MAX_BYTES`, or less on an almost full disk; `cut.json` names the files of which only the end is kept,
    or which cannot be read.

    Returns the bytes of transcripts that were left out because there was too little free space. Raises OSError.
    """
    os.makedirs(directory, 0o700, exist_ok=True)
    if os.path.islink(directory):
        raise OSError(errno.ELOOP, "it is a link", directory)
    path = f"{directory}/{session_id}"
    new, old = f"{path}.new", f"{path}.old"
    delete(new)
    try:
        os.mkdir(new, 0o700)
        for name, record in contents.records.items():
            _write_record(f"{new}/{name}", record)
        missing = _write_transcripts(new, contents.transcripts)
        if lines is not None:
            with (
                _new_file(f"{new}/{TERMINAL}") as descriptor,
                open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
            ):
                file.writelines(f"{line}\n" for line in lines)
        _keep_outputs(path if os.path.lexists(path) else old, new, f"{path}.txt", since_s)
        if os.path.lexists(path):
            delete(old)
            os.rename(path, old)
        os.rename(new, path)
    except OSError:
        delete(new)  # a partial archive would only keep the disk full
        if not os.path.lexists(path):
            with suppress(OSError):
                os.rename(old, path)
        raise
    delete(old)
    with suppress(OSError):  # of an older version
        os.unlink(f"{path}.txt")
    return missing


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


@contextmanager
def _new_file(path: str) -> Iterator[int]:
    descriptor = os.open(path, _NEW_FILE, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_record(path: str, record: Any) -> None:
    with (
        _new_file(path) as descriptor,
        open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False) as file,
    ):
        if path.endswith(".jsonl"):
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in record)
        else:
            file.write(json.dumps(record, ensure_ascii=False, indent=2) + "\n")


def _write_transcripts(archive: str, transcripts: Mapping[str, OpenFile]) -> int:
    """Return the bytes that were left out because there was too little free space."""
    disk = os.statvfs(archive)
    left = min(_TRANSCRIPTS_MAX_BYTES, disk.f_bavail * disk.f_frsize // _SHARE_OF_FREE_SPACE)
    wanted, room = 0, left
    cut = dict[str, Any]()
    for name, opened in transcripts.items():
        with ExitStack() as stack:
            try:
                source = stack.enter_context(opened())
            except OSError as error:  # the agent decides who may read the file
                cut[f"transcripts/{name}"] = {"kept_bytes": 0, "error": error.strerror}
                continue
            if source is None:
                continue
            target = f"{archive}/transcripts/{name}"
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            size = os.fstat(source).st_size
            kept = min(size, left)
            _copy(source, size - kept, size, target)
        left -= kept
        wanted += size
        if kept < size:
            cut[f"transcripts/{name}"] = {"kept_bytes": kept, "bytes": size}
    if cut:
        _write_record(f"{archive}/{_CUT}", cut)
    return max(0, min(wanted, _TRANSCRIPTS_MAX_BYTES) - room)


def _copy(source: int, start: int, end: int, path: str) -> None:
    """Copy these bytes of a file to a new file. Holes stay holes, which take no room (lseek(2), SEEK_DATA)."""
    with _new_file(path) as target:
        position = start
        while position < end:
            try:
                position = os.lseek(source, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # there is no data up to the end
                    break
                raise
            data_end = min(os.lseek(source, position, os.SEEK_HOLE), end)
            os.lseek(target, position - start, os.SEEK_SET)
            while position < data_end:
                sent = os.sendfile(target, source, position, min(data_end - position, _PIECE_BYTES))
                if not sent:  # the file has become shorter
                    return
                position += sent
        os.ftruncate(target, end - start)


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
        elif at_s < since_s:
            outputs.append((number + 1, path))
        break
    for number, path in outputs[1 - OUTPUTS_MAX :]:
        if _saved_at(path) is not None:
            _copy_output(path, f"{archive}/{_EARLIER_NAME.format(number)}")


def _copy_output(path: str, target: str) -> None:
    """Copy the file with its time."""
    with regular_file(path) as source:
        state = os.fstat(source)
        _copy(source, 0, state.st_size, target)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _saved_at(path: str) -> float | None:
    """The time of the last change of a regular file; None: there is none."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return state.st_mtime if stat.S_ISREG(state.st_mode) else None
