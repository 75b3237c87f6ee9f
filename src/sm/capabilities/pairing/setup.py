"""Builds pairing, which checks the users of chat networks who start sessions, and registers its parts at the kernel."""

from sm.capabilities.pairing import operations
from sm.capabilities.pairing.pairings import Pairings
from sm.capabilities.pairing.tables import PART
from sm.core.models import Caller
from sm.errors import NotPermitted
from sm.kernel import Kernel
from sm.sessions.spawn_parts import SpawnPart
from sm.store import Transaction


class PairedSpawns(SpawnPart):
    """Refuses a user who was revoked after the call was identified."""

    def check_caller(self, tx: Transaction, caller: Caller) -> None:
        user = caller.user
        if user is not None and not user.is_owner and user.name not in tx.part(PART).rows.pairings:
            raise NotPermitted(f"user {user.name} is no longer paired")


def setup(kernel: Kernel) -> None:
    pairings = Pairings(kernel.store, kernel.authorizer, kernel.users, kernel.audit)
    kernel.users.admissions.append(pairings)
    kernel.spawn_parts.append(PairedSpawns())
    kernel.use_cases[operations.LIST] = pairings.overview
    kernel.use_cases[operations.APPROVE] = pairings.approve
    kernel.use_cases[operations.DENY] = pairings.deny
    kernel.use_cases[operations.REVOKE] = pairings.revoke
