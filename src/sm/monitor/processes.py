"""Watches every agent process and terminal, and reports their ends to `ProcessEnds`."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_live
from sm.core.models import Exit, Process
from sm.core.states import TrustLevel
from sm.errors import NoServer, NoTerminal, SandboxUnreachable, SmError, StorageFull, TerminalError
from sm.linux.process_endings import ProcessWatch
from sm.linux.processes import identify, is_alive
from sm.linux.ttys import tty_of
from sm.monitor.observer import Observer
from sm.providers.base import Provider
from sm.sandboxes.base import ProcessEnding, Sandbox
from sm.sessions.process_ends import ProcessEnds
from sm.state.losses import CONTAINER_GONE, CUT_OFF, ENGINE_GONE, SERVER_GONE, TERMINAL_CLOSED, LossCause
from sm.state.session_steps import is_end_ordered
from sm.store import Store
from sm.terminals.base import Pane, Terminals

log = logging.getLogger(__name__)

_SWEEP_EVERY_S = 15.0
_FINISH_WITHIN_S = 3.0
_LAST_LINES = 50
_BOTH_END_WITHIN_S = 2.0
"""How long the process of a sandboxed session's terminal may end before its agent does, or after it."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 15.0
_ENGINE_PAUSE_S = 5.0
"""The longest pause after an engine did not answer: with the time of the answer less than a kill waits."""


