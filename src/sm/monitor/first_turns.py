"""Holds the first turn of each agent until the agent has the tools of sm.

An agent CLI connects to its MCP servers while it starts, and sends a first request without the tools of a server that
has not listed them. That request would lack them, and the second request could not use the prompt cache of the first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sm.core.timestamps import epoch_s, iso
from sm.monitor.agent import Agent
from sm.monitor.own_tools import OwnTools, missing_tools
from sm.monitor.usage import UsageMeter
from sm.store import Store
from sm.store.change_signal import ChangeSignal

HOLD_MAX_S = 8.0
"""No hook waits longer, whatever the system clock does."""

Wait = Callable[[Callable[[], bool], float, ChangeSignal], Awaitable[bool]]
"""Waits until a condition holds, checked after each change, or a number of seconds has passed. Raises when the caller
has gone.
"""


class FirstTurns:
    """Holds first turns, and remembers those that began without the tools of sm.

    `find`: the observed agent of a session, or None.
    """

    def __init__(
        self,
        store: Store,
        usage: UsageMeter,
        find: Callable[[str], Agent | None],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._usage = usage
        self._find = find
        self._clock = clock
        self._changed = ChangeSignal()

    def server_began(self, session_id: str) -> None:
        """Note that the session's MCP server of sm runs."""
        agent = self._find(session_id)
        if agent is not None:
            agent.tools.begin(self._clock())
            self._changed.changed()

    def tools_read(self, session_id: str) -> None:
        """Note that the agent has read the tools of sm from the session's MCP server."""
        agent = self._find(session_id)
        if agent is not None:
            agent.tools.read(self._clock())
            self._changed.changed()
            agent.poke()

    async def hold(self, session_id: str, emitted_at: str, wait: Wait) -> None:
        """Return when the turn that begins with the prompt of `emitted_at` may send its first request.

        Only the first turn of a process is held.
        """
        agent = await self._submit(session_id, emitted_at)
        if agent is None:
            return
        tools = agent.tools
        loop = asyncio.get_running_loop()
        until_s = loop.time() + HOLD_MAX_S
        while not tools.is_over:
            left_s = min(tools.release_s() - self._clock(), until_s - loop.time())
            if left_s <= 0:
                break
            await wait(_changed(tools), left_s, self._changed)
        self._begin(agent, self._clock())

    async def hold_message(self, session_id: str) -> None:
        """Return when a message may be typed that begins the first turn of an agent without hooks.

        The hook of the message holds the turn of other agents.
        """
        agent = self._find(session_id)
        if agent is not None and agent.has_own_tools and not (agent.hook_seen or agent.tools.is_over):
            await self.hold(session_id, iso(self._clock()), _wait)

    async def begin_unheld(self, session_id: str, emitted_at: str) -> None:
        """Note that a turn has begun with a prompt whose hook did not wait, because no daemon answered."""
        agent = await self._submit(session_id, emitted_at)
        if agent is not None:
            self._begin(agent, min(epoch_s(emitted_at), self._clock()))

    async def _submit(self, session_id: str, emitted_at: str) -> Agent | None:
        """Note the prompt of a turn. Returns the agent, or None if it has ended or is not observed."""
        facts = await self._usage.known_facts(session_id)
        agent = self._find(session_id)
        if agent is not None:
            agent.tools.load(self._stored(session_id, facts))
            agent.tools.submit(min(epoch_s(emitted_at), self._clock()))
        return agent

    def _begin(self, agent: Agent, at: float) -> None:
        agent.tools.release(at)
        agent.poke()

    async def store(self, agent: Agent) -> None:
        """Store what is not stored yet. The caller holds the agent's lock."""
        session = self._store.sessions.get(agent.session_id)
        if session is not None and not agent.tools.is_stored:
            agent.tools.is_stored = True
            # An earlier daemon may have seen the first turn of this process.
            before = self._stored(session.id, await self._usage.known_facts(session.id))
            facts = {**before, **agent.tools.facts(), "run": session.runs}
            await self._usage.set_own_tools(session.id, facts)

    def facts(self, session_id: str, measured: Mapping[str, Any]) -> list[str]:
        """A sentence about a first request without the tools of sm, if there was one, for `sm why`."""
        missing = missing_tools(self._stored(session_id, measured))
        return [] if missing is None else [missing]

    def _stored(self, session_id: str, measured: Mapping[str, Any]) -> Mapping[str, Any]:
        """The stored facts of the session's last process."""
        session, stored = self._store.sessions.get(session_id), measured.get("own_tools", {})
        return stored if session is not None and stored.get("run") == session.runs else {}


async def _wait(condition: Callable[[], bool], wait_s: float, source: ChangeSignal) -> bool:
    return await source.wait_until(condition, wait_s)


def _changed(tools: OwnTools) -> Callable[[], bool]:
    seen = tools.changes
    return lambda: tools.changes != seen
