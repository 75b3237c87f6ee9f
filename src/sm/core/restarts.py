"""Restarts of sessions whose process has crashed. Pure data."""

from dataclasses import dataclass
from enum import StrEnum

RESTARTS_MAX = 3
"""How many restarts sm tries before it gives up, if nothing else is configured."""
RESTART = "restart"
"""The source of the status of a session that waits for its restart."""
TOLD = "Your process ended ({why}), and sm started it again. Check how far you got, and go on."
"""The message to an agent that goes on in its conversation after a restart."""


class RestartPolicy(StrEnum):
    NEVER = "never"
    ON_FAILURE = "on-failure"


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restarts of a session that sm starts again after a crash. Times are ISO 8601 UTC with `Z`."""

    max: int = RESTARTS_MAX
    """Restarts within the window of `policy.restarts`; after the next crash, sm gives up. 0: only the end of a pause
    starts the session again."""
    times: tuple[str, ...] = ()
    """The crashes in the window that were followed by a restart."""
    row: int = 0
    """Restarts since a process last ran long enough (`policy.restarts.GOOD_S`)."""
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
