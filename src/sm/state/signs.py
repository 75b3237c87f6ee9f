"""Signs that a session goes wrong: the daemon shows them to the followers of sessions. Functions of a transaction."""

from sm.core.models import Session
from sm.core.warnings import Sign, WarningKind
from sm.store import Transaction


async def show_sign(tx: Transaction, session: Session, sign: Sign) -> None:
    for follower in tx.followers:
        await follower.follow_sign(tx, session, sign)


async def end_sign(tx: Transaction, session: Session, kind: WarningKind) -> None:
    """Report that the cause of such signs has ended."""
    for follower in tx.followers:
        await follower.follow_end_of_sign(tx, session, kind)
