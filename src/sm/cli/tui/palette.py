"""The palette of `sm top`: all actions, workspaces and places with their keys, narrowed by words."""

from collections.abc import Callable, Sequence
from functools import partial

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from sm.board import ACTIONS, Target
from sm.cli.tui.screens import take_early_key
from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PaletteChoice:
    title: str
    key: str
    """Empty if only the palette has it."""
    command: str
    """The equivalent `sm` command, or empty if there is none."""
    run: Callable[[], object]
    refusal: str | None = None
    """The reason why it is not possible, or None if it is possible."""

    def text(self, *, dims: bool) -> Text:
        """The line of the choice. `dims`: the command or the reason is dim."""
        text = Text(f"{self.title}  [{self.key}]" if self.key else self.title)
        more = f"({self.refusal})" if self.refusal else self.command
        return text.append(f"  {more}", Style(dim=dims)) if more else text


def action_choices(target: Target, act: Callable[[str], object]) -> list[PaletteChoice]:
    """The actions on a target, with their commands and the reasons why one is not possible. `act`: takes a name."""
    choices = list[PaletteChoice]()
    for action in ACTIONS.values():
        refusal = action.refusal(target)
        command = "" if refusal else action.command_line(target)
        choices.append(PaletteChoice(action.title, action.key, command, partial(act, action.name), refusal))
    return choices


class Palette(ModalScreen[str | None]):
    """The result is the index of the chosen one in `choices` as text, or None after Esc."""

    CSS = """
    Palette { align: center top; background: transparent; }
    Palette Input { width: 100%; max-width: 100; border: none; height: 1; padding: 0; }
    Palette OptionList { width: 100%; max-width: 100; height: auto; max-height: 80%; border: none; }
    """

    def __init__(self, choices: Sequence[PaletteChoice]) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        yield Input(placeholder="action, workspace or place", compact=True)
        yield OptionList(*self._options(""))

    def _options(self, words: str) -> list[Option]:
        wanted = words.casefold().split()
        found = list[tuple[str, PaletteChoice, Text]]()
        for place, choice in enumerate(self._choices):
            # A theme draws what is not possible in soft colours already.
            text = choice.text(dims=choice.refusal is None or bool(self.app.ansi_color))
            if all(word in text.plain.casefold() for word in wanted):
                found.append((str(place), choice, text))
        if not found:
            return [Option(Text("nothing here has these words"), disabled=True)]
        found.sort(key=lambda entry: entry[1].refusal is not None)
        return [Option(text, id=place, disabled=choice.refusal is not None) for place, choice, text in found]

    def on_input_changed(self, event: Input.Changed) -> None:
        options = self.query_one(OptionList)
        options.clear_options().add_options(self._options(event.value))
        options.highlighted = 0 if options.option_count else None

    def on_key(self, event: events.Key) -> None:
        options = self.query_one(OptionList)
        match event.key:
            case "escape":
                _ = self.dismiss(None)
            case "down":
                options.action_cursor_down()
            case "up":
                options.action_cursor_up()
            case _:
                if not take_early_key(self.query_one(Input), event):
                    return
        event.stop()

    def on_input_submitted(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is None:
            options.action_cursor_down()
        if options.highlighted is not None:
            option = options.get_option_at_index(options.highlighted)
            if option.id is None:  # nothing has the words
                return
            _ = self.dismiss(None if option.disabled else option.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(event.option.id)
