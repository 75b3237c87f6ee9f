"""What `sm progress` shows, from evidence only. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sm.lifecycle import is_ended
from sm.models import Checkpoint, Session, Status

_TASKS = re.compile(r"\((\d{1,4})/(\d{1,4})\b[^)]*\)")


def task_percentage(checkpoints: Sequence[Checkpoint]) -> int | None:
    """Per cent done, as the newest checkpoint with a `(3/5 tasks)` in it says; None when none does."""
    for checkpoint in reversed(checkpoints):
        for done, whole in reversed(_TASKS.findall(checkpoint.message)):
            if 0 < int(whole) >= int(done):
                return round(100 * int(done) / int(whole))
    return None


def seconds_between(earlier: str, later: str) -> int:
    """Whole seconds from one ISO 8601 time to another, never negative."""
    return max(0, int((datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()))


def report(
    session: Session, checkpoints: Sequence[Checkpoint], last_output: Sequence[str], now: str
) -> dict[str, Any]:
    """The object of `sm progress --json` (seed 003, with design section 13).

    What nobody measured is null: a `command` agent has no tokens and no tools.
    """
    idle = session.status is Status.IDLE
    return {
        "session_id": session.id,
        "name": session.display_name,
        "status": "working" if session.status is Status.RUNNING else session.status.value,
        "elapsed_seconds": seconds_between(
            session.started_at or session.created_at, session.completed_at or now
        ),
        "tokens_used": None,
        "tokens": None,
        "tokens_remaining_estimate": None,
        "completion_percentage": task_percentage(checkpoints),
        "cost_usd": None,
        "context_percent": None,
        "tools_used": {},
        "total_tools": 0,
        "last_tool": None,
        "current_activity": session.note,
        "checkpoints": [
            {"timestamp": c.timestamp, "message": c.message, "metadata": dict(c.metadata)}
            for c in checkpoints
        ],
        "last_output": list(last_output),
        "is_idle": idle,
        "idle_seconds": seconds_between(session.status_at, now) if idle else 0,
        "is_waiting_input": session.status is Status.WAITING_INPUT,
        "is_complete": is_ended(session.status),
        "completion_status": session.completion_status,
        "completion_message": session.completion_message,
    }
