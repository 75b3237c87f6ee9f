"""Follows the permission modes that agents report: a person may change the mode at the terminal."""

from sm.core.models import Session
from sm.core.permission_facts import CurrentMode, current_mode, reported_mode
from sm.core.states import EventType
from sm.core.wording import subject
from sm.monitor.agent import Agent
from sm.monitor.usage import UsageMeter
from sm.providers.readers import HookEvent
from sm.store import Store, Transaction


class PermissionModes:
    """Records each change of a mode as an event, and knows the current ones."""

    def __init__(self, store: Store, usage: UsageMeter) -> None:
        self._store = store
        self._usage = usage

    async def current(self, session: Session) -> CurrentMode | None:
        """The permission mode of the session's last process; None: unknown, or its provider has no modes."""
        launch = await self._store.launch(session.id)
        return current_mode(launch.permission, await self._store.measures.facts(session.id), session.runs)

    async def follow(self, agent: Agent, event: HookEvent) -> None:
        """Take the mode in an event of the agent. The caller holds the agent's lock."""
        mode, session = event.permission_mode, self._store.sessions.get(agent.session_id)
        if not mode or mode == agent.permission_mode or session is None:
            return
        launch = await self._store.launch(session.id)
        before = current_mode(launch.permission, await self._usage.known_facts(session.id), session.runs)

        async def record(tx: Transaction) -> None:
            now = tx.find(session.id)
            if before is not None and now is not None:
                text = f"{subject(now)} - permission mode {mode}, was {before.mode}"
                metadata = {"permission_mode": mode, "before": before.mode}
                await tx.event(EventType.PERMISSION_MODE, now, tx.now, text, metadata)

        if before is None or before.mode != mode:
            await self._usage.set_permission(session.id, reported_mode(mode, session.runs), record)
        agent.permission_mode = mode
