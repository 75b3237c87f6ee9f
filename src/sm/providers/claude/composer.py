"""`Composer` for Claude Code: what its input box shows, and what it makes of a pasted text. Pure.

Source: the real program, 2.1.197, under tmux 3.3a.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from sm.core.text import overlong_marks
from sm.providers.base import Box
from sm.providers.claude.screen import State, read_screen

_TAKES_NO_PROMPT = frozenset({State.DIALOG, State.BLOCKED})
"""It shows its box, and what is typed there does something else."""


class ClaudeComposer:
    """The box of claude.

    A text with three newlines or more, or of more than 800 characters, stands in it as `[Pasted text #3 +9 lines]`,
    another one as it is; both arrive whole. One of more than 10,000 characters that has come back into the box (Escape
    before the first word of an answer) is shown without its middle.
    """

    settle_s = 0.3
    stash_key: str | None = "C-s"
    redraw_key: str | None = "C-l"
    clearing: Sequence[str] = ("C-u", "C-k")
    """C-u takes what stands before the cursor in its row, or joins that to the row above; C-k what stands behind."""

    def box(self, lines: Sequence[str]) -> Box:
        shown = list(_plain(lines, suggestions=True))
        seen = read_screen(shown)
        if seen.composer is None or seen.state in _TAKES_NO_PROMPT:
            unknown = seen.state is State.UNKNOWN
            if unknown and (end := _lower_end(shown)):
                return Box(None, _ABOVE + end, _is_stashed(shown))
            return Box(seen.what, unknown=unknown and _is_framed(shown))
        draft = seen.composer
        # What is typed there is run, and no known key puts it aside with its mode.
        if draft.startswith("!"):
            return Box("its input box is in shell mode")
        if draft:  # or a suggestion, which only its style tells from one
            draft = read_screen(list(_plain(lines, suggestions=False))).composer or ""
        return Box(None, draft, _is_stashed(shown))

    def pasted(self, letter: str) -> str:
        """With a blank at its end: it closes the list of files that a text ending in `@name` opens, which would take
        the Enter, and a backslash is not the last before it any more.

        And folded where it is better folded: in a text that stands in the box as it is, claude puts what was pasted
        before in the place of what only looks like `[Pasted text #3 +9 lines]`, and tmux draws no cell for what follows
        a zero-width joiner. Newlines at the end count.
        """
        missing = _FOLDS_AT - letter.count("\n")
        return f"{letter}{chr(10) * missing if _BETTER_FOLDED.search(letter) else ''} "

    def is_ours(self, draft: str, letter: str, shown: str | None = "") -> bool:
        draft = draft.strip()
        if (folded := _FOLDED.fullmatch(draft)) is not None:
            # Each paste has a number of its own; of its text only the lines can be counted.
            return self._is_folded(folded, letter) and (shown is None or draft == shown.strip())
        if draft.startswith(_ABOVE):
            return len(end := _seen(draft[len(_ABOVE) :])) >= _ABOVE_LEAVES and _seen(letter).endswith(end)
        if (cut := _CUT.search(draft)) is not None and len(letter) > _CUT_FROM:
            return _is_cut(draft[: cut.start()], draft[cut.end() :], letter)
        return _seen(draft) == _seen(letter)

    def _is_folded(self, folded: re.Match[str], letter: str) -> bool:
        return int(folded[1] or 0) == self.pasted(letter).count("\n")

    def holds_ours(self, draft: str, letter: str) -> bool:
        if any(self._is_folded(each, letter) for each in _FOLDED.finditer(draft)):
            return True
        header = r"\s*".join(map(re.escape, _seen(letter.partition("\n")[0])))
        # Not followed by a digit: message 5 is not message 57.
        if re.search(rf"{header}(?!\d)", _seen(draft, blanks=True)):
            return True
        left = _seen(draft)
        return len(left) >= _TELLING and _seen(letter).startswith(left)

    def accepted_form(self, text: str) -> str:
        """As claude makes it of what is pasted, but for blanks around it, which it takes away not always."""
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
        if not text.isascii() and overlong_marks(text) is None:  # no message of ours has such
            text = unicodedata.normalize("NFC", text)
        return text.strip(_TRIMMED)


_TELLING = 4
"""So many characters of a beginning are ours: `[sm]`."""
_FOLDS_AT = 3
"""So many newlines fold a text, in a pane of 12 rows or more; in a lower one fewer do."""
_CUT_FROM = 10_000
_CUT_LEAVES = 300
"""At least so many characters of each end; about 500 were seen."""
_ABOVE = "…\n"
"""How a draft begins whose beginning is above the top of the screen."""
_ABOVE_LEAVES = 100
"""At least so many characters of its end: a pane of 40 columns and 12 rows has room for hardly more than 250."""
_FOLDED = re.compile(r"\[Pasted text #\d+(?: \+(\d+) lines)?\]")
_CUT = re.compile(r"\[\.\.\.Truncated text #\d+ \+\d+ lines\.\.\.\]")
_BETTER_FOLDED = re.compile(r"\[(?:Pasted text|Image|\.\.\.Truncated text) #\d|\u200d")
_TRIMMED = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What JavaScript's trim() takes away (ECMA-262, WhiteSpace and LineTerminator)."""
_UNRELIABLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Sk", "So", "Zl", "Zp", "Zs"})
"""General categories of what may be seen otherwise than it was pasted, or not at all: claude wraps at blanks, and
programs disagree on how wide emoji and marks are.
"""


