"""Side effects that the daemon carries out after a transaction has committed them. Pure data."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sm.core.dataclass import dataclass


class EffectKind(StrEnum):
    """The values are stored in the database, so they never change."""

    WORKTREE = "worktree"
    """Make the git worktree of a session, before its start."""
    START = "start"
    """Start a session's agent, or adopt one that runs already."""
    TYPE = "type"
    """Type the prompt of an agent that reads its prompt from the terminal."""
    KILL = "kill"
    INTERRUPT = "interrupt"
    SUSPEND = "suspend"
    """Stop the processes of a paused agent without turns."""
    CONTINUE = "continue"
    """Continue the processes of an agent whose pause has ended."""
    CLOSE_DIALOG = "close_dialog"
    """Close the dialog that an agent opens by itself at its usage limit."""
    ARCHIVE = "archive"
    """Write the archive of an ended session."""
    INSPECT = "inspect"
    """Look for what an ended process left behind, before the next one of the session starts."""
    CLOSE = "close"
    """Close an ended session's terminal."""
    RELEASE = "release"
    """Give the terminal of an adopted agent back to its owner."""
    FORGET_REVIEWS = "forget_reviews"
    """Delete what was reviewed of a removed session in its git repository."""
    REMOVE = "remove"
    """Remove the terminal and the files of a removed session."""
    COMMAND = "notify_command"
    """Run the operator's program with a notification."""
    WEBHOOK = "webhook"
    """Post a notification to one of the operator's URLs."""
    TELEGRAM = "telegram"
    """Make a call of the Bot API. The bot chooses the order of its calls, and is the only one that makes them."""


class EffectState(StrEnum):
    """The values are stored in the database, so they never change."""

    PENDING = "pending"
    TAKEN = "taken"
    """An effect that cannot be repeated began. After a crash nobody knows whether it was carried out."""
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Effect:
    """A row of the outbox, except a call to Telegram, which is an `Outgoing`."""

    id: int
    kind: str
    """An EffectKind, or an unknown text if a newer version has written the row."""
    session_id: str
    payload: Mapping[str, Any]
