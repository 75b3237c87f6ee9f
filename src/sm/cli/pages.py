"""Reads lists of sessions, of which old ones come by page."""

from collections.abc import Mapping
from typing import Any

import click

from sm.client.http import Client, decode_answer
from sm.client.pages import ALL, PAGE_MAX, with_rest
from sm.core.lines import plural
from sm.wire import encode


class _Limit(click.ParamType[Any]):
    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "all":
            return ALL
        return click.IntRange(1).convert(value, param, ctx)


limit_option = click.option(
    "--limit",
    type=_Limit(),
    metavar="N|all",
    help="Also sessions that ended more than a day ago, up to N rows or all. Newer ones are always listed.",
)
search_option = click.option(
    "--search",
    metavar="TEXT",
    help="Only sessions with all these words in their name, title, note, result or directory.",
)
archived_option = click.option("--archived", is_flag=True, help="Include archived sessions.")


def list_text(client: Client, path: str, query: Mapping[str, object], limit: int | None) -> str:
    """The JSON of a list. Says on stderr how many sessions are not in it."""
    text = client.text("GET", path, {**query, "limit": PAGE_MAX if limit == ALL else limit})
    if client.next_page is not None and limit is not None:
        text = encode(with_rest(client, path, query, decode_answer(text), limit))
    if client.left:
        click.echo(f"{plural(client.left, 'session')} that ended earlier not shown: --limit all", err=True)
    return text
