"""Starts the next process of sessions that wait for it, when their restart is due."""

import time
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.messages import SM_ITSELF
from sm.core.models import Session, Signal, is_waiting
from sm.core.next_process import RESTART, TOLD
from sm.core.states import EventType, SignalKind
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s
from sm.core.wording import subject
from sm.errors import (
    FallbackOver,
    NoServer,
    SandboxBusy,
    SandboxUnavailable,
    SmError,
    StorageFull,
    TerminalError,
)
from sm.sessions.restore import refuse_foreign_process
from sm.sessions.resume_plan import ResumePlanner
from sm.state.endings import Endings
from sm.state.message_steps import send
from sm.state.part_holds import hold_of, postponed
from sm.store import Store, Transaction
from sm.terminals.base import Lifecycle, Pane

_AGAIN_S = 5.0
_SANDBOX_WITHIN_S = 600.0
"""How long a restart waits for the container engine, which may restart too."""


@dataclass(frozen=True, slots=True, eq=False)
class Restarter:
    """`restart` is a `TimerHandler` of the daemon."""

    _store: Store
    _endings: Endings
    _planner: ResumePlanner
    _terminals: Lifecycle

    async def restart(self, timer: Timer) -> float | None:
        """Order the start of the session's next process. The outbox waits while its account is parked."""
        if self._store.mail.open.timers.get(timer.key) != timer:
            return None
        session = self._store.sessions.get(timer.subject)
        if session is None or not is_waiting(session):
            async with self._store.transaction() as tx:
                tx.timers.take(timer)
            return None
        if session.paused is not None or self._is_held(session):
            return _AGAIN_S
        try:
            pane = await self._pane(session)
            refuse_foreign_process(session, pane)
            begins_again, told = await self._planner.check_restart(session)
        except (TerminalError, StorageFull):
            return _AGAIN_S
        except FallbackOver as error:  # a person decides where it goes on
            await self._give_up(timer, error)
            return None
        except (SandboxUnavailable, SandboxBusy) as error:
            if time.time() - epoch_s(timer.due_at) < _SANDBOX_WITHIN_S:
                return _AGAIN_S
            await self._give_up(timer, error)
            return None
        except SmError as error:  # its directory is gone, or a person uses its terminal
            await self._give_up(timer, error)
            return None
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if (
                now is None
                or now.paused is not None
                or self._is_held(now)
                or tx.has_open(EffectKind.KILL, session.id)
            ):
                return _AGAIN_S
            if tx.timers.take(timer):
                await _order_start(tx, self._endings, now, timer, pane, begins_again=begins_again)
                for warning in told:
                    await tx.event(EventType.WARNING, now, tx.now, f"{subject(now)} - {warning}", {})
        return None

    def _is_held(self, session: Session) -> bool:
        """True while a hold, such as a spent budget, stops the session."""
        return hold_of(session, self._store.sessions.get, self._store.mail.open) is not None

    async def _pane(self, session: Session) -> Pane | None:
        try:
            return (await self._terminals.snapshot()).get(session.id)
        except NoServer:
            return None

    async def _give_up(self, timer: Timer, error: SmError) -> None:
        hint = f" ({error.hint})" if isinstance(error, FallbackOver) else ""
        reason = f"{timer.data['words']} failed: {error.message}{hint}"
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                signal = Signal(SignalKind.START_FAILED, RESTART, reason, tx.now)
                await self._endings.start_failed(tx, timer.subject, signal)


async def _order_start(
    tx: Transaction,
    endings: Endings,
    session: Session,
    timer: Timer,
    pane: Pane | None,
    *,
    begins_again: bool,
) -> None:
    """Write the effect that ends the rest of the old process, and starts the next one."""
    session = await endings.rejoin(tx, session)
    assert session.restarts is not None
    why, hold = timer.data["why"], postponed(session, tx.mail.open, epoch_s(tx.now))
    reason = f"{timer.data['words']} waits: {hold}" if hold is not None else f"{timer.data['words']} ({why})"
    after = await tx.update(session, restarts=replace(session.restarts, next_at=None), status_reason=reason)
    payload = {
        "again": True,
        "pane_pid": None if pane is None else pane.pid,
        "process": timer.data["process"],
        "began": timer.data.get("began"),
    }
    await tx.effect(EffectKind.START, after.id, payload, tx.now)
    if not begins_again:
        send(tx, after.id, SM_ITSELF, TOLD.format(why=why))
