"""Warns of agents whose hooks or tools do not reach sm, by what was measured instead of what is configured.

A turn that another source shows must have run hooks, and an agent that works must have listed the tools of its
`sm mcp`. A timer of the database looks again some time later.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sm.capabilities.warnings.model import WarningTimer
from sm.capabilities.warnings.state.opening import Warnings
from sm.capabilities.warnings.state.rows import close_warning
from sm.capabilities.warnings.tables import PART
from sm.core.observation import Source
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s, iso, later
from sm.core.warnings import WarningKind
from sm.monitor.agent import Agent
from sm.monitor.listeners import AgentListener
from sm.providers.readers import AcceptedInput
from sm.store import Store, durable

WAITS_S = 30.0
"""How long after the beginning or the end of a turn its hook may still come, and the tools may still be listed."""
_NOT_PROMPTS = ("/", "!", "<")
"""Beginnings of lines that claude writes as input and that may run no prompt hook: commands, and its own notes."""


class AgentLinks(AgentListener):
    """`find`: the observed agent of a session, or None. `facts_of`: the stored facts of a session."""

    def __init__(
        self,
        store: Store,
        warnings: Warnings,
        find: Callable[[str], Agent | None],
        facts_of: Callable[[str], Awaitable[Mapping[str, Any]]],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._warnings = warnings
        self._find = find
        self._facts_of = facts_of
        self._clock = clock

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        agent = self._find(session_id)
        is_prompt = bool(accepted.text) and not (accepted.queued or accepted.withdrawn or accepted.refused)
        if agent is None or not is_prompt or accepted.text.lstrip().startswith(_NOT_PROMPTS):
            return
        await self._follow(agent, accepted.at)

    async def work_shown(self, session_id: str, at: float) -> None:
        if (agent := self._find(session_id)) is not None and not agent.hook_seen:
            await self._follow(agent, at)

    async def turn_ended(self, session_id: str, at: float) -> None:
        if (agent := self._find(session_id)) is not None:
            await self._follow(agent, at)

    async def _follow(self, agent: Agent, at: float) -> None:
        """Set the timer if the hooks of a turn, which was under way at `at`, or the tools are missing so far."""
        if _lacks_hook(agent, at) or await self._lacks_tools(agent):
            await durable(self._look_later)(agent.session_id, at)

    async def _look_later(self, session_id: str, at: float) -> None:
        async with self._store.transaction() as tx:
            session = tx.find(session_id)
            if session is not None and tx.timers.find(session_id, WarningTimer.LINKS) is None:
                data = {"at": iso(at), "run": session.runs}
                tx.timers.set(Timer(session_id, WarningTimer.LINKS, later(tx.now, WAITS_S), WAITS_S, data))

    async def look(self, timer: Timer) -> float | None:
        """Warn if the hooks or the tools are still missing. Handles the timer."""
        agent = self._find(timer.subject)
        lacks_hook = agent is not None and _lacks_hook(agent, epoch_s(str(timer.data["at"])))
        lacks_tools = agent is not None and await self._lacks_tools(agent)
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if not tx.timers.take(timer) or session is None or session.runs != timer.data["run"]:
                return None
            missing = {
                WarningKind.HOOKS_MISSING: (lacks_hook, "it worked on a prompt, and no hook has reported it"),
                WarningKind.TOOLS_MISSING: (lacks_tools, "its sm mcp has not listed them since its prompt"),
            }
            for kind, (is_missing, words) in missing.items():
                if is_missing:
                    evidence = f"{words} for {WAITS_S:g} s"
                    await self._warnings.open_warning(
                        tx, session, kind, value=WAITS_S, limit=WAITS_S, evidence=evidence
                    )
        return None

    async def observed(self, agent: Agent) -> None:
        """Close the warnings whose cause has ended."""
        for warning in self._store.part(PART).all_of(agent.session_id):
            opened_s = epoch_s(warning.opened_at)
            has_ended = (warning.kind is WarningKind.HOOKS_MISSING and agent.last_hook_s > opened_s) or (
                warning.kind is WarningKind.TOOLS_MISSING and agent.tools.listed_s is not None
            )
            if has_ended:
                async with self._store.transaction() as tx:
                    session = tx.find(agent.session_id)
                    if session is not None:
                        await close_warning(tx, session, warning.kind)

    async def _lacks_tools(self, agent: Agent) -> bool:
        if not agent.has_own_tools or agent.tools.listed_s is not None:
            return False
        session = self._store.sessions.get(agent.session_id)
        stored = (await self._facts_of(agent.session_id)).get("own_tools", {})
        return session is not None and not (stored.get("run") == session.runs and "listed" in stored)


def _lacks_hook(agent: Agent, at: float) -> bool:
    """Return whether no hook has come since shortly before `at`, when a turn began or ended.

    The hook of a prompt that waited in the agent's queue may be older, but then hooks of the turn before are not. An
    earlier daemon may have got a hook from before `watched_s`.
    """
    return at > agent.watched_s and agent.last_hook_s < at - WAITS_S
