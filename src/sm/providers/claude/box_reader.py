"""Interprets the input box of Claude Code and prepares texts to paste. Pure.

Source: the real program, 2.1.197, under tmux 3.3a.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from sm.providers.base import Box, PromptRefusal
from sm.providers.claude.dialect import current
from sm.providers.claude.pasted_text import accepted_form, paste_groups
from sm.providers.claude.screen import State, read_screen

_TAKES_NO_PROMPT = frozenset({State.DIALOG, State.BLOCKED})
"""States that show the box but use typed text for something else."""


class ClaudeBoxReader:
    """`BoxReader` for claude.

    sm pastes in pieces that the box shows unchanged. The box shows a paste with three newlines or more, or of more than
    800 characters, as `[Pasted text #3 +9 lines]` (folded): pastes of an earlier sm, of a person, and texts of too many
    pieces. A text of more than 10,000 characters that returned to the box (Escape before the first word of an answer)
    is shown without its middle.
    """

    settle_s = 0.3
    stash_key: str | None = "C-s"
    redraw_key: str | None = "C-l"

    def clearing(self, draft: str) -> Sequence[str]:
        """The keys for this draft.

        C-u deletes the row before the cursor, or joins the row to the previous one. C-k deletes the rest of the row.
        For a draft that is taller than the screen they are slow: C-_ undoes all pastes of about a second.
        """
        return ("C-_", "C-u", "C-k") if draft.startswith(_ABOVE) else ("C-u", "C-k")

    def box(self, lines: Sequence[str]) -> Box:
        shown = list(_without_styles(lines, suggestions=True))
        screen = read_screen(shown)
        if screen.composer is None or screen.state in _TAKES_NO_PROMPT:
            unknown = screen.state is State.UNKNOWN
            if unknown and (end := _visible_end(shown)):
                return Box(None, _ABOVE + end, _is_stashed(shown))
            return Box(screen.what, unknown=unknown and _is_framed(shown))
        draft = screen.composer
        # Shell mode runs typed text, and no known key stashes the draft with its mode.
        if draft.startswith("!"):
            return Box("the input box is in shell mode")
        if draft:  # perhaps a suggestion, which differs from a draft only in style
            draft = read_screen(list(_without_styles(lines, suggestions=False))).composer or ""
        return Box(None, draft, _is_stashed(shown))

    def paste_groups(self, text: str) -> Sequence[Sequence[str]]:
        return paste_groups(text)

    def shows_message(self, draft: str, text: str, shown: str | None = "") -> bool:
        draft = _without_hint(draft.strip(), text)
        if (folded := current().phrases("box.folded").fit(draft)) is not None:
            # The number differs for each paste; of the text only the line count is visible.
            return self._is_folded(folded, text) and (shown is None or draft == shown.strip())
        is_long = len(text.replace("\t", "    ")) > _CUT_FROM
        cut = next(current().phrases("box.cut").places(draft), None) if is_long else None
        if draft.startswith(_ABOVE):
            end = _reliable_text(draft[len(_ABOVE) if cut is None else cut.end :])
            return len(end) >= _ABOVE_LEAVES and _reliable_text(text).endswith(end)
        if cut is not None:
            return _is_cut(draft[: cut.start], draft[cut.end :], text)
        return _reliable_text(draft) == _reliable_text(text)

    def _is_folded(self, folded: Mapping[str, str], text: str) -> bool:
        return folded.get("lines", "0") == str(text.rstrip().count("\n"))

    def contains_message(self, draft: str, text: str) -> bool:
        if any(self._is_folded(place.kept, text) for place in current().phrases("box.folded").places(draft)):
            return True
        if draft.startswith(_ABOVE):
            rows = draft.split("\n")
            above = rows[: len(rows) // 2]  # text that somebody added is at the end
            return _is_visible_part(draft, text) or _is_visible_part("\n".join(above), text)
        header = r"\s*".join(map(re.escape, _reliable_text(text.partition("\n")[0])))
        # Without a digit behind the header: message 5 is not message 57.
        if re.search(rf"{header}(?!\d)", _reliable_text(draft, blanks=True)):
            return True
        beginning = _reliable_text(draft)
        return len(beginning) >= _BEGINNING_MIN and _reliable_text(text).startswith(beginning)

    def refusal(self, lines: Sequence[str], text: str) -> PromptRefusal | None:
        """Read the notice beside the footer: of a prompt that is refused while claude works, nothing else remains."""
        rows = [row.replace("\xa0", " ") for row in _without_styles(lines, suggestions=True)]
        rule = max((number for number, row in enumerate(rows) if row.startswith("──")), default=len(rows))
        notices = " ".join(filter(None, map(str.strip, rows[rule + 1 :])))
        found = current().phrases("box.refusal").fit(notices, wrapped=True)
        if found is None:
            return None
        words, prompt = _COMMAND_OF_HOOK.sub("", found.get("words", "")).strip(), found.get("prompt")
        header = re.escape(_reliable_text(text.partition("\n")[0]))
        if prompt is not None and not re.match(rf"{header}(?!\d)", _reliable_text(prompt)):
            return None
        return PromptRefusal(words, prompt is not None)

    def accepted_form(self, text: str) -> str:
        return accepted_form(text)


_COMMAND_OF_HOOK = re.compile(r"\[.*?\]: ")
_HINT = re.compile(r"(/[a-z]+) {2,}(?:<[^<>]*>|\[[^\[\]]*\])")


def _without_hint(draft: str, text: str) -> str:
    """The draft of a command without the arguments that claude suggests behind the cursor, in grey and not dim."""
    hinted = _HINT.fullmatch(draft) if text.startswith("/") else None
    return draft if hinted is None else hinted[1]


_BEGINNING_MIN = 4
"""Characters that identify the beginning of a message: `[sm]`."""
_CUT_FROM = 10_000
_CUT_LEAVES = 300
"""Minimum number of characters at each end; about 500 were measured."""
_ABOVE = "…\n"
"""Prefix of a draft that begins above the top of the screen."""
_ABOVE_LEAVES = 100
"""Minimum number of visible characters: a pane of 40 columns and 12 rows shows hardly more than 250."""
_UNRELIABLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Sk", "So", "Zl", "Zp", "Zs"})
"""General categories of characters that the screen may change or hide: claude wraps at blanks, and programs disagree
on the width of emoji and marks.
"""


def _is_visible_part(draft: str, text: str) -> bool:
    """Return whether the visible rows of a draft that begins above the screen are a part of the text."""
    rows = _reliable_text(draft[len(_ABOVE) :])
    return len(rows) >= _ABOVE_LEAVES and rows in _reliable_text(text)


def _is_cut(beginning: str, end: str, text: str) -> bool:
    beginning, end, whole = _reliable_text(beginning), _reliable_text(end), _reliable_text(text)
    enough = min(len(beginning), len(end)) >= _CUT_LEAVES or len(beginning) + len(end) >= len(whole)
    return enough and whole.startswith(beginning) and whole.endswith(end)


def _reliable_text(text: str, *, blanks: bool = False) -> str:
    """The characters of `text` that a screen shows reliably. `blanks`: keep blanks."""
    return "".join(
        c
        for c in unicodedata.normalize("NFC", text)
        if (c in " \n" and blanks) or unicodedata.category(c) not in _UNRELIABLE
    )


_FILLS = 8
"""Minimum number of rows of a draft that is taller than the screen."""


def _visible_end(rows: Sequence[str]) -> str:
    """The visible end of a draft that is taller than the screen, or empty without such a draft.

    All rows above the last rule are indented by two, as in drafts and the chat, and a footer follows. A dialog of that
    height has no footer, and text with a pointer is a dialog. Another rule may be above: on the alternate screen the
    box has at most half of the rows, and elsewhere claude may leave the rule of a box that was less tall.
    """
    rows = [row.replace("\xa0", " ").rstrip() for row in rows]
    rules = [number for number, row in enumerate(rows) if row.startswith("──")]
    top = rules[-2] + 1 if len(rules) > 1 else 0
    if not rules or rules[-1] - top < _FILLS:
        return ""
    above, below = rows[top : rules[-1]], [row for row in rows[rules[-1] + 1 :] if row]
    if top == 0 and above[0].startswith("\u276f "):  # only the rule above the draft is off the screen
        above[0] = f"  {above[0][2:]}"
    indented = all(not row or row.startswith("  ") for row in (*above, *below))
    asks = any("\u276f" in row for row in above) or any(
        words in row for words in current().texts("dialog.cancels") for row in below
    )
    if not indented or not below or asks or not above[-1]:
        return ""
    return "\n".join(row[2:] for row in above)


_FRAME_ROWS = 12


def _is_framed(rows: Sequence[str]) -> bool:
    """Return whether claude drew this screen: a rule, and only an indented footer below.

    Otherwise an editor opened from claude, or the shell of a suspended claude.
    """
    filled = [row for row in rows if row.strip()][-_FRAME_ROWS:]
    return bool(filled) and filled[-1].startswith("  ") and any(row.startswith("──") for row in filled)


def _is_stashed(rows: Sequence[str]) -> bool:
    """Read the last notice at the right of the footer."""
    below = next((n for n in range(len(rows) - 1, -1, -1) if rows[n].startswith("──")), 0)
    return any(row.rstrip().endswith(current().texts("box.stashed")) for row in rows[below:])


# -------------------------------------------------------------------------------------------------- styles

_SEQUENCE = re.compile(
    "\x1b\\[([0-9;:]*)m|\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[\x0e\x0f]"
)
"""Sequences in the output of `tmux capture-pane -e`: styles, links, character sets."""


def _without_styles(lines: Sequence[str], *, suggestions: bool) -> Iterator[str]:
    """The lines without styles and, unless `suggestions`, without suggestions, which claude shows dim.

    The first letter of a suggestion is under the cursor: reversed and not dim. A style continues across lines.
    """
    dim = reversed_ = False
    for line in lines:
        texts: list[str] = []
        under_cursor: int | None = None
        last = 0
        for sequence in (*_SEQUENCE.finditer(line), None):
            text = line[last:] if sequence is None else line[last : sequence.start()]
            if text:
                if dim and not suggestions:
                    text = " " * len(text)
                    if under_cursor is not None:
                        texts[under_cursor] = " "
                under_cursor = len(texts) if reversed_ and len(text) == 1 else None
                texts.append(text)
            if sequence is not None:
                last = sequence.end()
                if sequence[1] is not None:
                    dim, reversed_ = _apply_style(sequence[1], dim, reversed_)
        yield "".join(texts)


def _apply_style(parameters: str, dim: bool, reversed_: bool) -> tuple[bool, bool]:
    """Return dim and reversed after a style (ECMA-48, SGR). 38, 48 and 58 have their own parameters."""
    numbers = iter(parameters.split(";"))
    for number in numbers:
        if number in ("38", "48", "58"):
            for _ in range({"5": 1, "2": 3}.get(next(numbers, ""), 0)):
                next(numbers, "")
        dim = {"": False, "0": False, "2": True, "22": False}.get(number, dim)
        reversed_ = {"": False, "0": False, "7": True, "27": False}.get(number, reversed_)
    return dim, reversed_
