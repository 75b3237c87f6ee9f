"""The sheet of `sm top` that starts an agent. `board.spawn_sheet` says what its fields have, know and lack."""

import asyncio
from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from sm.board import FieldKind, InputField, Target
from sm.board.spawn_action import SPAWN_ACTION
from sm.board.spawn_sheet import (
    Json,
    SheetField,
    SpawnSheet,
    Suggestion,
    asked_field,
    choices_query,
    kept_for_another,
    session_word,
    spawn_sheet,
)
from sm.cli.options import absolute
from sm.cli.spawn_questions import spawn_choices
from sm.cli.tui.choice_line import ChoiceLine
from sm.cli.tui.forms import FormProblem, Submit
from sm.cli.tui.suggestions import Rows
from sm.cli.tui.task_files import FIELDS, FILES, with_files
from sm.client.http import Client
from sm.errors import SmError

_KEYS = "Ctrl-S: start  Ctrl-N: and another  Tab: next  Ctrl-O: {more}  Esc: back"
_COMPLETE = "  →: complete"
_SUGGESTED_MAX = 5
_COMMAND_MAX = 300


class StartSheet(ModalScreen[str | None]):
    """Asks for all that a new agent needs, until one has started or the person leaves with Esc.

    `kept`: what the person has entered. The sheet changes it in place, so that nothing is lost when it closes.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,ctrl+enter", "start(False)", show=False, priority=True),
        Binding("ctrl+n", "start(True)", show=False, priority=True),
        Binding("ctrl+o", "more", show=False, priority=True),
        Binding("escape", "leave", show=False, priority=True),
        Binding("down", "turn(1)", show=False),
        Binding("up", "turn(-1)", show=False),
    ]
    CSS = """
    StartSheet { align: left bottom; background: transparent; }
    StartSheet #sheet { width: 100%; height: auto; max-height: 100%; background: $surface; }
    StartSheet VerticalScroll { width: 100%; height: auto; }
    StartSheet Static { width: 100%; height: auto; }
    StartSheet #title { text-style: bold; }
    StartSheet .row { width: 100%; height: auto; }
    StartSheet .label { width: 15; height: 1; }
    StartSheet TextArea { width: 1fr; height: 4; border: none; padding: 0; }
    StartSheet Input { width: 1fr; border: none; height: 1; padding: 0; }
    StartSheet ChoiceLine { width: 1fr; height: auto; }
    StartSheet .notes { padding: 0 0 0 15; display: none; }
    """

    def __init__(
        self, client: Client, target: Target, rows: Callable[[], Rows], kept: dict[str, str], submit: Submit
    ) -> None:
        super().__init__()
        self._client, self._target, self._rows = client, target, rows
        self._given, self._submit = kept, submit
        self._known: Json | None = None
        self._asked: Mapping[str, str] | None = None
        self._refusals: Mapping[str, str] = {}
        """The refusals of the question for choices, by field."""
        self._problem = FormProblem()
        """The refusal of the last start."""
        self._filled: dict[str, str] = {}
        """The texts that the sheet has written into its fields."""
        self._is_tried = self._is_busy = self._has_more = self._is_asking = False
        self._waiting_start: bool | None = None
        """The argument of a start that waits for an answer of the daemon."""
        self._sheet = self._made()

    # The parts

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield Static(Text(SPAWN_ACTION.title), id="title")
            with VerticalScroll(can_focus=False):
                for field in FIELDS:
                    with Horizontal(id=f"row-{field.name}", classes="row"):
                        yield Static(Text(f"{field.title}:"), classes="label")
                        yield self._line(field)
                    yield Static(id=f"notes-{field.name}", classes="notes")
            yield Static(id="end")

    def _line(self, field: InputField) -> Widget:
        name = f"field-{field.name}"
        if field.kind is FieldKind.LONG_TEXT:
            return TextArea(id=name, compact=True, placeholder=field.hint)
        if field.kind is FieldKind.CHOICE:
            return ChoiceLine(field.choices, name)
        return Input(select_on_focus=False, compact=True, id=name)

    def on_mount(self) -> None:
        self._show()
        self._ask()

    def _widget(self, name: str) -> Input | ChoiceLine | TextArea:
        widget = self.query_one(f"#field-{name}")
        assert isinstance(widget, Input | ChoiceLine | TextArea)
        return widget

    # What the person enters

    def on_input_changed(self, event: Input.Changed) -> None:
        self._take(event.input, event.value)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._take(event.text_area, event.text_area.text)

    def on_choice_line_choice_changed(self, event: ChoiceLine.ChoiceChanged) -> None:
        self._take(event.line, event.line.value)

    def _take(self, widget: Widget, text: str) -> None:
        """Take a text, unless the sheet has written it itself."""
        name = (widget.id or "").removeprefix("field-")
        if self._filled.get(name, "") == text:
            return
        self._filled[name] = self._given[name] = text
        if self._problem.field in ("", name):
            self._problem = FormProblem()
        self._show()
        self._ask()

    def _values(self) -> dict[str, str]:
        """The input of the person as the daemon takes it, with whole paths, and IDs of sessions that share a name."""
        given = dict(self._given)
        if directory := given.get("working_dir", "").strip():
            given["working_dir"] = absolute(directory)
        if parent := given.get("parent", "").strip():
            given["parent"] = session_word(self._rows(), parent)
        return given

    def _made(self) -> SpawnSheet:
        sheet = spawn_sheet(self._known, self._values(), self._target, self._refusals)
        return with_files(sheet, self._known, self._given.get(FILES.name, ""))

    # The facts

    def _ask(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self.run_worker(self._keep_asking())

    async def _keep_asking(self) -> None:
        """Ask the daemon until its answer is for what stands in the sheet."""
        while (query := choices_query(self._values(), self._target)) != self._asked:
            self._asked = query
            try:
                self._known = await asyncio.to_thread(spawn_choices, self._client, query)
                self._refusals = {}
            except SmError as error:
                self._refusals = {asked_field(query, error.code): error.message}
            self._show()
        self._is_asking = False
        if self._waiting_start is not None:
            another, self._waiting_start = self._waiting_start, None
            self.action_start(another)

    # Drawing

    def _show(self) -> None:
        """Bring every part up to date with what is entered and known."""
        if not self.is_attached or not self.query("#end"):
            return
        self._sheet = self._made()
        shown = {field.field.name: field for field in self._sheet.fields}
        for name in (field.name for field in FIELDS):
            found = shown.get(name)
            is_shown = found is not None and (self._has_more or not found.field.is_rare or bool(found.value))
            self.query_one(f"#row-{name}").display = is_shown
            if found is None or not is_shown:
                self.query_one(f"#notes-{name}").display = False
            else:
                self._fill(found)
                self._show_notes(found)
        self._show_end()

    def _fill(self, field: SheetField) -> None:
        name, widget = field.field.name, self._widget(field.field.name)
        if isinstance(widget, Input):
            widget.placeholder = field.hint
            texts = [known.value for known in self._suggestions(field)]
            widget.suggester = SuggestFromList(texts, case_sensitive=False) if texts else None
        present = widget.text if isinstance(widget, TextArea) else widget.value
        if present != self._filled.get(name, ""):
            return  # the person has changed it, and the event of that has not come yet
        text = self._given.get(name, field.value)
        if isinstance(widget, ChoiceLine):
            text = field.value
            widget.offer(field.choices, text)
        self._filled[name] = text
        if isinstance(widget, TextArea) and text != present:
            widget.text = text
        elif isinstance(widget, Input) and text != present:
            widget.value = text

    def _suggestions(self, field: SheetField) -> tuple[Suggestion, ...]:
        if field.field.kind is not FieldKind.SESSION:
            return field.suggestions
        return tuple(Suggestion(row.label) for row in self._rows().values() if row.is_live)

    def _problem_of(self, field: SheetField) -> str:
        if self._problem.words and self._problem.field == field.field.name:
            return self._problem.words
        return field.problem if self._is_tried or field.value else ""

    def _show_notes(self, field: SheetField) -> None:
        """Show the problem of a field, and for the field with the focus its notes and what it can have."""
        notes, lines = self.query_one(f"#notes-{field.field.name}", Static), Text()
        if problem := self._problem_of(field):
            lines.append(f"{problem}\n", Style(color="red", bold=True))
        if self._widget(field.field.name).has_focus:
            for note in field.notes:
                lines.append(f"{note}\n", Style(dim=True))
            fitting = self._fitting(field)
            for known in fitting[:_SUGGESTED_MAX]:
                lines.append(f"{known.value}  ", Style(bold=True))
                lines.append(f"{known.words}\n", Style(dim=True))
            if left := len(fitting[_SUGGESTED_MAX:]):
                lines.append(f"and {left} more\n", Style(dim=True))
        lines.right_crop(1)
        notes.display = bool(lines.plain)
        notes.update(lines)

    def _fitting(self, field: SheetField) -> list[Suggestion]:
        """The suggestions for what is typed, or all if the field has its default."""
        text = self._given.get(field.field.name, "").strip().lower()
        found = [known for known in self._suggestions(field) if known.value.lower().startswith(text)]
        return [] if [known.value for known in found] == [field.value] else found

    def _show_end(self) -> None:
        sheet, end = self._sheet, Text()
        if self._problem.words and not self._problem.field:
            end.append(f"{self._problem.words}\n", Style(color="red", bold=True))
        if trouble := self._refusals.get("", ""):
            end.append(f"{trouble}\n", Style(color="red", bold=True))
        end.append(f"{sheet.prediction}\n")
        cut = "…" if len(sheet.command) > _COMMAND_MAX else ""
        end.append(
            f"{sheet.command[:_COMMAND_MAX]}{cut}\n".replace("\n", " ").rstrip() + "\n", Style(dim=True)
        )
        keys = _KEYS.format(more="less" if self._has_more else "more")
        keys += _COMPLETE if isinstance(self.focused, Input) and self.focused.suggester else ""
        end.append("Starting …" if self._is_busy else keys, Style(dim=True))
        self.query_one("#end", Static).update(end)
        self.call_after_refresh(self._bound)

    def _bound(self) -> None:
        """Let the fields scroll, so that the end stays in sight."""
        if not self.is_attached or not self.query("#end"):
            return
        rest = self.app.size.height - 1 - self.query_one("#end").size.height
        self.query_one(VerticalScroll).styles.max_height = max(3, rest)

    def on_resize(self) -> None:
        self.call_after_refresh(self._bound)

    # The keys

    def on_key(self, event: events.Key) -> None:
        task = self._widget("prompt")
        if self.focused is None and event.is_printable and event.character and isinstance(task, TextArea):
            task.insert(event.character)
            event.stop()

    def on_input_submitted(self) -> None:
        self.turn(1)

    def on_descendant_focus(self) -> None:
        self._show()

    def turn(self, steps: int) -> None:
        """Go to another field."""
        names = [f.field.name for f in self._sheet.fields if self.query_one(f"#row-{f.field.name}").display]
        at = next((place for place, name in enumerate(names) if self._widget(name).has_focus), 0)
        self._widget(names[(at + steps) % len(names)]).focus()

    def action_turn(self, steps: int) -> None:
        self.turn(steps)

    def action_more(self) -> None:
        self._has_more = not self._has_more
        self._show()

    def action_leave(self) -> None:
        _ = self.dismiss(None)

    def action_start(self, another: bool) -> None:
        if self._is_busy or not self.is_mounted:
            return
        for entry in self.query(Input):  # the event of the last key may not have come
            self._take(entry, entry.value)
        for area in self.query(TextArea):
            self._take(area, area.text)
        if self._is_asking:  # whether the agent gets a worktree of its own depends on the answer
            self._waiting_start = another
            return
        self._is_tried, self._problem = True, FormProblem()
        wrong = self._sheet.problem()
        if wrong is not None:
            self._has_more |= wrong.field.is_rare
            self._show()
            self._widget(wrong.field.name).focus()
            return
        self._is_busy = True
        self._show()
        taken = dict(self._given)
        self._submit(self._sheet.values, lambda problem: self._finish(problem, taken, another=another))

    def _finish(self, problem: FormProblem | None, taken: Mapping[str, str], *, another: bool) -> None:
        """Show how the start ended. `taken`: what was entered at its beginning."""
        self._is_busy = False
        since = {name: text for name, text in self._given.items() if taken.get(name) != text}
        if problem is None:
            self._given.clear()
            self._given.update({**(kept_for_another(taken) if another else {}), **since})
        if self.app.screen is not self:  # the person has left
            return
        if problem is None and not another and not since:
            _ = self.dismiss(None)
            return
        self._problem, self._is_tried = problem or FormProblem(), problem is not None
        shown = {field.field.name: field.field for field in self._sheet.fields}
        place = shown.get(self._problem.field)
        if place is None:
            self._problem = FormProblem(self._problem.words)
        self._has_more |= place is not None and place.is_rare
        self._show()
        self._widget("prompt" if place is None else place.name).focus()
