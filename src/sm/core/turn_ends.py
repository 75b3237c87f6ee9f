"""The end of a turn as an agent reported it, before the session's status follows it. Pure data."""

from sm.core.dataclass import dataclass
from sm.core.observation import Observation
from sm.core.turns import TurnWork


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """The end of a turn that was reported in the `runs`-th run of the session (`Session.runs`)."""

    session_id: str
    runs: int
    observation: Observation
    work: TurnWork
    """In the turn, by its hooks."""
