"""The contents of live views: rows, order, filter, selection, what needs a person, and the actions. Pure."""

from sm.board.actions import ACTIONS, command_to_copy
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
