"""Checks the users of chat networks who start sessions."""

from sm.capabilities.pairing.tables import PART
from sm.core.models import Caller
from sm.errors import NotPermitted
from sm.sessions.spawn_parts import SpawnPart
from sm.store import Transaction


class PairedSpawns(SpawnPart):
    """Refuses a user who was revoked after the call was identified."""

    def check_caller(self, tx: Transaction, caller: Caller) -> None:
        user = caller.user
        if user is not None and not user.is_owner and user.name not in tx.part(PART).rows.pairings:
            raise NotPermitted(f"user {user.name} is no longer paired")
