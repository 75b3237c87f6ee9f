"""The form of an action in `sm top`: a line for each of its fields, and the daemon's refusal below its field."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from sm.board import BoardAction, FieldKind, InputField, Target
from sm.cli.tui.screens import take_early_key
from sm.core.dataclass import dataclass

_KEYS = "Enter: next, at the end: do it  Ctrl-S: do it  Tab ↑ ↓: other field  Esc: back"


@dataclass(frozen=True, slots=True)
class FormProblem:
    """The reason why a form stays open. Both are empty if the person has said no to the question of the action."""

    words: str = ""
    field: str = ""
    """The name of the field that the words are about, or empty."""


Done = Callable[[FormProblem | None], None]
"""Gets None when the action is done, else the reason why the form stays open."""
Submit = Callable[[Mapping[str, str], Done], None]
"""Carries out the action with the values of the shown fields, which are not empty."""


def no_form(problem: FormProblem | None) -> None:
    """Ignore the result of an action that has no form."""


class ActionForm(ModalScreen[str | None]):
    """Asks for the fields of an action until it is done, or until the person leaves with Esc. The result is None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the fields take them: a key that comes after one of these belongs to the next field.
        Binding("enter", "enter", show=False, priority=True),
        Binding("ctrl+s", "submit", show=False, priority=True),
        Binding("down", "turn(1)", show=False, priority=True),
        Binding("up", "turn(-1)", show=False, priority=True),
        Binding("escape", "leave", show=False, priority=True),
    ]
    CSS = """
    ActionForm { align: left bottom; background: transparent; }
    ActionForm VerticalScroll { width: 100%; height: auto; max-height: 100%; background: $surface; }
    ActionForm Static { width: 100%; height: auto; }
    ActionForm #title { text-style: bold; }
    ActionForm Horizontal { width: 100%; height: auto; }
    ActionForm .label { height: 1; }
    ActionForm Input { width: 1fr; border: none; height: 1; padding: 0; }
    ActionForm .problem { padding: 0 0 0 2; display: none; }
    """

    def __init__(self, action: BoardAction, target: Target, submit: Submit) -> None:
        super().__init__()
        self._fields = action.fields
        self._title = action.title
        self._target, self._submit = target, submit
        self._suggested = dict[FieldKind, Sequence[str]]()
        self._is_busy = False

    def suggest(self, kind: FieldKind, texts: Sequence[str]) -> None:
        """Complete the fields of this kind to one of the texts, with →."""
        self._suggested[kind] = texts
        if self.is_mounted:
            self._complete()

    def _complete(self) -> None:
        for field in self._fields:
            widget, texts = self._widget(field), self._suggested.get(field.kind)
            if texts:
                widget.suggester = SuggestFromList(texts, case_sensitive=False)

    def compose(self) -> ComposeResult:
        width = max(len(field.title) for field in self._fields) + 2
        with VerticalScroll(can_focus=False):
            yield Static(Text(self._title), id="title")
            for field in self._fields:
                with Horizontal(id=f"row-{field.name}"):
                    label = Static(Text(f"{field.title}:"), classes="label")
                    label.styles.width = width
                    yield label
                    yield Input(
                        field.default(self._target),
                        placeholder=field.hint,
                        select_on_focus=False,
                        compact=True,
                        id=f"field-{field.name}",
                    )
                yield Static(id=f"problem-{field.name}", classes="problem")
            yield Static(id="problem-", classes="problem")
            yield Static(id="keys")

    def on_mount(self) -> None:
        self._complete()
        self._show_keys()

    def _show_keys(self) -> None:
        text = f"{self._title} …" if self._is_busy else _KEYS
        self.query_one("#keys", Static).update(Text(text, Style(dim=True)))

    def _widget(self, field: InputField) -> Input:
        return self.query_one(f"#field-{field.name}", Input)

    def _values(self) -> dict[str, str]:
        """The values of all fields, without empty ones."""
        values = {field.name: self._widget(field).value.strip() for field in self._fields}
        return {name: value for name, value in values.items() if value}

    # The keys

    def on_key(self, event: events.Key) -> None:
        if self.focused is None and take_early_key(self.query(Input).first(), event):
            event.stop()

    def turn(self, steps: int) -> None:
        """Go to another field."""
        if not self.is_mounted:
            return
        fields = [self._widget(field) for field in self._fields]
        at = next((place for place, field in enumerate(fields) if field.has_focus), 0)
        fields[(at + steps) % len(fields)].focus()

    def action_turn(self, steps: int) -> None:
        self.turn(steps)

    def action_enter(self) -> None:
        if self.is_mounted and self._widget(self._fields[-1]).has_focus:
            self.action_submit()
        else:
            self.turn(1)

    def action_leave(self) -> None:
        _ = self.dismiss(None)

    def action_submit(self) -> None:
        if self._is_busy or not self.is_mounted:
            return
        values = self._values()
        for field in self._fields:
            if words := field.problem(values.get(field.name, "")):
                self._show_problem(FormProblem(words, field.name))
                return
        self._is_busy = True
        self._show_problem(FormProblem())
        self._submit(values, self._finish)

    def _finish(self, problem: FormProblem | None) -> None:
        self._is_busy = False
        if self.app.screen is not self:  # the person has left
            return
        if problem is None:
            _ = self.dismiss(None)
        else:
            self._show_problem(problem)

    def _show_problem(self, problem: FormProblem) -> None:
        """Show the words below their field, or below all fields, and go to the field."""
        for name in ("", *(field.name for field in self._fields)):
            line = self.query_one(f"#problem-{name}", Static)
            line.display = bool(problem.words) and name == problem.field
            if line.display:
                line.update(Text(problem.words, Style(color="red", bold=True)))
        found = next((field for field in self._fields if field.name == problem.field), None)
        if found is not None:
            self._widget(found).focus()
        self._show_keys()
