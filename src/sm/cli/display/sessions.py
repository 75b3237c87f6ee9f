"""Formats sessions as rows and as a tree. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from sm.cli.display.text_table import Table
from sm.client.pages import flat
from sm.core.forest import Forest
from sm.core.lines import JsonObject, age
from sm.core.session_lines import COLOURS, fallback_mark, last_words, name_and_id, status_of


def session_table(
    rows: Iterable[tuple[str, JsonObject]],
    now: datetime,
    empty: str = "",
    *,
    with_words: bool = True,
    named: Callable[[JsonObject], str] = name_and_id,
) -> Table:
    """Format each (indentation, session) as `name (id) | status | 5min ago | "message"`. `named`: the first column.

    `!direct` marks a session that should be sandboxed and runs directly on this host.
    """
    cells, colours = [], {}
    for number, (indent, session) in enumerate(rows):
        if with_words:
            words = last_words(session)
        else:
            from sm.cli.display.sums import sums_words

            words = sums_words(session)
        since = age(session["status_at"], now)
        cells.append(
            (indent + named(session) + fallback_mark(session), status_of(session, now), since, words)
        )
        colours[number, 1] = COLOURS.get(session["status"], "")
    return Table(cells, aligned=2, empty=empty, colours=colours)


def flat_rows(sessions: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    return [("", session) for session in sessions]


def tree_rows(sessions: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Format sessions, and the `children` inside them, as rows of a tree.

    A session whose parent is not in the list is a root.
    """
    forest = Forest(flat(sessions), lambda s: s["session_id"], lambda s: s["parent_session_id"])
    return [(f"  {placed.branch}" if placed.depth else "", placed.row) for placed in forest.lines()]
