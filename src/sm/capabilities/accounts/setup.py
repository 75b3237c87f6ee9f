"""Builds accounts, and registers their parts at the kernel."""

from collections.abc import Collection
from typing import Any

from sm.capabilities.accounts import operations
from sm.capabilities.accounts.listeners import FaultParks, SpawnAccounts
from sm.capabilities.accounts.model import AccountTimer
from sm.capabilities.accounts.operations.accounts import Accounts
from sm.capabilities.accounts.settings import QuotaSection
from sm.kernel import Kernel
from sm.sessions.session_fields import SessionField
from sm.store import Store


class AccountField(SessionField):
    """The account of a session."""

    name = "account"

    def __init__(self, store: Store) -> None:
        self._sessions = store.sessions

    def ids(self) -> Collection[str]:
        return {s.id for s in self._sessions.values() if s.account is not None}

    def value(self, session_id: str) -> Any:
        return self._sessions[session_id].account


def setup(kernel: Kernel) -> None:
    settings = kernel.config.with_keys(QuotaSection).quota
    accounts = Accounts(kernel.store, kernel.authorizer, settings)
    kernel.observer.register(accounts)
    kernel.faults.followers.append(FaultParks())
    kernel.planner.parts.append(SpawnAccounts(kernel.store))
    kernel.status_fields.append(accounts)
    kernel.fields.append(AccountField(kernel.store))
    kernel.timers[AccountTimer.PARK] = accounts.try_again
    kernel.timers[AccountTimer.FOLLOW] = accounts.follow
    kernel.use_cases[operations.LIST] = accounts.show
    kernel.use_cases[operations.PAUSE] = accounts.pause_account
    kernel.use_cases[operations.RESUME] = accounts.resume_account
