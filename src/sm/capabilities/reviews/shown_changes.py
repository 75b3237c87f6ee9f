"""Reads the output of `git diff` as lines that a person can comment on. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from sm.capabilities.reviews.model import PATH_MAX, QUOTE_MAX, CommentPlace, Side
from sm.capabilities.reviews.rules import shown_line
from sm.core.dataclass import dataclass
from sm.core.quotation import visible
from sm.core.text import cut_marks

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_HEADER = "diff --git "
_REMARK = "\\"
_NO_FILE = "/dev/null"


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of the changes as a person sees it: characters that a terminal would obey are code points."""

    text: str
    path: str | None = None
    """The file, or None for a line that belongs to no file."""
    hunk: int = 0
    """The number of the hunk among those of all files; 0 for a line that is no line of a file."""
    old: int | None = None
    """The number of the line before the change."""
    new: int | None = None

    @property
    def is_remark(self) -> bool:
        """True for a remark of git about the line above it: that no newline ends it."""
        return bool(self.hunk) and self.old is None and self.new is None

    @property
    def place(self) -> CommentPlace:
        if self.new is not None:
            return CommentPlace(self.path, Side.NEW, self.new, self.new)
        if self.old is not None:
            return CommentPlace(self.path, Side.OLD, self.old, self.old)
        return CommentPlace(self.path)

    @property
    def quote(self) -> str:
        """The text as it is kept with a comment: one with which the daemon changes nothing."""
        if not self.hunk:
            return ""
        text = unicodedata.normalize("NFC", cut_marks(self.text))
        return text if len(text) <= QUOTE_MAX else f"{text[: QUOTE_MAX - 1]}…"

    def number(self, side: Side | None) -> int | None:
        return self.old if side is Side.OLD else self.new


def shown_changes(diff: str) -> list[ShownLine]:
    """The lines of the output of `git diff` with the prefixes `a/` and `b/`.

    A comment below a line without a number is about its file. Only the numbers in the header of a hunk decide which
    lines are those of a file: an agent can write lines that look like headers.
    """
    return list(_read(diff.removesuffix("\n").split("\n") if diff else ()))


def paths_of(lines: Iterable[ShownLine]) -> list[str]:
    """The files in the lines."""
    return list(dict.fromkeys(line.path for line in lines if line.path is not None))


def _read(lines: Iterable[str]) -> Iterator[ShownLine]:
    path: str | None = None
    old = new = old_end = new_end = hunk = 0
    header: list[str] = []
    for text in lines:
        if old < old_end or new < new_end:
            sign = text[:1]
            if sign == _REMARK:
                yield ShownLine(shown_line(text), path, hunk)
                continue
            numbers = (None if sign == "+" else old, None if sign == "-" else new)
            old, new = old + (sign != "+"), new + (sign != "-")
            yield ShownLine(shown_line(text), path, hunk, *numbers)
        elif text.startswith(_REMARK):
            yield ShownLine(shown_line(text), path, hunk)
        elif (found := _HUNK.match(text)) is not None:
            if header:
                path = _path(header)
                yield from _of_header(header)
                header = []
            old, new = int(found[1]), int(found[3])
            old_end, new_end = old + int(found[2] or 1), new + int(found[4] or 1)
            hunk += 1
            yield ShownLine(shown_line(text), path)
        elif text.startswith(_HEADER):
            yield from _of_header(header)
            header = [text]
        else:
            header.append(text)
    yield from _of_header(header)


def _of_header(header: list[str]) -> Iterator[ShownLine]:
    if header:
        path = _path(header)
        yield from (ShownLine(shown_line(line), path) for line in header)


def _path(header: list[str]) -> str:
    """The path in the lines before the first hunk of a file, as git writes it."""
    named = dict[str, str]()
    for line in header[1:]:
        for word in ("--- ", "+++ ", "rename to ", "copy to "):
            if line.startswith(word):
                named.setdefault(word, line.removeprefix(word).removesuffix("\t"))
    for word in ("rename to ", "copy to "):
        if word in named:
            return _shown_path(named[word])
    for word in ("+++ ", "--- "):
        if named.get(word, _NO_FILE) != _NO_FILE:
            return _shown_path(_without_prefix(named[word]))
    # Both halves are the same path, and a path may have blanks.
    both = header[0].removeprefix(_HEADER)
    return _shown_path(_without_prefix(both[len(both) // 2 + 1 :]))


def _without_prefix(path: str) -> str:
    return f'"{path[3:]}' if path.startswith('"') else path[2:]


def _shown_path(path: str) -> str:
    return unicodedata.normalize("NFC", cut_marks(visible(path)))[:PATH_MAX] or "?"
