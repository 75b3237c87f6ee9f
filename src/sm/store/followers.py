"""Followers of changes of sessions, which register at `Store.followers`."""

from typing import TYPE_CHECKING

from sm.core.messages import Message
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.turns import FinishedTurn
from sm.core.warnings import Sign, WarningKind

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class SessionFollower:
    """Acts in the transaction of a change. The methods do nothing here."""

    async def follow_move(self, tx: "Transaction", before: Session, after: Session) -> None:
        """Follow the move of a session to another parent by a person."""

    async def leave(self, tx: "Transaction", session: Session) -> None:
        """Prepare for the removal of a session."""

    async def follow_status(self, tx: "Transaction", session: Session) -> None:
        """Follow a change of the session's status or pause."""

    async def follow_turn(self, tx: "Transaction", session: Session, turn: FinishedTurn) -> Session:
        """Follow a finished turn of a session that is idle. Return the session, which may have another reason."""
        return session

    async def follow_request(self, tx: "Transaction", session: Session, request: Request) -> None:
        """Follow a request of the session that begins to wait for an answer."""

    async def follow_closed_request(self, tx: "Transaction", session: Session, request: Request) -> None:
        """Follow a request of the session that is closed."""

    async def admit(
        self, tx: "Transaction", sender: Session | None, to: Session, message: Message
    ) -> Message:
        """Return the new message as it is sent: at once, later, or held. Raises IllegalState.

        `sender`: None for a person.
        """
        return message

    def warns_of(self, kind: WarningKind) -> bool:
        """True if a sign of this kind is told to people."""
        return False

    def has_warned(self, tx: "Transaction", session: Session, kind: WarningKind) -> bool:
        """True while the last sign of this kind lasts."""
        return False

    async def follow_sign(self, tx: "Transaction", session: Session, sign: Sign) -> None:
        """Follow a sign that the session goes wrong."""

    async def follow_end_of_sign(self, tx: "Transaction", session: Session, kind: WarningKind) -> None:
        """Follow the end of what such signs have shown."""
