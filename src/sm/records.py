"""The records of sessions: put away, taken out again, removed, given another parent."""

from dataclasses import astuple, dataclass

from sm import recall
from sm.endings import adopt
from sm.errors import IllegalState, NotPermitted, UsageError
from sm.lifecycle import is_live
from sm.manager import Manager
from sm.models import Caller, EventType, RequestKey, Session, TrustLevel
from sm.policy import Action
from sm.store import Store, Transaction
from sm.wording import subject

REMOVE = "remove"
"""The kind of effect that removes what a session has left outside of the database."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What there was of a session that was removed; in texts of one line."""

    session_id: str
    effective_mode: str = ""
    worktree: str = ""
    """Empty: it had none."""
    branch: str = ""


class Records:
    """The use cases about records."""

    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager

    async def archive(
        self, caller: Caller, reference: str, key: RequestKey | None, *, archived: bool
    ) -> Session:
        """Put an ended session out of sight, or back. Doing it twice is fine. Raises IllegalState for a live one."""
        session = self._manager.find(caller, reference, Action.ARCHIVE)
        at = self._manager.now()

        async def unit(tx: Transaction) -> Session:
            now = tx.session(session.id)
            if await recall.recalled(tx, caller, key) is not None or now.archived is archived:
                return now
            if archived and is_live(now.status):
                raise IllegalState(f"session {now.id} is {now.status}", f"sm kill {now.id}")
            after = await tx.update(now, archived=archived)
            word = "archived" if archived else "taken out of the archive"
            await tx.event(EventType.ARCHIVED, after, at, f"{subject(after)} {word}", {"archived": archived})
            await recall.remember(tx, caller, key, session.id, at)
            return after

        return await self._store.write(unit)

    async def remove(self, caller: Caller, reference: str, key: RequestKey | None) -> Removed:
        """Forget a session for good: its record, its words, its terminal, its files. Its events stay.

        Raises IllegalState while its process lives.
        """
        if key is not None:
            earlier = await self._store.write(lambda tx: recall.recalled(tx, caller, key))
            if earlier is not None:
                return Removed(*earlier.split("\n"))
        session = self._manager.find(caller, reference, Action.REMOVE)
        at = self._manager.now()

        async def unit(tx: Transaction) -> Removed:
            now = tx.session(session.id)
            if now.exit is None:
                raise IllegalState(
                    f"the process of session {now.id} lives ({now.status})", f"sm kill {now.id}"
                )
            await tx.effect(REMOVE, now.id, {"terminal": now.terminal}, at)
            await tx.remove(now)
            done = Removed(now.id, now.effective_mode.value, now.worktree or "", now.branch or "")
            await recall.remember(tx, caller, key, "\n".join(astuple(done)), at)
            return done

        removed = await self._store.write(unit)
        await self._store.scrub()
        return removed

    async def reparent(
        self, caller: Caller, reference: str, parent: str | None, key: RequestKey | None
    ) -> Session:
        """Give a session another parent; None: the operator.

        Raises UsageError for a parent that stands below it, IllegalState for one whose process is gone,
        NotPermitted for one with less trust or of another workspace, LimitReached for one that has enough.
        """
        session = self._manager.find(caller, reference, Action.REPARENT)
        viewer = self._manager.viewer(caller)
        # It gets a child as if by a spawn.
        target = None if parent is None else self._manager.find(caller, parent, Action.SPAWN)
        if viewer is not None and target is None:
            raise NotPermitted(f"session {viewer.id} may not give a child to the operator")
        at = self._manager.now()

        async def unit(tx: Transaction) -> Session:
            now = tx.session(session.id)
            if await recall.recalled(tx, caller, key) is not None:
                return now
            parent_id = None if target is None else self._suitable(tx, now, tx.session(target.id))
            after = now
            if now.parent_id != parent_id:
                if parent_id is not None:
                    self._manager.counting.moved(tx, caller, now, parent_id)
                after = await adopt(tx, now, parent_id, at, f"moved by {caller}")
            await recall.remember(tx, caller, key, session.id, at)
            return after

        return await self._store.write(unit)

    def _suitable(self, tx: Transaction, session: Session, parent: Session) -> str:
        above: Session | None = parent
        while above is not None:
            if above.id == session.id:
                raise UsageError(f"session {parent.id} is session {session.id}, or stands below it")
            above = tx.find(above.parent_id)
        if parent.exit is not None:
            raise IllegalState(f"session {parent.id} has ended, its process is gone; it cannot have children")
        if parent.workspace != session.workspace:
            raise NotPermitted(f"sessions {parent.id} and {session.id} are in different workspaces")
        if (
            parent.effective_mode is TrustLevel.SANDBOXED
            and session.effective_mode is not TrustLevel.SANDBOXED
        ):
            raise NotPermitted(f"a child of {parent.id} cannot have more trust than it has")
        return parent.id
