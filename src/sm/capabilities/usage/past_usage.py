"""Adds up the usage of sessions that are no longer in memory, and remembers the sums of the most usual reports."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping

from sm.capabilities.usage.report_records import RecordReader, used_session
from sm.capabilities.usage.usage_groups import DayOf, UsageGroups
from sm.core.dataclass import dataclass
from sm.core.labels import label
from sm.core.models import BridgeUser, Session
from sm.core.time_slots import rest_of_slot
from sm.core.tree_totals import Totals
from sm.core.usage import main_model
from sm.operations.access_rules import READ_ALSO_ITSELF
from sm.policy.relations import Principal, may, relation
from sm.providers.base import Provider
from sm.providers.prices import price_of
from sm.store import Store
from sm.store.history import EVERY, Chosen, among, descendants_of, texts
from sm.wire_types.usage_answers import Grouping

_REMEMBERED_MAX = 8
"""Each has two numbers of each completed session."""
_TRIES = 3
"""Readings of the whole history for one report, if sessions enter memory meanwhile."""


@dataclass(frozen=True, slots=True)
class ReportedSessions:
    """The scope of a report for its caller. `workspace`: a slug, or None for no workspace, unless `everywhere`."""

    principal: Principal
    by: Grouping
    since: str
    workspace: str | None
    everywhere: bool
    tokens: bool
    """Tokens are counted."""
    now: str

    def has(self, session: Session) -> bool:
        """True if the caller may read this session, which is not in memory and in the `chosen` ones."""
        related = relation(self.principal, session, is_descendant=isinstance(self.principal, Session))
        return may(related, READ_ALSO_ITSELF)

    @property
    def chosen(self) -> Chosen:
        principal = self.principal
        chosen = descendants_of(principal.id, principal) if isinstance(principal, Session) else EVERY
        return chosen if self.everywhere else chosen.also("workspace IS ?", self.workspace)

    @property
    def later(self) -> Chosen:
        """The `chosen` ones of which something was recorded since then. Only usage can be later than the status."""
        if not self.since:
            return self.chosen
        used = "SELECT session_id FROM usage_sums WHERE at >= ?"
        return self.chosen.also(
            f"id IN (SELECT id FROM sessions WHERE removed = 0 AND status_at >= ? UNION {used})",  # noqa: S608 - constant texts
            self.since,
            rest_of_slot(self.since)[0],
        )

    @property
    def key(self) -> Hashable:
        """The key of its sums, None if not remembered. A record is of no day while its time is in the future."""
        principal = self.principal
        sees_all = principal is None or (isinstance(principal, BridgeUser) and principal.is_owner)
        if not sees_all or self.since or self.by is Grouping.TREE:  # sessions in memory change the trees
            return None
        day = self.now[:10] if self.by is Grouping.DAY else ""
        return self.by, self.workspace, self.everywhere, self.tokens, day


class PastUsage:
    def __init__(self, store: Store, providers: Mapping[str, Provider], records: RecordReader) -> None:
        self._store = store
        self._providers = providers
        self._records = records
        self._lock = asyncio.Lock()
        self._remembered: OrderedDict[Hashable, tuple[ReportedSessions, UsageGroups]] = OrderedDict()
        self._resets = store.history.resets
        self._left = store.memory.follow_leaving()
        """Sessions that left memory, and that are in no remembered sum."""

    def forget(self) -> None:
        """Forget all sums. Call it when prices may have changed."""
        self._remembered.clear()
        self._left.clear()
        self._resets = self._store.history.resets

    async def groups(
        self, asked: ReportedSessions, day_of: DayOf, root: Callable[[str], str | None]
    ) -> tuple[UsageGroups, dict[str, Session]]:
        """The groups of the report with these sessions, and the sessions in memory, which are still to add.

        `root`: the root of the tree of a session, for reports by tree.
        """
        async with self._lock:
            for _ in range(_TRIES):
                await self._follow()
                kept = dict(self._store.sessions.items())
                if (known := self._remembered.get(asked.key)) is not None:
                    self._remembered.move_to_end(asked.key)
                    return known[1].copy(day_of), kept
                resets, groups = self._resets, UsageGroups(asked.by, day_of, asked.since)
                await self._add(groups, asked, asked.later, kept, root)
                if resets != self._store.history.resets:
                    continue
                if asked.key is None:
                    break
                # The next turn adds the sessions that have left memory meanwhile.
                self._remembered[asked.key] = asked, groups
                if len(self._remembered) > _REMEMBERED_MAX:
                    self._remembered.popitem(last=False)
            return groups.copy(day_of), kept

    async def sessions(self, asked: ReportedSessions, kept: Collection[str]) -> dict[str, Session]:
        """The sessions without the `kept` ones of which something was recorded since then, by id."""
        found = dict[str, Session]()
        async for part in self._parts(asked, asked.later, kept):
            found |= part
        return found

    async def tree(self, asked: ReportedSessions) -> Mapping[str, tuple[str | None, str]]:
        """The parent and the label of the sessions that the caller may read, by id."""
        return {
            session.id: (session.parent_id, label(session))
            async for part in self._parts(asked, asked.chosen)
            for session in part.values()
        }

    async def _follow(self) -> None:
        """Bring the remembered sums up to date."""
        if not self._remembered or self._resets != self._store.history.resets:
            self.forget()
        while self._left:
            left = {*self._left}
            try:
                for asked, groups in self._remembered.values():
                    chosen = asked.chosen.also(among("id"), texts(left))
                    await self._add(groups, asked, chosen, (), lambda _: None)
            except BaseException:
                self.forget()  # some sums may have some of these sessions
                raise
            self._left -= left
            if self._resets != self._store.history.resets:
                self.forget()

    async def _add(
        self,
        groups: UsageGroups,
        asked: ReportedSessions,
        chosen: Chosen,
        kept: Collection[str],
        root: Callable[[str], str | None],
    ) -> None:
        async for part in self._parts(asked, chosen, kept):
            used = await self._store.usage.of(part) if asked.tokens else {}
            records = await self._records.read(part, asked.by, asked.since, tokens=asked.tokens)
            sessions = []
            for session in part.values():
                usages = used.get(session.id, ())
                own = Totals.of(usages, price_of(self._providers, session.provider))
                model = main_model(usages) or session.model
                sessions.append(used_session(session, own, model, root(session.id)))
            groups.add(sessions, records)

    async def _parts(
        self, asked: ReportedSessions, chosen: Chosen, kept: Collection[str] = ()
    ) -> AsyncIterator[dict[str, Session]]:
        async for part in self._store.history.parts(chosen):
            yield {s.id: s for s in part if s.id not in kept and asked.has(s)}
