"""Sums over sessions and their descendants, with the removed ones, kept in memory from one read to the next."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sm.config import Config
from sm.core.estimates import Estimate, Sample, estimate_totals
from sm.core.lifecycle import is_live
from sm.core.models import Caller, Session
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s
from sm.core.tree_totals import NO_TOTALS, Totals, TreePart, TreeTotals
from sm.core.usage import Usage, main_model
from sm.core.work_time import elapsed_s
from sm.monitor import UsageMeter
from sm.policy.relations import AccessTarget, is_unrestricted, visible
from sm.providers.base import Provider
from sm.providers.prices import price_of
from sm.sessions.authorizer import Authorizer
from sm.sessions.session_fields import SessionSums, SumsOf
from sm.store import Store
from sm.store.history import EVERY, Chosen, among, below, texts
from sm.store.sums import RemovedSums

_SAMPLES_MAX = 100
"""Completed sessions of an agent type that are not in memory and count for an estimate."""


class TreeSums(SessionSums):
    """The totals of sessions. They change only by sessions that have changed since the last call.

    They are of the sessions in memory and all below these, and of those for which `sums` was asked.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        usage: UsageMeter,
        authorizer: Authorizer,
        providers: Mapping[str, Provider],
    ) -> None:
        self._authorizer = authorizer
        self._providers = providers
        self._progress = config.child_agents.progress
        self._store = store
        self._measured = usage.follow_changes()
        self._unread = store.memory.follow_removals()
        """Removed sessions whose sums have not been read, also those that lived only between two calls of `refresh`."""
        self._left = store.memory.follow_leaving()
        """Sessions that have left memory and were not read again, in the state in which they left."""
        self._refreshing = asyncio.Lock()
        self._seen: dict[str, Session] = {}
        self._removed: dict[str, RemovedSums] | None = None
        """None until it is read."""
        self._past: dict[str, RemovedSums] = {}
        """Sessions that are not in memory."""
        self._parts: dict[str, TreePart] = {}
        self._models: dict[str, str | None] = {}
        """The main model of each session."""
        self._totals = TreeTotals()
        self._changes = -1
        self.version = 0

    @property
    def counts_tokens(self) -> bool:
        return self._progress.enable_token_tracking

    def sessions(self) -> Iterator[Session | RemovedSums]:
        """The sessions whose sums are known, with the removed ones. Call `refresh` before."""
        yield from self._seen.values()
        yield from self._past.values()
        yield from self.removed()

    def removed(self) -> Collection[RemovedSums]:
        """The removed sessions. Call `refresh` before."""
        return (self._removed or {}).values()

    def parent(self, session_id: str) -> str | None:
        """The parent, of a removed session the session that has inherited its sums, perhaps a removed one."""
        part = self._parts.get(session_id)
        return None if part is None else part.parent_id

    def model(self, session_id: str) -> str | None:
        """The model that the session used most, or the one that it was started with."""
        return self._models.get(session_id)

    def own(self, session_id: str) -> Totals:
        part = self._parts.get(session_id)
        return NO_TOTALS if part is None else part.own

    async def sums(self, caller: Caller, shown: Iterable[Session]) -> SumsOf:
        await self.refresh(shown)
        if is_unrestricted(caller):
            return self._totals.__getitem__
        principal, totals = self._authorizer.principal(caller), TreeTotals()
        known: Mapping[str, AccessTarget] = {**self._seen, **self._past, **(self._removed or {})}
        totals.update(
            {
                s: part if visible(principal, known[s]) else TreePart(part.parent_id, NO_TOTALS)
                for s, part in self._parts.items()
            }
        )
        return totals.__getitem__

    async def samples(self, agent_type: str) -> Sequence[Sample]:
        await self._refresh_newest([agent_type])
        return self._samples().get(agent_type, ())

    async def estimates(self, types: Mapping[str, str | None]) -> dict[str, Estimate | None]:
        await self._refresh_newest(types)
        samples, found = self._samples(), {}
        for name, model in types.items():
            known = samples.get(name, [])
            wanted = known[0].model if known and model is None else model
            found[name] = estimate_totals(known, wanted)
        return found

    def _samples(self) -> dict[str, list[Sample]]:
        """The samples of each agent type."""
        found: dict[str, list[tuple[str, Sample]]] = {}
        for session in self.sessions():
            if session.status is Status.COMPLETED and session.completed_at is not None:
                sample = self._sample(session, session.completed_at)
                found.setdefault(session.agent_type, []).append((session.completed_at, sample))
        return {
            agent_type: [sample for _, sample in sorted(dated, key=lambda one: one[0], reverse=True)]
            for agent_type, dated in found.items()
        }

    def _sample(self, session: Session | RemovedSums, completed_at: str) -> Sample:
        own = self.own(session.id)
        return Sample(
            self._models.get(session.id),
            elapsed_s(session, completed_at, session.worked_s),
            own.tokens.used if own.measured and not own.unread else None,
            own.known_cost_usd if not own.unpriced else None,
        )

    async def refresh(self, shown: Iterable[Session] = ()) -> None:
        """Bring the sums up to date with the committed state. Costs nothing if nothing has changed.

        `shown`: sessions that the caller asks for, which need not be in memory.
        """
        async with self._refreshing:
            await self._refresh_kept()
            past = [session for session in shown if session.id not in self._parts]
            if past:
                await self._add_all(below([s.id for s in past]))
                await self._add_past(past)

    async def _refresh_newest(self, agent_types: Iterable[str]) -> None:
        """Bring the sums up to date, also those of the newest completed sessions of some agent types."""
        async with self._refreshing:
            await self._refresh_kept()
            for agent_type in agent_types:
                completed = Chosen("status = ? AND agent_type = ?", (Status.COMPLETED, agent_type))
                found = await self._store.history.page(completed, None, _SAMPLES_MAX)
                await self._add_past(found.sessions)

    async def _add_all(self, chosen: Chosen) -> None:
        async for part in self._store.history.parts(chosen):
            await self._add_past(part)

    async def _add_past(self, sessions: Sequence[Session]) -> None:
        """Count sessions that are not in memory."""
        members = [s for s in sessions if s.id not in self._parts]
        if members:
            used = await self._store.usage.of(s.id for s in members) if self.counts_tokens else {}
            parts = {s.id: self._part(s, used.get(s.id, ())) for s in members}
            self._totals.update(parts)
            self._parts |= parts
            self._past |= {s.id: _ended_sums(s) for s in members}
            self.version += 1

    async def _refresh_kept(self) -> None:
        if self._changes == self._store.changes and not self._measured:
            return
        changes, sessions = self._store.changes, dict(self._store.sessions)
        followed = measured, unread, left = {*self._measured}, {*self._unread}, {*self._left}
        self._measured.clear()
        self._unread.clear()
        self._left.clear()
        try:
            await self._count(sessions, measured, unread, left)
        except BaseException:
            for ids, again in zip((self._measured, self._unread, self._left), followed, strict=True):
                ids |= again
            raise
        self._seen, self._changes = sessions, changes

    async def _count(
        self, sessions: dict[str, Session], measured: set[str], unread: set[str], left: set[str]
    ) -> None:
        """Count what has changed: sessions in memory, sessions that left it or were removed, and usage."""
        seen = self._seen
        changed = [s for s in sessions.values() if seen.get(s.id) is not s or s.id in measured]
        fresh = {s.id: s for s in changed if s.id not in seen or s.id in measured}
        reread = (left | (measured & self._past.keys())) - sessions.keys()
        past = await self._store.history.all(EVERY.also(among("id"), texts(reread))) if reread else []
        counted = [*fresh, *(s.id for s in past)] if self.counts_tokens else []
        used = await self._store.usage.of(counted) if counted else {}
        away = seen.keys() - sessions.keys() - {s.id for s in past}
        gone = [s for s in seen if s in away and s not in self._store.sessions]
        gone += sorted(unread - seen.keys())
        removed = await self._read_removed(gone)
        if new := sessions.keys() - seen.keys():
            await self._add_all(below(new))
        parts = {s.id: self._part(s, used.get(s.id, ()) if s.id in fresh else None) for s in changed}
        parts |= {s.id: self._part(s, used.get(s.id, ())) for s in past}
        self._totals.update({**parts, **removed})
        self._parts |= {**parts, **removed}
        self._past |= {s.id: _ended_sums(s) for s in past}
        for session_id in (*sessions, *gone):
            self._past.pop(session_id, None)
        self._drop([s for s in gone if s not in removed])
        if reread:
            self._drop([s for s in self._past if not self._is_below(s, sessions)])
        self.version += bool(parts or gone)

    def _is_below(self, session_id: str, sessions: Mapping[str, Session]) -> bool:
        """True if a session that is not in memory is below one of these. Only those count in sums."""
        above, seen = self.parent(session_id), set[str]()
        while above is not None and above not in sessions and above not in seen:
            seen.add(above)
            above = self.parent(above)
        return above in sessions

    def _drop(self, session_ids: Collection[str]) -> None:
        self._totals.update({}, session_ids)
        for session_id in session_ids:
            for known in (self._parts, self._models, self._past):
                known.pop(session_id, None)

    async def _read_removed(self, gone: Sequence[str]) -> dict[str, TreePart]:
        """The parts of sessions that were removed since the last call, at the first call of all removed ones."""
        if self._removed is not None and not gone:
            return {}
        found = await self._store.sums.removed(None if self._removed is None else gone)
        used = await self._store.usage.of(s.id for s in found) if found else {}
        self._removed = {**(self._removed or {}), **{s.id: s for s in found}}
        return {s.id: self._removed_part(s, used.get(s.id, ())) for s in found}

    def _part(self, session: Session, usages: Sequence[Usage] | None) -> TreePart:
        """`usages`: the sums by model, or None if they are as before."""
        if usages is None:
            known = self.own(session.id)
        else:
            known = Totals.of(usages, price_of(self._providers, session.provider))
            self._models[session.id] = main_model(usages) or session.model
        since_ms = None if session.working_since is None else self._working_since_ms(session)
        own = Totals(
            1,
            int(is_live(session.status)),
            known.tokens,
            known.measured,
            known.cost,
            known.unpriced,
            worked_ms=round(session.worked_s * 1000),
            working=int(since_ms is not None),
            working_since_ms=since_ms or 0,
            unread=known.unread,
        )
        return TreePart(session.parent_id, own)

    def _working_since_ms(self, session: Session) -> int:
        """The start of the work that is under way, by the system clock as it is set now."""
        now = self._store.now()
        return int((epoch_s(now) - self._store.work.elapsed_s(session, now)) * 1000)

    def _removed_part(self, session: RemovedSums, usages: Sequence[Usage]) -> TreePart:
        known = Totals.of(usages if self.counts_tokens else (), price_of(self._providers, session.provider))
        self._models[session.id] = main_model(usages) or session.model
        own = Totals(
            0,
            0,
            known.tokens,
            known.measured,
            known.cost,
            known.unpriced,
            removed=1,
            worked_ms=round(session.worked_s * 1000),
            unread=known.unread,
        )
        return TreePart(session.heir, own)


def _ended_sums(session: Session) -> RemovedSums:
    """The few facts of a session that the sums need when it is not in memory."""
    return RemovedSums(
        session.id,
        session.parent_id,
        session.agent_type,
        session.provider,
        session.model,
        session.account,
        session.workspace,
        session.effective_mode,
        session.paired_user,
        session.status,
        session.created_at,
        session.started_at,
        session.completed_at,
        session.worked_s,
        is_removed=False,
    )
