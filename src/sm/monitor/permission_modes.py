"""Follows the permission modes that agents report: a person may change the mode at the terminal."""

from collections.abc import Callable, Mapping
from typing import Any

from sm.core.models import Session
from sm.core.permission_facts import FACT, CurrentMode, current_mode, reported_mode
from sm.core.states import EventType
from sm.core.warnings import Sign, WarningKind
from sm.core.wording import subject
from sm.monitor.agent import Agent
from sm.monitor.usage import UsageMeter
from sm.providers.readers import HookEvent
from sm.state.signs import end_sign, show_sign
from sm.store import Store, Transaction

_DENIED = "denied"
"""The name of the measured fact."""


class PermissionModes:
    """Records each change of a mode as an event, counts denied actions, and shows those in a row as signs."""

    def __init__(self, store: Store, usage: UsageMeter, is_attended: Callable[[str], bool]) -> None:
        """`is_attended`: tells whether the operator has the terminal of a session on the screen."""
        self._store = store
        self._is_attended = is_attended
        self._usage = usage

    async def current(self, session: Session) -> CurrentMode | None:
        """Return the permission mode of the session's last process, or None if it is unknown or there are no modes."""
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
            fact = reported_mode(mode, session.runs, is_attended=self._is_attended(session.id))
            await self._usage.set_permission(session.id, FACT, fact, record)
        agent.permission_mode = mode

    async def follow_denials(self, agent: Agent, event: HookEvent) -> None:
        """Take a denied action, or one that ran, in an event of the agent. The caller holds the agent's lock."""
        session = self._store.sessions.get(agent.session_id)
        if session is None or not (event.denial or event.tool_failed is False):
            return
        before = _denials(await self._usage.known_facts(session.id), session.runs)
        if not (event.denial or before.get("row")):
            return
        fact = {**before, "row": 0, "run": session.runs}
        if event.denial:
            count, row = int(before.get("count", 0)) + 1, int(before.get("row", 0)) + 1
            fact |= {"count": count, "row": row, "last": event.denial}

        async def record(tx: Transaction) -> None:
            now, row = tx.find(session.id), fact["row"]
            if now is None:
                return
            if not row:
                await end_sign(tx, now, WarningKind.DENIED)
            else:
                evidence = f"{row} in a row, the last: {event.denial}"
                await show_sign(tx, now, Sign(WarningKind.DENIED, row, evidence))

        await self._usage.set_permission(session.id, _DENIED, fact, record)


def denial_facts(measured: Mapping[str, Any], runs: int) -> list[str]:
    """A sentence about the actions that were denied to the process of run number `runs`, if there are some."""
    denied = _denials(measured, runs)
    count = denied.get("count")
    if not count:
        return []
    actions = "1 action" if count == 1 else f"{count} actions, the last"
    return [f"its permission mode denied {actions}: {denied.get('last', '')}"]


def _denials(measured: Mapping[str, Any], runs: int) -> Mapping[str, Any]:
    denied: Mapping[str, Any] = measured.get(_DENIED, {})
    return denied if denied.get("run") == runs else {}
