"""Formats the agents of `sm ls` as a table with a header, in groups. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from sm.cli.display.text_table import Table
from sm.core.figures import dollars, model_name
from sm.core.forest import Forest, TreeLine
from sm.core.lines import JsonObject, line, seconds_since
from sm.core.session_lines import (
    COLOURS,
    HEADINGS,
    capability_marks,
    fallback_mark,
    label,
    left_out,
    loss,
    status_of,
    task_words,
)
from sm.core.timestamps import span

_HEADER = ("NAME", "STATUS", "AGE", "MODEL", "CTX", "COST", "WORKSPACE", "TASK")
_STATUS_COLUMN = 1
_OPTIONAL = ("MODEL", "COST", "CTX", "WORKSPACE")
"""The columns that a narrow terminal omits after those of capabilities, in this order."""
_TASK_MIN = 30
_COMMANDS = {
    "waiting": "waiting: sm requests",
    "failed": "failed: sm restore NAME or sm archive NAME",
    "done": "sm output NAME, sm send NAME TEXT or sm seen NAME",
}
"""The next commands for a group."""
UNSEEN = frozenset({"failed", "done"})
"""The groups of ended sessions that the operator has not seen."""
_ORDER = list(HEADINGS)


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
    ranked = [(min(_rank(shown.row) for shown in tree), tree) for tree in trees]
    for rank, tree in sorted(ranked, key=lambda entry: entry[0]):
        yield from ((_ORDER[rank], shown.branch, shown.row) for shown in tree)


def _rank(session: JsonObject) -> int:
    return _ORDER.index(session["attention"])


def listing(
    sessions: Sequence[JsonObject], now: datetime, empty: str = "", rest: JsonObject | None = None
) -> Table:
    """Format the overview. `rest` counts the sessions that it leaves out, and is None if it leaves out none."""
    has_workspace = any(session["workspace"] for session in sessions)
    marks = {session["session_id"]: capability_marks(session) for session in sessions}
    added = list(dict.fromkeys(name for found in marks.values() for name in found))
    *facts, task = (name for name in _HEADER if has_workspace or name != "WORKSPACE")
    header = (*facts, *map(str.upper, added), task)
    rows = [header]
    colours = {(0, n): "bold" for n in range(len(header))}
    headings: dict[int, str] = {}
    for heading, found in groupby(ordered(sessions), lambda entry: HEADINGS[entry[0]]):
        members = list(found)
        commands = "; ".join(dict.fromkeys(filter(None, (_command(session) for *_, session in members))))
        headings[len(rows)] = f"{heading} ({commands})" if commands else heading
        for _, branch, session in members:
            status = status_of(session, now)
            colours[len(rows), _STATUS_COLUMN] = COLOURS.get(status.partition("?")[0], "")
            rows.append(
                (
                    branch + label(session) + fallback_mark(session),
                    status,
                    *_facts(session, now),
                    *([line(session["workspace"] or "-")] if has_workspace else ()),
                    *(line(marks[session["session_id"]].get(name, "-")) for name in added),
                    task_words(session, line(session["task"])),
                )
            )
    return Table(
        rows if sessions else (),
        aligned=len(header) - 1,
        empty=empty,
        colours=colours,
        separator="  ",
        text_min=_TASK_MIN,
        optional=[header.index(n) for n in (*map(str.upper, added), *_OPTIONAL) if n in header],
        headings=headings,
        first=[*loss((rest or {}).get("lost", 0)), *map(line, (rest or {}).get("programs", ()))],
        last=left_out(rest or {}, "sm ls -a", "sm seen --all"),
    )


def _command(session: JsonObject) -> str | None:
    has_any = session["attention"] != "waiting" or session["requests"]  # others wait in their terminal
    return _COMMANDS.get(session["attention"]) if has_any else None


def _facts(session: JsonObject, now: datetime) -> tuple[str, ...]:
    percent, cost = session["context_percent"], session["cost_usd"]
    return (
        span(seconds_since(session["status_at"], now), "m"),
        model_name(line(session["model"] or "-"), session["provider"]),
        "-" if percent is None else f"{percent}%",
        dollars(cost),
    )
