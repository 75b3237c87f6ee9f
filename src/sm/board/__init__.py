"""The contents of live views: rows, order, filter, selection, what needs a person, and the actions. Pure."""

from typing import TYPE_CHECKING, Any

from sm.board.board import Board
from sm.board.board_action import (
    NO_WORDS,
    ActionInput,
    ApiCall,
    BoardAction,
    FieldKind,
    InputField,
    Target,
)
from sm.board.chips import Chip, chips
from sm.board.filter import KEYS, Filter, parse_filter
from sm.board.guard import ButtonGuard
from sm.board.needs import BoardNeed, NeedKind, Quiet, needs
from sm.board.order import Line, Sort, arrange
from sm.board.row import BoardRow, board_row
from sm.board.table import RowChange, SessionTable

if TYPE_CHECKING:
    from sm.board.actions import ACTIONS, command_to_copy
else:

    def __getattr__(name: str) -> Any:
        """Import the actions, for which all operations are needed, when they are used for the first time."""
        if name not in ("ACTIONS", "command_to_copy"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from sm.board import actions

        return getattr(actions, name)


__all__ = [
    "ACTIONS",
    "KEYS",
    "NO_WORDS",
    "ActionInput",
    "ApiCall",
    "Board",
    "BoardAction",
    "BoardNeed",
    "BoardRow",
    "ButtonGuard",
    "Chip",
    "FieldKind",
    "Filter",
    "InputField",
    "Line",
    "NeedKind",
    "Quiet",
    "RowChange",
    "SessionTable",
    "Sort",
    "Target",
    "arrange",
    "board_row",
    "chips",
    "command_to_copy",
    "needs",
    "parse_filter",
]
