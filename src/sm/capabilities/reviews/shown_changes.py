"""Lays out the output of `git diff` as lines that a person can comment on. Pure."""

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import count

from sm.capabilities.reviews.model import PATH_MAX, QUOTE_MAX, CommentPlace, Side
from sm.capabilities.reviews.rules import shown_line
from sm.core.dataclass import dataclass
from sm.core.patches import FilePatch, read_patch
from sm.core.quotation import visible
from sm.core.text import cut_marks


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

    A comment below a line without a number is about its file.
    """
    lines = diff.encode("utf-8", "replace").removesuffix(b"\n").split(b"\n") if diff else ()
    hunks = count(1)
    return [line for file in read_patch(lines) for line in _of_file(file, hunks)]


def paths_of(lines: Iterable[ShownLine]) -> list[str]:
    """The files in the lines."""
    return list(dict.fromkeys(line.path for line in lines if line.path is not None))


def _of_file(file: FilePatch, hunks: Iterator[int]) -> Iterator[ShownLine]:
    path = shown_path(file)
    for text in file.header:
        yield ShownLine(shown_line(_replaced(text)), path)
    for hunk in file.hunks:
        number = next(hunks)
        yield ShownLine(shown_line(_replaced(hunk.header)), path)
        for line in hunk.lines:
            yield ShownLine(shown_line(f"{line.sign}{line.text}"), path, number, line.old, line.new)


def shown_path(file: FilePatch) -> str | None:
    """The path by which comments name a file: as git writes it, so that no two files have the same."""
    written = file.written_path
    if written is None:
        return None
    return unicodedata.normalize("NFC", cut_marks(visible(_replaced(written))))[:PATH_MAX] or "?"


def _replaced(text: str) -> str:
    """The text with U+FFFD for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
