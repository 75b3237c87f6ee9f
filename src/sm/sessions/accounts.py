"""Use cases of accounts: lists, pauses and resumes them, and lets their sessions go on when a limit is over."""

from collections.abc import Sequence
from dataclasses import dataclass

from sm.core.accounts import Account, Park, ParkKind
from sm.core.models import Caller
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s
from sm.errors import NotFound
from sm.policy.access import Action
from sm.sessions.manager import Manager
from sm.state.accounts import (
    binding_park,
    go_on,
    plan_attempt,
    record_success,
    release,
    sessions_of,
    try_again,
    waiting_sessions,
)
from sm.store import Store


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account for a list."""

    account: Account
    sessions: int
    """Live sessions."""
    parks: Sequence[Park]
    waiting: int
    """Sessions that a park keeps from a turn."""


class Accounts:
    """`stagger_s`: the pause between two sessions that go on after a limit."""

    def __init__(self, store: Store, manager: Manager, stagger_s: float) -> None:
        self._store = store
        self._manager = manager
        self._stagger_s = stagger_s

    async def states(self, caller: Caller) -> list[AccountState]:
        """Every account by name. Raises NotPermitted."""
        self._manager.require(caller, Action.MANAGE_ACCOUNTS)
        return await self._states()

    async def _states(self) -> list[AccountState]:
        async with self._store.transaction() as tx:
            states = []
            for account in tx.mail.open.accounts.values():
                parks = tuple(tx.accounts.parks(account.name).values())
                waiting = {w.session_id for parked in parks for w in waiting_sessions(tx, parked)}
                live = len(list(sessions_of(tx, account.name)))
                states.append(AccountState(account, live, parks, len(waiting)))
        return states

    async def parked(self) -> list[AccountState]:
        """The accounts that are parked, for an overview."""
        return [state for state in await self._states() if state.parks]

    async def pause(self, caller: Caller, name: str) -> None:
        """Park an account until `resume`. Idempotent. Raises NotPermitted, NotFound."""
        self._manager.require(caller, Action.MANAGE_ACCOUNTS)
        async with self._store.transaction() as tx:
            _require_known(tx.accounts.find(name), name)
            now = epoch_s(tx.now)
            tx.accounts.park(Park(ParkKind.OPERATOR, "paused by the operator", now, account=name))
            plan_attempt(tx, name)

    async def resume(self, caller: Caller, name: str) -> int:
        """End every park of an account; return their number. Raises NotPermitted, NotFound."""
        self._manager.require(caller, Action.MANAGE_ACCOUNTS)
        async with self._store.transaction() as tx:
            _require_known(tx.accounts.find(name), name)
            parks = list(tx.accounts.parks(name).values())
            for parked in parks:
                await release(tx, parked, self._stagger_s)
        return len(parks)

    # Events

    async def turn_succeeded(self, session_id: str, at: float) -> None:
        """A turn of the session has ended at `at` (seconds since the epoch), and did not fail."""
        session = self._store.sessions.get(session_id)
        if session is None or session.account is None:
            return
        async with self._store.transaction() as tx:
            await record_success(tx, tx.session(session_id), at, self._stagger_s)

    # Timers

    async def try_again(self, timer: Timer) -> float | None:
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await try_again(tx, timer.subject, self._stagger_s)
        return None

    async def follow(self, timer: Timer) -> float | None:
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if tx.timers.take(timer) and session is not None and binding_park(tx.mail.open, session) is None:
                await go_on(tx, session)
        return None


def _require_known(account: Account | None, name: str) -> None:
    if account is None:
        raise NotFound(f"no such account: {name}", "list accounts: sm accounts")
