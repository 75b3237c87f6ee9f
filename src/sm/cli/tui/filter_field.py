"""The field at the bottom of `sm top` in which a person types the filter of the list."""

from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.containers import Vertical
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input, Static

from sm.board import KEYS
from sm.cli.tui.screens import take_early_key


class _OneLineInput(Input):
    """An input with a size of its own, whatever it contains. `change`: takes each of its texts."""

    # As in Widget, but without the layout of the whole screen after each key.
    virtual_size = Reactive(Size(0, 0))

    def __init__(self, change: Callable[[str], object]) -> None:
        super().__init__(select_on_focus=False, compact=True)
        self._change = change

    def watch_value(self, text: str) -> None:
        # At once, and not with the message `Changed`: the list would miss the drawing of the input, and come with the
        # next one, a sixtieth of a second later.
        self._change(text)


class FilterField(Vertical):
    """A part of the screen with the list, because below a screen of its own each change would redraw all lines.

    Call `press` with each key while it is open. `change`: takes the text after each key. Call `complete` once the first
    rows are on the screen: an input has as many styles as all other regions.
    """

    DEFAULT_CSS = """
    FilterField { height: auto; display: none; }
    FilterField Input { width: 100%; border: none; height: 1; padding: 0; }
    """

    def __init__(self, change: Callable[[str], object]) -> None:
        super().__init__()
        self._change = change
        self._before = ""

    def complete(self) -> None:
        """Make the line of help and the input, unless they are there or the app ends."""
        if self.is_attached and not self.children:
            field = _OneLineInput(self._take)
            field.can_focus = False
            _ = self.mount(Static(Text(f"Filter ({KEYS})  Enter: keep  Esc: as before")), field)

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, text: str) -> None:
        """Show the field with the present filter."""
        self.complete()
        if not self.children:  # the app ends
            return
        field, self._before = self._input, text
        field.value = text
        field.can_focus = self.display = True
        field.cursor_position = len(text)
        self.screen.set_focus(field)

    def close(self) -> None:
        self.display = self._input.can_focus = False
        self.screen.set_focus(None)

    def press(self, event: events.Key) -> bool:
        """Take a key that ends the typing or types a character. Returns False for a key of the field itself."""
        match event.key:
            case "escape":
                self.close()
                self._change(self._before)
            case "enter":
                self.close()
            case _:
                return take_early_key(self._input, event)
        return True

    def _take(self, text: str) -> None:
        if self.is_open:
            self._change(text)