def _is_cut(beginning: str, end: str, letter: str) -> bool:
    beginning, end, whole = _seen(beginning), _seen(end), _seen(letter)
    enough = min(len(beginning), len(end)) >= _CUT_LEAVES or len(beginning) + len(end) >= len(whole)
    return enough and whole.startswith(beginning) and whole.endswith(end)


def _seen(text: str, *, blanks: bool = False) -> str:
    """What a screen shows of `text` for sure. `blanks`: those too."""
    return "".join(
        c
        for c in unicodedata.normalize("NFC", text)
        if (c in " \n" and blanks) or unicodedata.category(c) not in _UNRELIABLE
    )


_FILLS = 8
"""A draft that is taller than the screen fills at least so many rows of it."""


def _lower_end(rows: Sequence[str]) -> str:
    """What is seen of a draft that is taller than the screen; empty: it is none.

    Everything down to the box's one rule is indented by two, as nothing but drafts and the chat is, and the footer
    stands below it. Below a dialog that has grown so tall there is no footer; one with a pointer is none for sure.
    """
    rows = [row.replace("\xa0", " ").rstrip() for row in rows]
    rules = [number for number, row in enumerate(rows) if row.startswith("──")]
    if len(rules) != 1 or rules[0] < _FILLS:
        return ""
    above, below = rows[: rules[0]], [row for row in rows[rules[0] + 1 :] if row]
    indented = all(not row or row.startswith("  ") for row in (*above, *below))
    asks = any("\u276f" in row for row in above) or any("to cancel" in row for row in below)
    if not indented or not below or asks or not above[-1]:
        return ""
    return "\n".join(row[2:] for row in above)


_FRAME_ROWS = 12


def _is_framed(rows: Sequence[str]) -> bool:
    """Whether it is claude that has drawn this, however badly: a rule, and below it nothing but its indented footer.

    And not an editor that a person has opened from it, or the shell in which it stands still.
    """
    filled = [row for row in rows if row.strip()][-_FRAME_ROWS:]
    return bool(filled) and filled[-1].startswith("  ") and any(row.startswith("──") for row in filled)


def _is_stashed(rows: Sequence[str]) -> bool:
    """By the last notice at the right of the footer."""
    below = next((n for n in range(len(rows) - 1, -1, -1) if rows[n].startswith("──")), 0)
    return any(row.rstrip().endswith("\u203a stashed") for row in rows[below:])


# -------------------------------------------------------------------------------------------------- styles

_SEQUENCE = re.compile(
    "\x1b\\[([0-9;:]*)m|\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[\x0e\x0f]"
)
"""What `tmux capture-pane -e` writes between characters: styles, links, other character sets."""


def _plain(lines: Sequence[str], *, suggestions: bool) -> Iterator[str]:
    """The lines without styles; without `suggestions`, too, which claude shows in dim letters.

    The first letter of one stands under the cursor, reversed and not dim. A style holds until the next one, over the
    ends of lines.
    """
    dim = reversed_ = False
    for line in lines:
        found: list[str] = []
        under_cursor: int | None = None
        last = 0
        for sequence in (*_SEQUENCE.finditer(line), None):
            text = line[last:] if sequence is None else line[last : sequence.start()]
            if text:
                if dim and not suggestions:
                    text = " " * len(text)
                    if under_cursor is not None:
                        found[under_cursor] = " "
                under_cursor = len(found) if reversed_ and len(text) == 1 else None
                found.append(text)
            if sequence is not None:
                last = sequence.end()
                if sequence[1] is not None:
                    dim, reversed_ = _styled(sequence[1], dim, reversed_)
        yield "".join(found)


def _styled(parameters: str, dim: bool, reversed_: bool) -> tuple[bool, bool]:
    """Whether text is dim and reversed after a style (ECMA-48, SGR; 38 and 48 bring parameters of their own)."""
    numbers = iter(parameters.split(";"))
    for number in numbers:
        if number in ("38", "48", "58"):
            for _ in range({"5": 1, "2": 3}.get(next(numbers, ""), 0)):
                next(numbers, "")
        dim = {"": False, "0": False, "2": True, "22": False}.get(number, dim)
        reversed_ = {"": False, "0": False, "7": True, "27": False}.get(number, reversed_)
    return dim, reversed_
