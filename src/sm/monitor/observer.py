"""Observes agents that have turns: reads their hooks, published states, transcripts, titles and screens.

What a source says becomes an `Observation` (by the provider's reader), `evidence.Ledger` weighs them, and a verdict
that differs from the session's status becomes a signal (`recorder`). Files are followed with inotify and a slow sweep
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
from sm.core.models import Process
from sm.core.observation import Activity, Source
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.errors import SmError, StorageFull
from sm.monitor.agent import Agent
from sm.monitor.evidence import Ledger
from sm.monitor.files import FileEvents, changes
from sm.monitor.listeners import AgentListener, AgentListeners
from sm.monitor.recorder import Recorder
from sm.monitor.sources import Sources
from sm.monitor.usage import UsageMeter
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
        usage: UsageMeter,
        *,
        transcripts_every_s: float,
        off: Collection[Source] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._manager = manager
        self._usage = usage
        self._listeners = AgentListeners(clock)
        self._transcripts_every_s = transcripts_every_s
        self._off = frozenset(off)
        self._clock = self.now = clock
        self._agents: dict[str, Agent] = {}
        self._files = FileEvents()
        self._recorder = Recorder(store, manager, usage)
        self._sources = Sources(
            store, terminals, usage, self._files, self._recorder, self._listeners, self._off, clock
        )
        self._sweeping: asyncio.Task[None] | None = None
        terminals.on_titles(self._titles)

    def register(self, listener: AgentListener) -> None:
        """Send every event of every agent to `listener` from now on."""
        self._listeners.register(listener)

    # Observed agents

    def watch(self, session_id: str, process: Process, tty: str | None) -> None:
        """Its process runs, in this terminal: observe it until `forget`."""
        known = self._agents.get(session_id)
        if known is not None and known.process not in (None, process):  # a restored session's other process
            self.forget(session_id)
        agent = self._of(session_id)
        if agent is None:
            return
        agent.process = process
        agent.tty = tty
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep state files")
        if agent.task is None:
            agent.task = asyncio.create_task(self._follow(agent), name=f"observe {session_id}")

    def forget(self, session_id: str) -> None:
        """Its process is gone."""
        agent = self._agents.pop(session_id, None)
        if agent is None:
            return
        self._files.forget(session_id)
        self._usage.forget(session_id)
        self._listeners.process_gone(session_id)
        if agent.task is not None:
            agent.task.cancel()

    async def ended(self, session_id: str) -> None:
        """Its process is gone: count what it wrote last. To be called before anybody is told; `forget` follows."""
        agent = self._of(session_id)
        if agent is None:
            return
        try:
            async with asyncio.timeout(_LAST_LOOK_WITHIN_S), agent.lock:
                await self._sources.prepare(agent)
                await self._sources.transcript(agent)
        except Exception:
            log.exception("failed to read what it wrote last", extra={"sm_session": session_id})

    def _of(self, session_id: str) -> Agent | None:
        found = self._agents.get(session_id)
        session = self._store.sessions.get(session_id)
        if found is not None or session is None:
            return found
        provider = self._manager.provider(session)
        if not provider.has_turns:
            return None
        found = Agent(session_id, provider.readers, Ledger(self._off), self._clock())
        found.ready = session.status not in (Status.SPAWNED, Status.STARTING)
        self._agents[session_id] = found
        return found

    def close(self) -> None:
        for session_id in tuple(self._agents):
            self.forget(session_id)
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._files.close()

    # What others ask

    def ledger(self, session_id: str) -> Ledger | None:
        found = self._agents.get(session_id)
        return None if found is None else found.ledger

    async def facts(self, session_id: str) -> list[str]:
        """What else is known, in words, for `sm why`."""
        found = self._agents.get(session_id)
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
        found = self._agents.get(session_id)
        return None if found is None else found.activity

    def tool_use(self, session_id: str, agent: str, what: str) -> str | None:
        """The id of this use of a tool by this sub-agent (empty: the agent itself), as in `ToolUses.find`."""
        found = self._agents.get(session_id)
        return None if found is None else found.uses.find(agent, what)

    async def blocked(self, session_id: str) -> str | None:
        """Why the agent waits for an answer: by what it publishes at this moment, else by the last verdict.

        None: it does not, as far as it is known.
        """
        agent = self._agents.get(session_id)
        if agent is None:
            return None
        said = await self._sources.published(agent)
        if said is None and (verdict := agent.ledger.verdict(self._clock())) is not None:
            said = verdict.said
        return said.reason if said is not None and said.activity is Activity.BLOCKED else None

    def is_stale(self, session_id: str) -> bool:
        found = self._agents.get(session_id)
        return found is not None and bool(found.ledger.entries) and found.ledger.is_stale(self._clock())

    # Hooks

    async def hook(self, session_id: str, payload: Mapping[str, Any], emitted_at: str) -> None:
        """An event of the session's own hooks; returns when what it means is on disk.

        Raises StorageFull when too many wait for that already: `sm hook` leaves them in the spool then.
        """
        session = self._store.sessions.get(session_id)
        agent = None if session is None or session.exit is not None else self._of(session_id)
        if agent is None:
            return
        at = min(datetime.fromisoformat(emitted_at).timestamp(), self._clock())
        if agent.hooks_waiting >= _HOOKS_WAITING_MAX:
            raise StorageFull("the daemon cannot write down what the agent does", "free some space")
        agent.hooks_waiting += 1
        try:
            await self._hook(agent, payload, at)
        finally:
            agent.hooks_waiting -= 1

    async def _hook(self, agent: Agent, payload: Mapping[str, Any], at: float) -> None:
        async with agent.lock:
            hooks = agent.readers.hooks
            # Its process may have gone meanwhile.
            if hooks is None or self._agents.get(agent.session_id) is not agent:
                return
            await self._sources.prepare(agent)
            event = hooks.event(payload, at, expects_turn=agent.expects_turn)
            late = agent.ledger.is_late(Source.HOOK, at, self._clock())
            await self._take(agent, event, late=late)
        agent.poke(state=True, transcript=True)
        if not late and (event.turn_finished or (event.observation is not None and event.observation.final)):
            agent.uses.turn_ends()
        await self._listeners.hook(agent, event, at)

    async def _take(self, agent: Agent, event: HookEvent, *, late: bool) -> None:
        agent.hook_seen = True
        said = event.observation
        if said is not None and said.activity is Activity.BLOCKED:
            said = replace(said, use=agent.uses.find(said.who, event.tool_digest))  # no dialog says it itself
        if late and event.ending is None and not (said is not None and said.asks_about_use):
            return  # it was overtaken: by now the conversation may be another
        if event.started:
            agent.uses.forget()
            agent.ledger.forget(Source.TRANSCRIPT, Source.SCREEN)
        if event.ending is not None:
            await self._usage.ends(agent.session_id, event.ending)
        if event.activity is not None:
            agent.activity = event.activity
        if not late:
            await self._recorder.learn(agent.session_id, event.conversation, event.transcript, event.model)
        taken = said if said is not None and agent.add(said, self._clock()) else None
        if event.ready:
            await self._sources.ready(agent, "hook", f"{event.name}: it takes input")
        if taken is None:
            return
        session = self._store.sessions.get(agent.session_id)
        if taken.turn is not None:
            agent.expects_turn = False
        if session is not None and taken.opens:
            await self._recorder.reopen(session, "hook", iso(taken.at))
        await self._decide(agent)

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
        for session_id, agent in self._agents.items():
            session = self._store.sessions.get(session_id)
            path = None if session is None else agent.transcript(session)
            reader = agent.readers.transcripts
            if path is not None and reader is not None and agent.environment is not None:
                files[session_id] = (path, reader.root(agent.environment))
        for session_id in await self._usage.grown(files):
            if (grown := self._agents.get(session_id)) is not None:
                grown.poke(transcript=True)

    async def _sweep_states(self) -> None:
        files = {s: o.state_file for s, o in self._agents.items() if o.state_file is not None}
        for session_id, changed_ns in (await asyncio.to_thread(changes, files)).items():
            agent = self._agents.get(session_id)
            if agent is None:
                continue
            if changed_ns == agent.state_changed_ns:
                agent.ledger.seen(Source.STATE_FILE, self._clock())
            else:
                agent.poke(state=True)

    # The loop of one session

    async def _follow(self, agent: Agent) -> None:
        while True:
            agent.poked.clear()
            pause_s: float | None = _SWEEP_EVERY_S
            try:
                async with agent.lock:
                    await self._sources.prepare(agent)
                    await self._sources.what_is_due(agent)
                    pause_s = await self._decide(agent)
            except SmError as error:
                log.warning("could not observe: %s", error.message, extra={"sm_session": agent.session_id})
            except Exception:
                log.exception("failed to observe", extra={"sm_session": agent.session_id})
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await agent.poked.wait()
                    continue
            agent.state_due = True  # what stands must be seen to stand
            if agent.ready and Source.STATE_FILE not in agent.ledger.entries:
                agent.poke(screen_s=self._clock())

    async def _decide(self, agent: Agent) -> float | None:
        """Make the session's status follow the verdict; the seconds until it may be another."""
        session = self._store.sessions.get(agent.session_id)
        now = self._clock()
        verdict = agent.ledger.verdict(now)
        if session is None or verdict is None or not agent.ready:
            return agent.pause_s(now, None)
        if verdict.said.activity is Activity.BUSY:
            self._files.leave_terminal(session.id)
        elif agent.tty is not None:  # a person may open something at its prompt
            self._files.listen_to_terminal(
                agent.tty, session.id, lambda: agent.drawn(self._clock() + _DRAWN_WITHIN_S)
            )
        if is_live(session.status):
            await self._recorder.follow(session, verdict)
        elif not agent.hook_seen and verdict.said.source in (Source.STATE_FILE, Source.TRANSCRIPT):
            # Without hooks nobody tells what was asked of it; but it has rested since, and works again.
            since = agent.ledger.entries[verdict.said.source].since
            if verdict.said.activity is Activity.BUSY:
                await self._recorder.reopen(session, verdict.said.source, iso(since))
        if verdict.said.activity is not Activity.BUSY:
            agent.activity = None
        return agent.pause_s(now, agent.ledger.next_look(now))

    # What tells that there is something to read

    def _titles(self, changed: Mapping[str, str]) -> None:
        now = self._clock()
        for session_id, glyph in changed.items():
            agent = self._agents.get(session_id)
            if agent is None or agent.readers.screen is None:
                continue
            said = agent.readers.screen.title(glyph, now)
            if said is None:
                agent.ledger.forget(Source.TITLE)
            else:
                agent.add(said, self._clock())
            agent.poke()

    def printed(self, moved: Collection[str]) -> None:
        """Their terminals printed something: the screens may be worth a look."""
        now = self._clock()
        for session_id in moved:
            agent = self._agents.get(session_id)
            if agent is None or not agent.ready:
                continue
            believed = agent.ledger.verdict(now)
            published = Source.STATE_FILE in agent.ledger.entries
            if not published or (believed is not None and believed.said.activity is Activity.IDLE):
                agent.poke(screen_s=now)
