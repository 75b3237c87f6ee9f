"""A field of a form that has some choices."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static


class ChoiceLine(Static, can_focus=True):
    """One of some choices, which ← and → change."""

    class ChoiceChanged(Message):
        """Another choice is chosen."""

        def __init__(self, line: "ChoiceLine") -> None:
            super().__init__()
            self.line = line

    def __init__(self, choices: Sequence[tuple[str, str]], id: str) -> None:
        super().__init__(id=id)
        self._choices = choices
        self._place = 0

    @property
    def value(self) -> str:
        return self._choices[self._place][0]

    def offer(self, choices: Sequence[tuple[str, str]], value: str) -> None:
        """Show other choices, and choose the one with that value. No message is posted."""
        place = [known for known, _ in choices].index(value)
        if (choices, place) != (self._choices, self._place):
            self._choices, self._place = choices, place
            self._draw()

    def on_mount(self) -> None:
        self._draw()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._draw()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("left", "right", "space"):
            self._choose(self._place + (-1 if event.key == "left" else 1))
            event.stop()

    def on_click(self, event: events.Click) -> None:
        self._choose(self._place + 1)

    def _choose(self, place: int) -> None:
        self._place = place % len(self._choices)
        self._draw()
        self.post_message(self.ChoiceChanged(self))

    def _draw(self) -> None:
        text = Text()
        for place, (_, title) in enumerate(self._choices):
            is_chosen = place == self._place
            words = f"[{title}]" if is_chosen else f" {title} "
            text.append(words, Style(bold=is_chosen, reverse=is_chosen and self.has_focus))
            text.append(" ")
        self.update(text)
