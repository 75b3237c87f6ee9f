"""Formats the agents of `sm ls` as a table with a header, in groups. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sm.core.columns import columns
from sm.core.figures import dollars, model_name
from sm.core.forest import Forest, TreeLine
from sm.core.lines import JsonObject, line, seconds_since
from sm.core.session_lines import (
    HEADINGS,
    capability_marks,
    ended_children,
    fallback_mark,
    label,
    left_out,
    loss,
    status_of,
)
from sm.core.timestamps import span

_HEADER = ("NAME", "STATUS", "AGE", "MODEL", "CTX", "COST", "WORKSPACE", "TASK")
STATUS_COLUMN = 1
_OMITTED_FIRST = ("MODEL", "COST", "CTX", "WORKSPACE")
"""The columns that a narrow terminal omits, in this order."""
_TASK_MIN = 30
_NAME_MIN = 20
GAP = 2
_COMMANDS = {
    "waiting": "waiting: sm requests",
    "failed": "failed: sm restore NAME or sm archive NAME",
    "done": "sm output NAME, sm send NAME TEXT or sm seen NAME",
}
"""The next commands for a group."""
UNSEEN = frozenset({"failed", "done"})
"""The groups of ended sessions that the operator has not seen."""
_ORDER = list(HEADINGS)
_QUOTED = frozenset({"answer", "result"})
"""Kinds of tasks that are the agent's own words."""

Row = tuple[str, ...]
Group = tuple[str, Sequence[Row]]


class Listing(NamedTuple):
    """The header, and the groups of rows with their headings."""

    header: Row
    groups: Sequence[Group]
    empty: str
    first: Sequence[str] = ()
    """Lines above the header."""
    last: Sequence[str] = ()
    """Lines below the rows."""


class FittedListing(NamedTuple):
    """A listing with the columns that fit a terminal, and their widths."""

    header: Row
    groups: Sequence[Group]
    widths: Sequence[int]


def ordered(sessions: Sequence[JsonObject]) -> Iterator[tuple[str, str, JsonObject]]:
    """Each session with the group of its tree and its place in that tree, as drawn before its name.

    A tree belongs to the group of its most urgent member, so that its members stay together. A child that ended is no
    member of the tree of a live parent.
    """
    unseen = {session["session_id"]: session["attention"] in UNSEEN for session in sessions}

    def parent(session: JsonObject) -> str | None:
        above: str | None = session["parent_session_id"]
        has_ended_alone = unseen[session["session_id"]] and not unseen.get(above or "")
        return None if has_ended_alone else above

    forest = Forest(sessions, lambda session: session["session_id"], parent)
    forest.sort(_rank)
    trees: list[list[TreeLine[JsonObject]]] = []
    for shown in forest.lines():
        if not shown.depth:
            trees.append([])
        trees[-1].append(shown)
    for tree in trees:
        group = _ORDER[min(_rank(shown.row) for shown in tree)]
        yield from ((group, shown.branch, shown.row) for shown in tree)


def _rank(session: JsonObject) -> int:
    return _ORDER.index(session["attention"])


def listing(
    sessions: Sequence[JsonObject], now: datetime, empty: str = "", rest: JsonObject | None = None
) -> Listing:
    """Format the overview. `rest` counts the sessions that it leaves out, and is None if it leaves out none."""
    groups: dict[str, list[Row]] = {}
    commands: dict[str, list[str]] = {}
    has_workspace = any(session["workspace"] for session in sessions)
    marks = {session["session_id"]: capability_marks(session) for session in sessions}
    added = list(dict.fromkeys(name for found in marks.values() for name in found))
    for group, indent, session in ordered(sessions):
        name, workspace = label(session) + fallback_mark(session), line(session["workspace"] or "-")
        cells = (
            indent + name,
            *_facts(session, now),
            *([workspace] if has_workspace else ()),
            *(line(marks[session["session_id"]].get(name, "-")) for name in added),
            _task(session),
        )
        groups.setdefault(HEADINGS[group], []).append(cells)
        command = _COMMANDS.get(session["attention"])
        has_any = session["attention"] != "waiting" or session["requests"]  # others wait in their terminal
        if command is not None and has_any and command not in commands.setdefault(HEADINGS[group], []):
            commands[HEADINGS[group]].append(command)
    headings = {
        group: f"{group} ({'; '.join(commands[group])})" if commands.get(group) else group for group in groups
    }
    *facts, task = (name for name in _HEADER if has_workspace or name != "WORKSPACE")
    header = (*facts, *map(str.upper, added), task)
    rows = [(headings[group], rows) for group, rows in groups.items()]
    return Listing(
        header,
        rows,
        empty,
        [*loss((rest or {}).get("lost", 0)), *map(line, (rest or {}).get("programs", ()))],
        left_out(rest or {}, "sm ls -a", "sm seen --all"),
    )


def _facts(session: JsonObject, now: datetime) -> Row:
    age = span(seconds_since(session["status_at"], now), "m")
    percent, cost = session["context_percent"], session["cost_usd"]
    return (
        status_of(session, now),
        age,
        model_name(line(session["model"] or "-"), session["provider"]),
        "-" if percent is None else f"{percent}%",
        dollars(cost),
    )


def _task(session: JsonObject) -> str:
    task = line(session["task"])
    return "; ".join(
        filter(None, (ended_children(session), f'"{task}"' if session["task_kind"] in _QUOTED else task))
    )


def listing_lines(listing: Listing) -> list[str]:
    """Format a listing as plain text: the header, then one line for each agent."""
    if not listing.groups:
        return [*listing.first, *listing.last]
    rows = [listing.header, *(row for _, rows in listing.groups for row in rows)]
    widths = _widths(rows)
    lines = [(" " * GAP).join(map(_padded, row, widths)).rstrip(" ") for row in rows]
    return [*listing.first, *lines, *listing.last]


def fit(listing: Listing, width: int) -> FittedListing:
    """Omit columns until the tasks have room. The last column gets the rest of `width`."""
    rows = [listing.header, *(row for _, rows in listing.groups for row in rows)]
    widths = _widths(rows)
    added = [name for name in listing.header if name not in _HEADER]
    shown, omitted = (
        list(range(len(listing.header))),
        [n for n in (*added, *_OMITTED_FIRST) if n in listing.header],
    )
    task = shown[-1]

    def left() -> int:
        return width - sum(widths[n] + GAP for n in shown[:-1])

    wanted = min(_TASK_MIN, widths[task])
    for name in omitted:
        if left() < wanted:
            shown.remove(listing.header.index(name))
    if left() < wanted:
        widths[0] = min(widths[0], max(_NAME_MIN, widths[0] - (wanted - left())))
    widths[task] = max(1, min(widths[task], left()))

    def kept(row: Row) -> Row:
        return tuple(row[n] for n in shown)

    groups = [(heading, [kept(row) for row in rows]) for heading, rows in listing.groups]
    return FittedListing(kept(listing.header), groups, [widths[n] for n in shown])


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(columns, cells)) for cells in zip(*rows, strict=True)]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))
