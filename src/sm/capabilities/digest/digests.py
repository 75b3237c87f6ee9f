"""Composes the digest of a time for its readers, and sends it to the operator at a time of the day."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from datetime import time as time_of_day
from enum import StrEnum

from sm.capabilities.digest.operations import DigestPeriod
from sm.capabilities.digest.rules import (
    ended_entries,
    live_entries,
    request_entries,
    spending,
    warning_entries,
)
from sm.capabilities.digest.screen import digest_lines
from sm.config import Config
from sm.core.lifecycle import is_ended
from sm.core.local_times import next_local_time
from sm.core.models import OPERATOR, Caller, Session, ancestors
from sm.core.states import EventType
from sm.core.timers import Timer
from sm.core.timestamps import iso
from sm.core.tree_totals import Totals
from sm.core.usage import Usage
from sm.errors import StorageFull
from sm.kernel import OperationCall
from sm.monitor.monitor import Monitor
from sm.policy.relations import Principal, is_unrestricted, visible
from sm.providers.base import Provider
from sm.providers.prices import price_of
from sm.requests.answers import Requests
from sm.sessions.authorizer import Authorizer
from sm.sessions.session_fields import SessionField
from sm.sessions.workspaces import Workspaces
from sm.state.announcements import announce
from sm.store import Store, Transaction
from sm.store.history import among, seen_by, texts
from sm.wire_types.digest import DigestView

log = logging.getLogger(__name__)

_SUBJECT = "digest"
_DEFAULT_S = 12 * 3600.0
_DAY_S = 86_400.0
_EVENTS_MAX = 10_000
_HEIGHT, _WIDTH = 40, 160
_PAUSE_S = 5.0


class DigestTimer(StrEnum):
    """The kinds of timers. They are stored in the database, so they never change."""

    DAY = "digest"
    """The digest of the day is due. The subject is `digest`."""


class Digests:
    """Reads digests. With `notify.digest_at`, sends one each day: to the inbox, command, webhooks and owners' chats."""

    def __init__(
        self,
        config: Config,
        store: Store,
        authorizer: Authorizer,
        providers: Mapping[str, Provider],
        workspaces: Workspaces,
        requests: Requests,
        monitor: Monitor,
        fields: Sequence[SessionField],
    ) -> None:
        self._config = config
        self._notify = config.notify
        self._reconfigured = asyncio.Event()
        self._store = store
        self._authorizer = authorizer
        self._providers = providers
        self._workspaces = workspaces
        self._requests = requests
        self._monitor = monitor
        self._fields = fields

    async def show(self, call: OperationCall) -> DigestView:
        """The digest of what the caller may see. Raises NotFound for an unknown workspace."""
        asked: DigestPeriod = call.arguments
        since = asked.since or iso(self._monitor.now() - _DEFAULT_S)
        return await self._read(call.caller, since, asked.workspace)

    async def _read(self, caller: Caller, since: str, workspace: str | None) -> DigestView:
        principal = self._authorizer.principal(caller)
        members = [s for s in self._store.sessions.values() if visible(principal, s)]
        used = await self._used_since(since)
        past = await self._past_since(principal, since, used)
        above = {
            a.id: a for s in past for a in ancestors(s, self._store.sessions.get) if visible(principal, a)
        }
        members += {
            s.id: s for s in [*past, *above.values()] if not self._store.sessions.is_kept(s.id)
        }.values()
        if workspace is not None:
            slug = self._workspaces.slug(caller, workspace)
            members = [s for s in members if s.workspace == slug]
        shown = {s.id: s for s in members}
        readable = {s.id: s for s in members if self._authorizer.may_read(caller, s)}
        events = await self._store.events(sessions=list(readable), type=EventType.WARNING, limit=_EVENTS_MAX)
        requests = await self._requests.list_requests(caller, all=False, limit=0)
        removed = 0
        if workspace is None and is_unrestricted(caller):
            removed = await self._store.removed_endings(since)
        return DigestView(
            since=since,
            until=iso(self._monitor.now()),
            ended=ended_entries(members, since),
            requests=request_entries(requests, shown),
            warnings=warning_entries(events, readable, since),
            live=live_entries(members),
            spending=spending(
                shown, self._totals(members, used), self._words(list(readable.values()), since)
            ),
            removed=removed,
        )

    async def _past_since(
        self, principal: Principal, since: str, used: Mapping[str, Sequence[Usage]]
    ) -> list[Session]:
        """The sessions that are not in memory, and that ended, got a warning or used tokens after that time."""
        history, seen = self._store.history, seen_by(principal)
        ended = await history.all(seen.also("status_at >= ?", since))
        warnings = await self._store.events(
            sessions=None, type=EventType.WARNING, since_time=since, limit=_EVENTS_MAX
        )
        others = {event.session_id for event in warnings} | used.keys()
        others -= {s.id for s in ended} | self._store.sessions.keys()
        return [*ended, *(await history.all(seen.also(among("id"), texts(others))) if others else ())]

    async def _used_since(self, since: str) -> dict[str, list[Usage]]:
        """The usage after that time, by session id."""
        found: dict[str, list[Usage]] = {}
        if self._config.child_agents.progress.enable_token_tracking:
            for session_id, used in await self._store.usage.since(since):
                found.setdefault(session_id, []).append(used)
        return found

    def _totals(self, sessions: Sequence[Session], used: Mapping[str, Sequence[Usage]]) -> dict[str, Totals]:
        """The sums of the usage of these sessions. Omits sessions without any."""
        return {
            s.id: Totals.of(used[s.id], price_of(self._providers, s.provider))
            for s in sessions
            if s.id in used
        }

    def _words(self, sessions: list[Session], since: str) -> dict[str, str]:
        """The words of capabilities about the spending of sessions, by id.

        Excludes sessions that ended before `since`.
        """
        found = {}
        for session in sessions:
            if is_ended(session.status) and (session.completed_at or session.status_at) < since:
                continue
            words = [word for field in self._fields if (word := field.spending(session)) is not None]
            if words:
                found[session.id] = ", ".join(words)
        return found

    # Once a day

    async def reconfigure(self) -> None:
        """Follow a change of the configuration."""
        self._reconfigured.set()

    async def run(self) -> None:
        """Set the timer of the next digest as configured. Never returns."""
        while True:
            await self._follow_configuration()
            await self._reconfigured.wait()
            self._reconfigured.clear()

    async def _follow_configuration(self) -> None:
        known = self._store.mail.open.timers.get((_SUBJECT, DigestTimer.DAY))
        while (None if known is None else known.data.get("at")) != self._notify.digest_at:
            try:
                async with self._store.transaction() as tx:
                    self._plan(tx)
                break
            except StorageFull as error:
                log.warning("postponed the plan of the digest: %s", error.message)
                await asyncio.sleep(_PAUSE_S)

    def _plan(self, tx: Transaction, sent_at: str | None = None) -> None:
        """Set the timer unless it is set for the same time of the day. `sent_at`: the time of the last digest."""
        wanted, before = self._notify.digest_at, tx.timers.find(_SUBJECT, DigestTimer.DAY)
        if wanted is None:
            tx.timers.remove(_SUBJECT, DigestTimer.DAY)
        elif before is None or before.data.get("at") != wanted:
            now = datetime.fromisoformat(tx.now).astimezone(UTC)
            due = next_local_time(time_of_day.fromisoformat(wanted), now)
            data = {"at": wanted, "since": sent_at}
            tx.timers.set(Timer(_SUBJECT, DigestTimer.DAY, iso(due.timestamp()), data=data))

    async def send(self, timer: Timer) -> float | None:
        """Send the digest since the last one, at most of a day, and set the timer of the next one."""
        since = max(str(timer.data.get("since") or ""), iso(self._monitor.now() - _DAY_S))
        text = await self._text(since)
        async with self._store.transaction() as tx:
            if not tx.timers.take(timer):
                return None
            self._plan(tx, tx.now)
            await announce(tx, self._config, "digest", text, f"digest/{tx.now}")
        return None

    async def _text(self, since: str) -> str:
        digest = await self._read(OPERATOR, since, None)
        now = datetime.fromisoformat(digest.until)
        return "\n".join(digest_lines(asdict(digest), now, _HEIGHT, _WIDTH))
