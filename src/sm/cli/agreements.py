"""Shows the items of a workspace's files that need the operator's agreement, and asks for it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from sm.cli.selection import agrees
from sm.client.http import Client, workspace_path
from sm.core.lines import JsonObject, line, plural
from sm.errors import NotFound, UsageError

_KINDS = {"mcp_server": "MCP server", "agent_type": "agent type", "commands": "commands of"}


def is_interactive() -> bool:
    """True if a person can read and answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def pending(workspace: JsonObject) -> list[JsonObject]:
    """The items without an agreement. A daemon of an earlier version sends none."""
    return [item for item in workspace.get("items", ()) if item["state"] != "agreed"]


def subject(item: JsonObject) -> str:
    return f"{_KINDS.get(item['kind'], line(item['kind']))} {line(item['name'], 64)}"


def item_names(items: Iterable[JsonObject]) -> str:
    return ", ".join(f"{subject(item)} ({line(item['state'])})" for item in items)


def chosen(workspace: JsonObject, names: Sequence[str]) -> list[JsonObject]:
    """The items without an agreement, all or those with these names. Raises NotFound for another name."""
    items = pending(workspace)
    for name in names:
        if all(item["name"] != name for item in workspace.get("items", ())):
            raise NotFound(
                f"the files of workspace {workspace['slug']} have no item {line(name, 80)}",
                f"sm workspace show {workspace['slug']}",
            )
    return [item for item in items if not names or item["name"] in names]


def agree(client: Client, workspace: JsonObject, items: Sequence[JsonObject], *, yes: bool) -> Any:
    """Show the items, ask, and return the workspace afterwards; None if the answer is no.

    `yes`: do not ask. Raises UsageError, if there is no terminal to ask on.
    """
    for item in items:
        click.echo("\n".join(_details(item)), err=True)
    if not yes:
        if not is_interactive():
            raise UsageError(
                "cannot ask for your agreement: this is not a terminal",
                f"agree without a question: sm workspace agree {workspace['slug']} --yes",
            )
        click.echo("The files of the programs themselves are not checked.", err=True)
        if not agrees(f"Let agents use {plural(len(items), 'item')}?"):
            return None
    body = {"items": [item["id"] for item in items]}
    return client.post(workspace_path(workspace["slug"], "/agree"), body)


def _details(item: JsonObject) -> Iterator[str]:
    from sm.core.quotation import quotation

    yield f"{subject(item)}, {line(item['state'])}, in {line(item['file'], 4096)}:"
    yield from quotation(item["content"].rstrip("\n"), 1, None)
