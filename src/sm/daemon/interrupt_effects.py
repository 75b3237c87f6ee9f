"""Carries out interrupts, and stops and continues the processes of paused agents without turns."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass, replace

from sm.core.models import Process, Session
from sm.core.pause_states import Held
from sm.core.states import EventType, TrustLevel
from sm.core.statuses import Status
from sm.core.wording import subject
from sm.daemon.freezer import Freezer
from sm.errors import NoServer, NoTerminal, SmError
from sm.linux.processes import process_tree, signal_process
from sm.messaging import ComposerDriver
from sm.sessions.interrupt import INTERRUPTIBLE
from sm.sessions.manager import Manager
from sm.store import Effect, Store
from sm.terminals.base import Terminals

_LOOKS_MAX = 10
"""A program that runs on may start processes for ever. A kill of the session waits for this effect."""


@dataclass(frozen=True)
class InterruptEffects:
    """Each method carries out one kind of effect, and returns the reason for giving up, None when done."""

    store: Store
    manager: Manager
    terminals: Terminals
    driver: ComposerDriver
    freezer: Freezer

    async def interrupt(self, effect: Effect) -> str | None:
        """Press the agent's interrupt key once, or continue a suspended agent."""
        session = self.store.sessions[effect.session_id]
        provider = self.manager.provider(session)
        if effect.payload.get("continue"):
            if session.process is not None:
                signal_process(session.process, signal.SIGCONT)
            return None
        if effect.payload.get("pause"):
            if not await self._is_cut_off(effect):
                return None
        else:
            await self.manager.mark_taken(effect)  # a second key press could have another meaning
            if "by" in effect.payload and provider.has_turns and session.status not in INTERRUPTIBLE:
                return None  # the turn has ended meanwhile, so the key could have another meaning
        try:
            async with self.driver.hold_for_interrupt(session.id):
                if effect.payload.get("pause"):  # before the turn, which may begin again when its agents stop
                    for key in provider.stop_background_keys:
                        await self.terminals.press(session.terminal, key)
                await self.terminals.press(session.terminal, provider.interrupt_key)
        except (NoTerminal, NoServer):
            pass  # nothing to interrupt
        except SmError as error:
            return f"the agent may not have been interrupted: {error.message}"
        return None

    async def _is_cut_off(self, effect: Effect) -> bool:
        """Mark the effect as taken, and the pause as one that interrupts a turn. False: there is none any more."""
        async with self.store.transaction() as tx:
            await tx.take(effect)
            now = tx.find(effect.session_id)
            if now is None or now.paused is None or now.exit is not None or now.status is not Status.RUNNING:
                return False
            if now.process is None or not self.manager.provider(now).has_turns:
                return False
            await tx.update(now, paused=replace(now.paused, cut_off=True))
        return True

    async def suspend(self, effect: Effect) -> None:
        """Stop the processes of a paused session, also those that they start meanwhile.

        They are frozen if that is possible. An agent with turns that does not stop otherwise (`force`) is ended.
        """
        session = self.store.sessions.get(effect.session_id)
        if session is None or session.paused is None:
            return
        if await self.freezer.freeze(session):
            async with self.store.transaction() as tx:
                now = tx.find(session.id)
                if now is not None:
                    await self.manager.pauses.settle(tx, now, Held.FROZEN)
            return
        if effect.payload.get("force"):
            await self._end(session.id)
        else:
            await self._stop_all(effect)

    async def _end(self, session_id: str) -> None:
        """End the process of an agent that still spends, if it can go on in its conversation later."""
        async with self.store.transaction() as tx:
            session = tx.find(session_id)
            if session is None or session.paused is None:
                return
            why = await self.manager.pauses.end_process(tx, session)
            if why is not None and not session.paused.told:
                text = f"{subject(session)} is paused, but works on: {why}; look at its terminal"
                await tx.event(EventType.WARNING, session, tx.now, text, {})
                await tx.update(session, paused=replace(session.paused, told=True))

    async def _stop_all(self, effect: Effect) -> None:
        stopped: set[int] = set()
        for _ in range(_LOOKS_MAX):
            session = self.store.sessions.get(effect.session_id)
            if session is None or session.paused is None:
                return
            found = [p for p in await self._processes(session) if p.pid not in stopped]
            if not found:
                return
            for process in found:
                stopped.add(process.pid)
                with suppress(PermissionError):  # of another user (sudo)
                    signal_process(process, signal.SIGSTOP)

    async def resume(self, effect: Effect) -> None:
        """Continue the processes of a session that is not paused any more."""
        session = self.store.sessions.get(effect.session_id)
        if session is None or session.paused is not None:
            return
        await self.freezer.thaw(session)
        for process in await self._processes(session):
            with suppress(PermissionError):
                signal_process(process, signal.SIGCONT)

    async def _processes(self, session: Session) -> list[Process]:
        own = session.process
        if own is None or session.exit is not None:
            return []
        # tmux continues the process group of a pane's own process as soon as that process stops.
        spared = {own.pid} if session.effective_mode is TrustLevel.DIRECT else set()
        return [p for p in await asyncio.to_thread(process_tree, own) if p.pid not in spared]
