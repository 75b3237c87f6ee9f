"""Observes agents that have turns: their hooks, the state they publish, transcripts, titles, screens.

What a source says becomes an `Observation` (by the provider's reader), `evidence.Ledger` weighs them, and a verdict
that differs from the session's status becomes a signal (`concluding`). Files are followed with inotify and a slow sweep
behind it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from sm.core.lifecycle import is_live
from sm.core.models import Process, Status
from sm.core.observation import Activity, Source
from sm.core.timestamps import iso
from sm.errors import SmError, StorageFull
from sm.monitor.agent import Observed
from sm.monitor.evidence import Ledger
from sm.monitor.files import Listening, changes
from sm.monitor.listeners import News, tell_of_hook
from sm.monitor.recorder import Concluding
from sm.monitor.sources import Reading
from sm.monitor.usage import Measuring
from sm.providers.readers import HookEvent
from sm.sessions.manager import Manager
from sm.store import Store
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

_SWEEP_EVERY_S = 10.0
_DRAWN_WITHIN_S = 0.05
"""How long an agent may take to draw what it has begun to."""
_LAST_LOOK_WITHIN_S = 5.0
_HOOKS_WAITING_MAX = 32


class Observer:
    """Follows every agent that has turns.

    `transcripts_every_s`: how often a transcript is looked at although nothing told of a change; a file of a
    sub-agent changes without a word. `off`: sources not to believe (for measurements).
    """

    def __init__(
        self,
        store: Store,
        manager: Manager,
        terminals: Terminals,
        measuring: Measuring,
        news: News,
        *,
        transcripts_every_s: float,
        off: Collection[Source] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._manager = manager
        self._measuring = measuring
        self._news = news
        self._transcripts_every_s = transcripts_every_s
        self._off = frozenset(off)
        self._clock = clock
        self._observed: dict[str, Observed] = {}
        self._listening = Listening()
        self._concluding = Concluding(store, manager, measuring)
        self._reading = Reading(
            store, terminals, measuring, self._listening, self._concluding, news, off=self._off, clock=clock
        )
        self._sweeping: asyncio.Task[None] | None = None
        terminals.on_titles(self._titles)

    # Who is observed

    def watch(self, session_id: str, process: Process, tty: str | None) -> None:
        """Its process runs, in this terminal: observe it until `forget`."""
        known = self._observed.get(session_id)
        if known is not None and known.process not in (None, process):  # a restored session's other process
            self.forget(session_id)
        observed = self._of(session_id)
        if observed is None:
            return
        observed.process = process
        observed.tty = tty
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep state files")
        if observed.task is None:
            observed.task = asyncio.create_task(self._follow(observed), name=f"observe {session_id}")

    def forget(self, session_id: str) -> None:
        """Its process is gone."""
        observed = self._observed.pop(session_id, None)
        if observed is None:
            return
        self._listening.forget(session_id)
        self._measuring.forget(session_id)
        self._news.gone(session_id)
        if observed.task is not None:
            observed.task.cancel()

    async def ended(self, session_id: str) -> None:
        """Its process is gone: count what it wrote last. To be called before anybody is told; `forget` follows."""
        observed = self._of(session_id)
        if observed is None:
            return
        try:
            async with asyncio.timeout(_LAST_LOOK_WITHIN_S), observed.lock:
                await self._reading.prepare(observed)
                await self._reading.transcript(observed)
        except Exception:
            log.exception("failed to read what it wrote last", extra={"sm_session": session_id})

    def _of(self, session_id: str) -> Observed | None:
        found = self._observed.get(session_id)
        session = self._store.sessions.get(session_id)
        if found is not None or session is None:
            return found
        provider = self._manager.provider(session)
        if not provider.has_turns:
            return None
        found = Observed(session_id, provider.readers, Ledger(self._off), self._clock())
        found.ready = session.status not in (Status.SPAWNED, Status.STARTING)
        self._observed[session_id] = found
        return found

    def close(self) -> None:
        for session_id in tuple(self._observed):
            self.forget(session_id)
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._listening.close()

    # What others ask

    def now(self) -> float:
        return self._clock()

    def ledger(self, session_id: str) -> Ledger | None:
        found = self._observed.get(session_id)
        return None if found is None else found.ledger

    async def facts(self, session_id: str) -> list[str]:
        """What else is known, in words, for `sm why`."""
        found = self._observed.get(session_id)
        said = []
        if found is not None and found.ready and not found.hook_seen:
            said.append("no hook of this process was seen")
        ending = (await self._store.measures.facts(session_id)).get("ending")
        session = self._store.sessions.get(session_id)
        if ending is not None and found is None and session is not None:
            hooks = self._manager.provider(session).readers.hooks
            event = f"{hooks.ending_event}: " if hooks is not None else ""
            said.append(f"it said itself that it ends ({event}{ending})")
        return said

    def activity(self, session_id: str) -> str | None:
        """What the agent does now, in one line."""
        found = self._observed.get(session_id)
        return None if found is None else found.activity

    def tool_use(self, session_id: str, agent: str, what: str) -> str | None:
        """The id of this use of a tool by this sub-agent (empty: the agent itself), as in `Uses.find`."""
        found = self._observed.get(session_id)
        return None if found is None else found.uses.find(agent, what)

    async def blocked(self, session_id: str) -> str | None:
        """Why the agent waits for an answer: by what it publishes at this moment, else by the last verdict.

        None: it does not, as far as it is known.
        """
        observed = self._observed.get(session_id)
        if observed is None:
            return None
        said = await self._reading.published(observed)
        if said is not None:
            return said.reason if said.activity is Activity.BLOCKED else None
        verdict = observed.ledger.verdict(self._clock())
        if verdict is None or verdict.said.activity is not Activity.BLOCKED:
            return None
        return verdict.said.reason

    def is_stale(self, session_id: str) -> bool:
        found = self._observed.get(session_id)
        return found is not None and bool(found.ledger.entries) and found.ledger.is_stale(self._clock())

    # Hooks

    async def hook(self, session_id: str, payload: Mapping[str, Any], emitted_at: str) -> None:
        """An event of the session's own hooks; returns when what it means is on disk.

        Raises StorageFull when too many wait for that already: `sm hook` leaves them in the spool then.
        """
        session = self._store.sessions.get(session_id)
        observed = None if session is None or session.exit is not None else self._of(session_id)
        if observed is None:
            return
        at = min(datetime.fromisoformat(emitted_at).timestamp(), self._clock())
        if observed.hooks_waiting >= _HOOKS_WAITING_MAX:
            raise StorageFull("the daemon cannot write down what the agent does", "free some space")
        observed.hooks_waiting += 1
        try:
            await self._hook(observed, payload, at)
        finally:
            observed.hooks_waiting -= 1

    async def _hook(self, observed: Observed, payload: Mapping[str, Any], at: float) -> None:
        async with observed.lock:
            hooks = observed.readers.hooks
            # Its process may have gone meanwhile.
            if hooks is None or self._observed.get(observed.session_id) is not observed:
                return
            await self._reading.prepare(observed)
            news = hooks.event(payload, at, expects_turn=observed.expects_turn)
            late = observed.ledger.is_late(Source.HOOK, at, self._clock())
            await self._take(observed, news, late=late)
        observed.poke(state=True, transcript=True)
        if not late and (news.turn_finished or (news.observation is not None and news.observation.final)):
            observed.uses.turn_ends()
        await tell_of_hook(self._news, observed, news, at, self._clock)

    async def _take(self, observed: Observed, news: HookEvent, *, late: bool) -> None:
        observed.hook_seen = True
        said = news.observation
        if said is not None and said.activity is Activity.BLOCKED:
            said = replace(
                said, use=observed.uses.find(said.who, news.tool_digest)
            )  # no dialog says it itself
        if late and news.ending is None and not (said is not None and said.asks_about_use):
            return  # it was overtaken: by now the conversation may be another
        if news.started:
            observed.uses.forget()
            observed.ledger.forget(Source.TRANSCRIPT, Source.SCREEN)
        if news.ending is not None:
            await self._measuring.ends(observed.session_id, news.ending)
        if news.activity is not None:
            observed.activity = news.activity
        if not late:
            await self._concluding.learn(observed.session_id, news.conversation, news.transcript, news.model)
        taken = said is not None and observed.add(said, self._clock())
        if news.ready:
            await self._reading.ready(observed, "hook", f"{news.name}: it takes input")
        session = self._store.sessions.get(observed.session_id)
        if taken and said is not None and said.turn is not None:
            observed.expects_turn = False
        if taken and said is not None and session is not None and said.opens:
            await self._concluding.reopen(session, "hook", iso(said.at))
        if taken:
            await self._decide(observed)

    # What is looked at for all

    async def _sweep(self) -> None:
        """See that what stands still stands, for all in one go: inotify tells of changes, but not everywhere."""
        states_s, transcripts_s = time.monotonic(), time.monotonic()
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._transcripts_every_s))
            try:
                if time.monotonic() - states_s >= _SWEEP_EVERY_S:
                    states_s = time.monotonic()
                    await self._sweep_states()
                if time.monotonic() - transcripts_s >= self._transcripts_every_s:
                    transcripts_s = time.monotonic()
                    await self._sweep_transcripts()
            except Exception:
                log.exception("failed a sweep")

    async def _sweep_transcripts(self) -> None:
        files = {}
        for session_id, observed in self._observed.items():
            session = self._store.sessions.get(session_id)
            path = None if session is None else observed.transcript(session)
            reader = observed.readers.transcripts
            if path is not None and reader is not None and observed.environment is not None:
                files[session_id] = (path, reader.root(observed.environment))
        for session_id in await self._measuring.grown(files):
            if (grown := self._observed.get(session_id)) is not None:
                grown.poke(transcript=True)

    async def _sweep_states(self) -> None:
        files = {s: o.state_file for s, o in self._observed.items() if o.state_file is not None}
        for session_id, changed_ns in (await asyncio.to_thread(changes, files)).items():
            observed = self._observed.get(session_id)
            if observed is None:
                continue
            if changed_ns == observed.state_changed_ns:
                observed.ledger.seen(Source.STATE_FILE, self._clock())
            else:
                observed.poke(state=True)

    # The loop of one session

    async def _follow(self, observed: Observed) -> None:
        while True:
            observed.poked.clear()
            pause_s: float | None = _SWEEP_EVERY_S
            try:
                async with observed.lock:
                    await self._reading.prepare(observed)
                    await self._reading.what_is_due(observed)
                    pause_s = await self._decide(observed)
            except SmError as error:
                log.warning("could not observe: %s", error.message, extra={"sm_session": observed.session_id})
            except Exception:
                log.exception("failed to observe", extra={"sm_session": observed.session_id})
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await observed.poked.wait()
                    continue
            observed.state_due = True  # what stands must be seen to stand
            if observed.ready and Source.STATE_FILE not in observed.ledger.entries:
                observed.poke(screen_s=self._clock())

    async def _decide(self, observed: Observed) -> float | None:
        """Make the session's status follow the verdict; the seconds until it may be another."""
        session = self._store.sessions.get(observed.session_id)
        now = self._clock()
        verdict = observed.ledger.verdict(now)
        if session is None or verdict is None or not observed.ready:
            return observed.pause_s(now, None)
        if verdict.said.activity is Activity.BUSY:
            self._listening.leave_terminal(session.id)
        elif observed.tty is not None:  # a person may open something at its prompt
            self._listening.listen_to_terminal(
                observed.tty, session.id, lambda: observed.drawn(self._clock() + _DRAWN_WITHIN_S)
            )
        if is_live(session.status):
            await self._concluding.follow(session, verdict)
        elif not observed.hook_seen and verdict.said.source in (Source.STATE_FILE, Source.TRANSCRIPT):
            # Without hooks nobody tells what was asked of it; but it has rested since, and works again.
            since = observed.ledger.entries[verdict.said.source].since
            if verdict.said.activity is Activity.BUSY:
                await self._concluding.reopen(session, verdict.said.source, iso(since))
        if verdict.said.activity is not Activity.BUSY:
            observed.activity = None
        return observed.pause_s(now, observed.ledger.next_look(now))

    # What tells that there is something to read

    def _titles(self, changed: Mapping[str, str]) -> None:
        now = self._clock()
        for session_id, glyph in changed.items():
            observed = self._observed.get(session_id)
            if observed is None or observed.readers.screen is None:
                continue
            said = observed.readers.screen.title(glyph, now)
            if said is None:
                observed.ledger.forget(Source.TITLE)
            else:
                observed.add(said, self._clock())
            observed.poke()

    def printed(self, moved: Collection[str]) -> None:
        """Their terminals printed something: the screens may be worth a look."""
        now = self._clock()
        for session_id in moved:
            observed = self._observed.get(session_id)
            if observed is None or not observed.ready:
                continue
            believed = observed.ledger.verdict(now)
            published = Source.STATE_FILE in observed.ledger.entries
            if not published or (believed is not None and believed.said.activity is Activity.IDLE):
                observed.poke(screen_s=now)
