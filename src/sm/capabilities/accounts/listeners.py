"""Finds the account of a new session, and parks accounts whose turns fail."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from sm.capabilities.accounts.model import Account, account_of
from sm.capabilities.accounts.state import park_account, roots_of
from sm.capabilities.accounts.tables import PART
from sm.config import AgentConfig
from sm.core.faults import Fault
from sm.core.models import Launch, Session, SpawnRequest
from sm.providers.base import Provider
from sm.sandboxes.home import ContainerHome
from sm.sessions.spawn_parts import SpawnAddition, SpawnPart
from sm.state.followers import FaultFollower, MetLimit
from sm.store import Store, Transaction

_WITHIN_S = 2.0


class SessionAccount(SpawnAddition):
    """The account that the turns of one new session are charged to. `key`: of the digest."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._account: Account | None = None

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        if provider.setup is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WITHIN_S):
                    login = await asyncio.to_thread(provider.setup.login, launch.environment, home)
                    self._account = account_of(provider.name, login.directory, login.identity, self._key)
        return session if self._account is None else replace(session, account=self._account.name)

    async def insert(self, tx: Transaction, session: Session) -> None:
        if self._account is not None and tx.part(PART).find(self._account.name) is None:
            tx.part(PART).put(self._account)


class SpawnAccounts(SpawnPart):
    def __init__(self, store: Store) -> None:
        self._store = store

    def plan(
        self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None
    ) -> SpawnAddition:
        return SessionAccount(self._store.account_key)


class FaultParks(FaultFollower):
    """Parks the account of a session whose turn met a limit of the account."""

    async def follow_fault(
        self, tx: Transaction, session: Session, fault: Fault, at: float
    ) -> MetLimit | None:
        change = park_account(tx, session, fault, at)
        if change is None or session.account is None:
            return None
        words = f"its account {session.account} is parked: sm accounts"
        return MetLimit(session.account, words, roots_of(tx, session.account), is_news=change.is_news)
