"""Archives, unarchives, renames and removes sessions, and moves them to another parent."""

from collections.abc import Awaitable, Callable
from dataclasses import astuple
from functools import partial

from sm.config import Naming
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import label, name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.messages import Notice
from sm.core.models import Caller, RequestKey, Session, ancestors
from sm.core.names import friendly_name
from sm.core.states import NoticeKind, TrustLevel
from sm.errors import IllegalState, NameTaken, NotPermitted, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import ARCHIVE, KILL, REMOVE, RENAME, REPARENT, SPAWN_BELOW
from sm.policy.relations import is_unrestricted
from sm.sessions.authorizer import Authorizer, describe
from sm.sessions.keepers import PlaceUse, RemovedSession, SessionKeeper
from sm.state.endings import set_parent
from sm.state.notices import withdraw
from sm.state.quota import Quota
from sm.state.session_steps import set_archived
from sm.state.unread_transcripts import tell_uncounted
from sm.store import Store, Transaction

ReadToEnd = Callable[[str], Awaitable[str | None]]
"""Counts the usage in the last lines of a session's transcript: `Observer.read_to_end`."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    _store: Store
    _authorizer: Authorizer
    _quota: Quota
    _naming: Naming
    _read_to_end: ReadToEnd
    _keepers: SessionKeeper

    async def archive(
        self, caller: Caller, reference: str, key: RequestKey | None, *, archived: bool
    ) -> Session:
        """Hide an ended session from lists, or show it again. Idempotent. Raises IllegalState for a live session."""
        session = self._authorizer.find(caller, reference, ARCHIVE.audience)
        async with self._store.transaction(caller, key) as tx:
            now = tx.session(session.id)
            if tx.replayed is not None or now.archived is archived:
                return now
            if archived and is_live(now.status):
                raise IllegalState(
                    f"session {short_label(now)} is {now.status}: only ended sessions can be archived",
                    Hint(Use(KILL, name_to_type(now))),
                )
            after = await set_archived(tx, now, archived=archived)
            tx.remember(session.id)
        return after

    async def remove(self, caller: Caller, reference: str, key: RequestKey | None) -> RemovedSession:
        """Delete a session with its texts, terminal and files. Its events and the sums of its usage stay.

        Counts the usage that is still unread in its transcript before. Raises IllegalState while its process lives.
        """
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:  # the session of a repeated request no longer exists
                return RemovedSession(*tx.replayed.split("\n"))
        session = self._authorizer.find(caller, reference, REMOVE.audience)
        unread = None if session.exit is None else await self._read_to_end(session.id)
        async with self._store.transaction(caller, key) as tx:
            now = tx.session(session.id)
            if now.exit is None:
                raise IllegalState(
                    f"session {short_label(now)} is {now.status} and its process still runs: it cannot be removed",
                    Hint(Use(KILL, name_to_type(now))),
                )
            for part in tx.parts:
                part.check_removal(now)
            for child in await tx.children(now.id):
                # Children keep their other ancestors (`on_parent_end: keep`).
                reason, bound_to = (
                    f"the parent {short_label(now)} was removed",
                    child.bound_to or now.bound_to,
                )
                await set_parent(tx, child, now.parent_id, tx.now, reason, bound_to=bound_to)
            for bound_session in await tx.select("bound_to = ?", now.id):
                await tx.before_move(bound_session)
                current = tx.session(bound_session.id)
                await tx.update(current, bound_to=now.bound_to or now.parent_id)
            for follower in tx.followers:
                await follower.leave(tx, now)
            await withdraw(tx, now.id, partial(_is_void_after_removal, caller))
            if unread is not None:
                await tell_uncounted(tx, now, unread)
            await tx.effect(EffectKind.REMOVE, now.id, {"terminal": now.terminal}, tx.now)
            await tx.remove(now)
            done = RemovedSession(
                now.id, now.effective_mode.value, now.worktree or "", now.branch or "", label(now)
            )
            tx.remember("\n".join(astuple(done)))
        await self._store.log.scrub()
        return done

    async def use_of(self, removed: RemovedSession) -> PlaceUse:
        """The use of the place of a removed session by other sessions."""
        return await self._keepers.use_of(removed) or PlaceUse(used=False, sandboxed=False)

    async def reparent(
        self, caller: Caller, reference: str, parent: str | None, key: RequestKey | None
    ) -> Session:
        """Move a session under another parent, or under the operator if None.

        Raises UsageError for a parent that is a descendant, IllegalState for a parent whose process is gone,
        NotPermitted for a parent with less trust or of another workspace, LimitReached for too many children.
        """
        session = self._authorizer.find(caller, reference, REPARENT.audience)
        principal = self._authorizer.principal(caller)
        # The parent gets a child, as by a spawn.
        target = None if parent is None else self._authorizer.find(caller, parent, SPAWN_BELOW)
        if target is None and not is_unrestricted(caller):
            raise NotPermitted(f"{describe(principal)} may not move a session to the operator")
        async with self._store.transaction(caller, key) as tx:
            now = tx.session(session.id)
            if tx.replayed is not None:
                return now
            parent_id = None if target is None else self._check_parent(tx, now, tx.session(target.id))
            after = now
            if now.parent_id != parent_id:
                if parent_id is not None:
                    await self._quota.check_reparent(tx, caller, now, parent_id)
                after = await set_parent(tx, now, parent_id, tx.now, f"moved by {caller}")
                for follower in tx.followers:
                    await follower.follow_move(tx, now, after)
                after = tx.session(after.id)
                if parent_id is not None:
                    after = await _give_to_user_of(tx, tx.session(parent_id), after)
            tx.remember(session.id)
        return after

    async def rename(self, caller: Caller, reference: str, name: str, key: RequestKey | None) -> Session:
        """Give a session another friendly name. Idempotent.

        Raises UsageError for an invalid name, and NameTaken if the session is live and another live one has the name.
        """
        session = self._authorizer.find(caller, reference, RENAME.audience)
        pattern = self._naming.pattern
        async with self._store.transaction(caller, key) as tx:
            now = tx.session(session.id)
            if tx.replayed is not None:
                return now
            wanted = friendly_name(pattern, now.agent_type.lower(), name)
            others = (s for s in tx.unfinished_sessions() if s.id != now.id and is_live(s.status))
            if is_live(now.status) and any(s.friendly_name == wanted for s in others):
                raise NameTaken(f"name {wanted} is already used by a live session", "choose another name")
            after = await tx.update(now, friendly_name=wanted)
            tx.remember(session.id)
        return after

    def _check_parent(self, tx: Transaction, session: Session, parent: Session) -> str:
        if session.id in (parent.id, *(ancestor.id for ancestor in ancestors(parent, tx.find))):
            raise UsageError(
                f"session {short_label(parent)} cannot be the parent of session {short_label(session)}: "
                "it is the same session or a descendant"
            )
        if parent.exit is not None:
            raise IllegalState(f"session {short_label(parent)} has ended: it cannot have children")
        if parent.workspace != session.workspace:
            raise NotPermitted(
                f"sessions {short_label(parent)} and {short_label(session)} are in different workspaces"
            )
        if (
            parent.effective_mode is TrustLevel.SANDBOXED
            and session.effective_mode is not TrustLevel.SANDBOXED
        ):
            raise NotPermitted(
                f"session {short_label(parent)} cannot be the parent of session {short_label(session)}, "
                "which has a higher trust level"
            )
        return parent.id


async def _give_to_user_of(tx: Transaction, parent: Session, session: Session) -> Session:
    """Give a session that has moved, and its descendants, to the paired user of its new parent."""
    for descendant in [*await tx.descendants(session.id), session]:
        after = await tx.update(descendant, paired_user=parent.paired_user)
    return after


def _is_void_after_removal(caller: Caller, notice: Notice) -> bool:
    """True for a notice about a removed session that nobody needs. `caller` has removed the session."""
    reports_loss = notice.kind in (NoticeKind.ENDING, NoticeKind.UNDELIVERED)
    return notice.recipient == caller.mailbox or not reports_loss
