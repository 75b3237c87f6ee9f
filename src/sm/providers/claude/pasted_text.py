"""Prepares texts to paste into claude's input box, and reads pasted texts as claude reports them. Pure.

claude from a version after 2.1.197 puts `<pasted_content id="8885">` around a paste of more than 800 characters or more
than two newlines, and tells the model that such text may hold instructions the user did not write. It also removes
characters that nobody sees. Measured with 2.1.197 and 2.1.332, which both keep pastes apart that arrive at once.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from sm.core.text import overlong_marks
from sm.providers.claude.dialect import NOTHING, current

_PIECE_LEAST = 100
_PIECES_MAX = 700
"""claude needs about 3 ms of processor time for a piece of a long draft. A text of more pieces is pasted whole."""
_GROUP_MAX, _GROUP_NEWLINES_MAX = 3_400, 34
"""The pieces that are pasted between two looks at the box: few enough for a terminal of 40 rows to show them."""
_CUT_BACK = 150
"""How far before the end of a full piece a blank is searched for the cut."""

_LIKE_A_SCREEN = re.compile(
    "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}|^[ \t]*\u2500\u2500", re.MULTILINE
)

"""Only the end of a tall draft is visible, and it must not look like a box or a dialog."""
_TALL_NEWLINES, _TALL_FROM = 10, 800
_SHORTENED_FROM = 9_500
"""2.1.197 shows a draft of more than 10,000 characters without its middle, and then expands texts like its own."""

_LINE_ENDS = frozenset("\n\u2028\u2029")
_IMAGE = re.compile(r"\.(?=\\*(?:png|jpe?g|gif|webp)[\"']?(?:\s|$))", re.IGNORECASE)
"""The dot of a line that claude would take for the path of an image: it would replace the line by an attachment."""

_ZERO_WIDTH_JOINERS = frozenset({0x200C, 0x200D})
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_JAMO = (range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xAC00, 0xD800))
_VIRAMA = 9
"""The combining class of the sign that joins two consonants (Unicode TR 44)."""


def paste_groups(text: str) -> Sequence[Sequence[str]]:
    """Split a message into the pastes that claude takes for typed text, grouped by the looks at the box.

    The blank at the end closes the file list that a text ending in `@name` opens, which would consume the Enter, and
    prevents a final backslash. claude removes other white space there.
    """
    text = f"{text.rstrip()} "
    pieces: list[str] = []
    for piece in _pieces(text):
        pieces.append(piece)
        if len(pieces) > _PIECES_MAX:
            return [[text]]
    groups = list(_groups(pieces))
    may_be_tall = text.count("\n") > _TALL_NEWLINES or len(text) > _TALL_FROM
    is_like_a_screen = may_be_tall and _LIKE_A_SCREEN.search(text) is not None
    is_shortened = len(text.replace("\t", "    ")) > _SHORTENED_FROM
    is_like_a_fold = is_shortened and any(current().phrases("box.expanded").places(text))
    return [[text]] if is_like_a_screen or is_like_a_fold else groups


def _groups(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    group: list[str] = []
    size = newlines = 0
    for piece in pieces:
        size, newlines = size + len(piece), newlines + piece.count("\n")
        is_full = size > _GROUP_MAX or newlines > _GROUP_NEWLINES_MAX
        # The last row of a box that is taller than the screen shows where the draft ends, unless it is blank.
        if is_full and "".join(group).rpartition("\n")[2].strip():
            yield group
            group, size, newlines = [], len(piece), piece.count("\n")
        group.append(piece)
    yield group


def _pieces(text: str) -> Iterator[str]:
    # A piece must have room for a grapheme, and for a newline.
    limit, newlines_max = (
        max(least, int(current().choose(f"paste.{of}", NOTHING).value))
        for of, least in (("characters", _PIECE_LEAST), ("newlines", 1))
    )
    cuts = {match.end() for match in _IMAGE.finditer(text)}
    start = 0
    while start < len(text):
        end, size, newlines = start, 0, 0
        while end < len(text) and not (end in cuts and end > start):
            character = text[end]
            size += 4 if character == "\t" else 2 if character > "\uffff" else 1
            newlines += character in _LINE_ENDS
            if size > limit or newlines > newlines_max:
                end = _cut(text, start, end)
                break
            end += 1
        yield text[start:end]
        start = end


def _cut(text: str, start: int, end: int) -> int:
    """The position at or before `end` at which a piece may end: at a line's end, a blank, or between graphemes."""
    if text[end] in _LINE_ENDS:
        return end
    for at in range(end, max(start, end - _CUT_BACK), -1):
        if text[at - 1] in " \n" and not _continues(text, at):
            return at
    return next((at for at in range(end, start, -1) if not _continues(text, at)), end)


