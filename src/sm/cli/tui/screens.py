"""The screens that `sm top` puts over its list: input, question and text page."""

from collections.abc import Callable, Coroutine, Sequence, Set
from typing import Any, Protocol, runtime_checkable

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Static

from sm.board.prediction import MODES
from sm.cli.tui.texts import detail_text
from sm.core.quotation import wrapped_at_blanks


@runtime_checkable
class Turnable(Protocol):
    """A screen with parts, such as tabs or fields."""

    def turn(self, steps: int) -> None:
        """Go to another part."""


def take_early_key(field: Input, event: events.Key) -> bool:
    """Type a character that came before the field of its screen had the focus. Returns False if the key is none."""
    if not event.is_printable or event.character is None:
        return False
    field.insert_text_at_cursor(event.character)
    return True


class LinePrompt(ModalScreen[str | None]):
    """One line of input at the bottom. The result is None if the person leaves with Esc.

    `title`: a text, or a function of the mode of a message. `on_change` gets each text while it is typed. With
    `modes`, Ctrl-T chooses the mode, and with `files`, Ctrl-O chooses whether files go with the text (`has_files`).
    → completes the text to one of the `suggestions`. `about`: the request that the text is for, or empty if it is for
    none.
    """

    CSS = """
    LinePrompt { align: left bottom; background: transparent; }
    LinePrompt Static { width: 100%; height: auto; max-height: 50%; background: $surface; }
    LinePrompt Input { width: 100%; border: none; height: 1; padding: 0; }
    """

    def __init__(
        self,
        title: str | Callable[[str], str],
        text: str = "",
        *,
        on_change: Callable[[str], object] | None = None,
        on_escape: Callable[[str], object] | None = None,
        modes: bool = False,
        files: bool = False,
        suggestions: Sequence[str] = (),
        about: str = "",
    ) -> None:
        super().__init__()
        self.about = about
        self._title, self._text = title, text
        self._on_change, self._on_escape = on_change, on_escape
        self._modes, self._files = modes, files
        self.has_files = False
        self._suggestions = suggestions
        self.mode = MODES[0]

    def compose(self) -> ComposeResult:
        yield Static(self._shown_title(), id="title")
        suggester = SuggestFromList(self._suggestions, case_sensitive=False) if self._suggestions else None
        yield Input(self._text, select_on_focus=False, compact=True, suggester=suggester)

    def _shown_title(self) -> Text:
        title = self._title if isinstance(self._title, str) else self._title(self.mode)
        keys = [f"mode: {self.mode}, Ctrl-T changes it"] if self._modes else []
        if self._files:
            keys.append("with files, Ctrl-O drops them" if self.has_files else "Ctrl-O adds files")
        return Text(f"{title}  [{'; '.join(keys)}]" if keys else title)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            if self._on_escape is not None:
                self._on_escape(self.query_one(Input).value)
            _ = self.dismiss(None)
        elif event.key == "ctrl+t" and self._modes:
            self.mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
            self.query_one("#title", Static).update(self._shown_title())
        elif event.key == "ctrl+o" and self._files:
            self.has_files = not self.has_files
            self.query_one("#title", Static).update(self._shown_title())
        elif not take_early_key(self.query_one(Input), event):
            return
        event.stop()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._on_change is not None:
            self._on_change(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        _ = self.dismiss(event.value)


class KeyQuestion(ModalScreen[str | None]):
    """Asks for one of some keys. The result is the key, or None after Esc or another key.

    `is_dead` is asked before a key has an effect: the question may have just appeared. `about`: the request that the
    question is about, or empty if it is about none.
    """

    CSS = """
    KeyQuestion { align: left bottom; background: transparent; }
    KeyQuestion Static { width: 100%; height: auto; background: $surface; text-style: bold; }
    """

    def __init__(
        self, question: str, keys: str, about: str = "", *, is_dead: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self.about = about
        self._question, self._keys, self._is_dead = question, keys, is_dead

    def compose(self) -> ComposeResult:
        yield Static(Text(self._question))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if self._is_dead() and event.key != "escape":
            return
        _ = self.dismiss(
            event.character if event.character is not None and event.character in self._keys else None
        )


def close_dialog(screen: object, open_keys: Set[str]) -> set[str]:
    """Close the dialog of a request that is no longer open, and return its key. `open_keys`: those of all entries."""
    if not isinstance(screen, KeyQuestion | LinePrompt | TextPage) or not screen.about:
        return set()
    if screen.about in open_keys:
        return set()
    _ = screen.dismiss(None)
    return {screen.about}


def scroll_by_key(scroll: Widget, key: str) -> bool:
    """Scroll a page as `less` does. Returns False if the key does not scroll."""
    match key:
        case "j" | "down":
            scroll.scroll_down(animate=False)
        case "k" | "up":
            scroll.scroll_up(animate=False)
        case "pagedown" | "space":
            scroll.scroll_page_down(animate=False)
        case "pageup":
            scroll.scroll_page_up(animate=False)
        case "g" | "home":
            scroll.scroll_home(animate=False)
        case "G" | "end":
            scroll.scroll_end(animate=False)
        case _:
            return False
    return True


class FullPage(ModalScreen[str | None]):
    """A page over the whole list. Below other screens, parts of the list stay in sight."""


class TextPage(FullPage):
    """A text in full. The result is a key in `keys` that the person pressed, or None after Esc or q.

    `is_dead` is asked before such a key has an effect: the page may have just appeared. `about`: the request that the
    page shows, or empty if it shows none. `later`: returns the lines again, with what takes time.
    """

    CSS = """
    TextPage { background: $surface; }
    TextPage #title { width: 100%; height: 1; text-style: reverse; }
    TextPage #text { width: 100%; height: auto; text-wrap: nowrap; }
    """

    def __init__(
        self,
        title: str,
        lines: Sequence[str],
        keys: str = "",
        *,
        is_dead: Callable[[], bool] = lambda: False,
        about: str = "",
        later: Callable[[], Coroutine[Any, Any, Sequence[str]]] | None = None,
    ) -> None:
        super().__init__()
        self.about = about
        self._title, self._lines, self._keys, self._is_dead = title, lines, keys, is_dead
        self._later = later

    def compose(self) -> ComposeResult:
        yield Static(Text(self._title), id="title")
        with VerticalScroll():
            yield Static(self._text(self._lines), id="text")

    def on_mount(self) -> None:
        if self._later is not None:
            self.run_worker(self._complete(self._later()))

    async def _complete(self, later: Coroutine[Any, Any, Sequence[str]]) -> None:
        self.query_one("#text", Static).update(self._text(await later))

    def _text(self, lines: Sequence[str]) -> Text:
        width = max(20, self.app.size.width - 2)
        return detail_text([piece for text in lines for piece in wrapped_at_blanks(text, width)])

    def on_key(self, event: events.Key) -> None:
        scroll = self.query_one(VerticalScroll)
        match event.key:
            case "escape" | "q" | "question_mark" | "enter":
                _ = self.dismiss(None)
            case key if scroll_by_key(scroll, key):
                pass
            case _:
                if not event.character or event.character not in self._keys:
                    return
                if not self._is_dead():
                    _ = self.dismiss(event.character)
        event.stop()
