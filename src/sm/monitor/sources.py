"""Reads an agent's sources with its provider's `Readers`: published state, transcripts, screen."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type
from sm.core.lifecycle import is_live
from sm.core.models import Process, Session
from sm.core.observation import Activity, Observation, Source
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.errors import TerminalError
from sm.linux.file_threads import FileThreads
from sm.linux.jobs import InputLoss, NoInput, input_loss
from sm.linux.processes import namespace_pid
from sm.monitor.agent import Agent
from sm.monitor.files import FileEvents, content
from sm.monitor.listeners import AgentListeners
from sm.monitor.recorder import Recorder, is_unread_end
from sm.monitor.transcripts import Root, read_last
from sm.monitor.usage import UsageMeter
from sm.providers.readers import FIRST_TURN_S, StartProblem, TranscriptReader
from sm.sandboxes.home import ContainerHome, HomeOf
from sm.sessions.conversations import is_unbegun
from sm.sessions.interrupt import explain_input_loss
from sm.store import Store, Transaction
from sm.terminals.base import Screen

_LOOK_AGAIN_S = 1.0
_ANSWERS_WITHIN_S = 5.0
_TURN_LINES = 200
_TURN_MAX_BYTES = 512 * 1024
"""How much of a transcript to search for the end of its last turn. What follows an end is short."""
_WORDS_MAX = 200
"""docs/protocol.md: a reason quotes at most this many characters of an agent."""
_LOST_FOR_S = 2.0
"""How long an agent must not have read its terminal: tmux continues a stopped agent, and an agent may be ending."""


@dataclass(eq=False)
class Sources:
    """Reads sources into ledgers. Callers hold the lock of the `Agent`, except for `read_state_file`."""

    _store: Store
    _terminals: Screen
    _usage: UsageMeter
    _files: FileEvents
    _recorder: Recorder
    _listeners: AgentListeners
    _off: Collection[Source]
    """Sources not to believe."""
    _home_of: HomeOf
    _clock: Callable[[], float]
    _threads: FileThreads

    async def prepare(self, agent: Agent) -> None:
        """Find the paths of the agent's files, once."""
        if agent.environment is None:
            launch = await self._store.launch(agent.session_id)
            session = self._store.sessions[agent.session_id]
            agent.home = self._home_of(session)
            # A restored agent resumes its conversation and waits for input, unless its conversation had not begun.
            agent.expects_turn = launch.has_prompt and (
                session.runs == 1
                or await is_unbegun(session, launch, agent.readers, self._store, agent.home, self._threads)
            )
            agent.has_own_tools = launch.has_own_tools
            agent.fork = agent.fork_in(launch.argv)
            agent.begins = () if agent.fork is not None else launch.argv
            agent.environment = launch.environment
            agent.real_dir = session.working_dir
            if agent.home is None:
                agent.real_dir = await self._real_dir(session.working_dir)
            await self._recall_end(agent, session)
        state = agent.readers.state
        if state is not None and agent.state_file is None and agent.process is not None:
            agent.published = await asyncio.to_thread(_published, agent.process, agent.home)
            path = state.path(agent.environment, agent.published.pid)
            agent.state_file = path if agent.home is None else agent.home.host_path(path)
            if agent.state_file is not None:
                self._files.listen(agent.state_file, agent.session_id, lambda: agent.poke(state=True))

    async def _real_dir(self, path: str) -> str:
        """The path without links; unchanged if its file system does not answer."""
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                return await self._threads.run(path, os.path.realpath, path)
        except TimeoutError:
            return path

    async def _recall_end(self, agent: Agent, session: Session) -> None:
        """Add the end of a turn that an earlier daemon stored, if the status does not follow it yet."""
        end = await self._store.turn_ends.find(session.id)
        if end is None or end.runs != session.runs:
            return
        if is_unread_end(session, end.observation, iso(self._clock())):
            agent.work, agent.kept_end_s = end.work, end.observation.at
            agent.add(end.observation, self._clock())

    async def read_due(self, agent: Agent) -> None:
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
        agent.plan_startup_read(now)

    async def mark_ready(self, agent: Agent, source: str, reason: str) -> None:
        if (
            not agent.ready
        ):  # the screen may show a problem that must be recorded before the agent counts as ready
            await self._screen(agent)
        agent.ready = True
        await self._listeners.setup_dialog(agent.session_id, None)
        await self._recorder.record_start(agent.session_id, source, reason)

    async def read_state_file(self, agent: Agent) -> Observation | None:
        """The state file's observation at this moment, not recorded. None without a file, or if the source is off."""
        file = None if Source.STATE_FILE in self._off else agent.state_file
        reader = agent.readers.state
        if reader is None or file is None or agent.published is None:
            return None
        _, text = await self._threads.run(file, content, file, agent.home)
        return None if text is None else reader.state(text, agent.published)

    async def _state(self, agent: Agent) -> None:
        reader = agent.readers.state
        if reader is None or agent.state_file is None or agent.published is None:
            return
        self._files.listen(agent.state_file, agent.session_id, lambda: agent.poke(state=True))
        agent.state_changed_ns, text = await self._threads.run(
            agent.state_file, content, agent.state_file, agent.home
        )
        if text is None:
            agent.ledger.forget(Source.STATE_FILE)
            return
        observation = reader.state(text, agent.published)
        if observation is None:
            return
        before = agent.ledger.entries.get(Source.STATE_FILE)
        # Hooks may be switched off: then only this change shows that the transcript has grown.
        agent.transcript_due |= before is None or before.observation.activity is not observation.activity
        agent.add(observation, self._clock())
        agent.ledger.mark_read(Source.STATE_FILE, self._clock())
        if observation.activity is Activity.BUSY:
            await self._listeners.work_shown(agent.session_id, observation.at)
        conversation = reader.conversation(text, agent.published)
        if conversation is not None:
            await self._recorder.learn(agent.session_id, conversation, None, None)
        awaited = awaits_prompt(agent, observation, self._clock())
        if not (agent.ready or awaited or Source.STATE_FILE in self._off):
            await self.mark_ready(agent, Source.STATE_FILE, "the agent publishes its status")

    async def transcript(self, agent: Agent) -> None:
        """Read the new lines of the transcripts of the agent and its sub-agents."""
        session = self._store.sessions.get(agent.session_id)
        if session is None:
            return
        path, reader, below = agent.transcript(session), agent.readers.transcripts, agent.transcript_root()
        if path is None or reader is None or below is None:
            return
        self._files.listen(path, session.id, lambda: agent.poke(transcript=True))

        async def record(tx: Transaction, observations: Sequence[Observation]) -> None:
            for observation in observations:
                agent.transcript_turn = observation.turn or agent.transcript_turn
            # An earlier failure in these lines is over: a turn began after it.
            last = observations[-1] if observations else None
            if last is not None and last.fault is not None:
                failed = replace(last, turn=agent.transcript_turn)
                await self._recorder.add_fault(tx, session.id, failed)

        observations = await self._usage.read(
            session,
            path,
            reader,
            lambda delta: self._listeners.transcript(agent, delta),
            record,
            below=below,
            since=agent.own_since(session, path),
            fork=agent.fork,
        )
        for observation in observations:
            agent.add(observation, self._clock())
        if agent.may_have_missed_end:
            await self._find_missed_end(agent, path, reader, below)

    async def _find_missed_end(self, agent: Agent, path: str, reader: TranscriptReader, below: Root) -> None:
        """Add the end of the last turn in the transcript if no report of the end has arrived.

        The hook that reported the end may have been lost with the daemon that it reported to.
        """
        lines = await self._threads.run(path, read_last, path, _TURN_LINES, _TURN_MAX_BYTES, below=below)
        last = await asyncio.to_thread(reader.last_turn, lines)
        agent.may_have_missed_end = last is None and not agent.hook_seen
        session, hook = self._store.sessions.get(agent.session_id), agent.ledger.entries.get(Source.HOOK)
        if last is None or session is None or not is_live(session.status):
            return
        told_at = max(session.turn_ended_at or "", session.started_at or "", session.created_at)
        if iso(last.answered_at) <= told_at:
            return
        if hook is not None and hook.observation.at >= last.answered_at and _tells_of_turns(hook.observation):
            return
        agent.work = replace(agent.work, tools_used=max(agent.work.tools_used, last.tools_used))
        agent.add(last.observation, self._clock())

    async def _screen(self, agent: Agent) -> None:
        session, reader = self._store.sessions.get(agent.session_id), agent.readers.screen
        if session is None or reader is None:
            return
        try:
            lines = await self._terminals.capture_visible(session.terminal)
        except TerminalError:
            return
        now = self._clock()
        if not agent.ready:
            problem = reader.start_problem(lines, session.working_dir)
            if problem is None and _shows_no_box(reader.screen(lines, now)):
                problem = unknown_problem(agent, name_to_type(session), lines, now)
            if problem is not None:
                # First: a daemon that ends in between must find the request, or an agent that is still starting.
                dialog = reader.setup_dialog(lines, agent.real_dir or session.working_dir)
                await self._listeners.setup_dialog(session.id, dialog)
                await self._recorder.record_obstacle(
                    session, f"{problem.message}; hint: {problem.hint}", iso(now)
                )
            return
        await self._process(agent)
        observation = reader.screen(lines, now)
        if observation is None:
            agent.ledger.forget(Source.SCREEN)
            agent.retry_screen(now)
            return
        agent.unread = 0
        agent.add(observation, self._clock())
        if (
            observation.activity is Activity.BLOCKED
        ):  # no event reports that a dialog opened by a person was closed
            agent.poke(screen_s=now + _LOOK_AGAIN_S)

    # The process

    async def find_input_losses(self, agents: Mapping[str, Agent]) -> list[str]:
        """The ids of the agents whose process reads no input now, or did not at the last read."""
        ready = [agent for agent in agents.values() if agent.ready]
        known = [agent.session_id for agent in ready if agent.input_loss is not None]
        lost = await asyncio.to_thread(lambda: [a.session_id for a in ready if _input_loss(a) is not None])
        return list(dict.fromkeys([*known, *lost]))

    async def _process(self, agent: Agent) -> None:
        """Ask the kernel whether the agent reads its terminal."""
        loss, now = await asyncio.to_thread(_input_loss, agent), self._clock()
        if loss != agent.input_loss:
            agent.input_loss, agent.input_lost_s = loss, now - _LOST_FOR_S if agent.lost_before else now
            agent.lost_before = False
            agent.ledger.forget(Source.PROCESS)
        if loss is None or agent.ends:
            return
        if now - agent.input_lost_s < _LOST_FOR_S:
            agent.poke(screen_s=agent.input_lost_s + _LOST_FOR_S)
            return
        agent.poke(screen_s=now + _LOOK_AGAIN_S)  # no event reports the end of the loss
        if Source.PROCESS in agent.ledger.entries:
            agent.ledger.mark_read(Source.PROCESS, now)
            return
        session = self._store.sessions.get(agent.session_id)
        name = agent.session_id if session is None else name_to_type(session)
        reason = "; hint: ".join(explain_input_loss(name, loss))
        final = loss.kind is not NoInput.LINE_MODE  # then the agent works on, but reads no input
        agent.add(Observation(Source.PROCESS, Activity.BLOCKED, now, reason, final=final), now)


