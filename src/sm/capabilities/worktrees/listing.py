"""Lists worktrees."""

import asyncio
import os
from collections.abc import Iterable, Mapping

from sm.capabilities.worktrees.listeners import is_used
from sm.capabilities.worktrees.operations import TreesOf
from sm.capabilities.worktrees.tables import PART, TreeRow, TreeState
from sm.core.labels import label
from sm.core.models import Caller, Session
from sm.kernel import OperationCall
from sm.operations.access_rules import READ_ALSO_ITSELF
from sm.policy.relations import is_unrestricted
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.wire_types.worktrees import MadeTreeView, TreeProgress


class TreeList:
    """`steps`: what is done for worktrees that are being made, by path."""

    def __init__(self, store: Store, authorizer: Authorizer, steps: Mapping[str, str]) -> None:
        self._store = store
        self._authorizer = authorizer
        self._steps = steps

    async def show(self, call: OperationCall) -> list[MadeTreeView]:
        """The worktrees of the sessions that the caller may read, the oldest first.

        Forgets those whose session and directory are gone.
        """
        asked: TreesOf = call.arguments
        rows = list(self._store.part(PART).rows.values())
        if asked.session is not None:
            of = self._authorizer.find(call.caller, asked.session, READ_ALSO_ITSELF).id
            rows = [row for row in rows if row.session_id == of]
        there = await asyncio.to_thread(lambda: {row.path for row in rows if os.path.lexists(row.path)})
        living = {s.working_dir for s in self._store.sessions.values() if s.exit is None}
        used = await asyncio.to_thread(lambda: {p for p in there if is_used(p, living)})
        sessions = {row.path: self._store.sessions.get(row.session_id) for row in rows}
        await self._forget(row for row in rows if row.path not in there and sessions[row.path] is None)
        return [
            self._view(row, sessions[row.path], exists=row.path in there, used=row.path in used)
            for row in sorted(rows, key=lambda row: row.created_at)
            if self._is_shown(call.caller, sessions[row.path], exists=row.path in there)
        ]

    def _is_shown(self, caller: Caller, session: Session | None, *, exists: bool) -> bool:
        if session is None:
            return exists and is_unrestricted(caller)
        return is_unrestricted(caller) or self._authorizer.may_read(caller, session)

    def _view(self, row: TreeRow, session: Session | None, *, exists: bool, used: bool) -> MadeTreeView:
        plan, made = row.plan, row.made
        return MadeTreeView(
            row.path,
            plan.branch,
            plan.repository,
            plan.common,
            plan.start if made is None else made.start,
            plan.is_new_branch,
            row.session_id,
            None if session is None else label(session),
            None if session is None else session.status,
            TreeProgress(row.state),
            None if row.state is TreeState.MADE else self._steps.get(row.path, "waiting for others"),
            exists,
            used,
            0 if made is None else made.copied,
            0 if made is None else made.copied_bytes,
            () if made is None else made.linked,
            () if made is None else made.notes,
            row.created_at,
            plan.commands.teardown,
            plan.commands.teardown_within_s,
        )

    async def _forget(self, rows: Iterable[TreeRow]) -> None:
        gone = [row for row in rows if row.state is TreeState.MADE]
        if gone:
            async with self._store.transaction() as tx:
                for row in gone:
                    tx.part(PART).erase(row)
