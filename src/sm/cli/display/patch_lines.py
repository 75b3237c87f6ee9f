"""Lays out the changes of a file for a person at a terminal: names, numbers and lines, with the role of each piece.

Every piece is safe to print: characters that a terminal would obey are code points.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from sm.cli.display.patch_syntax import LINE_MAX, Syntax, SyntaxReader, Words
from sm.core.changed_words import Spans, changed_words
from sm.core.columns import columns
from sm.core.dataclass import dataclass
from sm.core.patches import FilePatch, Hunk, LineSign, PatchLine
from sm.core.quotation import visible
from sm.core.text import cut_marks

_TAB = 8
_KIB, _UNITS = 1024, ("KiB", "MiB", "GiB")
_KINDS = {"120000": "symbolic link", "160000": "submodule"}
_MODES = {"100644": "644", "100755": "755"}


class PieceRole(StrEnum):
    FILE = "file"
    DETAIL = "detail"
    RULE = "rule"
    HUNK = "hunk"
    NUMBER = "number"
    CONTEXT = "context"
    ADDED = "added"
    ADDED_WORD = "added word"
    DELETED = "deleted"
    DELETED_WORD = "deleted word"


Piece = tuple[str, PieceRole, Syntax]
Pieces = Sequence[Piece]
"""A line in parts."""

_WHOLE = {LineSign.ADDED: PieceRole.ADDED, LineSign.DELETED: PieceRole.DELETED}
_WORD = {LineSign.ADDED: PieceRole.ADDED_WORD, LineSign.DELETED: PieceRole.DELETED_WORD}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The bytes of a binary file before and after, or None for a file that does not exist or could not be read."""

    old: int | None = None
    new: int | None = None


def safe(text: str) -> str:
    """Show each character that a terminal would obey as its code point. Tabs too."""
    return text if text.isascii() and text.isprintable() else cut_marks(visible(text))


def plain(text: str) -> str:
    """A line of git's own output as it may go to a terminal: its tabs stay."""
    return "\t".join(map(safe, text.split("\t")))


def file_name(file: FilePatch) -> str:
    """The path of a file, with the earlier one if it was renamed or copied."""
    if not file.is_renamed:
        return safe(file.path)
    return f"{safe(file.old_path or '')} → {safe(file.path)}"


def file_counts(file: FilePatch) -> Pieces:
    """`+2 -1`, without a number that is 0."""
    pieces = list[Piece]()
    for sign, role in _WHOLE.items():
        if count := file.count(sign):
            pieces += [(" ", PieceRole.DETAIL, Syntax.NONE), (f"{sign}{count}", role, Syntax.NONE)]
    return pieces


def file_details(file: FilePatch, sizes: Sizes) -> list[str]:
    """The particulars of a file: new, renamed, its mode, its size if it is binary."""
    details = list[str]()
    if file.old_path is None:
        details.append("new")
    elif file.new_path is None:
        details.append("deleted")
    elif file.is_renamed:
        same = f", {safe(file.similarity)} the same" if file.similarity not in ("", "100%") else ""
        details.append(f"{'copied' if file.is_copy else 'renamed'}{same}")
    mode = file.new_mode or file.old_mode
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        details.append(f"mode {_mode(file.old_mode)} → {_mode(file.new_mode)}")
    elif mode in _KINDS:
        details.append(_KINDS[mode])
    elif mode == "100755" and file.old_path is None:
        details.append("executable")
    if file.is_binary:
        shown = [size_text(size) for size in (sizes.old, sizes.new) if size is not None]
        details.append(" ".join(filter(None, ("binary", " → ".join(shown)))))
    return details


def _mode(mode: str) -> str:
    return _MODES.get(mode) or _KINDS.get(mode) or safe(mode)


def size_text(size: int) -> str:
    if size < _KIB:
        return "1 byte" if size == 1 else f"{size} bytes"
    shown, unit = size / _KIB, 0
    while shown >= 1000 and unit < len(_UNITS) - 1:
        shown, unit = shown / _KIB, unit + 1
    return f"{shown:.{0 if shown >= 10 else 1}f} {_UNITS[unit]}"


def header_line(file: FilePatch, sizes: Sizes) -> Pieces:
    details = ", ".join(file_details(file, sizes))
    more: list[Piece] = [(f" ({details})", PieceRole.DETAIL, Syntax.NONE)] if details else []
    return [(file_name(file), PieceRole.FILE, Syntax.NONE), *more, *file_counts(file)]


def note_lines(file: FilePatch) -> Iterator[Pieces]:
    yield from ([(safe(note), PieceRole.DETAIL, Syntax.NONE)] for note in file.notes)


