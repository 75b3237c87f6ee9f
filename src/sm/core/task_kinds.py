"""The kinds of text that describe the current task of a session."""

from enum import StrEnum

TASK_MAX = 300
"""The characters of a task in a list."""


class TaskKind(StrEnum):
    """The source of a task's text."""

    REQUEST = "request"
    RESULT = "result"
    NOTE = "note"
    ACTIVITY = "activity"
    ANSWER = "answer"
    """The agent's last words."""
    TITLE = "title"
    PROMPT = "prompt"
    """The task that the session was started with."""
    REASON = "reason"
    """The reason of the session's pause, or of its status."""
