"""The optional columns of the list: which of them have a value in some row."""

from typing import Any

import pytest

from sm.board.columns import COLUMN_TEXTS, Column, filled_columns
from tests.board.samples import row

EMPTY: dict[str, Any] = {
    "cost_usd": None,
    "context_percent": None,
    "todo_done": None,
    "todo_total": None,
    "tokens": None,
    "model": None,
    "tree": {"sessions": 1, "live": 1, "tokens": None, "cost_usd": None},
}
VALUES: dict[Column, dict[str, Any]] = {
    Column.COST: {"cost_usd": 0.0},
    Column.CONTEXT: {"context_percent": 0},
    Column.DONE: {"todo_done": 0, "todo_total": 5},
    Column.TOKENS: {"tokens": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}},
    Column.MODEL: {"model": "claude-opus-4-8"},
}


def test_columns_without_a_value_in_any_row_are_left_out() -> None:
    assert filled_columns([]) == filled_columns([row(**EMPTY), row(**EMPTY)]) == frozenset()
    assert filled_columns([row(**EMPTY), row()]) == set(Column) - {Column.DONE}


@pytest.mark.parametrize("column", list(Column))
def test_column_is_filled_by_one_row_whose_cell_has_a_text(column: Column) -> None:
    filled = row(**{**EMPTY, **VALUES[column]})
    assert filled_columns([row(**EMPTY), filled, row(**EMPTY)]) == {column}
    assert {each for each, text in COLUMN_TEXTS.items() if text(filled) not in ("", "-")} == {column}


def test_cost_of_the_descendants_fills_the_column_of_the_cost() -> None:
    tree = {"sessions": 2, "live": 1, "tokens": None, "cost_usd": 1.0}
    assert filled_columns([row(**{**EMPTY, "tree": tree})]) == {Column.COST}
