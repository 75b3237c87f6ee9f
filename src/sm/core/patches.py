"""Reads the output of `git diff` file by file. Pure.

The names and lines are texts of an agent, as git wrote them: they may control a terminal. Only the numbers in the
header of a hunk decide which lines are those of a file: an agent can write lines that look like headers.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import IO

from sm.core.dataclass import dataclass

_HEADER = "diff --git "
_PIECE = 64 << 10
_OUTPUT_MAX = 256 << 20
"""The rest of the output is not split into sections."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?")
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.[0-9a-f]+(?: ([0-7]+))?$")
_ESCAPE = re.compile(r'\\([abfnrtv"\\]|[0-7]{3})')
_ESCAPED = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, '"': 34, "\\": 92}
_NO_FILE = "/dev/null"


class LineSign(StrEnum):
    """The first character of a line in a hunk."""

    ADDED = "+"
    DELETED = "-"
    CONTEXT = " "
    REMARK = "\\"
    """Of git about the line above it: that no newline ends it."""


@dataclass(frozen=True, slots=True)
class PatchLine:
    sign: LineSign
    text: str
    old: int | None = None
    """The number of the line before the change."""
    new: int | None = None


@dataclass(slots=True)
class Hunk:
    header: str
    """Git's line about the numbers of lines, with the function around the hunk."""
    lines: list[PatchLine] = field(default_factory=list)


@dataclass(slots=True)
class FilePatch:
    """The changes of one file. A path is that in the repository, with lone surrogates for bytes that are no UTF-8."""

    old_path: str | None = None
    """None for a new file."""
    new_path: str | None = None
    """None for a deleted file."""
    old_mode: str = ""
    new_mode: str = ""
    similarity: str = ""
    """Of a renamed or copied file, such as `95%`."""
    is_copy: bool = False
    is_binary: bool = False
    old_object: str = ""
    """The name of git's object before the change, with zeros for no object."""
    header: Sequence[str] = ()
    """All lines of git before the first hunk."""
    written_path: str | None = None
    """The path as git writes it, in quotation marks if it has special characters. None if `path` is not known."""
    hunks: list[Hunk] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Lines of git that this module does not read, such as one about a conflict."""

    @property
    def path(self) -> str:
        return self.new_path or self.old_path or "?"

    @property
    def is_renamed(self) -> bool:
        return None not in (self.old_path, self.new_path) and self.old_path != self.new_path

    def count(self, sign: LineSign) -> int:
        return sum(line.sign is sign for hunk in self.hunks for line in hunk.lines)


def read_patch(lines: Iterable[bytes]) -> Iterator[FilePatch]:
    """Yield each file as soon as its last line is read. `lines`: with prefixes `a/` and `b/`, without colours."""
    file: FilePatch | None = None
    header: list[str] = []
    hunk = Hunk("")
    old = new = old_end = new_end = 0
    for raw in lines:
        raw = raw.removesuffix(b"\n")
        if old < old_end or new < new_end or (raw[:1] == b"\\" and hunk.lines):
            line = _line(raw, old, new)
            hunk.lines.append(line)
            old, new = old + (line.old is not None), new + (line.new is not None)
            continue
        text = raw.decode("utf-8", "surrogateescape")
        if (found := _HUNK.match(text)) is not None and header:
            if file is None:
                file = _file(header)
            hunk = Hunk(text)
            file.hunks.append(hunk)
            old, new = int(found[1]), int(found[3])
            old_end, new_end = old + int(found[2] or 1), new + int(found[4] or 1)
        elif file is not None or text.startswith(_HEADER):
            if header:
                yield file or _file(header)
            file, header, hunk = None, [text], Hunk("")
        else:
            header.append(text)
    if header:
        yield file or _file(header)


def _line(raw: bytes, old: int, new: int) -> PatchLine:
    text = raw[1:].decode("utf-8", "replace")
    match raw[:1]:
        case b"+":
            return PatchLine(LineSign.ADDED, text, None, new)
        case b"-":
            return PatchLine(LineSign.DELETED, text, old, None)
        case b"\\":
            return PatchLine(LineSign.REMARK, text)
        case _:  # with diff.suppressBlankEmpty, git leaves out the blank of an empty line
            return PatchLine(LineSign.CONTEXT, text, old, new)


def _file(header: Sequence[str]) -> FilePatch:
    """The file that git's lines before its first hunk describe."""
    file = FilePatch(header=header)
    named: dict[str, str] = {}
    for text in header:
        first, _, rest = text.partition(" ")
        match first, rest.split(" "):
            case "diff", _ if text.startswith(_HEADER):
                named["both"] = rest.removeprefix("--git ")
            case (("---" | "+++"), _):
                named[first] = rest.removesuffix("\t")
            case (("rename" | "copy"), [("from" | "to") as end, *words]):
                named[end] = " ".join(words)
                file.is_copy = first == "copy"
            case (("old" | "new"), ["mode", mode]):
                file.old_mode, file.new_mode = (
                    (mode, file.new_mode) if first == "old" else (file.old_mode, mode)
                )
            case (("new" | "deleted"), ["file", "mode", mode]):
                if first == "new":
                    file.new_mode = mode
                else:
                    file.old_mode = mode
                named[first] = mode
            case "similarity", ["index", share]:
                file.similarity = share
            case "dissimilarity", ["index", _]:
                pass
            case "index", _ if (found := _INDEX.match(text)) is not None:
                file.old_object = found[1]
                if found[2]:
                    file.old_mode = file.new_mode = found[2]
            case "Binary", ["files", *_]:
                file.is_binary = True
            case _:
                file.notes.append(text)
    old, new = _written_paths(named)
    file.old_path, file.new_path = (None if path is None else unquoted(path) for path in (old, new))
    file.written_path = new or old
    return file


