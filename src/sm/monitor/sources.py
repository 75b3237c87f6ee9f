"""Reads an agent's sources with its provider's `Readers`: published state, transcripts, screen."""

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sm.core.observation import Activity, Observation, Source
from sm.core.timestamps import iso
from sm.errors import TerminalError
from sm.monitor.agent import Agent
from sm.monitor.files import FileEvents, content
from sm.monitor.listeners import AgentListeners
from sm.monitor.recorder import Recorder
from sm.monitor.usage import UsageMeter
from sm.providers.readers import FIRST_TURN_S
from sm.store import Store
from sm.terminals.base import Screen

_LOOK_AGAIN_S = 1.0


@dataclass(eq=False)
class Sources:
    """Whoever calls has the lock of the `Agent`, but for `published`."""

    _store: Store
    _terminals: Screen
    _usage: UsageMeter
    _files: FileEvents
    _recorder: Recorder
    _listeners: AgentListeners
    _off: Collection[Source]
    """Sources not to believe."""
    _clock: Callable[[], float]

    async def prepare(self, agent: Agent) -> None:
        """Find out once where the agent's files are."""
        if agent.environment is None:
            launch = await self._store.launch(agent.session_id)
            session = self._store.sessions[agent.session_id]
            # A restored one goes on with what was said, and waits for more.
            agent.expects_turn = launch.has_prompt and session.runs == 1
            agent.environment = launch.environment
            agent.real_dir = await asyncio.to_thread(os.path.realpath, session.working_dir)
        state = agent.readers.state
        if state is not None and agent.state_file is None and agent.process is not None:
            agent.state_file = state.path(agent.environment, agent.process.pid)
            self._files.listen(agent.state_file, agent.session_id, lambda: agent.poke(state=True))

    async def what_is_due(self, agent: Agent) -> None:
        now = self._clock()
        if agent.state_due:
            agent.state_due = False
            await self._state(agent)
        if agent.transcript_due:
            agent.transcript_due = False
            await self.transcript(agent)
        if agent.screen_due_s is not None and now >= agent.screen_due_s:
            agent.screen_due_s = None
            await self._screen(agent)
        agent.look_while_it_starts(now)

    async def ready(self, agent: Agent, source: str, reason: str) -> None:
        """It takes input, says the source."""
        if not agent.ready:  # it may show why it will answer no prompt: nobody is to take it for ready
            await self._screen(agent)
        agent.ready = True
        await self._recorder.started(agent.session_id, source, reason)

    async def published(self, agent: Agent) -> Observation | None:
        """What it publishes at this moment, of which no note is taken; None: nothing, or not to be believed."""
        file = None if Source.STATE_FILE in self._off else agent.state_file
        reader = agent.readers.state
        if reader is None or file is None or agent.process is None:
            return None
        _, text = await asyncio.to_thread(content, file)
        return None if text is None else reader.state(text, agent.process)

    async def _state(self, agent: Agent) -> None:
        reader = agent.readers.state
        if reader is None or agent.state_file is None or agent.process is None:
            return
        self._files.listen(agent.state_file, agent.session_id, lambda: agent.poke(state=True))
        agent.state_changed_ns, text = await asyncio.to_thread(content, agent.state_file)
        if text is None:
            agent.ledger.forget(Source.STATE_FILE)
            return
        said = reader.state(text, agent.process)
        if said is None:
            return
        before = agent.ledger.entries.get(Source.STATE_FILE)
        # Where no hook tells of it (they may be switched off), the transcript has something new now.
        agent.transcript_due |= before is None or before.said.activity is not said.activity
        agent.add(said, self._clock())
        agent.ledger.seen(Source.STATE_FILE, self._clock())
        conversation = reader.conversation(text, agent.process)
        if conversation is not None:
            await self._recorder.learn(agent.session_id, conversation, None, None)
        # One that has a prompt publishes that it is idle until it takes that: its hook says more.
        fresh = self._clock() - agent.started_s < FIRST_TURN_S
        awaited = agent.expects_turn and said.activity is Activity.IDLE and fresh
        if not (agent.ready or awaited or Source.STATE_FILE in self._off):
            await self.ready(agent, Source.STATE_FILE, "it publishes its state")

    async def transcript(self, agent: Agent) -> None:
        """What its transcript, and those of its sub-agents, have that was not read before."""
        session = self._store.sessions.get(agent.session_id)
        if session is None:
            return
        path, reader = agent.transcript(session), agent.readers.transcripts
        if path is None or reader is None or agent.environment is None:
            return
        self._files.listen(path, session.id, lambda: agent.poke(transcript=True))
        below = reader.root(agent.environment)
        # A fork has all lines of its original, and a person may go on with any old conversation (`/resume`).
        since = "" if session.token_hash is None else session.created_at  # an adopted one brings its own
        said = await self._usage.read(
            session,
            path,
            reader,
            lambda delta: self._listeners.transcript(agent, delta),
            below=below,
            since=since,
        )
        for each in said:
            agent.add(each, self._clock())

    async def _screen(self, agent: Agent) -> None:
        session, reader = self._store.sessions.get(agent.session_id), agent.readers.screen
        if session is None or reader is None:
            return
        try:
            lines = await self._terminals.visible(session.terminal)
        except TerminalError:
            return
        now = self._clock()
        if not agent.ready:
            problem = reader.start_problem(lines, session.working_dir)
            if problem is not None:
                await self._recorder.stuck(session, f"{problem.message}; hint: {problem.hint}", iso(now))
            return
        said = reader.screen(lines, now)
        if said is None:
            agent.ledger.forget(Source.SCREEN)
            agent.half_drawn(now)
            return
        agent.unread = 0
        agent.add(said, self._clock())
        if said.activity is Activity.BLOCKED:  # nobody tells when a dialog that a person has opened is closed
            agent.poke(screen_s=now + _LOOK_AGAIN_S)
