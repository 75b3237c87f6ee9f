"""Reads the new lines of files that an agent appends to, from the last position on.

The agent can write anything to these files: links are not followed, only regular files are opened, and memory is
bounded. Every function blocks: call it in a thread.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from sm.core.usage import FilePosition
from sm.linux.files import FilePart, NotRegular, directory_below, regular_file

LINE_MAX_BYTES = 8 * 2**20
"""A longer line (images) is skipped."""
FILES_MAX = 500
_ENTRIES_MAX = 10_000


class Root(NamedTuple):
    """The directory below which a session's transcripts lie. No link below it is followed."""

    directory: str
    contained: bool = False
    """The home directory of a container. Otherwise `directory` may be a link or contain links, of its user."""


class NewLines(NamedTuple):
    lines: list[bytes]
    """Whole lines without newlines; empty lines are omitted."""
    position: FilePosition | None
    """The position at which the next read starts, or None if the file never existed."""
    more: bool
    """There may be more lines to read now."""
    again: bool
    """The file was replaced and read from its beginning: discard the results of earlier reads."""


def read_new(
    path: str, position: FilePosition | None, limit_bytes: int, *, below: Root | None = None
) -> NewLines:
    """The whole lines after `position` (or from the beginning if None), at most about `limit_bytes`.

    At least one line is read whole, up to LINE_MAX_BYTES, which also bounds `limit_bytes`. An unfinished last line is
    left for the next read. Another inode, or a file that became shorter, is read from the beginning.
    Below the directory `below` no link is followed; without `below` only the last part of `path` must not be a link.
    `path` may start with the name of `below` or its real path.

    A missing or irregular file has no lines and keeps the position. Raises other OSErrors.
    """
    with opened(path, below) as file:
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
    path: str, lines: int, limit_bytes: int, *, below: Root | None = None, before: FilePosition | None = None
) -> list[bytes]:
    """The last `lines` whole lines within the last `limit_bytes` bytes of a file.

    `before`: read as if the file ended there; no lines if the position is of another file.
    A missing file has no lines. Raises other OSErrors, as `read_new` does.
    """
    with opened(path, below) as file:
        if file is None:
            return []
        state = os.fstat(file)
        if before is not None and before.inode != state.st_ino:
            return []
        size = state.st_size if before is None else min(state.st_size, before.offset)
        return last_lines(FilePart(file, size), lines, limit_bytes)


def last_lines(part: FilePart, lines: int, limit_bytes: int) -> list[bytes]:
    """The last `lines` whole lines within the last `limit_bytes` bytes. Raises OSError."""
    start = max(0, part.size - limit_bytes)
    margin = min(start, 1)  # the byte before shows whether the first line is whole
    data = part.read(start - margin, part.size)
    if margin:
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    whole = [line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line]
    return whole[-lines:] if lines > 0 else []


def files_of(main_path: str, most: int = FILES_MAX) -> tuple[str, ...]:
    """A session's files: the main file, even if missing, then the files of its sub-agents by name.

    Files of sub-agents are in `SESSION/subagents/`, those of workflows deeper. Above `most` files, only the newest are
    returned. Read each file from its own position, with `below` = the main file's directory.
    """
    directory = os.path.join(os.path.splitext(main_path)[0], "subagents")
    if os.path.islink(directory) or os.path.islink(os.path.dirname(directory)):
        return (main_path,)
    newest = sorted(_agent_files(directory), reverse=True)[: max(0, most - 1)]
    return (main_path, *sorted(path for _, path in newest))


def archive_names(mains: Sequence[str]) -> dict[str, str]:
    """The names of these conversations in an archive, by their absolute paths.

    The name is that of the file. Conversations whose files have the same name get their directories too, as far as the
    directories differ.
    """
    alike: dict[str, list[str]] = {}
    for main in mains:
        alike.setdefault(os.path.basename(main), []).append(os.path.dirname(os.path.normpath(main)))
    above = {name: os.path.commonpath(directories) for name, directories in alike.items()}
    return {main: os.path.relpath(main, above[os.path.basename(main)]) for main in mains}


def _agent_files(directory: str) -> Iterator[tuple[int, str]]:
    """(modification time, path) of each sub-agent's file, in at most `_ENTRIES_MAX` entries and two levels."""
    left = _ENTRIES_MAX
    places = [(directory, 0)]
    while places and left > 0:
        place, depth = places.pop()
        with (
            suppress(OSError, ValueError),
            os.scandir(place) as entries,
        ):  # the directory may be deleted at any time
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
"""Errors of open(2) for a missing file, a link (ELOOP, ENOTDIR), a socket or a device."""


@contextmanager
def opened(path: str, below: Root | None) -> Iterator[int | None]:
    """A file descriptor of the regular file; None without one."""
    with ExitStack() as stack:
        file = None
        try:
            if below is None:
                file = stack.enter_context(regular_file(path))
            else:
                *directories, name = _parts_below(path, below)
                place = stack.enter_context(
                    directory_below(below.directory, directories, follow=not below.contained)
                )
                file = stack.enter_context(regular_file(name, directory=place))
        except (NotRegular, ValueError):  # ValueError: a null character in the path
            pass
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
        yield file


def _parts_below(path: str, below: Root) -> list[str]:
    """The parts of `path` below `below`. Raises FileNotFoundError if `path` is elsewhere."""
    for name in _names(below):
        parts = os.path.relpath(path, name).split("/")
        if ".." not in parts:
            return parts
    raise FileNotFoundError(errno.ENOENT, "it is not below", path)


def _names(root: Root) -> Iterator[str]:
    """Three names of the directory: as given, with its parent resolved, and fully resolved."""
    directory = root.directory
    yield directory
    if root.contained:
        return
    above, name = os.path.split(directory)
    yield os.path.join(os.path.realpath(above), name)
    yield os.path.realpath(directory)


def _next_block(file: int, start: int, limit: int) -> tuple[bytes, int, bool]:
    """(whole lines, offset of the next read, True if there may be more) from `start` on.

    An offset without a newline before it is inside a line that was too long: the rest of that line is skipped. This
    needs no state between calls, and finds the start of a line in a rewritten file.
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
