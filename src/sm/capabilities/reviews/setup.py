"""Builds reviews, and registers their parts at the kernel."""

from sm.capabilities.reviews import operations
from sm.capabilities.reviews.reviewing import Reviewing
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    reviewing = Reviewing(kernel.store, kernel.authorizer, kernel.messages)
    kernel.use_cases[operations.SHOW] = reviewing.show
    kernel.use_cases[operations.PUT] = reviewing.put
    kernel.use_cases[operations.REPLACE] = reviewing.replace
    kernel.use_cases[operations.DISCARD] = reviewing.discard
    kernel.use_cases[operations.SEND_ROUND] = reviewing.send
    kernel.use_cases[operations.DENY_COMPLETION] = reviewing.deny
