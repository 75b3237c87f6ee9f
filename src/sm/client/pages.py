"""Reads all pages of a list of sessions. Standard library alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sm.client.http import Client
from sm.core.lines import JsonObject

PAGE_MAX = 200
"""The most sessions of one page (docs/protocol.md)."""
ALL = -1


def whole_list(client: Client, path: str, query: Mapping[str, object]) -> list[JsonObject]:
    """All sessions of a list."""
    first: list[JsonObject] = client.get(path, query)
    return first if client.next_page is None else with_rest(client, path, query, first, ALL)


def with_rest(
    client: Client, path: str, query: Mapping[str, object], first: Sequence[JsonObject], limit: int
) -> list[JsonObject]:
    """One list of the first page and the next ones, up to `limit` sessions."""
    pages, count = [first], sum(1 for _ in flat(first))
    while client.next_page is not None and (limit == ALL or count < limit):
        size = PAGE_MAX if limit == ALL else min(PAGE_MAX, limit - count)
        pages.append(client.get(path, {**query, "before": client.next_page, "limit": size}))
        count += size
    return _merged(pages)


def flat(sessions: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The sessions and those in their `children`, each parent before its children."""
    for session in sessions:
        yield session
        yield from flat(
            {**child, "parent_session_id": session["session_id"]} for child in session["children"]
        )


def _merged(pages: Sequence[Sequence[JsonObject]]) -> list[JsonObject]:
    """One list of the sessions of all pages, oldest first. A page of a tree repeats the ancestors of its sessions."""
    found: dict[str, JsonObject] = {}
    for page in pages:
        for session in page:
            known = found.get(session["session_id"])
            if known is not None:
                session = {**known, "children": _merged([known["children"], session["children"]])}
            found[session["session_id"]] = session
    return sorted(found.values(), key=lambda s: (str(s["created_at"]), str(s["session_id"])))
