"""Reads lists of sessions, of which old ones come by page."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sm.client.http import Client, decode_answer
from sm.core.lines import JsonObject, plural
from sm.wire import encode

_PAGE_MAX = 200
"""The most sessions of one page (docs/protocol.md)."""
ALL = -1


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


def list_text(client: Client, path: str, query: Mapping[str, object], limit: int | None) -> str:
    """The JSON of a list. Says on stderr how many sessions are not in it."""
    first = client.text("GET", path, {**query, "limit": _first(limit)})
    if client.next_page is None:
        return first
    if limit is None:
        _say_left(client.left)
        return first
    pages: list[Sequence[JsonObject]] = [decode_answer(first)]
    _read_rest(client, path, query, pages, limit)
    _say_left(client.left)
    return encode(merged(pages))


def whole_list(client: Client, path: str, query: Mapping[str, object]) -> list[JsonObject]:
    """All sessions of a list."""
    first: list[JsonObject] = client.get(path, query)
    pages: list[Sequence[JsonObject]] = [first]
    _read_rest(client, path, query, pages, ALL)
    return first if len(pages) == 1 else merged(pages)


def _first(limit: int | None) -> int | None:
    return _PAGE_MAX if limit == ALL else limit


def _read_rest(
    client: Client, path: str, query: Mapping[str, object], pages: list[Sequence[JsonObject]], limit: int
) -> None:
    count = _count(pages[0])
    while client.next_page is not None and (limit == ALL or count < limit):
        size = _PAGE_MAX if limit == ALL else min(_PAGE_MAX, limit - count)
        page = client.get(path, {**query, "before": client.next_page, "limit": size})
        pages.append(page)
        count += size


def _count(sessions: Sequence[JsonObject]) -> int:
    return sum(1 + _count(session["children"]) for session in sessions)


def _say_left(left: int) -> None:
    if left:
        click.echo(f"{plural(left, 'session')} that ended earlier not shown: --limit all", err=True)


def merged(pages: Sequence[Sequence[JsonObject]]) -> list[JsonObject]:
    """One list of the sessions of all pages, oldest first. A page of a tree repeats the ancestors of its sessions."""
    found: dict[str, JsonObject] = {}
    for page in pages:
        for session in page:
            known = found.get(session["session_id"])
            if known is not None:
                session = {**known, "children": merged([known["children"], session["children"]])}
            found[session["session_id"]] = session
    return sorted(found.values(), key=lambda s: (str(s["created_at"]), str(s["session_id"])))
