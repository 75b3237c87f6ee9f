"""Shows the usage of sessions, trees and agent types, within the permissions of the caller."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from sm.core.estimates import Estimate, estimate_totals
from sm.core.lifecycle import is_live
from sm.core.models import Caller, Session
from sm.core.statuses import Status
from sm.core.time_slots import local_day, split
from sm.core.timestamps import epoch_s, iso, later
from sm.core.tree_totals import Totals
from sm.core.usage import TokenCounts
from sm.core.usage_report import (
    Grouping,
    UsageGroup,
    UsageRecords,
    UsedSession,
    UsedTokens,
    usage_groups,
)
from sm.core.work_time import elapsed_s
from sm.monitor.sums import TreeSums
from sm.policy.access import Action, Principal, is_unrestricted, may, relation, visible
from sm.services.sessions import Sessions
from sm.sessions.manager import Manager
from sm.store import Store
from sm.store.sums import RemovedSums

_SINCE_EVER = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    by: Grouping
    since: str | None
    """The beginning of the report; None: all that is known."""
    until: str
    groups: Sequence[UsageGroup]
    total: UsageGroup


SumsOf = Callable[[str], Totals]
"""The sums of the tree below a session, by its id."""


class UsageReports:
    def __init__(
        self,
        store: Store,
        manager: Manager,
        sessions: Sessions,
        sums: TreeSums,
        zone: tzinfo | None = None,
    ) -> None:
        self._store = store
        self._manager = manager
        self._sessions = sessions
        self._sums = sums
        self._zone = zone
        self.own = sums.own
        """The own part of a session in the sums, after `sums`."""

    @property
    def version(self) -> int:
        """Rises with each change of the sums."""
        return self._sums.version

    @property
    def prices_as_of(self) -> str | None:
        """The date of the oldest list prices; None: no provider has prices."""
        return self._manager.prices_as_of

    async def sums(self, caller: Caller, shown: Iterable[Session]) -> SumsOf:
        """The sums of each of these sessions and its descendants, as far as the caller sees them."""
        await self._sums.refresh(shown)
        if is_unrestricted(caller):
            return self._sums.of_tree
        principal = self._sessions.principal(caller)
        return self._sums.of_trees_for(lambda target: visible(principal, target)).__getitem__

    async def estimates(self, types: Mapping[str, str | None]) -> dict[str, Estimate | None]:
        """The estimate for a new session of each agent type. `types`: the configured model of each; None: the default.

        The default model is that of the newest completed session of the type.
        """
        await self._sums.refresh_newest(types)
        samples = self._sums.samples()
        found = {}
        for name, model in types.items():
            known = samples.get(name, [])
            wanted = known[0].model if known and model is None else model
            found[name] = estimate_totals(known, wanted)
        return found

    async def report(
        self, caller: Caller, by: Grouping, since: str | None, workspace: str | None
    ) -> UsageReport:
        """The usage of the sessions that the caller may read. Raises NotFound for an unknown workspace.

        `since`: only what came later. Work and the usage of removed sessions are stored by quarters of an hour: of the
        quarter in which `since` lies, work counts at most for the rest of the quarter, and removed sessions do not.
        """
        slug = None if workspace is None else self._sessions.workspace_slug(caller, workspace)
        await self._sums.refresh_all()
        start = _SINCE_EVER if since is None else iso(epoch_s(since))
        chosen = dict(self._scope(caller, slug, all_workspaces=workspace is None))
        records = await self._records(chosen, by, start)
        now = self._manager.now()
        used = [self._used(session, chosen) for session in chosen.values()]
        groups, total = usage_groups(by, used, records, lambda at: self._day(at, now), start)
        return UsageReport(by, start or None, now, groups, total)

    def _day(self, at: str, now: str) -> str | None:
        """The local day; None of a time in the future: an agent can write any time into its transcript."""
        return local_day(at, self._zone) if at[:16] <= now[:16] else None

    # Scope

    def _scope(
        self, caller: Caller, slug: str | None, *, all_workspaces: bool
    ) -> Iterator[tuple[str, Session | RemovedSums]]:
        """The sessions that the caller may read, with the removed ones, by id."""
        principal = self._sessions.principal(caller)
        below = self._below(principal)
        for session in self._sums.sessions():
            if not all_workspaces and session.workspace != slug:
                continue
            related = relation(principal, session, is_descendant=session.id in below)
            if related.is_self or may(related, Action.READ):
                yield session.id, session

    def _below(self, principal: Principal) -> set[str]:
        """The ids of the descendants of a calling session, with removed ones."""
        if not isinstance(principal, Session):
            return set()
        children: dict[str, list[str]] = {}
        for session in self._sums.sessions():
            parent = self._sums.parent(session.id)
            if parent is not None:
                children.setdefault(parent, []).append(session.id)
        found, pending = set[str](), [principal.id]
        while pending:
            for child in children.pop(pending.pop(), ()):
                found.add(child)
                pending.append(child)
        return found

    def _root(
        self, session: Session | RemovedSums, chosen: Mapping[str, Session | RemovedSums]
    ) -> str | None:
        """The topmost session above it among the chosen ones, or itself; None if all of them are removed."""
        root, seen = None, set[str]()
        at: str | None = session.id
        while at is not None and at in chosen and at not in seen:
            seen.add(at)
            if not _is_removed(chosen[at]):
                root = at
            at = self._sums.parent(at)
        return root

    def _used(
        self, session: Session | RemovedSums, chosen: Mapping[str, Session | RemovedSums]
    ) -> UsedSession:
        own, completed_at = self._sums.own(session.id), None
        if session.status is Status.COMPLETED:
            completed_at = session.completed_at
        return UsedSession(
            session.id,
            session.agent_type,
            self._sums.model(session.id),
            session.account,
            self._root(session, chosen),
            session.created_at,
            completed_at,
            0 if completed_at is None else elapsed_s(session, completed_at, session.worked_s),
            None if own.unpriced else own.known_cost_usd,
            live=isinstance(session, Session) and is_live(session.status),
            removed=_is_removed(session),
        )

    # Records

    async def _records(
        self, chosen: Mapping[str, Session | RemovedSums], by: Grouping, since: str
    ) -> UsageRecords:
        sums, slots = self._store.sums, by is Grouping.DAY
        usage, work, endings, follow_ups = await asyncio.gather(
            sums.usage_since(since, slots=slots),
            sums.work_since(since, slots=slots),
            sums.endings_since(since),
            sums.follow_ups_since(since),
        )
        tokens = [
            UsedTokens(
                session_id,
                used.at,
                used.model,
                TokenCounts.of([used]),
                self._manager.cost_usd(session, used),
                used.is_unread,
            )
            for session_id, used in (usage if self._sums.counts_tokens else ())
            if (session := chosen.get(session_id)) is not None
        ]
        return UsageRecords(tokens, [*work, *self._work_under_way(chosen, since)], endings, follow_ups)

    def _work_under_way(
        self, chosen: Mapping[str, Session | RemovedSums], since: str
    ) -> Iterator[tuple[str, str, float]]:
        now = self._manager.now()
        for session in chosen.values():
            if isinstance(session, Session) and session.working_since is not None:
                elapsed_s = self._store.work.elapsed_s(session, now)
                begun = max(later(now, -elapsed_s), since)
                for slot, seconds in split(begun, epoch_s(now) - epoch_s(begun)):
                    yield session.id, slot, seconds


def _is_removed(session: Session | RemovedSums) -> bool:
    return isinstance(session, RemovedSums) and session.is_removed
