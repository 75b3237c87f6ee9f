"""Writes the file in which a person comments on changes, and reads the comments in it. Pure.

Each line of the changes begins with `>`. A comment is the lines below the line that it is about.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sm.capabilities.reviews.alignment import aligned
from sm.capabilities.reviews.model import Comment, CommentPlace
from sm.capabilities.reviews.rules import trimmed
from sm.capabilities.reviews.shown_changes import ShownLine, paths_of, shown_changes
from sm.core.dataclass import dataclass
from sm.core.lines import plural

_MARK = ">"
_ESCAPABLE = re.compile(r"\\*(?:>|@[0-9])")
_RANGE = re.compile(r"@([1-9][0-9]{0,4})(?: (.*))?", re.DOTALL)


_ABOVE = """\
The changes of {name} {since}: {files}.

Write comments below the lines that they are about. Lines that begin with > are not sent.
A comment above all files is about the whole change, one below the first lines of a file is about that file.
"@3 TEXT" is a comment about the 3 lines above it.
Begin a line of a comment that itself begins with > or @3 with a \\.
Nothing is sent before you agree, unless you gave --yes, and nothing at all without a comment.



"""
# An editor may obey settings in the first and the last lines of a file, ten at most as they come: an agent must not
# have written any of them. Emacs looks for these words in the last 3,000 characters.
_BELOW = """\

The changes end here.
A comment below this line is about the whole change.







"""
_EMACS = re.compile("(local variables):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Written:
    """A comment in the file."""

    place: CommentPlace
    quote: str
    text: str


@dataclass(frozen=True, slots=True)
class ReadFile:
    comments: Sequence[Written]
    """In the order of the file."""
    changed: Sequence[str]
    """Lines that begin with `>` and are none of those that were written."""


def editor_file(name: str, since: str, diff: str) -> "EditorFile":
    """The file for the output of `git diff`. `since`: when the changes began, in words."""
    changes = shown_changes(diff)
    above = _ABOVE.format(name=name, since=since, files=plural(len(paths_of(changes)), "file"))
    return EditorFile([*_explanation(above), *changes, *_explanation(_BELOW)])


def _explanation(text: str) -> list[ShownLine]:
    return [ShownLine(line) for line in text.removesuffix("\n").split("\n")]


@dataclass(frozen=True, slots=True)
class EditorFile:
    """The lines of the file that are not comments: explanations are lines without a file."""

    lines: Sequence[ShownLine]

    def write(self, comments: Mapping[int, Comment]) -> str:
        """The text of the file, with comments below lines, as `placed` has placed them."""
        written = []
        for index, line in enumerate(self.lines):
            written.append(_marked(line))
            if (comment := comments.get(index)) is not None:
                written += self._block(index, comment)
        return "".join(f"{line}\n" for line in written)

    def read(self, text: str) -> ReadFile:
        """Find the comments in the text that a person has left."""
        edited = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        quoted = [line.rstrip() for line in edited if line.startswith(_MARK)]
        found = aligned([_marked(line).rstrip() for line in self.lines], quoted)
        blocks: dict[int, list[str]] = {}
        at, places = 0, iter(found)
        for line in edited:
            if line.startswith(_MARK):
                known = next(places)
                at = at if known is None else known
            else:
                index = at - 1 if self.lines[at].is_remark else at
                blocks.setdefault(index, []).append(line)
        comments = dict[object, Written]()
        for index, block in sorted(blocks.items()):
            comment = self._comment(index, block)
            if comment.text:
                # One about a file may be in several parts of its header.
                earlier = comments.get(comment.place.anchor)
                joined = (
                    comment if earlier is None else replace(earlier, text=f"{earlier.text}\n\n{comment.text}")
                )
                comments[comment.place.anchor] = joined
        original = {_marked(line).rstrip() for line in self.lines}
        return ReadFile([*comments.values()], [line for line in quoted if line not in original])

    def placed(self, drafts: Iterable[Comment]) -> tuple[dict[int, Comment], list[Comment]]:
        """Place drafts below the lines that they are about. Returns them by the index of the line, and the others.

        Lines may have moved since: a draft follows the nearest line of its file with the same text.
        """
        by_index: dict[int, Comment] = {}
        left = []
        for draft in drafts:
            index = self._index(draft)
            if index is None or index in by_index:
                left.append(draft)
            else:
                by_index[index] = draft
        return by_index, left

    def _index(self, draft: Comment) -> int | None:
        place = draft.place
        if place.last is None:
            if place.path is None:
                return self._top()
            lines = enumerate(self.lines)
            # The headers of hunks are lines of the file too, but stand below its first ones.
            headers = (
                i for i, line in lines if line.path == place.path and not (line.hunk or line.text[:2] == "@@")
            )
            return max(headers, default=None)
        best, distance = None, 0
        for index, line in enumerate(self.lines):
            number = line.number(place.side)
            if number is None or line.path != place.path or not _fits(line, draft):
                continue
            if best is None or abs(number - place.last) < distance:
                best, distance = index, abs(number - place.last)
        return best

    def _top(self) -> int:
        """The last of the lines above all files."""
        return next((i - 1 for i, line in enumerate(self.lines) if i and line.path is not None), 0)

    def _block(self, index: int, comment: Comment) -> list[str]:
        lines = comment.text.split("\n")
        place = comment.place
        if place.last is None or place.first in (None, place.last):
            return [_escaped(line) for line in lines]
        begin = index
        while begin and self.lines[begin - 1].hunk == self.lines[index].hunk:
            begin -= 1
            if self.lines[begin].number(place.side) == self._moved(index, comment):
                break
        return [f"@{index - begin + 1} {lines[0]}", *map(_escaped, lines[1:])]

    def _moved(self, index: int, comment: Comment) -> int:
        """The number of the first line of a range whose last line is at the index now."""
        first, last = comment.place.first or 0, comment.place.last or 0
        return first + (self.lines[index].number(comment.place.side) or last) - last

    def _comment(self, index: int, block: Sequence[str]) -> Written:
        """A comment below a line. Its text is empty for blank lines."""
        lines, line = trimmed(block), self.lines[index]
        found = _RANGE.fullmatch(lines[0]) if lines and line.hunk else None
        if found is not None and (rest := trimmed([found[2] or "", *map(_unescaped, lines[1:])])):
            return Written(self._range(index, int(found[1])), line.quote, "\n".join(rest))
        return Written(line.place, line.quote, "\n".join(map(_unescaped, lines)))

    def _range(self, index: int, count: int) -> CommentPlace:
        """The place of so many lines of a hunk, of which the last one is at the index."""
        last = self.lines[index]
        place = last.place
        lines = self.lines[max(0, index - count + 1) : index + 1]
        numbers = [line.number(place.side) for line in lines if line.hunk == last.hunk]
        return CommentPlace(place.path, place.side, next(n for n in numbers if n is not None), place.last)


def _fits(line: ShownLine, draft: Comment) -> bool:
    if draft.quote:
        return line.quote == draft.quote
    return line.number(draft.place.side) == draft.place.last


def _marked(line: ShownLine) -> str:
    text = _EMACS.sub(r"\1<U+003A>", line.text)
    return f"{_MARK} {text}" if text else _MARK


def _escaped(line: str) -> str:
    return f"\\{line}" if _ESCAPABLE.match(line) else line


def _unescaped(line: str) -> str:
    return line[1:] if line.startswith("\\") and _ESCAPABLE.match(line) else line
