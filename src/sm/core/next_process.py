"""The next process of a session whose process has ended. Pure data."""

from sm.core.dataclass import dataclass

RESTART = "restart"
"""The source of the status of a session that waits for its restart."""
TOLD = "Your process ended ({why}), and sm started it again. Check how far you got, and go on."
"""The message to an agent that goes on in its conversation after a restart."""
GOOD_S = 600.0
"""After a process that ran this long, the next crash is the first one again."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restarts of a session that sm starts again after a crash or a pause. Times are ISO 8601 UTC with `Z`."""

    max: int = 3
    """Restarts after crashes in a time; after the next crash, sm gives up. With 0, only the end of a pause starts the
    session again."""
    times: tuple[str, ...] = ()
    """The crashes in that time that were followed by a restart."""
    row: int = 0
    """Restarts since a process last ran for `GOOD_S`."""
    total: int = 0
    """Restarts of the session since it was spawned or restored."""
    next_at: str | None = None
    """The session waits for a restart, which is due then."""
    exit_code: int | None = None
    """How the last process ended, with `exit_signal`."""
    exit_signal: int | None = None

    @property
    def count(self) -> int:
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the session again."""

    after_s: float
    restarts: Restarts
    """The restarts of the session from now on, with this one."""
    words: str
    """`restart 2 of 3`, or what it is that follows no crash."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the session: too many restarts have failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class OrderedEnd:
    """The end of a process that was ordered so that another one follows it."""

    restart: Restart
    why: str
    """For the agent."""
    reason: str
    """The reason of the session's status, for people."""
