"""Watches every agent process and terminal, and tells the manager how they end."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping

from sm.errors import NoServer, NoTerminal, SmError, StorageFull, TerminalError
from sm.hostos import ProcessWatch, is_alive, tty_of
from sm.lifecycle import is_live
from sm.manager import Manager
from sm.models import Process
from sm.observer import Observer
from sm.store import Store
from sm.terminals.base import Pane, Terminals

log = logging.getLogger(__name__)

_SWEEP_EVERY_S = 15.0
_SETTLE_WITHIN_S = 3.0
_LAST_LINES = 50
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 15.0


class Watcher:
    """One pidfd for each agent process (its end), one question now and then about all terminals (theirs)."""

    def __init__(self, store: Store, manager: Manager, terminals: Terminals) -> None:
        self._store = store
        self._manager = manager
        self._terminals = terminals
        self._processes = ProcessWatch()
        self._panes: dict[str, Pane] = {}
        self._gone: asyncio.Queue[str] = asyncio.Queue()
        self._activity: dict[str, int] = {}
        self.unverified: set[str] = set()
        """Sessions whose process is gone, or was not found, while the terminal server does not answer."""
        self._observer: Observer | None = None
        terminals.on_activity(self._printed)

    def observed_by(self, observer: Observer) -> None:
        """Tell it which processes come and go, and which terminals print."""
        self._observer = observer

    def _printed(self, moved: Mapping[str, int]) -> None:
        self._activity.update(moved)
        if self._observer is not None:
            self._observer.printed(moved)

    @property
    def activity(self) -> Mapping[str, int]:
        """When each terminal last printed something, in seconds since the epoch."""
        return self._activity

    def tty_owner(self, tty: str) -> str | None:
        """The session whose own pane this is, as far as is known without asking.

        The kernel gives the number of a closed terminal to the next one, so only a living process owns one.
        """
        found = (session_id for session_id, pane in self._panes.items() if pane.tty == tty)
        return next((s for s in found if self._lives_on(s, tty)), None)

    def _lives_on(self, session_id: str, tty: str) -> bool:
        session = self._store.sessions.get(session_id)
        process = None if session is None else session.process
        return process is not None and is_alive(process) and tty_of(process.pid) == tty

    def watch(self, session_id: str, process: Process, pane: Pane | None) -> None:
        """Tell the manager when `process` ends; at once if it has ended already."""
        if pane is not None:
            self._panes[session_id] = pane
            self._activity.setdefault(session_id, pane.activity_s)
        if self._observer is not None:
            self._observer.watch(session_id, process, None if pane is None else pane.tty)
        self._processes.watch(process, lambda: self._gone.put_nowait(session_id))

    async def settle(self, session_id: str, pane: Pane) -> None:
        """As `watch` for a process that has ended: return when the manager knows how, or after a moment without it.

        In that case it goes on with `run`, and the session is `unverified` until then.
        """
        self._panes[session_id] = pane
        await self.read_last(session_id)
        try:
            async with asyncio.timeout(_SETTLE_WITHIN_S):
                await self._settle_end(session_id)
        except (TerminalError, StorageFull, TimeoutError):
            self.unverified.add(session_id)
            self._gone.put_nowait(session_id)
        else:
            self._panes.pop(session_id, None)
            self.forget(session_id)

    async def read_last(self, session_id: str) -> None:
        """Count what a process wrote that is gone, before anybody is told that it is."""
        if self._observer is not None:
            await self._observer.ended(session_id)

    def forget(self, session_id: str) -> None:
        """Its process is gone, and everybody was told."""
        if self._observer is not None:
            self._observer.forget(session_id)

    async def run(self, recovery: Coroutine[None, None, None] | None = None) -> None:
        """Never returns. `recovery`: what is left to find out about the sessions of the daemon before."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sweep())
                if recovery is not None:
                    group.create_task(recovery)
                while True:
                    group.create_task(self._tell_end(await self._gone.get()))
        finally:
            self._processes.close()

    async def _tell_end(self, session_id: str) -> None:
        """Tell the manager how the session's process ended, however long it takes to find out and to write down."""
        pause_s = _FIRST_PAUSE_S
        await self.read_last(session_id)
        while True:
            try:
                await self._settle_end(session_id)
                break
            except (TerminalError, StorageFull) as error:
                log.warning("could not settle an ending: %s", error.message, extra={"sm_session": session_id})
            except Exception:
                log.exception("failed to settle an ending", extra={"sm_session": session_id})
            self.unverified.add(session_id)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._panes.pop(session_id, None)
        self._activity.pop(session_id, None)
        self.unverified.discard(session_id)
        self.forget(session_id)

    async def _settle_end(self, session_id: str) -> None:
        pane = self._panes.get(session_id)
        try:
            if pane is None:
                raise NoTerminal("its terminal was closed")
            exit = await self._terminals.ending(pane)
            screen = await self._last_words(session_id, pane)
        except NoTerminal:
            await self._manager.terminal_lost(session_id, "its terminal was closed", process_gone=True)
        except NoServer:
            await self._manager.terminal_lost(session_id, "the tmux server is gone", process_gone=True)
        else:
            await self._manager.process_ended(session_id, exit, screen)

    async def _last_words(self, session_id: str, pane: Pane) -> list[str]:
        """What the terminal showed last, where an agent says there why it ended."""
        session = self._store.sessions.get(session_id)
        if session is None or self._manager.provider(session).reader is None:
            return []
        return await self._terminals.capture(pane.name, _LAST_LINES)

    async def _sweep(self) -> None:
        """Find terminals that went while their process lives on (it ignored the hang-up)."""
        missing: set[str] = set()
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            try:
                missing = await self._look_for_lost(missing)
            except SmError as error:
                log.warning("could not look for lost terminals: %s", error.message)

    async def _look_for_lost(self, missing: set[str]) -> set[str]:
        """Tell of the terminals that are missing a second time; the first time, one may be in the making."""
        sessions = self._store.sessions
        expected = {s for s in self._panes if s in sessions and is_live(sessions[s].status)}
        try:
            gone = expected - (await self._terminals.snapshot()).keys() if expected else set[str]()
        except NoServer:
            gone = expected
        for session_id in gone & missing:
            process = sessions[session_id].process if session_id in sessions else None
            lives = f", process {process.pid} lives on" if process else ""
            await self._manager.terminal_lost(
                session_id, f"its terminal was closed{lives}", process_gone=False
            )
        return gone
