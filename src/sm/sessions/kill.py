"""Kills one session, a tree or all sessions, and waits until their processes are gone."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.models import OPERATOR, Caller, RequestKey, Session
from sm.errors import ExternalError, IllegalState
from sm.linux.processes import is_alive
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import KILL, SHOW_STATUS
from sm.sessions.acknowledgements import acknowledge_endings
from sm.sessions.authorizer import Authorizer
from sm.sessions.leftovers import Leftover, Leftovers, listed
from sm.state.pause_orders import end_by_kill
from sm.store import Store, Transaction

_KILLED_WITHIN_S = 30.0
"""Longer than `Sandbox.end` needs for a process that ignores SIGTERM, and for one that cannot be killed."""


class Kills:
    """Orders kills. The outbox ends the processes, and the process watcher records how they ended.

    `trouble`: as `Lifecycle.trouble` of the terminals.
    """

    def __init__(
        self, store: Store, authorizer: Authorizer, trouble: Callable[[], str | None], leftovers: Leftovers
    ) -> None:
        self._store = store
        self._leftovers = leftovers
        self._authorizer = authorizer
        self._trouble = trouble
        self.killing: Counter[tuple[str, str | None]] = Counter()
        """Pairs of a session being killed and the caller's mailbox: the caller learns the end from the answer."""

    async def kill(
        self, caller: Caller, reference: str, key: RequestKey | None, *, force: bool, tree: bool = False
    ) -> list[Session]:
        """End the session's process and all processes it started; return when they are gone.

        `tree`: also kill the live descendants, even if the session itself has ended, except those that the caller
        may not see. An ended session whose process still runs keeps its status. Of an ended session, ends what it left
        behind. Raises IllegalState when no process is left to kill, ExternalError when a process does not end.
        """
        session = self._authorizer.find(caller, reference, KILL.audience)
        cleaned = False
        if session.exit is not None and await self._leftovers.of([session.id]):
            done = await self._leftovers.end(caller, force=force, only=[session.id])
            if done.left:
                raise _not_all_ended([session], done.left)
            cleaned = True
        async with self._store.transaction(caller, key) as tx:
            # The tree as of this transaction: after the commit, no session in it can get another child.
            below = await tx.descendants(session.id) if tree else []
            descendants = [s for s in below if s.exit is None]
            descendants = self._authorizer.filter_allowed(caller, KILL.audience, descendants, tx.find)
            victims = [session, *descendants]
            if tx.replayed is None:
                victims = [s for s in victims if tx.session(s.id).exit is None]
                if victims or not cleaned:
                    await self._order(tx, session, victims, caller, force=force)
                tx.remember(session.id)
        self._authorizer.record_allowed(caller, KILL.audience, descendants)
        await self.wait_until_ended(victims, caller)
        if cleaned and session not in victims:
            victims = [session, *victims]
        return [self._store.sessions[v.id] for v in victims if v.id in self._store.sessions]

    async def order(self, tx: Transaction, session: Session, caller: Caller) -> None:
        """Order the end of one session, for a caller that may answer for it. `wait_until_ended` follows the commit.

        Raises IllegalState when the session has ended already.
        """
        victims = [session] if session.exit is None else []
        await self._order(tx, session, victims, caller, force=False)

    async def wait_until_ended(self, victims: Sequence[Session], caller: Caller) -> None:
        """Wait until the processes of sessions are gone whose end was ordered. Raises ExternalError."""
        killing = Counter((v.id, caller.mailbox) for v in victims)
        self.killing += killing
        try:
            if not await self._store.wait_until(lambda: not self._unkilled(victims), _KILLED_WITHIN_S):
                left = self._unkilled(victims)
                names = ", ".join(map(short_label, left))
                if (trouble := self._trouble()) is not None:
                    # The process may be gone: only tmux knows how it ended.
                    raise ExternalError(
                        f"it is not known whether session {names} has ended, because tmux does not respond: {trouble}",
                        Hint(Use(SHOW_STATUS, name_to_type(left[0]))),
                    )
                raise ExternalError(
                    f"session {names} did not end within {_KILLED_WITHIN_S:g} s",
                    Hint(Use(KILL, "--force", *map(name_to_type, left))),
                )
            if left_behind := await self._leftovers.of([victim.id for victim in victims]):
                raise _not_all_ended(victims, left_behind)
        finally:
            self.killing -= killing

    async def _order(
        self, tx: Transaction, session: Session, victims: Sequence[Session], caller: Caller, *, force: bool
    ) -> None:
        if not victims:
            raise IllegalState(f"session {short_label(session)} has already ended ({session.status})")
        for victim in victims:
            if force or end_by_kill(tx, victim.id) is None:
                payload = {"force": force, "by": str(caller)}
                if victim.process is not None and not is_alive(victim.process):
                    payload["gone"] = True  # its end is not recorded yet, such as while tmux does not respond
                await tx.effect(EffectKind.KILL, victim.id, payload, tx.now)

    async def kill_all(self) -> list[str]:
        """Kill every session whose process may live (`sm daemon stop --all`); return the ids of killed sessions."""
        victims = [
            s for s in self._store.sessions.values() if s.exit is None and (is_live(s.status) or s.process)
        ]

        async def kill(session: Session) -> str | None:
            try:
                await self.kill(OPERATOR, session.id, None, force=False)
            except IllegalState:  # the process has ended in the meantime
                return None
            return session.id

        killed = [session_id for session_id in await asyncio.gather(*map(kill, victims)) if session_id]
        # Notices for a killed parent were readdressed to the operator, who knows these endings from the answer.
        await acknowledge_endings(self._store, OPERATOR, killed)
        return killed

    def _unkilled(self, victims: Sequence[Session]) -> list[Session]:
        """The sessions whose agent lives, or of which sm still ends what the agent started."""
        known, effects = self._store.sessions, self._store.mail.open.effects.values()
        ending = {effect.session_id for effect in effects if effect.kind == EffectKind.KILL}
        return [
            known[v.id] for v in victims if v.id in known and (known[v.id].exit is None or v.id in ending)
        ]


def _not_all_ended(sessions: Sequence[Session], left: Sequence[Leftover]) -> ExternalError:
    names = ", ".join(map(short_label, sessions))
    pids = ",".join(str(leftover.process.pid) for leftover in left)
    return ExternalError(
        f"session {names} has ended, but these processes are left: {listed(left)}",
        f"ps -o pid,user,stat,args -p {pids}",
    )
