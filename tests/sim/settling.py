"""Waits until a daemon has nothing left to do but to wait."""

import asyncio

from sm.capabilities.accounts.tables import PART
from sm.core.effects import EffectKind
from sm.core.models import Session
from sm.core.states import MessageState
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.daemon.outbox import queue_of
from tests.sim.clocks import Clocks
from tests.sim.daemon import Daemon
from tests.sim.loop import VirtualLoop

_LOOK_S = 0.05
_QUIET_S = 1.5
"""Longer than the pauses in which the daemon collects notices and reports of terminals."""


def left_to_do(daemon: Daemon, clocks: Clocks) -> list[str]:
    """The open work of the daemon: the effects, notices, timers, deliveries and transactions."""
    store, open = daemon.store, daemon.store.mail.open
    held = {s.id for s in store.sessions.values() if s.paused is not None}
    # A start waits for the end of a pause, and what is ordered later for the session waits for its start.
    starts = {
        e.session_id: e.id
        for e in open.effects.values()
        if e.kind == EffectKind.START and e.session_id in held
    }
    left = [
        f"effect {e.kind} of {e.session_id}"
        for e in open.effects.values()
        if e.id < starts.get(queue_of(e), e.id + 1) and not store.part(PART).rows.parks
    ]
    left += [f"notice {n.kind} of {n.session_id}" for n in open.notices.values()]
    left += [
        f"timer {t.kind} of {t.subject}"
        for t in open.timers.values()
        if t.seconds_left(clocks.wall()) <= 0 and not _is_postponed(daemon, t, clocks)
    ]
    left += [
        f"message {m.id}"
        for m in open.messages.values()
        if m.state is MessageState.DELIVERING
        and not _is_behind_dialog(store.sessions.get(m.session_id or ""))
    ]
    left += [
        f"end of {session}, which could not be recorded" for session in daemon.parts.watch.watcher.unverified
    ]
    # Time passes while an agent is read only if the read waits for room on the disk, or for the terminal server.
    agents = daemon.parts.watch.observer._agents.values()
    left += [f"read of agent {agent.session_id}" for agent in agents if agent.lock.locked()]
    if store.log.writing.locked() or not store.commits.queue._turns.empty():
        left.append("transaction")
    return left


def _is_behind_dialog(session: Session | None) -> bool:
    """True if a dialog hides the box with the message, until somebody answers."""
    return session is not None and session.status is Status.WAITING_INPUT


def _is_postponed(daemon: Daemon, timer: Timer, clocks: Clocks) -> bool:
    """True if the handler of the timer has looked, and will look again."""
    wait = daemon.parts.due_timers._waits.get(timer.key)
    return wait is not None and wait.timer == timer and wait.until_s > clocks.steady()


async def settled(daemon: Daemon, loop: VirtualLoop, clocks: Clocks, within_s: float) -> None:
    """Return when nothing was left to do for a while. Raises AssertionError with what is left."""
    until_s, since_s = loop.time() + within_s, loop.time()
    while loop.time() - since_s < _QUIET_S:
        await loop.quiet()
        if left := left_to_do(daemon, clocks):
            assert loop.time() < until_s, (
                f"not settled within {within_s:g} virtual seconds: {', '.join(left)}"
            )
            since_s = loop.time()
        await asyncio.sleep(_LOOK_S)