def _written_paths(named: dict[str, str]) -> tuple[str | None, str | None]:
    """The paths before and after the change, as git writes them."""
    if "from" in named or "to" in named:
        return named.get("from", "?"), named.get("to", "?")
    # Both halves are the same path, and a path may have blanks.
    both = named.get("both", "")
    half = _without_prefix(both[len(both) // 2 + 1 :]) or None
    old, new = (
        half if end not in named else None if named[end] == _NO_FILE else _without_prefix(named[end])
        for end in ("---", "+++")
    )
    return (None if "new" in named else old), (None if "deleted" in named else new)


def _without_prefix(path: str) -> str:
    return f'"{path[3:]}' if path.startswith('"') else path[2:]


def unquoted(path: str) -> str:
    """The path that git has written, in quotation marks if it has special characters."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path
    pieces, place, inner = list[bytes](), 0, path[1:-1]
    for found in _ESCAPE.finditer(inner):
        pieces.append(inner[place : found.start()].encode("utf-8", "surrogateescape"))
        pieces.append(bytes([_ESCAPED.get(found[1]) or int(found[1], 8) & 0xFF]))
        place = found.end()
    pieces.append(inner[place:].encode("utf-8", "surrogateescape"))
    return b"".join(pieces).decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class RawPatch:
    """The section of a file in the output of `git diff`."""

    text: bytes
    is_cut: bool
    """True if it was larger than the limit: the text then ends somewhere."""


def sections(stream: IO[bytes], most: int) -> Iterator[RawPatch]:
    """The sections of the output of `git diff`, each of at most `most` bytes.

    Every line of a file has a sign before it, so that no file can have a line that begins a section.
    """
    parts, size, read, at_start, is_open = list[bytes](), 0, 0, True, False
    for piece in iter(partial(stream.readline, _PIECE), b""):
        read += len(piece)
        if at_start and piece.startswith(_HEADER.encode()):
            if is_open:
                yield RawPatch(b"".join(parts), size > most)
            parts, size, is_open = [], 0, True
        size += len(piece)
        if size <= most:
            parts.append(piece)
        at_start = piece.endswith(b"\n")
        if read > _OUTPUT_MAX:
            size = most + 1
            break
    if is_open:
        yield RawPatch(b"".join(parts), size > most)
