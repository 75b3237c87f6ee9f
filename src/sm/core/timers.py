"""Actions that are due at a time, also after a restart of the daemon. Pure data."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s


class TimerKind(StrEnum):
    """The kinds of the kernel's timers; capabilities have more. They are stored, so they never change."""

    RETRY = "retry"
    """A session goes on after a fault of the service."""
    RETRIED = "retried"
    """The last retry of a session was long ago: the next fault is not in a row with it."""
    RESTART = "restart"
    """A session whose process has crashed starts again."""
    CUT_OFF = "cut_off"
    """The container engine or the machine cut off a session, which is restored; kept until that was long ago."""
    REAP = "reap"
    """The process of a completed session ends."""
    COMPACTED = "compacted"
    """sm compacted the conversation of a session long ago: it may do so again."""
    UNREAD = "unread"
    """The last lines in the transcript of an ended session are unread."""


@dataclass(frozen=True, slots=True)
class Timer:
    """One action that is due. A subject has at most one timer of each kind."""

    subject: str
    """A session's id, or the name of another thing to which the action applies."""
    kind: str
    """A `TimerKind`, or a kind of a capability or of a newer version."""
    due_at: str
    """ISO 8601, UTC."""
    within_s: float | None = None
    """The wait that began when the timer was set, or None if `due_at` is a time of the clock on the wall.

    A step of the system clock shortens or extends such a wait only if the daemon restarts, and never beyond `within_s`.
    """
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.subject, self.kind

    def seconds_left(self, wall_s: float) -> float:
        """Seconds until the action is due, at `wall_s` seconds since the epoch."""
        left = epoch_s(self.due_at) - wall_s
        return left if self.within_s is None else min(left, self.within_s)
