"""Sends a command's request to the daemon and prints the answer as JSON or as text."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from sm.cli.display.output import print_json, print_lines, print_table
from sm.cli.display.text_table import Table
from sm.cli.instance import Instance
from sm.client.http import TIMEOUT_S, Client, decode_answer, new_key
from sm.wire import encode

Layout = Callable[[Any], Table | Iterable[str]]
"""Turns the JSON of an answer into text."""


class Call:
    """One call of a command, with or without --json."""

    __slots__ = ("as_json",)

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def instance(self) -> Instance:
        return Instance(os.environ)

    @property
    def client(self) -> Client:
        return self.instance.client()

    def get(self, path: str, layout: Layout, query: Mapping[str, object] | None = None) -> None:
        self.show(self.client.text("GET", path, query), layout)

    @property
    def seen(self) -> Mapping[str, object]:
        """The query of a read that shows a session to a person. With --json a program reads it, maybe in a loop."""
        return {"seen": not self.as_json}

    def post(
        self,
        path: str,
        layout: Layout,
        body: Mapping[str, object] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        text = self.client.text("POST", path, body=body or {}, key=new_key(), timeout_s=timeout_s)
        self.show_with_warnings(text, layout)

    def show(self, document: str, layout: Layout) -> None:
        """Print one JSON document of the daemon."""
        if self.as_json:
            print_json(document)
        else:
            self.show_value(decode_answer(document), layout)

    def show_value(self, value: object, layout: Layout) -> None:
        if self.as_json:
            print_json(encode(value))
            return
        shown = layout(value)
        if isinstance(shown, Table):
            print_table(shown)
        else:
            print_lines(shown)

    def show_with_warnings(self, document: str, layout: Layout) -> None:
        """Print an answer on stdout, and its warnings on stderr."""
        warnings = decode_answer(document).get("warnings")
        if warnings:
            from sm.cli.display.errors import print_warnings

            print_warnings(warnings)
        self.show(document, layout)


json_option = click.option(
    "--json",
    "call",
    is_flag=True,
    callback=lambda context, parameter, value: Call(value),
    help="Print JSON, also for errors (on stderr).",
)
"""Adds --json. The command receives a Call as `call`."""
