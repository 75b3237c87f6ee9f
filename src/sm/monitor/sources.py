"""Reads what agents leave to be read, with its provider's `Readers`: published states, transcripts, screens."""

import asyncio
import os
from collections.abc import Callable, Collection

from sm.core.observation import Activity, Observation, Source
from sm.core.timestamps import iso
from sm.errors import TerminalError
from sm.monitor.agent import Observed
from sm.monitor.files import Listening, content
from sm.monitor.listeners import News, tell_of_lines
from sm.monitor.recorder import Concluding
from sm.monitor.usage import Measuring
from sm.providers.readers import FIRST_TURN_S
from sm.store import Store
from sm.terminals.base import Terminals

_LOOK_AGAIN_S = 1.0


class Reading:
    """Whoever calls has the lock of the `Observed`, but for `published`. `off`: sources not to believe."""

    def __init__(
        self,
        store: Store,
        terminals: Terminals,
        measuring: Measuring,
        listening: Listening,
        concluding: Concluding,
        news: News,
        *,
        off: Collection[Source],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._terminals = terminals
        self._measuring = measuring
        self._listening = listening
        self._concluding = concluding
        self._news = news
        self._off = off
        self._clock = clock

    async def prepare(self, observed: Observed) -> None:
        """Find out once where the agent's files are."""
        if observed.environment is None:
            launch = await self._store.launch(observed.session_id)
            session = self._store.sessions[observed.session_id]
            # A restored one goes on with what was said, and waits for more.
            observed.expects_turn = launch.has_prompt and session.openings == 1
            observed.environment = launch.environment
            observed.real_dir = await asyncio.to_thread(os.path.realpath, session.working_dir)
        state = observed.readers.state
        if state is not None and observed.state_file is None and observed.process is not None:
            observed.state_file = state.path(observed.environment, observed.process.pid)
            self._listening.listen(
                observed.state_file, observed.session_id, lambda: observed.poke(state=True)
            )

    async def what_is_due(self, observed: Observed) -> None:
        now = self._clock()
        if observed.state_due:
            observed.state_due = False
            await self._state(observed)
        if observed.transcript_due:
            observed.transcript_due = False
            await self.transcript(observed)
        if observed.screen_due_s is not None and now >= observed.screen_due_s:
            observed.screen_due_s = None
            await self._screen(observed)
        observed.look_while_it_starts(now)

    async def ready(self, observed: Observed, source: str, reason: str) -> None:
        """It takes input, says the source."""
        if not observed.ready:  # it may show why it will answer no prompt: nobody is to take it for ready
            await self._screen(observed)
        observed.ready = True
        await self._concluding.started(observed.session_id, source, reason)

    async def published(self, observed: Observed) -> Observation | None:
        """What it publishes at this moment, of which no note is taken; None: nothing, or not to be believed."""
        file = None if Source.STATE_FILE in self._off else observed.state_file
        reader = observed.readers.state
        if reader is None or file is None or observed.process is None:
            return None
        _, text = await asyncio.to_thread(content, file)
        return None if text is None else reader.state(text, observed.process)

    async def _state(self, observed: Observed) -> None:
        reader = observed.readers.state
        if reader is None or observed.state_file is None or observed.process is None:
            return
        self._listening.listen(observed.state_file, observed.session_id, lambda: observed.poke(state=True))
        observed.state_changed_ns, text = await asyncio.to_thread(content, observed.state_file)
        if text is None:
            observed.ledger.forget(Source.STATE_FILE)
            return
        said = reader.state(text, observed.process)
        if said is None:
            return
        before = observed.ledger.entries.get(Source.STATE_FILE)
        # Where no hook tells of it (they may be switched off), the transcript has something new now.
        observed.transcript_due |= before is None or before.said.activity is not said.activity
        observed.add(said, self._clock())
        observed.ledger.seen(Source.STATE_FILE, self._clock())
        conversation = reader.conversation(text, observed.process)
        if conversation is not None:
            await self._concluding.learn(observed.session_id, conversation, None, None)
        # One that has a prompt publishes that it is idle until it takes that: its hook says more.
        fresh = self._clock() - observed.started_s < FIRST_TURN_S
        awaited = observed.expects_turn and said.activity is Activity.IDLE and fresh
        if not (observed.ready or awaited or Source.STATE_FILE in self._off):
            await self.ready(observed, Source.STATE_FILE, "it publishes its state")

    async def transcript(self, observed: Observed) -> None:
        """What its transcript, and those of its sub-agents, have that was not read before."""
        session = self._store.sessions.get(observed.session_id)
        if session is None:
            return
        path, reader = observed.transcript(session), observed.readers.transcripts
        if path is None or reader is None or observed.environment is None:
            return
        self._listening.listen(path, session.id, lambda: observed.poke(transcript=True))
        below = reader.root(observed.environment)
        # A fork has all lines of its original, and a person may go on with any old conversation (`/resume`).
        since = "" if session.token_hash is None else session.created_at  # an adopted one brings its own
        said = await self._measuring.read(
            session,
            path,
            reader,
            lambda lines: tell_of_lines(self._news, observed, lines, self._clock),
            below=below,
            since=since,
        )
        for each in said:
            observed.add(each, self._clock())

    async def _screen(self, observed: Observed) -> None:
        session, reader = self._store.sessions.get(observed.session_id), observed.readers.screen
        if session is None or reader is None:
            return
        try:
            lines = await self._terminals.visible(session.terminal)
        except TerminalError:
            return
        now = self._clock()
        if not observed.ready:
            problem = reader.start_problem(lines, session.working_dir)
            if problem is not None:
                await self._concluding.stuck(session, f"{problem.message}; hint: {problem.hint}", iso(now))
            return
        said = reader.screen(lines, now)
        if said is None:
            observed.ledger.forget(Source.SCREEN)
            observed.half_drawn(now)
            return
        observed.unread = 0
        observed.add(said, self._clock())
        if said.activity is Activity.BLOCKED:  # nobody tells when a dialog that a person has opened is closed
            observed.poke(screen_s=now + _LOOK_AGAIN_S)