class WatchedPanes:
    """Knows the pane of the newest process of each watched session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._panes: dict[str, Pane | None] = {}

    def put(self, session_id: str, pane: Pane | None) -> None:
        self._panes[session_id] = pane

    def remove(self, session_id: str) -> None:
        self._panes.pop(session_id, None)

    def tty_owner(self, tty: str) -> str | None:
        """The session that owns the pane of this terminal, without a query to tmux.

        The kernel reuses the numbers of closed terminals, so only a live process owns one. A `foreign` pane belongs to
        the person who runs the agent in a shell.
        """
        panes = self._panes.items()
        owners = (s for s, pane in panes if pane is not None and pane.tty == tty and not pane.foreign)
        return next((s for s in owners if self._lives_on(s, tty)), None)

    def _lives_on(self, session_id: str, tty: str) -> bool:
        session = self._store.sessions.get(session_id)
        process = None if session is None else session.process
        return process is not None and is_alive(process) and tty_of(process.pid) == tty


@dataclass(frozen=True, slots=True)
class _AgentProcess:
    """One process of a session. Each restore starts another one."""

    session_id: str
    process: Process | None
    """None if the process ended before it was seen."""
    pane: Pane | None


class Watcher:
    """Watches each agent process with a pidfd, and polls all terminals with one query now and then."""

    def __init__(
        self,
        store: Store,
        providers: Mapping[str, Provider],
        ends: ProcessEnds,
        terminals: Terminals,
        observer: Observer,
        sandbox: Sandbox,
        panes: WatchedPanes,
    ) -> None:
        self._panes = panes
        self._store = store
        self._providers = providers
        self._ends = ends
        self._terminals = terminals
        self._sandbox = sandbox
        self._processes = ProcessWatch()
        self._watched: dict[str, _AgentProcess] = {}
        """The newest process of each session."""
        self._gone: asyncio.Queue[_AgentProcess] = asyncio.Queue()
        self._terminal_gone: asyncio.Queue[_AgentProcess] = asyncio.Queue()
        """Sandboxed agents whose terminal has ended, perhaps before them."""
        self._losses: dict[Process, tuple[LossCause, str]] = {}
        """Agents that are ended because their terminal is lost."""
        self.activity: dict[str, int] = {}
        """The time of the last output of each terminal, in seconds since the epoch."""
        self.unverified: set[str] = set()
        """Sessions whose process is gone or unknown while the terminal server or the engine does not answer."""
        self.engine_silent: set[str] = set()
        """The unverified sessions whose engine does not answer."""
        self._observer = observer
        terminals.on_activity(self._printed)

    def _printed(self, moved: Mapping[str, int]) -> None:
        self.activity.update(moved)
        self._observer.read_screens(moved)

    def watch(self, session_id: str, process: Process | None, pane: Pane | None) -> None:
        """Record when `process` ends; immediately if it has ended already (None if it ended unseen)."""
        watched = self._keep(session_id, process, pane)
        self.unverified.discard(session_id)
        self.engine_silent.discard(session_id)
        if pane is not None:
            self.activity.setdefault(session_id, pane.activity_s)
        if process is None:
            self._gone.put_nowait(watched)
            return
        self._observer.watch(session_id, process, None if pane is None else pane.tty)
        self._processes.watch(process, lambda: self._gone.put_nowait(watched))
        session = self._store.sessions.get(session_id)
        if session is not None and session.effective_mode is TrustLevel.SANDBOXED:
            self._watch_terminal(watched)

    def _watch_terminal(self, watched: _AgentProcess) -> None:
        """Watch the process of a sandboxed agent's terminal, which connects the terminal with the agent."""
        connection = None if watched.pane is None else identify(watched.pane.pid)
        if connection is None:
            self._terminal_gone.put_nowait(watched)
        elif connection != watched.process:
            self._processes.watch(connection, lambda: self._terminal_gone.put_nowait(watched))

    async def finish(self, session_id: str, process: Process | None, pane: Pane) -> None:
        """Report how an ended process ended. Returns when that is recorded, at the latest after `_FINISH_WITHIN_S`.

        After the timeout `run` retries, and the session is `unverified` until then.
        """
        watched = self._keep(session_id, process, pane)
        unread = await self._observer.read_to_end(session_id)
        try:
            async with asyncio.timeout(_FINISH_WITHIN_S):
                await self._finish_end(watched, unread)
        except (TerminalError, SandboxUnreachable, StorageFull, TimeoutError):
            self.unverified.add(session_id)
            self._gone.put_nowait(watched)
        else:
            self._forget(watched)

    def _keep(self, session_id: str, process: Process | None, pane: Pane | None) -> _AgentProcess:
        watched = self._watched[session_id] = _AgentProcess(session_id, process, pane)
        self._panes.put(session_id, pane)
        return watched

    def _is_newest(self, watched: _AgentProcess) -> bool:
        newest = self._watched.get(watched.session_id)
        return newest is not None and newest.process == watched.process

    def _forget(self, watched: _AgentProcess) -> None:
        """Drop a process whose end is recorded, unless the session has a newer one."""
        if self._is_newest(watched):
            self._watched.pop(watched.session_id)
            self._panes.remove(watched.session_id)
            if watched.process is not None:
                self._losses.pop(watched.process, None)
            self.activity.pop(watched.session_id, None)
            self.unverified.discard(watched.session_id)
            self.engine_silent.discard(watched.session_id)
            self._observer.forget(watched.session_id)
            if (session := self._store.sessions.get(watched.session_id)) is not None:
                self._sandbox.ended(session)

    async def lost(self, session_id: str, process: Process | None, cause: LossCause, reason: str) -> None:
        """Record the loss of a terminal and its process while no daemon ran."""
        unread = await self._observer.read_to_end(session_id)
        await self._ends.terminal_lost(session_id, process, cause, reason, process_gone=True, unread=unread)
        self._observer.forget(session_id)

    async def run(self, recovery: Coroutine[None, None, None] | None = None) -> None:
        """Never returns. `recovery`: checks the sessions of an earlier daemon."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sweep())
                group.create_task(self._end_cut_off(group))
                if recovery is not None:
                    group.create_task(recovery)
                while True:
                    group.create_task(self._report_end(await self._gone.get()))
        finally:
            self._processes.close()

    async def _end_cut_off(self, group: asyncio.TaskGroup) -> None:
        """End sandboxed agents that lost their terminal: nobody can see them or write to them. Never returns."""
        while True:
            group.create_task(self._end_if_cut_off(await self._terminal_gone.get()))

    async def _end_if_cut_off(self, watched: _AgentProcess) -> None:
        await asyncio.sleep(_BOTH_END_WITHIN_S)  # usually the agent itself has ended
        session, process = self._store.sessions.get(watched.session_id), watched.process
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while session is not None and process is not None and self._is_newest(watched) and is_alive(process):
            try:
                self._losses[process] = await self._why_lost(watched)
                await self._sandbox.end(session, process, force=False)
                return
            except SmError as error:
                log.warning(
                    "could not end an agent without a terminal: %s",
                    error.message,
                    extra={"sm_session": watched.session_id},
                )
            await asyncio.sleep(backoff.next_s())

    async def _why_lost(self, watched: _AgentProcess) -> tuple[LossCause, str]:
        try:
            if watched.pane is None:
                return TERMINAL_CLOSED
            await self._terminals.exit_status(watched.pane)
        except NoTerminal:
            return TERMINAL_CLOSED
        except NoServer:
            return SERVER_GONE
        return CUT_OFF

    async def _report_end(self, watched: _AgentProcess) -> None:
        """Record the end of a process, with retries until that succeeds."""
        session_id, backoff = watched.session_id, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        unread = await self._observer.read_to_end(session_id) if self._is_newest(watched) else None
        while self._is_newest(watched):
            longest_s = _LONGEST_PAUSE_S
            try:
                await self._finish_end(watched, unread)
                break
            except (TerminalError, SandboxUnreachable, StorageFull) as error:
                if isinstance(error, SandboxUnreachable):
                    self.engine_silent.add(session_id)
                    longest_s = _ENGINE_PAUSE_S
                log.warning(
                    "could not record the end of a process: %s",
                    error.message,
                    extra={"sm_session": session_id},
                )
            except Exception:
                log.exception("failed to record the end of a process", extra={"sm_session": session_id})
            self.unverified.add(session_id)
            await asyncio.sleep(min(backoff.next_s(), longest_s))
        self._forget(watched)

    async def _finish_end(self, watched: _AgentProcess, unread: str | None) -> None:
        """Record the end. `unread`: why the last lines of the transcript are unread."""
        session_id, process, pane = watched.session_id, watched.process, watched.pane
        lost = None if process is None else self._losses.get(process)
        try:
            if pane is None:
                raise NoTerminal("the terminal was closed")
            if lost is None:
                ending = await self._ending(session_id, pane)
                screen = await self._last_screen(session_id, pane)
        except (NoTerminal, NoServer) as error:
            lost = lost or (SERVER_GONE if isinstance(error, NoServer) else TERMINAL_CLOSED)
        if lost is not None:
            cause, reason = lost
            await self._ends.terminal_lost(
                session_id, process, cause, reason, process_gone=True, unread=unread
            )
            return
        if ending.cut_off:
            await self._ends.terminal_lost(
                session_id, process, *ENGINE_GONE, process_gone=True, unread=unread
            )
            return
        if ending.place_ended:
            await self._ends.terminal_lost(
                session_id, process, *CONTAINER_GONE, process_gone=True, exit=ending.exit, unread=unread
            )
            return
        await self._ends.process_ended(session_id, process, ending.exit, screen, ending.reason, unread)

    async def _ending(self, session_id: str, pane: Pane) -> ProcessEnding:
        """Return how the process in a terminal ended.

        Raises SandboxUnreachable while the engine of a live session does not answer: the terminal gets the exit when
        the engine answers again. It is not needed when sm ended the process, or the session had ended before it.
        """
        exit = await self._terminals.exit_status(pane)
        session = self._store.sessions.get(session_id)
        if session is None:
            return ProcessEnding(exit)
        is_needed = is_live(session.status) and not is_end_ordered(session_id, self._store.mail.open)
        if exit == Exit() and not is_needed:
            return ProcessEnding(exit)
        try:
            ending = await self._sandbox.ending(session, exit)
            if exit == Exit() and session.effective_mode is TrustLevel.SANDBOXED:
                # The engine may have answered after the look at the terminal.
                ending = await self._sandbox.ending(session, await self._terminals.exit_status(pane))
        except SandboxUnreachable:
            if is_needed:
                raise
            return ProcessEnding(Exit())
        return ending

    async def _last_screen(self, session_id: str, pane: Pane) -> list[str]:
        """The last lines of the terminal; none for a provider whose agents show no reason there."""
        session = self._store.sessions.get(session_id)
        if session is None or self._providers[session.provider].readers.screen is None:
            return []
        return await self._terminals.capture(pane.name, _LAST_LINES)

    async def _sweep(self) -> None:
        """Find closed terminals whose process still runs (it ignored the hang-up)."""
        missing: set[str] = set()
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            try:
                missing = await self._report_lost(missing)
            except SmError as error:
                log.warning("could not check for closed terminals: %s", error.message)

    async def _report_lost(self, missing: set[str]) -> set[str]:
        """Report terminals that are missing for the second time; the first time, one may still be created."""
        sessions = self._store.sessions
        expected = {
            s: watched.process
            for s, watched in self._watched.items()
            if watched.pane is not None and s in sessions and is_live(sessions[s].status)
        }
        cause, reason = TERMINAL_CLOSED
        look = bool(expected) or self._terminals.trouble is not None  # also to notice that tmux answers again
        try:
            gone = expected.keys() - (await self._terminals.snapshot()).keys() if look else set[str]()
        except NoServer:
            gone, (cause, reason) = set(expected), SERVER_GONE
        for session_id in gone & missing:
            process = expected[session_id]
            lives = f", process {process.pid} still runs" if process else ""
            await self._ends.terminal_lost(session_id, process, cause, f"{reason}{lives}", process_gone=False)
        return gone
