"""Asks on a terminal for all that a new agent needs, one question for each field of the sheet of live views."""

import os
import shlex
import sys
from collections.abc import Mapping

import click

from sm.board import Target
from sm.board.board_action import FieldKind
from sm.board.spawn_action import SPAWN_ACTION
from sm.board.spawn_sheet import (
    Json,
    SheetField,
    SpawnSheet,
    asked_field,
    choices_query,
    spawn_sheet,
    suggested_text,
)
from sm.cli.options import absolute, current_directory
from sm.client.http import Client
from sm.core.lines import line
from sm.core.programs import location_variables
from sm.errors import IllegalState, SmError, UsageError
from sm.operations.spawn_operations import SHOW_CHOICES

_SHOWN_MAX = 20
_WORDS_MAX = 100


def spawn_choices(client: Client, query: Mapping[str, str]) -> Json:
    """Ask the daemon for the choices of a caller in this process's environment. Blocks. Raises SmError."""
    own = {name.lower(): os.environ.get(name, "") for name in location_variables()}
    given = {name: value for name, value in own.items() if value}
    answer: Json = client.get(SHOW_CHOICES.path, {**given, **query})
    return answer


def ask(client: Client) -> list[str]:
    """Ask for each field, print the command, and return its arguments. Raises IllegalState if the person gives up."""
    questions = _Questions(client)
    if not questions.known["types"]:
        raise UsageError("no agent type is defined here", "sm config --example shows how to define one")
    click.echo("Enter takes the value in brackets. Ctrl-C starts nothing.", err=True)
    for field in SPAWN_ACTION.fields:
        if not field.is_rare:
            questions.ask(field.name)
    sheet = questions.sheet()
    click.echo(f"{line(sheet.prediction)}\n{sheet.command}", err=True)
    return shlex.split(sheet.command)[2:]


class _Questions:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._target = Target(cwd=current_directory())
        self._given: dict[str, str] = {}
        self._query: Mapping[str, str] = choices_query({}, self._target)
        self.known = spawn_choices(client, self._query)

    def sheet(self) -> SpawnSheet:
        return spawn_sheet(self.known, self._given, self._target)

    def ask(self, name: str) -> None:
        """Ask until the answer has no problem. A field that the sheet does not show is not asked for."""
        while True:
            field = self._field(name)
            if field is None or len(field.choices) == 1:
                return
            self._given[name] = _answer(field)
            problem = self._update() or self._problem(name)
            if not problem:
                break
            click.echo(f"  {line(problem)}", err=True)
            del self._given[name]
        answered = self._field(name)
        if answered is not None and answered.field.kind in (FieldKind.AGENT_TYPE, FieldKind.DIRECTORY):
            _show_notes(answered)

    def _field(self, name: str) -> SheetField | None:
        return next((field for field in self.sheet().fields if field.field.name == name), None)

    def _problem(self, name: str) -> str:
        field = self._field(name)
        return "" if field is None else field.problem

    def _update(self) -> str:
        """Ask the daemon again if the facts depend on the answers. Returns its refusal, or empty."""
        query = choices_query(self._given, self._target)
        if query == self._query:
            return ""
        try:
            self.known = spawn_choices(self._client, query)
        except SmError as error:
            if not asked_field(query, error.code):
                raise
            return error.message
        self._query = query
        return ""


def _answer(field: SheetField) -> str:
    """The person's answer, or the default. Raises IllegalState at the end of the input and after Ctrl-C."""
    if len(field.choices) == 2:
        return _yes_or_no(field)
    for number, (_, title) in enumerate(field.choices, 1):
        click.echo(f"  {number}  {title}", err=True)
    is_default = [known.value for known in field.suggestions] == [field.value]
    for number, known in enumerate(() if is_default else field.suggestions[:_SHOWN_MAX], 1):
        words = line(known.words, _WORDS_MAX)
        click.echo(f"  {number:>2}  {line(known.value, 400)}{f'  {words}' if words else ''}", err=True)
    if field.field.kind not in (FieldKind.AGENT_TYPE, FieldKind.DIRECTORY):
        _show_notes(field)
    text = _read(f"{field.field.title}{_bracketed(field)}: ")
    if not text:
        return field.value
    if field.choices:
        return suggested_text([known for known, _ in field.choices], text)
    text = suggested_text([known.value for known in field.suggestions[:_SHOWN_MAX]], text)
    return absolute(text) if field.field.kind is FieldKind.DIRECTORY else text


def _bracketed(field: SheetField) -> str:
    if field.value:
        return f" [{line(field.value, 400)}]"
    return f" ({field.hint})" if field.hint else ""


def _yes_or_no(field: SheetField) -> str:
    (other, _), (value, title) = field.choices
    default = field.value == value
    while True:
        text = _read(f"Works in {title}? [{'Y/n' if default else 'y/N'}] ").lower()
        if text in ("", "y", "yes", "n", "no"):
            return value if (text[:1] == "y" if text else default) else other


def _read(question: str) -> str:
    click.echo(question, nl=False, err=True)
    try:
        text = sys.stdin.readline()
    except KeyboardInterrupt:
        text = ""
    if not text.endswith("\n"):
        click.echo(err=True)  # otherwise the next line would continue the question
        raise IllegalState("cancelled: no agent was started")
    return text.strip()


def _show_notes(field: SheetField) -> None:
    for note in field.notes:
        click.echo(f"  {line(note)}", err=True)
