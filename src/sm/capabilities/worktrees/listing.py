"""Lists worktrees."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sm.capabilities.worktrees.git.linked import missing_linked
from sm.capabilities.worktrees.listeners import is_used
from sm.capabilities.worktrees.operations import TreesOf
from sm.capabilities.worktrees.tables import PART, TreeRow, TreeState, earlier_row
from sm.capabilities.worktrees.tree_setup import SET_UP
from sm.core.labels import label
from sm.core.models import Caller, Session
from sm.kernel import OperationCall
from sm.linux.repositories import UnreadableRepository, repository_at
from sm.operations.access_rules import SEE
from sm.operations.session_operations import REMOVE
from sm.policy.relations import is_unrestricted
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.wire_types.worktrees import MadeTreeView, TreeProgress

_MADE = (TreeState.SETTING_UP, TreeState.MADE)


class TreeList:
    """`steps`: what is done for worktrees that are being made, by path."""

    def __init__(self, store: Store, authorizer: Authorizer, steps: Mapping[str, str]) -> None:
        self._store = store
        self._authorizer = authorizer
        self._steps = steps

    async def show(self, call: OperationCall) -> list[MadeTreeView]:
        """The worktrees of the sessions that the caller may read, the oldest first, or of one that it may see.

        Forgets those whose session is gone, if something else is in their place, or if their directory is gone and git
        does not know them either.
        """
        asked: TreesOf = call.arguments
        of = None
        if asked.session is not None:
            of = self._authorizer.find(call.caller, asked.session, SEE).id
        await call.wait_until(
            lambda: all(row.state in _MADE for row in self._rows(of, asked.path)), asked.wait_s
        )
        rows = self._rows(of, asked.path)
        there = await asyncio.to_thread(lambda: {row.path for row in rows if os.path.lexists(row.path)})
        living = {s.working_dir for s in self._store.sessions.values() if s.exit is None}
        used = await asyncio.to_thread(lambda: {p for p in there if is_used(p, living)})
        sessions = {row.path: self._store.sessions.get(row.session_id) for row in rows}
        left = [row for row in rows if sessions[row.path] is None]
        foreign = await asyncio.to_thread(lambda: {row.path for row in left if _is_foreign(row)})
        known = await asyncio.to_thread(
            lambda: {row.path for row in left if row.path in there or _is_registered(row)}
        )
        await self._forget(row for row in left if row.path not in known or row.path in foreign)
        there -= foreign
        return [
            self._view(call.caller, row, sessions[row.path], exists=row.path in there, used=row.path in used)
            for row in sorted(rows, key=lambda row: row.created_at)
            if asked.session is not None
            or self._is_shown(call.caller, sessions[row.path], is_known=row.path in known - foreign)
        ]

    def _rows(self, session_id: str | None, path: str | None) -> list[TreeRow]:
        """The rows of a session or a path, or of all, also of those whose worktree an earlier version has made."""
        rows, sessions = dict(self._store.part(PART).rows), self._store.sessions
        for session in sessions.values():
            place = session.worktree or ""
            found = rows.get(place)
            if found is None:
                row = earlier_row(session.id, place, session.branch or "", session.created_at)
                rows |= {} if row is None else {place: row}
            elif found.session_id not in sessions:  # a worktree with a session is not a left one
                rows[found.path] = replace(found, session_id=session.id)
        return [
            row for row in rows.values() if session_id in (None, row.session_id) and path in (None, row.path)
        ]

    def _is_shown(self, caller: Caller, session: Session | None, *, is_known: bool) -> bool:
        if session is None:
            return is_known and is_unrestricted(caller)
        return is_unrestricted(caller) or self._authorizer.may_read(caller, session)

    def _may_remove(self, caller: Caller, session: Session | None) -> bool:
        if session is None or is_unrestricted(caller):
            return is_unrestricted(caller)
        sessions = self._store.sessions
        return bool(self._authorizer.filter_allowed(caller, REMOVE.audience, [session], sessions.get))

    def _view(
        self, caller: Caller, row: TreeRow, session: Session | None, *, exists: bool, used: bool
    ) -> MadeTreeView:
        plan, made = row.plan, row.made
        step = None if row.state is TreeState.MADE else self._steps.get(row.path, "waiting for others")
        if row.state is TreeState.SETTING_UP and not self._is_shown(caller, session, is_known=True):
            step = SET_UP  # the commands, which may have passwords, are for those who may read the output
        teardown = plan.commands.teardown if self._may_remove(caller, session) else ()
        return MadeTreeView(
            row.path,
            plan.branch,
            plan.repository,
            row.git_directory,
            row.start,
            plan.is_new_branch,
            row.session_id,
            None if session is None else label(session),
            None if session is None else session.status,
            TreeProgress(row.state),
            step,
            exists,
            used,
            0 if made is None else made.copied,
            0 if made is None else made.copied_bytes,
            () if made is None else made.linked,
            () if made is None else made.notes,
            row.created_at,
            teardown,
            plan.commands.teardown_within_s,
        )

    async def _forget(self, rows: Iterable[TreeRow]) -> None:
        gone = [row for row in rows if row.state is TreeState.MADE]
        if gone:
            async with self._store.transaction() as tx:
                for row in gone:
                    tx.part(PART).erase(row)


def _is_registered(row: TreeRow) -> bool:
    """True if the repository has a worktree at this path whose directory is missing. Runs no git. Blocks."""
    return bool(missing_linked(row.git_directory or f"{row.plan.repository}/.git", row.path))


def _is_foreign(row: TreeRow) -> bool:
    """True if something else is at the place of the worktree, which sm does not remove. Blocks.

    False if that is not certain, as for an empty directory, where another file system may be mounted.
    """
    if not os.path.lexists(row.path):
        return False
    if os.path.islink(row.path) or not os.path.isdir(row.path):
        return True
    try:
        if not os.path.lexists(f"{row.path}/.git"):
            # The agent of a copy may have deleted it. Its work is still there.
            return not row.plan.is_copy and bool(os.listdir(row.path))
        found = repository_at(row.path)
    except (UnreadableRepository, OSError):
        return False
    is_other_kind = found is not None and found.is_linked is row.plan.is_copy
    return found is not None and (is_other_kind or found.common != (row.plan.common or found.common))
