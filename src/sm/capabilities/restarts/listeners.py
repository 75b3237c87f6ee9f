"""Follows spawns and ends of processes."""

from dataclasses import replace

from sm.capabilities.restarts.rules import after_end, restarts_of
from sm.capabilities.restarts.settings import AgentRestart
from sm.config import AgentConfig
from sm.core.dataclass import dataclass
from sm.core.models import Exit, Launch, Session, Signal, SpawnRequest
from sm.core.next_process import GiveUp, Restart, Restarts
from sm.core.states import EventType
from sm.core.warnings import Sign, WarningKind
from sm.core.wording import subject
from sm.providers.base import Provider
from sm.sandboxes.home import ContainerHome
from sm.sessions.spawn_parts import SpawnAddition, SpawnPart
from sm.state.next_process import EndRule
from sm.state.signs import show_sign
from sm.store import Transaction


@dataclass(frozen=True, slots=True)
class SpawnRestarts(SpawnAddition):
    """The restarts of a new session, or None if a crash ends it."""

    restarts: Restarts | None

    async def complete(
        self, session: Session, provider: Provider, launch: Launch, home: ContainerHome | None
    ) -> Session:
        return replace(session, restarts=self.restarts)


class PlannedRestarts(SpawnPart):
    """Decides whether a crash of a new session starts it again: as its spawn says, or its agent type."""

    def plan(
        self, session: Session, request: SpawnRequest | None, agent: AgentConfig | None
    ) -> SpawnAddition:
        if request is None or agent is None:
            return SpawnAddition()
        keys = agent.with_keys(AgentRestart)
        return SpawnRestarts(restarts_of(request.additions.get("restart"), keys.restart, keys.restart_max))


class CrashRule(EndRule):
    """Starts sessions again whose process has crashed."""

    def after_end(
        self, session: Session, signal: Signal, exit: Exit, now: str, ran_s: float, *, closed: bool
    ) -> Restart | GiveUp | None:
        return after_end(session, signal, exit, now, ran_s, closed=closed)

    async def follow_plan(self, tx: Transaction, session: Session, restart: Restart) -> None:
        """Record the crash. The first one in a row is told to people."""
        restarts, kind = restart.restarts, WarningKind.CRASH_LOOP
        is_told = any(f.warns_of(kind) and not f.has_warned(tx, session, kind) for f in tx.followers)
        metadata = {
            "kind": "crash_loop",
            "value": restarts.count,
            "limit": restarts.max,
            "evidence": session.status_reason,
            "next_at": restarts.next_at,
            "exit_code": restarts.exit_code,
            "exit_signal": restarts.exit_signal,
            "ended": False,
            "told": is_told,
        }
        text = f"{subject(session)} has crashed: {session.status_reason}"
        await tx.event(EventType.WARNING, session, tx.now, text, metadata)
        crashes = Sign(kind, restarts.count, session.status_reason, restarts.max, recorded=True)
        await show_sign(tx, session, crashes)
