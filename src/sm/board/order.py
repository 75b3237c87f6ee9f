"""The order of rows in live views, and the tree that they form. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from sm.board.row import BoardRow
from sm.core.forest import Forest, TreeLine


class Sort(StrEnum):
    TREE = "tree"
    NEEDS_ME = "needs me"
    AGE = "age"
    COST = "cost"
    NAME = "name"


NESTED = frozenset({Sort.TREE, Sort.NEEDS_ME})
"""The orders that show the tree. The others are flat."""


Line = TreeLine[BoardRow]


def arrange(
    rows: Mapping[str, BoardRow], selected: Sequence[BoardRow], sort: Sort, folded: Collection[str]
) -> list[Line]:
    """The lines of the `selected` rows. `rows`: all, oldest first; a row is nested below its nearest selected ancestor.

    Parents may form a cycle: its oldest member is then a root.
    """
    if sort not in NESTED:
        return [TreeLine(row) for row in sorted(selected, key=_KEYS[sort])]
    forest = forest_of(selected, rows)
    if sort is Sort.NEEDS_ME:
        forest.sort(lambda row: row.urgency)
    return forest.lines(folded)


def forest_of(selected: Iterable[BoardRow], rows: Mapping[str, BoardRow]) -> Forest[BoardRow]:
    return Forest(selected, lambda row: row.id, lambda row: row.parent_id, rows)


_KEYS: Mapping[Sort, Callable[[BoardRow], tuple[object, ...]]] = {
    # The longest wait first; ended sessions after live ones.
    Sort.AGE: lambda row: (not row.is_live, row.status_at_s),
    Sort.COST: lambda row: (-row.cost,),
    Sort.NAME: lambda row: (row.label.casefold(), row.id),
}
