"""The JSON objects in the answers to an agent's own hooks."""

from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.states import RequestState


class DialogOutcome(StrEnum):
    """The state of a dialog, for the hook that waits."""

    OPEN = "open"
    DECIDED = "decided"
    OVER = "over"
    """The hook prints nothing: the agent, or the person at its terminal, decides."""


@dataclass(frozen=True, slots=True)
class DialogView:
    """The decision about a dialog."""

    request: str | None
    """Null if the event is about no dialog or a closed one."""
    state: DialogOutcome
    """`over`: the hook prints nothing."""
    output: str | None
    """The text that the hook prints."""


@dataclass(frozen=True, slots=True)
class DialogTakenView:
    request: str
    state: RequestState
