"""Rows, requests and messages as the daemon sends them to live views."""

from collections.abc import Iterable
from typing import Any, cast

from sm.board import Board, BoardRow, board_row
from sm.client.live_stream import Json

AT = "2026-01-27T15:10:00.000Z"
AT_S = 1769526600.0
"""The same time in seconds since the epoch."""


def row_data(session_id: str, **more: Any) -> Json:
    usage = {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}
    row = {
        "session_id": session_id,
        "name": f"engineer-{session_id}",
        "friendly_name": None,
        "label": more.get("name", f"engineer-{session_id}"),
        "title": None,
        "agent_type": "Engineer",
        "provider": "claude",
        "model": "claude-opus-4-8",
        "status": "running",
        "status_source": "hook",
        "status_reason": "works",
        "status_at": AT,
        "status_stale": False,
        "mode": "auto",
        "mode_source": "default",
        "parent_session_id": None,
        "parent_label": None,
        "created_by": "operator",
        "working_dir": "/w",
        "workspace": None,
        "trust_level": "direct",
        "effective_mode": "direct",
        "tmux_session": f"claude-{session_id}",
        "pid": 100,
        "exit_code": None,
        "exit_signal": None,
        "created_at": AT,
        "started_at": AT,
        "completed_at": None,
        "completion_status": None,
        "completion_message": None,
        "note": None,
        "last_activity_at": AT,
        "archived": False,
        "seen_at": None,
        "worktree": None,
        "children": [],
        "tokens": usage,
        "cost_usd": 0.5,
        "context_percent": 40,
        "activity": None,
        "last_tool": None,
        "todo_done": None,
        "todo_total": None,
        "task": more.get("note") or more.get("completion_message") or more.get("status_reason", "works"),
        "task_kind": "note",
        "open_requests": [],
        "messages_held": 0,
        "attention": "working",
        "last_words": None,
        "children_failed": 0,
        "children_done": 0,
        "lost": False,
        "tree": {"sessions": 1, "live": 1, "tokens": usage, "cost_usd": 0.5},
    } | more
    return cast(Json, row)


def row(session_id: str = "1a2b3c4d", **more: Any) -> BoardRow:
    return board_row(row_data(session_id, **more))


def update(rows: Iterable[Json] = (), *removed: str, snapshot: bool = False, **more: Any) -> Json:
    made = {"revision": "r-1", "at": AT, "snapshot": snapshot, "more": False, "earlier": None} | more
    return cast(Json, {**made, "rows": list(rows), "removed": list(removed)})


def earlier(sessions: int, workspace: str | None = None, *, archived: bool = False) -> Json:
    return cast(Json, {"workspace": workspace, "archived": archived, "sessions": sessions})


def board_of(*rows: Json) -> Board:
    """A board after the snapshot of these rows, at the reader's time 0."""
    board = Board()
    board.apply(update(rows, snapshot=True), 0.0)
    board.refresh(0.0, rests=True)
    return board


def shown_ids(board: Board) -> list[str]:
    return [line.row.id for line in board.lines]


def message(number: int, status: str, **more: Any) -> dict[str, Any]:
    return {
        "message_id": number,
        "session_id": "1a2b3c4d",
        "label": "engineer-login",
        "from": "operator",
        "from_label": "operator",
        "status": status,
        "mode": "auto",
        "evidence": None,
        "reason": None,
        "created_at": AT,
        "text": "go on",
    } | more
