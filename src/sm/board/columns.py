"""The optional columns of the list of sessions: their texts, and which of them a view leaves out. Pure."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from sm.board.row import BoardRow
from sm.board.words import context_bar
from sm.core.figures import dollars

NOTHING = frozenset({"", "-"})
"""The texts of a cell without a value."""


class Column(StrEnum):
    """In the order of the list."""

    COST = "cost"
    CONTEXT = "context"
    DONE = "done"
    TOKENS = "tokens"
    MODEL = "model"


def _cost(row: BoardRow) -> str:
    of_tree = row.tree_cost()
    return f"{dollars(row.data['cost_usd'])}{of_tree and f' ∑{of_tree}'}"


COLUMN_TEXTS: Mapping[Column, Callable[[BoardRow], str]] = {
    Column.COST: _cost,
    Column.CONTEXT: lambda row: context_bar(row.data["context_percent"]),
    Column.DONE: lambda row: row.progress(),
    Column.TOKENS: lambda row: row.tokens(),
    Column.MODEL: lambda row: row.model(),
}


def filled_columns(rows: Iterable[BoardRow]) -> frozenset[Column]:
    """The columns in which at least one row has a value. A view leaves out the others: TASK gets their width."""
    empty = set(COLUMN_TEXTS)
    for row in rows:
        empty -= {column for column in empty if COLUMN_TEXTS[column](row) not in NOTHING}
        if not empty:
            break
    return frozenset(COLUMN_TEXTS.keys() - empty)
