"""Additions of capabilities to a new session: their rows, warnings for the caller, lines of its briefing."""

from collections.abc import Sequence

from sm.config import AgentConfig
from sm.core.models import Session, SpawnRequest
from sm.providers.base import Provider
from sm.store import Transaction


class SpawnAddition:
    """The addition of one capability to one new session: nothing."""

    @property
    def briefing(self) -> str:
        """A line of the agent's briefing; empty: none."""
        return ""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the caller."""
        return ()

    def added_to(self, session: Session) -> Session:
        """The session with what the capability stores in its row. A fork has that of its original."""
        return session

    def planned_warnings(self, session: Session, provider: Provider) -> Sequence[str]:
        """Warnings that need the model of the session. A fork has none."""
        return ()

    def insert(self, tx: Transaction, session: Session) -> None:
        """Store the rows of the session, which the transaction has inserted. Raises UsageError."""


class SpawnPart:
    """Plans the additions of one capability."""

    def plan(
        self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None
    ) -> SpawnAddition:
        """Plan the addition to a session that is not stored yet. Raises UsageError.

        `request`: None for a fork. `agent`: the settings of its agent type; None: the type no longer exists.
        """
        return SpawnAddition()

    def briefing(self, session: Session) -> str:
        """The line of the briefing of a stored session; empty: none."""
        return ""
