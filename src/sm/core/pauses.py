"""Pauses of sessions. Pure data.

An order to pause is not its effect: `Pause.state` is `paused` only when sm has seen that the session spends nothing.
"""

from sm.core.dataclass import dataclass
from sm.core.pause_states import PauseState, held_words, spending_words


@dataclass(frozen=True, slots=True)
class Pause:
    """The reason and the end of a session's pause. Times are ISO 8601 UTC with `Z`."""

    at: str
    by: str
    """The caller: `operator`, a session's id, a user such as `telegram:4711`, or `sm`."""
    reason: str
    """A few words: `paused by the operator`."""
    until: str | None = None
    """The session resumes then by itself, or never if None."""
    soft: bool = False
    """The turn that is under way may end."""
    cut_off: bool = False
    """The pause interrupted a turn: the agent is told to go on when it resumes."""
    suspends: bool = False
    """The agent has no turns: its processes are stopped."""
    hold: str | None = None
    """The subject of the hold, such as a spent budget, that paused the session, or None if it was paused otherwise."""
    account: str | None = None
    """The account that a person has paused, and with it the session."""
    settled_at: str | None = None
    """The time at which sm saw that the session spends nothing, or None if that was not seen yet."""
    held: str | None = None
    """A `Held`, or the unknown text of a newer version, or None if it is not settled."""
    quiet_since: str | None = None
    """From this time on the agent has reported that nothing runs, and no usage came. None if something runs."""
    used_at: str | None = None
    """The last time since the order at which usage came, or None if none has come."""
    ordered_at: str = ""
    """The last time at which the session was seen to spend although nothing had been ordered, so that it was stopped
    anew, or empty for `at`."""
    presses: int = 0
    """How often the interrupt key was ordered since then."""
    spends: tuple[str, ...] = ()
    """The activity that still spends, for people: `its turn`, `3 background agents`."""
    told: bool = False
    """Parent and operator were told that the spending goes on after this order."""

    @property
    def state(self) -> PauseState:
        return PauseState.PAUSING if self.settled_at is None else PauseState.PAUSED


GO_ON = "You were paused in the middle of your work. Go on where you were interrupted."
"""The message to an agent whose turn a pause has interrupted."""


def pause_fact(pause: Pause) -> str:
    """`pausing: too expensive; 3 background agents still spend`."""
    spends = spending_words(pause.spends) if pause.state is PauseState.PAUSING else ""
    parts = (f"{pause.state}: {pause.reason}", spends, held_words(pause.held))
    return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class PauseOrder:
    """An order to pause a session, or to change its pause. The fields are those of `Pause`."""

    by: str
    reason: str
    until: str | None = None
    within_s: float | None = None
    """The seconds until `until`, if the pause has a duration and no end of the wall clock."""
    soft: bool = False
    hold: str | None = None
    account: str | None = None


WAIT_S = 10.0
"""How long a caller waits for the effect of its order, if it does not say."""
WAIT_MAX_S = 3600.0
PAUSED = "the session is paused"
"""The reason why its messages and its completion wait."""
