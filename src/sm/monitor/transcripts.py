"""Reads the files that an agent appends to, line by line, from the last position on.

The agent can write these files, so it is not believed: no link is followed, nothing but a regular file is
opened, and what is held in memory is bounded. Everything here blocks; call it in a thread.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from sm.core.usage import FilePosition
from sm.linux.files import NotRegular, directory_below, regular_file

LINE_MAX_BYTES = 8 * 2**20
"""A longer line (images) is skipped."""
FILES_MAX = 500
_ENTRIES_MAX = 10_000


class NewLines(NamedTuple):
    """The result of `read_new`."""

    lines: list[bytes]
    """Whole lines, without their ends; empty ones are left out."""
    position: FilePosition | None
    """Where to go on. None: the file was never there."""
    more: bool
    """There may be more to read at once."""
    again: bool
    """It was read from its beginning although part of it had been read: forget what came of that part."""


def read_new(
    path: str, position: FilePosition | None, limit_bytes: int, *, below: str | None = None
) -> NewLines:
    """The whole lines that came after `position` (None: from the beginning), at most about `limit_bytes` of them.

    One line is always read whole, up to LINE_MAX_BYTES, which also bounds `limit_bytes`. A last line without its
    end stays for the next time. Another inode, or a file that became shorter, is read from the beginning.
    Below the directory `below` no link is followed, else only the last part of `path` must not be one. `below` itself
    may be a link, or lie below one, and `path` name it as it is named here or by where it really is.

    No file, or something that is no regular file: no lines, the same position. Raises other OSErrors.
    """
    with _opened(path, below) as file:
        if file is None:
            return NewLines([], position, more=False, again=False)
        state = os.fstat(file)
        same = position is not None and position.inode == state.st_ino and position.offset <= state.st_size
        start = position.offset if position is not None and same else 0
        block, end, more = _next_block(file, start, max(1, min(limit_bytes, LINE_MAX_BYTES)))
    again = position is not None and not same and position.offset > 0
    lines = [line for line in block.split(b"\n") if line]
    return NewLines(lines, FilePosition(state.st_ino, end), more, again)


def read_last(
    path: str, lines: int, limit_bytes: int, *, below: str | None = None, before: FilePosition | None = None
) -> list[bytes]:
    """The last `lines` whole lines of a file, as far as they are within its last `limit_bytes` bytes.

    `before`: the file ends here for this call; no lines where the position is one of another file.
    No file: no lines. Raises other OSErrors, as `read_new` does.
    """
    with _opened(path, below) as file:
        if file is None:
            return []
        state = os.fstat(file)
        if before is not None and before.inode != state.st_ino:
            return []
        size = state.st_size if before is None else min(state.st_size, before.offset)
        start = max(0, size - limit_bytes)
        margin = min(start, 1)  # the byte before shows whether the first line is whole
        data = os.pread(file, size - start + margin, start - margin)
    if margin:
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    whole = [line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line]
    return whole[-lines:] if lines > 0 else []


def files_of(main_path: str, most: int = FILES_MAX) -> tuple[str, ...]:
    """A session's files: the main one, whether it is there or not, then those of its sub-agents by name.

    Those stand below `SESSION/subagents/`, those of workflows deeper. When there are too many, the ones that
    were written last. Read each from a position of its own, with `below` = the main file's directory.
    """
    directory = os.path.join(os.path.splitext(main_path)[0], "subagents")
    if os.path.islink(directory) or os.path.islink(os.path.dirname(directory)):
        return (main_path,)
    found = sorted(_agent_files(directory), reverse=True)[: max(0, most - 1)]
    return (main_path, *sorted(path for _, path in found))


def _agent_files(directory: str) -> Iterator[tuple[int, str]]:
    """(time of the last change, path) of each sub-agent's file; looks at so many entries and two levels at most."""
    left = _ENTRIES_MAX
    places = [(directory, 0)]
    while places and left > 0:
        place, depth = places.pop()
        with suppress(OSError, ValueError), os.scandir(place) as entries:  # it may go at any time
            for entry in islice(entries, left):
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    if depth < 2:
                        places.append((entry.path, depth + 1))
                elif entry.name.startswith("agent-") and entry.name.endswith(".jsonl"):
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode):
                        yield state.st_mtime_ns, entry.path


# ------------------------------------------------------------------------------------------- one open file


_NO_FILE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.ENODEV}
)
"""How open(2) says that there can be no such file, or that it is a link (ELOOP, ENOTDIR), a socket or a device."""


@contextmanager
def _opened(path: str, below: str | None) -> Iterator[int | None]:
    """A descriptor of the regular file, or None when there is none."""
    with ExitStack() as stack:
        file = None
        try:
            if below is None:
                file = stack.enter_context(regular_file(path))
            else:
                *directories, name = _parts_below(path, below)
                place = stack.enter_context(directory_below(below, directories, follow=True))
                file = stack.enter_context(regular_file(name, directory=place))
        except (NotRegular, ValueError):  # ValueError: a null character in the path
            pass
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
        yield file


def _parts_below(path: str, below: str) -> list[str]:
    """The parts of `path` below `below`. Raises FileNotFoundError when it is elsewhere."""
    for name in _names(below):
        parts = os.path.relpath(path, name).split("/")
        if ".." not in parts:
            return parts
    raise FileNotFoundError(errno.ENOENT, "it is not below", path)


def _names(directory: str) -> Iterator[str]:
    """As it was named, where it stands, and where it leads to, if it is a link."""
    yield directory
    above, name = os.path.split(directory)
    yield os.path.join(os.path.realpath(above), name)
    yield os.path.realpath(directory)


def _next_block(file: int, start: int, limit: int) -> tuple[bytes, int, bool]:
    """(whole lines, where to go on, whether there may be more) from `start` on.

    An offset that no newline stands before is within a line that was too long: the rest of it is skipped. That
    needs no memory between two calls, and finds a line's beginning again in a file that was written anew.
    """
    if start and os.pread(file, 1, start - 1) != b"\n":
        data = os.pread(file, limit, start)
        newline = data.find(b"\n")
        return b"", start + (newline + 1 if newline >= 0 else len(data)), len(data) == limit or newline >= 0
    data = os.pread(file, limit, start)
    full = len(data) == limit
    if full and b"\n" not in data:  # one line, longer than the limit
        data += os.pread(file, LINE_MAX_BYTES + 1 - limit, start + limit)
        newline = data.find(b"\n", limit)
        if newline < 0 and len(data) > LINE_MAX_BYTES:
            return b"", start + len(data), True
        return data[: newline + 1], start + newline + 1, newline >= 0
    end = data.rfind(b"\n") + 1
    return data[:end], start + end, full