def file_lines(file: FilePatch, sizes: Sizes, width: int, reader: SyntaxReader) -> Iterator[Pieces]:
    """The header of a file with a rule below, and its hunks."""
    if file.old_path is not None or file.new_path is not None:
        yield header_line(file, sizes)
        yield [("─" * width, PieceRole.RULE, Syntax.NONE)]
    yield from note_lines(file)
    digits = number_width(file)
    for hunk in file.hunks:
        yield [(safe(hunk.header), PieceRole.HUNK, Syntax.NONE)]
        yield from hunk_lines(file, hunk, digits, reader)


def number_width(file: FilePatch) -> int:
    """The digits of the highest number of a line."""
    last = [hunk.lines[-10:] for hunk in file.hunks[-1:]]
    numbers = [number for lines in last for line in lines for number in (line.old, line.new)]
    return max(3, len(str(max((number or 0 for number in numbers), default=0))))


def hunk_lines(file: FilePatch, hunk: Hunk, digits: int, reader: SyntaxReader) -> Iterator[Pieces]:
    """Each line with its numbers before and after, its sign, its syntax and the words that changed."""
    old = reader.words(file.old_path or "", _side(hunk, LineSign.ADDED))
    new = reader.words(file.new_path or "", _side(hunk, LineSign.DELETED))
    for block in _blocks(hunk.lines):
        texts = [
            [line.text for line in block if line.sign is sign] for sign in (LineSign.DELETED, LineSign.ADDED)
        ]
        before, after = changed_words(*texts)
        counts = dict.fromkeys(LineSign, 0)
        for line in block:
            number, spans = counts[line.sign], before if line.sign is LineSign.DELETED else after
            counts[line.sign] += 1
            words: Words | None = None
            if line.sign in (LineSign.DELETED, LineSign.CONTEXT):
                words = next(old)
            if line.sign in (LineSign.ADDED, LineSign.CONTEXT):
                words = next(new)
            changed = () if line.sign not in _WORD else spans.get(number, ())
            yield _pieces(line, digits, words, changed)


def _side(hunk: Hunk, other: LineSign) -> list[str]:
    return [line.text for line in hunk.lines if line.sign not in (other, LineSign.REMARK)]


def _blocks(lines: Sequence[PatchLine]) -> Iterator[Sequence[PatchLine]]:
    """Split lines so that deleted lines and the added ones after them are together."""
    block = list[PatchLine]()
    for line in lines:
        last = next((known.sign for known in reversed(block) if known.sign is not LineSign.REMARK), line.sign)
        is_next = line.sign in (last, LineSign.REMARK) or (last, line.sign) == (
            LineSign.DELETED,
            LineSign.ADDED,
        )
        if block and not is_next:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _pieces(line: PatchLine, digits: int, words: Words | None, changed: Spans) -> Pieces:
    if line.sign is LineSign.REMARK:
        return [(f"{' ' * (2 * digits + 2)}│{safe(line.text)}", PieceRole.NUMBER, Syntax.NONE)]
    numbers = " ".join(f"{'' if number is None else number:>{digits}}" for number in (line.old, line.new))
    role = _WHOLE.get(line.sign, PieceRole.CONTEXT)
    pieces: list[Piece] = [
        (f"{numbers} ", PieceRole.NUMBER, Syntax.NONE),
        (f"│{line.sign}", role, Syntax.NONE),
    ]
    text = line.text
    left = len(text) - LINE_MAX
    column = 0
    for begin, end, syntax in _parts(text[:LINE_MAX], words, changed):
        is_changed = any(first <= begin < behind for first, behind in changed)
        shown = _expanded(text[begin:end], column)
        column += columns(shown)
        pieces.append((shown, _WORD[line.sign] if is_changed else role, syntax))
    if left > 0:
        pieces.append((f"… {left:,} more characters", PieceRole.DETAIL, Syntax.NONE))
    return pieces


def _parts(text: str, words: Words | None, changed: Spans) -> Iterator[tuple[int, int, Syntax]]:
    """The places of a text where neither its syntax changes nor that it is a changed word."""
    cuts = sorted({cut for span in changed for cut in span if cut < len(text)})
    begin = 0
    for size, syntax in words if words is not None else [(len(text), Syntax.NONE)]:
        end = begin + size
        for cut in (*(cut for cut in cuts if begin < cut < end), end):
            if cut > begin:
                yield begin, cut, syntax
            begin = cut


def _expanded(text: str, column: int) -> str:
    """A part of a line that begins in this column, with blanks for tabs."""
    if "\t" not in text:
        return safe(text)
    pieces = list[str]()
    for number, piece in enumerate(text.split("\t")):
        if number:
            blanks = _TAB - column % _TAB
            pieces.append(" " * blanks)
            column += blanks
        shown = safe(piece)
        pieces.append(shown)
        column += columns(shown)
    return "".join(pieces)
