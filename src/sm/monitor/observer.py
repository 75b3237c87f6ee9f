"""Observes agents that have turns: reads their hooks, published states, transcripts, titles and screens.

The provider's readers turn each report of a source into an `Observation`, and `evidence.Ledger` weighs them. A verdict
that differs from the session's status becomes a signal (`recorder`). inotify reports changed files, and a slow sweep
finds the changes that inotify misses.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sm.core.labels import name_to_type
from sm.core.lifecycle import is_live
from sm.core.models import Process, Session
from sm.core.observation import Activity, Observation, Source
from sm.core.states import RequestKind
from sm.core.statuses import Status
from sm.core.timers import TimerKind
from sm.core.timestamps import epoch_s, is_later, iso
from sm.core.turns import ReportedEnd
from sm.errors import SmError, StorageFull
from sm.linux.file_threads import FileThreads
from sm.monitor.agent import Agent
from sm.monitor.evidence import Ledger
from sm.monitor.files import FileEvents, changes
from sm.monitor.first_turns import FirstTurns
from sm.monitor.last_reads import LastReads
from sm.monitor.link_follower import LinkFollower
from sm.monitor.listeners import AgentListener, AgentListeners
from sm.monitor.permission_modes import PermissionModes, denial_facts
from sm.monitor.recorder import Recorder, is_unread_end, outdated_s
from sm.monitor.sources import Sources
from sm.monitor.usage import UNREAD_FACT, UsageMeter
from sm.providers.base import Provider
from sm.providers.readers import HookEvent
from sm.sandboxes.home import HomeOf, on_host
from sm.store import Store
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

_SWEEP_EVERY_S = 10.0
_SWEPT_WITHIN_S = 5.0
_DRAWN_WITHIN_S = 0.05
"""How long an agent may take to finish drawing."""
_HOOKS_WAITING_MAX = 32


class Observer:
    """Observes every agent that has turns.

    `transcripts_every_s`: how often to check transcripts without a reported change: no event reports a change of a
    sub-agent's file. `off`: sources not to believe (for measurements). `home_of`: where agents in containers keep
    their files.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        providers: Mapping[str, Provider],
        terminals: Terminals,
        usage: UsageMeter,
        *,
        transcripts_every_s: Callable[[], float],
        off: Collection[Source] = (),
        home_of: HomeOf = on_host,
        clock: Callable[[], float] = time.time,
        threads: FileThreads | None = None,
        is_attended: Callable[[str], bool] = lambda session_id: False,
    ) -> None:
        """`is_attended`: tells whether the operator has the terminal of a session on the screen."""
        threads = threads or FileThreads()
        self._threads = threads
        self._store = store
        self._providers = providers
        self._usage = usage
        self._listeners = AgentListeners(clock)
        self._transcripts_every_s = transcripts_every_s
        self._off = frozenset(off)
        self._clock = self.now = clock
        self._agents: dict[str, Agent] = {}
        self._files = FileEvents()
        self._recorder = recorder
        reads = self._files, self._recorder, self._listeners
        self._sources = Sources(store, terminals, usage, *reads, self._off, home_of, clock, threads)
        self.links = LinkFollower(
            store,
            providers,
            recorder,
            self._sources,
            usage,
            self._listeners,
            decide=self._decide,
            keep_end=self._keep_end,
            is_observed=lambda agent: self._agents.get(agent.session_id) is agent,
            clock=clock,
        )
        self._last_reads = LastReads(self._sources, self._forget_ended)
        self._sweeping: asyncio.Task[None] | None = None
        self.permission_modes = PermissionModes(store, usage, is_attended)
        self.first_turns = FirstTurns(store, usage, self.running_agent, clock)
        terminals.on_titles(self._titles)

    def register(self, listener: AgentListener) -> None:
        self._listeners.register(listener)

    def watch(self, session_id: str, process: Process, tty: str | None) -> None:
        """Observe the session's running process in this terminal until `forget`."""
        known = self._agents.get(session_id)
        if known is not None and known.process not in (None, process):  # a restored session has a new process
            self.forget(session_id)
        agent = self._current_agent(session_id)
        if agent is None:
            return
        agent.process = process
        agent.tty = tty
        if agent.ready:  # read all sources before the first verdict
            agent.poke(screen_s=self._clock())
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep state files")
        if agent.task is None:
            agent.task = asyncio.create_task(self._follow(agent), name=f"observe {session_id}")
        opener = self.links.opener(session_id)
        if agent.link_task is None and opener is not None:
            follow = self.links.follow(agent, opener)
            agent.link_task = asyncio.create_task(follow, name=f"follow the link of {session_id}")

    def forget(self, session_id: str) -> None:
        """Stop observing the session: its process is gone."""
        agent = self._agents.pop(session_id, None)
        if agent is None:
            return
        self._forget_ended(session_id)
        for task in (agent.task, agent.link_task):
            if task is not None:
                task.cancel()

    def _forget_ended(self, session_id: str) -> None:
        """Drop what was kept in memory for a session that is no longer observed."""
        if session_id not in self._agents:
            self._files.forget(session_id)
            self._usage.forget(session_id)
            self._listeners.process_gone(session_id)

    def observes(self, session_id: str) -> bool:
        return session_id in self._agents

    async def read_to_end(self, session_id: str) -> str | None:
        """Read the transcript to its end after the process is gone, before the end is reported. `forget` follows.

        Returns why the last lines are still unread, as while a full disk keeps earlier lines from being recorded, or
        None if all lines were read. A read that takes long goes on, also after `forget`.
        """
        session = self._store.sessions.get(session_id)
        if session is None or session.exit is None:
            agent = self._current_agent(session_id)
        else:  # nobody observes it
            agent = self._agents.get(session_id) or self._new_agent(session)
        return None if agent is None else await self._last_reads.read(agent)

    def _current_agent(self, session_id: str) -> Agent | None:
        agent = self._agents.get(session_id)
        session = self._store.sessions.get(session_id)
        if agent is not None or session is None:
            return agent
        agent = self._new_agent(session)
        if agent is not None:
            self._agents[session_id] = agent
            agent.lock = self._last_reads.stop(session_id) or agent.lock
        return agent

    def running_agent(self, session_id: str) -> Agent | None:
        session = self._store.sessions.get(session_id)
        return None if session is None or session.exit is not None else self._current_agent(session_id)

    def _new_agent(self, session: Session) -> Agent | None:
        provider = self._providers[session.provider]
        if not provider.has_turns:
            return None
        agent = Agent(
            session.id, provider.readers, Ledger(self._off), self._clock(), fork_in=provider.fork_in
        )
        agent.ready = session.status not in (Status.SPAWNED, Status.STARTING)
        agent.may_have_missed_end = agent.ready
        agent.lost_before = session.status_source == Source.PROCESS and agent.ready
        return agent

    def close(self) -> None:
        self._last_reads.close()
        for session_id in tuple(self._agents):
            self.forget(session_id)
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._files.close()

    # Queries

    def ledger(self, session_id: str) -> Ledger | None:
        agent = self._agents.get(session_id)
        return None if agent is None else agent.ledger

    async def facts(self, session_id: str) -> list[str]:
        """Further facts as sentences, for `sm why`."""
        agent = self._agents.get(session_id)
        facts = []
        if agent is not None and agent.link_lost is not None:
            facts.append(f"its link does not tell its state: {agent.link_lost}")
        if agent is not None and agent.ready and not agent.hook_seen and agent.readers.hooks is not None:
            facts.append("no hook of this process has reported yet")
            facts += await self._setup_warnings(agent)
        measured = await self._store.measures.facts(session_id)
        session = self._store.sessions.get(session_id)
        mode = None if session is None else await self.permission_modes.current(session)
        facts += [] if mode is None else [mode.sentence]
        facts += [] if session is None else denial_facts(measured, session.runs)
        if session is not None and self._waits_without_request(session):
            facts.append(
                f"no request can answer this; only a person at its terminal: sm attach {name_to_type(session)}"
            )
        facts += self.first_turns.facts(session_id, measured)
        ending = measured.get("ending")
        if ending is not None and agent is None and session is not None:
            hooks = self._providers[session.provider].readers.hooks
            event = f"{hooks.ending_event}: " if hooks is not None else ""
            facts.append(f"the agent announced its end ({event}{ending})")
        if (session_id, TimerKind.UNREAD) in self._store.mail.open.timers:
            facts.append("the end of its transcript is unread: its last usage is not counted yet")
        if UNREAD_FACT in measured:
            facts.append(
                "the tokens of some answers cannot be read: its cost is unknown, budgets count too little"
            )
        return facts

    def _waits_without_request(self, session: Session) -> bool:
        """True for a dialog that no hook has reported, such as the questions of claude in the mode `auto`."""
        requests = self._store.mail.open.requests.values()
        asks = any(
            r.session_id == session.id and r.open and r.kind is not RequestKind.DIALOG for r in requests
        )
        return session.status is Status.WAITING_INPUT and session.exit is None and not asks

    async def _setup_warnings(self, agent: Agent) -> tuple[str, ...]:
        session = self._store.sessions.get(agent.session_id)
        setup = None if session is None else self._providers[session.provider].setup
        if setup is None or session is None or agent.environment is None:
            return ()
        return await self._threads.run(
            session.working_dir, setup.session_warnings, agent.environment, session.working_dir, agent.home
        )

    def activity(self, session_id: str) -> str | None:
        agent = self._agents.get(session_id)
        return None if agent is None else agent.activity

    def tool_use(self, session_id: str, sub_agent: str, digest: str) -> str | None:
        """The id of a tool use by this sub-agent (empty for the agent itself), as in `ToolUses.find`."""
        agent = self._agents.get(session_id)
        return None if agent is None else agent.uses.find(sub_agent, digest)

    async def blocked_reason(self, session_id: str) -> str | None:
        """The reason why the agent waits for an answer, from its current state file, else from the last verdict.

        None if no dialog is known.
        """
        current = await self._current_observation(session_id)
        return current.reason if current is not None and current.activity is Activity.BLOCKED else None

    async def is_working(self, session_id: str) -> bool:
        """True if the agent works on a turn, as in `blocked_reason`."""
        current = await self._current_observation(session_id)
        return current is not None and current.activity is Activity.BUSY

    async def works(self, session_id: str) -> bool | None:
        """True if a turn or a background agent runs, by the agent's own report now. None if it reports nothing.

        Orders another read of its transcripts, whose last usage may be unread.
        """
        agent = self._agents.get(session_id)
        if agent is None:
            return None
        agent.poke(state=True, transcript=True)
        current = await self._current_observation(session_id)
        return None if current is None else current.activity is Activity.BUSY

    def background_agents(self, session_id: str) -> int:
        """The number of background agents that were seen at work lately."""
        agent = self._agents.get(session_id)
        return 0 if agent is None else agent.helpers.at_work(self._clock())

    async def _current_observation(self, session_id: str) -> Observation | None:
        agent = self._agents.get(session_id)
        if agent is None:
            return None
        lost = agent.ledger.entries.get(Source.PROCESS)
        current = lost.observation if lost is not None else await self._sources.read_state_file(agent)
        if current is None and (verdict := agent.ledger.verdict(self._clock())) is not None:
            current = verdict.observation
        return current

    def awaits_first_turn(self, session_id: str) -> bool:
        agent = self._agents.get(session_id)
        return agent is not None and agent.ledger.awaits_first_turn(self._clock())

    async def hold_message(self, session_id: str) -> None:
        await self.first_turns.hold_message(session_id)

    def is_stale(self, session_id: str) -> bool:
        agent = self._agents.get(session_id)
        if agent is None:
            return False
        if not agent.ledger.entries:
            return agent.ready and agent.link_lost is not None
        if Source.PROTOCOL in agent.ledger.entries:
            return False  # an open link tells each change, and its loss removes the entry
        return agent.ledger.is_stale(self._clock())

    # Hooks

    async def hook(self, session_id: str, payload: Mapping[str, Any], emitted_at: str) -> None:
        """Process an event of the session's own hooks. Returns when the result is on disk.

        Raises StorageFull when too many hooks wait already: `sm hook` then leaves them in the spool.
        """
        agent = self.running_agent(session_id)
        if agent is None:
            return
        at = min(epoch_s(emitted_at), self._clock())
        if agent.hooks_waiting >= _HOOKS_WAITING_MAX:
            raise StorageFull("the daemon cannot store more hook events", "free disk space, then try again")
        agent.hooks_waiting += 1
        try:
            await self._hook(agent, payload, at)
        finally:
            agent.hooks_waiting -= 1

    async def _hook(self, agent: Agent, payload: Mapping[str, Any], at: float) -> None:
        async with agent.lock:
            hooks = agent.readers.hooks
            # The process may have ended meanwhile.
            if hooks is None or self._agents.get(agent.session_id) is not agent:
                return
            await self._sources.prepare(agent)
            event = hooks.event(payload, at, expects_turn=agent.expects_turn)
            if agent.home is not None and event.transcript is not None:
                event = replace(event, transcript=agent.home.host_path(event.transcript))
            late = agent.ledger.is_late(Source.HOOK, at, self._clock())
            if event.turn_finished and not (late or agent.work.whole):
                await self._read_missed_turn(agent)
            await self._take(agent, event, at, late=late)
        agent.poke(state=True, transcript=True)
        if not late and (event.turn_finished or (event.observation is not None and event.observation.final)):
            agent.uses.end_turn()
        await self._listeners.hook(agent, event, at)

    async def _read_missed_turn(self, agent: Agent) -> None:
        """Read the transcript for the facts of a turn whose beginning no hook has told this daemon."""
        try:
            await self._sources.transcript(agent)
        except Exception:
            log.exception("failed to read the transcript of a turn", extra={"sm_session": agent.session_id})

    async def _take(self, agent: Agent, event: HookEvent, at: float, *, late: bool) -> None:
        agent.hook_seen = True
        agent.last_hook_s = max(agent.last_hook_s, at)
        observation = event.observation
        if observation is not None and observation.activity is Activity.BLOCKED:
            # A dialog does not name its tool use.
            observation = replace(observation, use=agent.uses.find(observation.who, event.tool_digest))
        if late and event.ending is None and not (observation is not None and observation.asks_about_use):
            return  # a later event came first, and the conversation may be another by now
        if event.started:
            agent.ends = False
            agent.uses.forget()
            agent.ledger.forget(Source.TRANSCRIPT, Source.SCREEN)
        if event.ending is not None:
            agent.ends = True
            await self._usage.set_ending(agent.session_id, event.ending)
        if event.activity is not None:
            agent.activity = event.activity
        agent.follow_work(event)
        agent.helpers.follow(event, observation.who if observation is not None else "", self._clock())
        if not late:
            if event.peer is not None:
                await self._recorder.record_peer(agent.session_id, event.peer)
            await self.permission_modes.follow(agent, event)
            await self.permission_modes.follow_denials(agent, event)
            await self._recorder.learn(agent.session_id, event.conversation, event.transcript, event.model)
        added = observation is not None and agent.add(observation, self._clock())
        if event.ready:
            await self._sources.mark_ready(agent, "hook", f"{event.name}: the agent accepts input")
        if observation is None or not added:
            return
        session = self._store.sessions.get(agent.session_id)
        if observation.turn is not None:
            agent.expects_turn = False
        await self._recorder.record_fault(agent.session_id, observation)
        if session is not None and observation.opens:
            prompt = "" if event.accepted is None else event.accepted.text
            await self._recorder.reopen(session, "hook", iso(observation.at), prompt)
        await self._decide(agent)
        await self._keep_end(agent, observation)

    async def _keep_end(self, agent: Agent, observation: Observation) -> None:
        """Store the end of a turn that the status does not follow yet: the agent will not report the end again.

        The next turn makes the stored end void.
        """
        if observation.who:
            return
        session = self._store.sessions.get(agent.session_id)
        if observation.activity is Activity.BUSY and agent.kept_end_s is not None:
            ended_at, agent.kept_end_s = iso(agent.kept_end_s), None
            if session is not None and is_later(ended_at, session.turn_ended_at, self._store.now()):
                await self._recorder.forget_end(agent.session_id)
        elif session is not None and is_unread_end(session, observation, self._store.now()):
            await self._recorder.keep_end(ReportedEnd(session.id, session.runs, observation, agent.work))
            agent.kept_end_s = observation.at

    # Sweeps

    async def _sweep(self) -> None:
        """Check the files of all agents at once: inotify does not report every change."""
        states_s, transcripts_s = time.monotonic(), time.monotonic()
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._transcripts_every_s()))
            try:
                if time.monotonic() - states_s >= _SWEEP_EVERY_S:
                    states_s = time.monotonic()
                    await self._sweep_states()
                    await self._sweep_processes()
                if time.monotonic() - transcripts_s >= self._transcripts_every_s():
                    transcripts_s = time.monotonic()
                    await self._sweep_transcripts()
            except Exception:
                log.exception("failed to sweep state files")

    async def _sweep_transcripts(self) -> None:
        files = {}
        for session_id, agent in self._agents.items():
            session = self._store.sessions.get(session_id)
            path = None if session is None else agent.transcript(session)
            below = agent.transcript_root()
            if path is not None and below is not None:
                files[session_id] = (path, below)
        for session_id in await self._usage.find_grown(files):
            if (grown := self._agents.get(session_id)) is not None:
                grown.poke(transcript=True)

    async def _sweep_states(self) -> None:
        files = {s: agent.state_file for s, agent in self._agents.items() if agent.state_file is not None}
        changed: dict[str, int] = {}
        for some in await self._threads.run_each(
            files, lambda some: changes({s: files[s] for s in some}), _SWEPT_WITHIN_S
        ):
            changed |= some
        for session_id, changed_ns in changed.items():
            agent = self._agents.get(session_id)
            if agent is None:
                continue
            if changed_ns == agent.state_changed_ns:
                agent.ledger.mark_read(Source.STATE_FILE, self._clock())
            else:
                agent.poke(state=True)

    async def _sweep_processes(self) -> None:
        """Find agents that read no input: a stopped process prints nothing, and no event reports a working one."""
        for session_id in await self._sources.find_input_losses(self._agents):
            if (agent := self._agents.get(session_id)) is not None:
                agent.poke(screen_s=self._clock())

    # The loop of one session

    async def _follow(self, agent: Agent) -> None:
        while True:
            agent.poked.clear()
            pause_s: float | None = _SWEEP_EVERY_S
            try:
                async with agent.lock:
                    await self._sources.prepare(agent)
                    await self._sources.read_due(agent)
                    await self.links.check_ready(agent)
                    pause_s = await self._decide(agent)
                    await self.first_turns.store(agent)
                    await self._listeners.observed(agent)
            except SmError as error:
                log.warning(
                    "could not observe an agent: %s", error.message, extra={"sm_session": agent.session_id}
                )
            except Exception:
                log.exception("failed to observe an agent", extra={"sm_session": agent.session_id})
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await agent.poked.wait()
                    continue
            agent.state_due = True  # an unchanged source must be seen again
            if agent.ready and not agent.ledger.entries.keys() & {Source.STATE_FILE, Source.PROTOCOL}:
                agent.poke(screen_s=self._clock())

    async def _decide(self, agent: Agent) -> float | None:
        """Make the session's status follow the verdict. Returns the seconds until the next read."""
        session = self._store.sessions.get(agent.session_id)
        now = self._clock()
        verdict = agent.ledger.verdict(now)
        if session is None or verdict is None or not agent.ready:
            return agent.pause_s(now, None)
        if verdict.observation.activity is Activity.BUSY:
            self._files.leave_terminal(session.id)
        elif agent.tty is not None:  # a person may open a dialog at the prompt
            self._files.listen_to_terminal(
                agent.tty, session.id, lambda: agent.read_drawing(self._clock() + _DRAWN_WITHIN_S)
            )
        if (wait_s := outdated_s(session, verdict.observation, now)) > 0:
            return agent.pause_s(now, min(wait_s, agent.ledger.next_look(now) or wait_s))
        if is_live(session.status):
            await self._recorder.follow(
                session, verdict, agent.work, agent.ledger.failure, agent.ledger.finish
            )
        elif not agent.hook_seen and verdict.observation.source in (Source.STATE_FILE, Source.TRANSCRIPT):
            # Without hooks no event reports a new prompt; but the agent was idle, and works again.
            since = agent.ledger.entries[verdict.observation.source].since
            if verdict.observation.activity is Activity.BUSY:
                await self._recorder.reopen(session, verdict.observation.source, iso(since))
        if verdict.observation.activity is not Activity.BUSY:
            agent.activity = None
        return agent.pause_s(now, agent.ledger.next_look(now))

    # Events of the terminals

    def _titles(self, changed: Mapping[str, str]) -> None:
        now = self._clock()
        for session_id, glyph in changed.items():
            agent = self._agents.get(session_id)
            if agent is None or agent.readers.screen is None:
                continue
            observation = agent.readers.screen.title(glyph, now)
            if observation is None:
                agent.ledger.forget(Source.TITLE)
            else:
                agent.add(observation, self._clock())
            agent.poke()

    def read_screens(self, session_ids: Collection[str]) -> None:
        """Read the screens of agents whose terminals printed."""
        now = self._clock()
        for session_id in session_ids:
            agent = self._agents.get(session_id)
            if agent is None or not agent.ready or Source.PROTOCOL in agent.ledger.entries:
                continue
            believed = agent.ledger.verdict(now)
            published = Source.STATE_FILE in agent.ledger.entries
            if not published or (believed is not None and believed.observation.activity is Activity.IDLE):
                agent.poke(screen_s=now)
