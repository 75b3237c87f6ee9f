"""The outcomes of the contracts with a version of an agent CLI, and their lines for people. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType

from sm.core.dataclass import dataclass
from sm.core.lines import plural
from sm.core.models import Session

BACKGROUND = "background"
"""The name of the contract that background work is reported. Every provider uses it, as it does PLAN."""
PLAN = "plan"
"""The name of the contract that the answer to a plan is carried out. Other answers have the kind of the request."""

QUEUE = "queue"
"""The name of the contract that a message in the agent's own queue is told from one that was read."""


@dataclass(frozen=True, slots=True)
class ProgramState:
    """The outcomes of one check, or their absence."""

    provider: str
    version: str | None
    """None if it is unknown."""
    checked_at: str | None = None
    """ISO 8601. None if the program was not checked."""
    outcomes: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """True for each contract that holds, False for a broken one, by its name. Empty if not checked."""

    @property
    def is_checked(self) -> bool:
        return self.checked_at is not None

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(name for name, holds in self.outcomes.items() if not holds)

    def breaks(self, contract: str) -> bool:
        """Return True if this contract was tried and does not hold."""
        return not self.outcomes.get(contract, True)

    @property
    def label(self) -> str:
        return self.provider if self.version is None else f"{self.provider} {self.version}"

    @property
    def line(self) -> str:
        """`claude 2.1.332: checked on 2026-11-29`, `not checked`, or the broken contracts by their names."""
        if self.checked_at is None:
            return f"{self.label}: not checked"
        checked, broken = f"{self.label}: checked on {self.checked_at[:10]}", self.broken
        if not broken:
            return checked
        do = "does" if len(broken) == 1 else "do"
        count = plural(len(self.outcomes), "contract")
        return f"{checked}, {len(broken)} of {count} {do} not hold: {', '.join(broken)}"


ProgramStateOf = Callable[[Session], ProgramState | None]
"""The outcomes of the contracts with the program of a session. None if nothing is known of them."""


def unknown_program_state(session: Session) -> None:
    """A `ProgramStateOf` that knows no program."""