def _tells_of_turns(observation: Observation) -> bool:
    """True for the end of a turn, and for activity in one."""
    return observation.activity is not Activity.IDLE or observation.answer is not None


def _shows_no_box(observation: Observation | None) -> bool:
    return observation is None or observation.activity is Activity.BLOCKED


def awaits_prompt(agent: Agent, observation: Observation, now: float) -> bool:
    """True while an agent that was started with a prompt publishes idle because it has not accepted the prompt.

    Its hook is more reliable. The time counts from its status: on a busy machine, the start alone may take longer.
    """
    is_fresh = now - max(agent.started_s, observation.at) < FIRST_TURN_S
    return agent.expects_turn and observation.activity is Activity.IDLE and is_fresh


def unknown_problem(agent: Agent, name: str, lines: Sequence[str], now: float) -> StartProblem | None:
    """A problem that the provider does not know, in the words on the screen. A list of known ones is never complete.

    `name`: the word for the session in a command.
    """
    words = folded(" / ".join(filter(None, map(_words, lines))), _WORDS_MAX)
    if not agent.is_stuck_at_start(words, now):
        return None
    return StartProblem(
        f"it does not start, and its screen shows: {words}",
        f"answer in its terminal: sm attach {name}",
    )


def _words(line: str) -> str:
    """The text in a line of the screen, without frames and pointers, or empty without a letter or digit."""
    begin = next((number for number, char in enumerate(line) if char.isalnum() or char in "/~"), len(line))
    text = line[begin:].rstrip(" ─│╮╯┐┘")
    return " ".join(text.split()) if any(map(str.isalnum, text)) else ""


def _published(process: Process, home: ContainerHome | None) -> Process:
    """The process with the pid that it has itself. Blocks: call it in a thread."""
    pid = None if home is None else namespace_pid(process.pid)
    return process if pid is None else replace(process, pid=pid)


def _input_loss(agent: Agent) -> InputLoss | None:
    """Blocks: call it in a thread."""
    # A wrapper's child is the agent itself. Only the agent publishes its state under its own pid.
    published = Source.STATE_FILE in agent.ledger.entries
    if agent.process is None:
        return None
    return input_loss(agent.process, reads_terminal=published)
