"""The screen of a played claude: its input box, and recorded dialogs."""

from tests.sim.programs import Running
from tests.sim.recorded import screen

_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 40
_POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_SPINNER = "\N{TEARDROP-SPOKED ASTERISK} Working\N{HORIZONTAL ELLIPSIS} (3s)"
_STASHED = "  \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} stashed"
_FOLDS_AT_LINES, _FOLDS_FROM = 3, 800
DIALOGS = {"permission": "perm-bash-01", "question": "ask-one-01"}


class ClaudeScreen:
    """Shows the box with its draft, or a dialog. Keys change the draft."""

    def __init__(self, program: Running) -> None:
        self._program = program
        self._pasted = 0
        self._folded: dict[str, str] = {}
        """The texts of folded pastes, by what the box shows for them."""
        self.draft = ""
        self.stash: str | None = None
        self.dialog: str | None = None
        """The kind of the open dialog."""
        self.is_busy = False
        self._said: list[str] = []

    def type(self, text: str) -> None:
        if text.count("\n") >= _FOLDS_AT_LINES or len(text) > _FOLDS_FROM:
            self._pasted += 1
            shown = f"[Pasted text #{self._pasted} +{text.count(chr(10))} lines]"
            self._folded[shown], text = text, shown
        self.draft += text
        self.draw()

    def take(self) -> str:
        """Empty the box, and return the whole text. A stashed draft comes back."""
        text, self.draft = self.draft, self.stash or ""
        self.stash = None
        for shown, whole in self._folded.items():
            text = text.replace(shown, whole)
        self._folded.clear()
        return text.strip()

    def press(self, key: str) -> None:
        match key:
            case "C-u":
                kept, has_more, row = self.draft.rpartition("\n")
                self.draft = f"{kept}\n" if row and has_more else kept
            case "BSpace":
                self.draft = self.draft[:-1]
            case "C-s" if self.draft:
                self.draft, self.stash = "", self.draft
            case _:
                pass
        self.draw()

    def say(self, *lines: str) -> None:
        self._said = [*self._said, *lines][-20:]

    def draw(self) -> None:
        if self.dialog is not None:
            self._program.draw(*screen(DIALOGS[self.dialog]))
            return
        first, *more = self.draft.split("\n")
        rows = [f"{_POINTER} {first}", *(f"  {row}" for row in more)]
        above = [*self._said, "", *([_SPINNER, ""] if self.is_busy else [])]
        footer = ["  esc to interrupt" if self.is_busy else "  ? for shortcuts"]
        footer += [_STASHED] if self.stash is not None else []
        self._program.draw(*above, _RULE, *rows, _RULE, *footer)
        glyph = "\u2802" if self.is_busy else "\N{EIGHT SPOKED ASTERISK}"
        if self._program.pane.title[:1] != glyph:
            self._program.title(f"{glyph} work")
