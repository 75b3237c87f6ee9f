"""The types of texts that a search finds. Every command may import this module."""

from sm.core.statuses import Tolerant


class SearchType(Tolerant):
    """The values are stored in the database, so they never change."""

    PROMPT = "prompt"
    MESSAGE = "message"
    TEXT = "text"
    """A text of the agent in its conversation."""
    TOOL = "tool"
    """A use of a tool with its arguments."""
    REQUEST = "request"
    CHECKPOINT = "checkpoint"
    NOTE = "note"
    RESULT = "result"
    """The message of a completion."""
    TERMINAL = "terminal"
    """The output of a session that has ended."""
