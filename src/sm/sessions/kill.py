"""Sessions that are killed: one, a tree, or all; by whom, until they are gone."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.models import OPERATOR, Caller, RequestKey, Session
from sm.errors import ExternalError, IllegalState
from sm.policy.access import Action
from sm.sessions.manager import Manager
from sm.sessions.tree import SessionTree
from sm.store import Store, Transaction

_KILLED_WITHIN_S = 20.0


class Kills:
    """The use cases of killing. What is decided here the outbox carries out; the watcher finds how it ended."""

    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager
        self.killing: Counter[tuple[str, str | None]] = Counter()
        """Sessions that are being killed, each with who asked for it and is told in the answer how it ended."""

    async def kill(
        self, caller: Caller, reference: str, key: RequestKey | None, *, force: bool, tree: bool = False
    ) -> list[Session]:
        """End the session's process and everything it started; return when they are gone.

        With `tree` its live descendants too, whether it lives itself or not, but for those that the caller may
        not kill (it does not see them). A session that has ended but whose
        process lives on keeps its status. Raises IllegalState when there is nothing left to kill, ExternalError
        when something would not die.
        """
        session = self._manager.find(caller, reference, Action.KILL)
        async with self._store.transaction(caller, key) as tx:
            # As it is in this transaction: from its commit on none of them can have another child.
            session_tree = SessionTree({s.id: s for s in tx.all_sessions()})
            below = [s for s in session_tree.descendants(session.id) if s.exit is None] if tree else []
            below = self._manager.allowed(caller, Action.KILL, below, session_tree)
            victims = [session, *below]
            if tx.replayed is None:
                victims = [s for s in victims if tx.session(s.id).exit is None]
                await self._order(tx, session, victims, caller, force=force)
                tx.remember(session.id)
        self._manager.record_allowed(caller, Action.KILL, below)
        told = Counter((v.id, caller.session_id) for v in victims)
        self.killing += told
        try:
            if not await self._store.changed(lambda: not self._unkilled(victims), _KILLED_WITHIN_S):
                left = ", ".join(self._unkilled(victims))
                raise ExternalError(f"session {left} did not end within {_KILLED_WITHIN_S:g} s")
        finally:
            self.killing -= told
        return [self._store.sessions[v.id] for v in victims if v.id in self._store.sessions]

    async def _order(
        self, tx: Transaction, session: Session, victims: Sequence[Session], caller: Caller, *, force: bool
    ) -> None:
        if not victims:
            raise IllegalState(f"session {session.id} has ended ({session.status}), its process is gone")
        for victim in victims:
            if force or not tx.has_open(EffectKind.KILL, victim.id):
                await tx.effect(EffectKind.KILL, victim.id, {"force": force, "by": str(caller)}, tx.now)

    async def kill_all(self) -> list[str]:
        """Kill every session whose process may live (`sm daemon stop --all`); return the ids of those that died."""
        victims = [
            s for s in self._store.sessions.values() if s.exit is None and (is_live(s.status) or s.process)
        ]

        async def kill(session: Session) -> str | None:
            try:
                await self.kill(OPERATOR, session.id, None, force=False)
            except IllegalState:  # it ended by itself meanwhile
                return None
            return session.id

        died = [each for each in await asyncio.gather(*map(kill, victims)) if each]
        # Also the endings that were for a parent, which has died with its children.
        await self._manager.acknowledge_endings(OPERATOR, died)
        return died

    def _unkilled(self, victims: Sequence[Session]) -> list[str]:
        return [
            v.id for v in victims if v.id in self._store.sessions and self._store.sessions[v.id].exit is None
        ]
