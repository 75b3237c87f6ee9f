"""The actions on a session in the order in which a person is likely to need them now. Pure."""

from collections.abc import Sequence

from sm.board.actions import ACTIONS
from sm.board.board_action import Target
from sm.board.needs import BoardNeed
from sm.board.row import IDLE, STALE, BoardRow
from sm.core.dataclass import dataclass
from sm.core.statuses import Status

SHOWN = 2
"""The number of actions that a view shows beside the state of a session. All others are in its menu."""
_OF_ENTRIES = frozenset({"approve", "always", "deny", "answer", "read"})
"""Actions on a request or a message, which have a place of their own."""
_LAST = ("kill", "rm")


@dataclass(frozen=True, slots=True)
class MainActions:
    request: str | None
    """The oldest open request that a view can answer, which comes before all actions. None without one."""
    names: Sequence[str]
    """The names of all possible actions on the session, those that fit its state first."""


def main_actions(target: Target, found: Sequence[BoardNeed]) -> MainActions:
    """The actions for the row of a target. `found`: all entries that need a person."""
    row = target.row
    asked = [need.request for need in found if need.request and need.session_id == target.session_id]
    request = next((entry["request_id"] for entry in asked if entry["kind"] != "dialog"), None)
    fitting = () if row is None else _fitting(row, at_terminal=bool(asked) and request is None)
    others = [name for name in ACTIONS if name not in (*fitting, *_LAST)]
    ranked = (*fitting, *others, *(name for name in _LAST if name not in fitting))
    actions = [ACTIONS[name] for name in ranked if name not in _OF_ENTRIES]
    possible = [action.name for action in actions if action.needs_session and action.refusal(target) is None]
    return MainActions(request, possible)


def _fitting(row: BoardRow, *, at_terminal: bool) -> tuple[str, ...]:
    """The actions that fit the state. Some may not be possible. `at_terminal`: a dialog waits for a person there."""
    if not row.is_live:
        if row.has_process:
            return ("attach", "kill")
        if row.data["archived"]:
            return ("restore", "unarchive")
        return ("restore", "why") if row.attention == "failed" else ("restore", "archive")
    if row.requests and not at_terminal:
        return ("interrupt", "attach")
    if at_terminal or row.status == Status.WAITING_INPUT:
        return ("attach", "interrupt")
    if row.urgency == STALE:
        return ("why", "attach")
    return ("attach", "kill") if row.urgency == IDLE else ("interrupt", "attach")