def _continues(text: str, at: int) -> bool:
    """Return whether one grapheme may reach over this position: a cut there could change what claude reads.

    Wider than Unicode TR 29: also between the letters of one syllable, and in every run of regional letters.
    """
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return False
    return (
        unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf")
        or unicodedata.category(before) == "Cf"
        or unicodedata.combining(before) == _VIRAMA
        or ord(after) in _SKIN_TONES
        or (ord(before) in _REGIONAL and ord(after) in _REGIONAL)
        or (any(ord(before) in block for block in _JAMO) and any(ord(after) in block for block in _JAMO[:2]))
        or ord(after) in _ZERO_WIDTH_JOINERS
    )


# ----------------------------------------------------------------------------------------- reported texts

_ID = re.compile(r"[0-9a-f]{4}")
_AFTER_ID = '">\n'
_BLOCKS_MAX = 100
"""Bounds the search in one text."""


def without_paste_tags(text: str) -> tuple[str, bool]:
    """Remove the tags that claude puts around a paste. Returns the text and True if there were any.

    A pair of tags has the same id. claude adds up to two newlines on each side, and trims the paste, so the white space
    at the ends of a paste is not reported as it was.
    """
    found = False
    for tag in current().texts("paste.tags"):
        text, is_there = _without_tag(text, tag)
        found = found or is_there
    return text, found


def _without_tag(text: str, tag: str) -> tuple[str, bool]:
    """Remove one kind of tags. Returns the text and True if there were any."""
    opening = f'<{tag} id="'
    if opening not in text:
        return text, False
    parts, last, at = list[str](), 0, text.find(opening)
    for _ in range(_BLOCKS_MAX):
        if at < 0:
            break
        id_at = at + len(opening)
        body_at = id_at + 4 + len(_AFTER_ID)
        id = text[id_at : id_at + 4]
        closing = f'\n</{tag} id="{id}">'
        is_tag = _ID.fullmatch(id) is not None and text.startswith(_AFTER_ID, id_at + 4)
        end = text.find(closing, body_at - 1) if is_tag else -1
        if end < 0:
            at = text.find(opening, id_at)
            continue
        parts += [text[last:at].removesuffix("\n").removesuffix("\n"), text[body_at:end]]
        last = end + len(closing)
        last += sum(1 for sign in text[last : last + 2] if sign == "\n")
        at = text.find(opening, last)
    if not parts:
        return text, False
    return "\n".join(filter(None, (*parts, text[last:]))), True


_TRIMMED = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""Characters that trim() in JavaScript removes (ECMA-262, WhiteSpace and LineTerminator)."""
_NEWLINES = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001107f\U00013430-\U0001343f\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters of which claude removes some from a prompt: those that change nothing on the screen where they stand."""
_ESCAPED = re.compile(r"<\\(?=/?\w)")
"""claude writes `<\\pasted_content` and `<\\/pasted_content` where a text itself holds the tags."""


def accepted_form(text: str) -> str:
    """Normalize a text as claude does. Also strips outer blanks, which claude strips only sometimes."""
    text = _NEWLINES.sub("\n", text).replace("\t", "    ")
    if "<\\" in text:
        text = _ESCAPED.sub("<", text)
    # A message may quote the tags. 2.1.197 reports them as they are, and the readers of reports remove them.
    text, _ = without_paste_tags(text)
    if not text.isascii():
        text = _HIDDEN.sub("", text)
        if overlong_marks(text) is None:  # messages of sm have no such marks
            text = unicodedata.normalize("NFC", text)
    return text.strip(_TRIMMED)
