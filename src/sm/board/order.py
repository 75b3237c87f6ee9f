"""The order of rows in live views, and the tree that they form. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sm.board.row import BoardRow
from sm.core.forest import Forest


class Sort(StrEnum):
    TREE = "tree"
    NEEDS_ME = "needs me"
    AGE = "age"
    COST = "cost"
    NAME = "name"


NESTED = frozenset({Sort.TREE, Sort.NEEDS_ME})
"""The orders that show the tree. The others are flat."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row in its place."""

    row: BoardRow
    branch: str = ""
    """The line that leads to it, as `│  └─ `."""
    depth: int = 0
    children: int = 0
    folded: int = 0
    """The number of descendants that are hidden below it."""
    gone: bool = False
    """The session is no longer in the list, but its line stays in its place until the list rests."""


def arrange(
    rows: Mapping[str, BoardRow], selected: Sequence[BoardRow], sort: Sort, folded: Collection[str]
) -> list[Line]:
    """The lines of the `selected` rows. `rows`: all, oldest first; a row is nested below its nearest selected ancestor.

    Parents may form a cycle: its oldest member is then a root.
    """
    if sort not in NESTED:
        return [Line(row) for row in sorted(selected, key=_KEYS[sort])]
    forest = Forest(selected, lambda row: row.id, lambda row: row.parent_id, rows)
    if sort is Sort.NEEDS_ME:
        forest.sort(lambda row: row.urgency)
    return [Line(p.item, p.branch, p.depth, p.children, p.folded) for p in forest.lines(folded)]


_KEYS: Mapping[Sort, Callable[[BoardRow], tuple[object, ...]]] = {
    # The longest wait first; ended sessions after live ones.
    Sort.AGE: lambda row: (not row.is_live, row.status_at_s),
    Sort.COST: lambda row: (-row.cost,),
    Sort.NAME: lambda row: (row.label.casefold(), row.id),
}
