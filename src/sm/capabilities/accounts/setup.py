"""Builds accounts, and registers their parts at the kernel."""

from sm.capabilities.accounts import operations
from sm.capabilities.accounts.accounts import Accounts
from sm.capabilities.accounts.listeners import FaultParks, SpawnAccounts
from sm.capabilities.accounts.model import AccountTimer
from sm.capabilities.accounts.settings import QuotaSection
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings = kernel.config.with_keys(QuotaSection).quota
    accounts = Accounts(kernel.store, kernel.authorizer, settings)
    kernel.observer.register(accounts)
    kernel.faults.followers.append(FaultParks())
    kernel.spawn_parts.append(SpawnAccounts(kernel.store))
    kernel.status_fields.append(accounts)
    kernel.timers[AccountTimer.PARK] = accounts.try_again
    kernel.timers[AccountTimer.FOLLOW] = accounts.follow
    kernel.use_cases[operations.LIST] = accounts.show
    kernel.use_cases[operations.PAUSE] = accounts.pause_account
    kernel.use_cases[operations.RESUME] = accounts.resume_account
