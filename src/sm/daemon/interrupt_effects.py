"""Carries out interrupts."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.statuses import Status
from sm.daemon.effect_record import EffectRecord
from sm.errors import NoServer, NoTerminal, SmError
from sm.linux.processes import signal_process
from sm.messaging import ComposerDriver
from sm.providers.base import Provider
from sm.providers.links import AgentLink
from sm.sessions.interrupt import INTERRUPTIBLE
from sm.store import Effect, Store
from sm.terminals.base import Terminals


@dataclass(frozen=True)
class InterruptEffects:
    store: Store
    effects: EffectRecord
    providers: Mapping[str, Provider]
    terminals: Terminals
    driver: ComposerDriver
    find_link: Callable[[str], AgentLink | None]
    """Finds the open link to the agent of a session."""

    async def interrupt(self, effect: Effect) -> str | None:
        """Interrupt the agent once, or continue a suspended agent. As an `EffectHandler` of `kernel`.

        An agent with an open link is interrupted over it, another one with its interrupt key.
        """
        session = self.store.sessions[effect.session_id]
        provider = self.providers[session.provider]
        if effect.payload.get("continue"):
            if session.process is not None:
                signal_process(session.process, signal.SIGCONT)
            return None
        if effect.payload.get("pause"):
            if not await self._is_cut_off(effect):
                return None
        else:
            await self.effects.mark_taken(effect)  # a second key press could have another meaning
            if "by" in effect.payload and provider.has_turns and session.status not in INTERRUPTIBLE:
                return None  # the turn has ended meanwhile, so the key could have another meaning
        link = self.find_link(session.id)
        if link is not None:
            try:
                await link.interrupt()
            except ConnectionError as error:
                return f"the agent may not have been interrupted: its link was lost: {error}"
            except SmError as error:
                return f"the agent may not have been interrupted: {error.message}"
            return None
        try:
            async with self.driver.hold_for_interrupt(session.id):
                # Background agents before the turn, which may begin again when they stop.
                stops = provider.stop_background_keys if effect.payload.get("pause") else ()
                for key in (*stops, provider.interrupt_key):
                    if (busy := await self.terminals.press(session.terminal, key)) is not None:
                        return f"the agent may not have been interrupted: {busy.why}"
        except (NoTerminal, NoServer):
            pass  # nothing to interrupt
        except SmError as error:
            return f"the agent may not have been interrupted: {error.message}"
        return None

    async def _is_cut_off(self, effect: Effect) -> bool:
        """Mark the effect as taken, and the pause as one that interrupts a turn. Returns False if there is none."""
        async with self.store.transaction() as tx:
            await tx.take(effect)
            now = tx.find(effect.session_id)
            if now is None or now.paused is None or now.exit is not None or now.status is not Status.RUNNING:
                return False
            if now.process is None or not self.providers[now.provider].has_turns:
                return False
            await tx.update(now, paused=replace(now.paused, cut_off=True))
        return True
