"""A reader of input boxes for tests: a screen is three lines (why the box is closed, the draft, the stashed draft)."""

from collections.abc import Sequence

from sm.providers.base import Box, PromptRefusal

GARBLED = "sm does not recognize the screen"
LETTER = "[sm] from operator, message 57\nrun the tests"


class AgentComposer:
    """The composer of a fake agent: parses its screen."""

    settle_s = 0.3
    stash_key: str | None = "C-s"
    redraw_key: str | None = "C-l"

    def box(self, lines: Sequence[str]) -> Box:
        return Box(lines[0] or None, lines[1].strip(), bool(lines[2]), unknown=lines[0] == GARBLED)

    def clearing(self, draft: str) -> Sequence[str]:
        return ("C-u", "C-k")

    def paste_groups(self, text: str) -> Sequence[Sequence[str]]:
        """One group for each paragraph, of one piece for each line."""
        return [part.splitlines(keepends=True) for part in f"{text} ".replace("\n\n", "\n\n\0").split("\0")]

    def shows_message(self, draft: str, text: str, shown: str | None = "") -> bool:
        return draft.strip() == text.strip()

    def contains_message(self, draft: str, text: str) -> bool:
        return text in draft or text.split("\n")[0] in draft

    def refusal(self, lines: Sequence[str], text: str) -> PromptRefusal | None:
        found, words = lines[0].startswith("refused: "), lines[0].removeprefix("refused: ")
        return PromptRefusal(words, is_named=True) if found else None

    def accepted_form(self, text: str) -> str:
        return text.strip()
