"""Lets sessions go on after a fault of the service, unless a prompt or the end of the session comes first."""

import time

from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.observation import Source
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.errors import TerminalError
from sm.monitor.listeners import AgentListener
from sm.monitor.terminal_use import UseOfTerminal
from sm.policy.unfinished import reason_of_person, reason_to_wait
from sm.providers.readers import AcceptedInput
from sm.state import compactions
from sm.state.part_holds import postponed
from sm.state.retries import carry_out, end_row, prompt_came, turn_succeeded
from sm.state.turns import unfinished_work
from sm.store import Open, Store, durable

_AGAIN_S = 5.0
"""How often to look again, in memory, at a session whose retry is held."""


class Retries(AgentListener):
    """Handles the timers of retries. `send` and `forget` are `TimerHandler`s of the daemon."""

    def __init__(self, store: Store, use_of_terminal: UseOfTerminal) -> None:
        self._store = store
        self._use_of_terminal = use_of_terminal

    # Timers

    async def send(self, timer: Timer) -> float | None:
        """Send the message to go on, unless something holds it."""
        if self._store.mail.open.timers.get(timer.key) != timer:
            return None
        session = self._store.sessions.get(timer.subject)
        if session is None or session.exit is not None or not is_live(session.status):
            async with self._store.transaction() as tx:
                if tx.timers.take(timer):
                    end_row(tx, timer.subject)
            return None
        if _is_held(session, self._store.mail.open) or await self._is_person_there(session):
            return _AGAIN_S
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if now is None or _is_held(now, tx.mail.open):
                return _AGAIN_S
            carry_out(tx, now, timer)
        return None

    async def forget(self, timer: Timer) -> float | None:
        """Forget the retries or the compaction of a session: the last one was long ago."""
        async with self._store.transaction() as tx:
            tx.timers.take(timer)
        return None

    async def _is_person_there(self, session: Session) -> bool:
        try:
            return reason_of_person(await self._use_of_terminal(session)) is not None
        except TerminalError:
            return True

    # Events

    @durable
    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        is_prompt = accepted.refused is None and not accepted.command
        if is_prompt and (session_id, TimerKind.RETRY) in self._store.mail.open.timers:
            async with self._store.transaction() as tx:
                prompt_came(tx, session_id, accepted.at)

    @durable
    async def turn_ended(self, session_id: str, at: float) -> None:
        timers = self._store.mail.open.timers
        if (session_id, TimerKind.RETRIED) in timers or (session_id, TimerKind.COMPACTED) in timers:
            async with self._store.transaction() as tx:
                turn_succeeded(tx, session_id, at)
                compactions.turn_succeeded(tx, session_id, at)


def _is_held(session: Session, open: Open) -> bool:
    """True while the session works, waits for an answer, has a message to come, or may start no turn."""
    if session.paused is not None:
        return True
    if session.status is not Status.IDLE or postponed(session, open, time.time()) is not None:
        return True
    return reason_to_wait(unfinished_work((), open, session.id)) is not None
