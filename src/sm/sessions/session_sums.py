"""The sums of sessions and of the trees below them, for every door. A capability keeps them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sm.core.estimates import Estimate, Sample
from sm.core.models import Caller, Session
from sm.core.tree_totals import NO_TOTALS, Totals

SumsOf = Callable[[str], Totals]
"""The sums of the tree below a session, by its id."""


class SessionSums:
    """The sums of sessions. This base knows nothing of them."""

    version: int = 0
    """Rises with each change of the sums."""

    def own(self, session_id: str) -> Totals:
        """The session's own part of the sums, as of the last call of another method."""
        return NO_TOTALS

    async def sums(self, caller: Caller, shown: Iterable[Session]) -> SumsOf:
        """The sums of each of these sessions and its descendants, as far as the caller sees them."""
        return lambda session_id: NO_TOTALS

    async def samples(self, agent_type: str) -> Sequence[Sample]:
        """The completed sessions of an agent type, with the removed ones, the newest first."""
        return ()

    async def estimates(self, types: Mapping[str, str | None]) -> dict[str, Estimate | None]:
        """The estimate for a new session of each agent type. `types`: the model of each, or None for the default.

        The default model is that of the newest completed session of the type.
        """
        return {}
