"""Builds pairing, and registers its parts at the kernel."""

from sm.capabilities.pairing import operations
from sm.capabilities.pairing.listeners import PairedSpawns
from sm.capabilities.pairing.operations.pairings import Pairings
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    pairings = Pairings(kernel.store, kernel.authorizer, kernel.users, kernel.audit)
    kernel.users.admissions.append(pairings)
    kernel.spawn_parts.append(PairedSpawns())
    kernel.use_cases[operations.LIST] = pairings.overview
    kernel.use_cases[operations.APPROVE] = pairings.approve
    kernel.use_cases[operations.DENY] = pairings.deny
    kernel.use_cases[operations.REVOKE] = pairings.revoke
