"""The optional columns of the list of sessions: their texts, and which of them a view leaves out. Pure."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from sm.board.row import BoardRow
from sm.board.words import context_bar
from sm.core.figures import dollars


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


_HAS_VALUE: Mapping[Column, Callable[[BoardRow], object]] = {
    Column.COST: lambda row: row.data["cost_usd"] is not None or row.tree_cost(),
    Column.CONTEXT: lambda row: row.data["context_percent"] is not None,
    Column.DONE: lambda row: row.data["todo_total"],
    Column.TOKENS: lambda row: row.data["tokens"] is not None,
    Column.MODEL: lambda row: row.data["model"],
}
"""Faster than the texts, of which all are made for a column without any value."""


def filled_columns(rows: Iterable[BoardRow]) -> frozenset[Column]:
    """The columns in which at least one row has a value. A view leaves out the others: TASK gets their width."""
    empty = list(Column)
    for row in rows:
        if any(_HAS_VALUE[column](row) for column in empty):
            empty = [column for column in empty if not _HAS_VALUE[column](row)]
            if not empty:
                break
    return frozenset(Column).difference(empty)
