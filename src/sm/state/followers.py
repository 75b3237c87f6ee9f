"""Followers of changes and of the usage of sessions, which register for them."""

from collections.abc import Mapping, Sequence

from sm.core.models import Session
from sm.core.usage import Usage
from sm.store import Transaction


class SessionFollower:
    """Acts in the transaction of a change. The methods do nothing here."""

    async def follow_move(self, tx: Transaction, before: Session, after: Session) -> None:
        """Follow the move of a session to another parent by a person."""

    async def leave(self, tx: Transaction, session: Session) -> None:
        """Prepare for the removal of a session."""


class UsageFollower:
    """Acts in the transaction that stores the usage of an agent."""

    def needs_stored(self, session_id: str) -> bool:
        """True if `follow_usage` needs the usage that is stored already."""
        return False

    async def follow_usage(
        self,
        tx: Transaction,
        session: Session,
        usages: Sequence[Usage],
        stored: Mapping[str, Usage] | None,
    ) -> None:
        """Follow usage that the transaction is about to store.

        `stored`: the stored usage of these messages, by id; None: it was not read.
        """
