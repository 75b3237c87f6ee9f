"""The fields and the sums that capabilities add to what every door shows of a session, and to the overview."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sm.core.estimates import Estimate, Sample
from sm.core.models import Caller, Session
from sm.core.tree_totals import NO_TOTALS, Totals

SumsOf = Callable[[str], Totals]
"""The sums of the tree below a session, by its id."""


class SessionField:
    """A field of the JSON of a session, for callers who may read it. Without a value it is null."""

    name: str
    is_public: bool = False
    """Every caller who sees the session sees the field, not only those who may read the session."""

    def ids(self) -> Collection[str]:
        """The ids of the sessions that have a value. It may change without the session: its JSON is not cached."""
        return ()

    def value(self, session_id: str) -> Any:
        """The value in the API, or None if the session has none."""
        return None

    def brief(self, session_id: str) -> Any:
        """The value for agents, who pay for each word, or None if the session has none."""
        return None

    def signs(self, session_id: str) -> int:
        """The number of signs that the session goes wrong."""
        return 0

    def spending(self, session: Session) -> str | None:
        """Words for the spending of the session in the digest, or None with nothing to tell."""
        return None


class SessionFields(list[SessionField]):
    """The fields that capabilities have registered."""


class StatusField:
    """A field of the overview of `sm status`, for the operator. For others it is an empty list."""

    name: str

    async def value(self) -> list[Any]:
        return []


class StatusFields(list[StatusField]):
    """As SessionFields, of the overview."""


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
