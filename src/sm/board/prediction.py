"""Predicts what happens to a message before it is sent. Pure."""

from collections.abc import Sequence

from sm.board.board_action import Target
from sm.board.needs import BoardNeed
from sm.board.row import BoardRow
from sm.core.statuses import ENDED, Status

MODES = ("auto", "idle", "urgent")
"""The modes of a message, the default first."""
_DIALOGS = {
    "permission": "permission dialog",
    "question": "question dialog",
    "setup": "first-start dialog",
    "dialog": "dialog at its terminal",
}


def prediction(row: BoardRow | None, mode: str = MODES[0], dialogs: Sequence[tuple[str, str]] = ()) -> str:
    """The state that a message to the session will have. `dialogs`: the kind and ID of each open request."""
    if row is None:
        return ""
    if row.status in ENDED:
        return "will be refused: the session has ended"
    answers = len(dialogs) == 1 and dialogs[0][0] == "question"
    if row.data["paused"] and not answers:
        return "will be held: the session is paused"
    if row.data["provider"] == "command":
        return "will be queued until the program reads its inbox"
    if row.status in (Status.SPAWNED, Status.STARTING):
        return "will be held: the session is starting"
    if answers:
        return f"answers {dialogs[0][1]}, its only open question"
    if row.status == Status.WAITING_INPUT:
        kind, name = dialogs[0] if dialogs else ("", "")
        if kind not in _DIALOGS:
            return f"will be held: {row.task()}"
        return f"will be held until {name} is answered ({_DIALOGS[kind]})"
    before = row.data["messages_held"]
    if before and mode != "urgent":
        return f"will be held: {before} message{'' if before == 1 else 's'} before it"
    if row.status == Status.IDLE:
        return "will be delivered now"
    if mode == "idle":
        return "will be held until the agent is idle"
    return "will interrupt the turn" if mode == "urgent" else "will be delivered while the agent works"


def predicted(target: Target, found: Sequence[BoardNeed], mode: str = MODES[0]) -> str:
    """As `prediction`, for the target of a message. `found`: all entries that need a person."""
    session_id = target.session_id
    dialogs = [
        (need.request["kind"], need.key) for need in found if need.request and need.session_id == session_id
    ]
    return prediction(target.row, mode, dialogs)
