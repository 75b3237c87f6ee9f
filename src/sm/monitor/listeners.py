"""Dispatches agent events (prompt accepted, tool started, turn ended) to the rooms that registered for them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from sm.core.observation import Source
from sm.monitor.agent import Agent
from sm.providers.links import AgentLink, LinkEvent, StateUpdate
from sm.providers.readers import AcceptedInput, HookEvent, SetupDialog, ToolEnd, TranscriptDelta

T = TypeVar("T")

_ITEMS_AT_ONCE = 50
"""Items of a transcript that are dispatched without a pause, a few milliseconds of work."""
_HOOK_WAITS_S = 5.0
"""An older hook comes from the spool: no agent waits for its return."""


async def _with_pauses(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and let other work of the event loop run after every few of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _ITEMS_AT_ONCE == 0:
            await asyncio.sleep(0)


class AgentListener:
    """Base class of subscribers to agent events. A subclass overrides the methods of the events that it needs.

    An event may arrive late, and more than once.
    """

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        """The agent has accepted a text as input, or keeps the text in its queue."""

    async def work_shown(self, session_id: str, at: float) -> None:
        """The agent's own state file has shown since `at` that it works on a prompt."""

    async def tool_started(self, session_id: str) -> None:
        """A tool is about to run. The agent waits for the return, and may open a dialog afterwards."""

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        """The use of a tool has ended."""

    async def sub_agent_ended(self, session_id: str, sub_agent: str) -> None:
        """A sub-agent has ended. `sub_agent`: its id."""

    async def turn_ending(self, session_id: str) -> None:
        """The agent's turn ends with the return of this call. A short delay is allowed."""

    async def turn_ended(self, session_id: str, at: float) -> None:
        """A turn has ended at `at`, in seconds since the epoch."""

    async def transcript_turn_ended(self, session_id: str, at: float) -> None:
        """The transcript has shown the end of a turn at `at`, and all that the agent wrote before."""

    async def setup_dialog(self, session_id: str, dialog: SetupDialog | None) -> None:
        """An agent that has not started shows this first-start dialog. None if it has started, or shows another one."""

    async def observed(self, agent: Agent) -> None:
        """The agent was looked at, and its status decided. The caller holds the agent's lock."""

    async def serve_link(self, session_id: str, link: AgentLink) -> None:
        """A link to the agent is open. Cancelled when it is lost. Raises ConnectionError if the link is lost."""

    async def link_event(self, session_id: str, event: LinkEvent) -> None:
        """The agent's program has said this on the link. The status and the measurements follow it already."""

    def process_gone(self, session_id: str) -> None:
        """The agent's process is gone: earlier events mean nothing for a later process of the session."""


class AgentListeners:
    """The registered listeners. Each event goes to all of them, in the order of their registration."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._listeners: list[AgentListener] = []

    def register(self, listener: AgentListener) -> None:
        self._listeners.append(listener)

    async def observed(self, agent: Agent) -> None:
        for listener in self._listeners:
            await listener.observed(agent)

    async def hook(self, agent: Agent, event: HookEvent, at: float) -> None:
        """Dispatch a hook that was emitted at `at`. The agent waits for the return of a recent hook."""
        session_id = agent.session_id
        if event.accepted is not None:
            await self._prompt_accepted(session_id, event.accepted, Source.HOOK)
        if event.turn_finished:
            await self._turn_ended(session_id, at)
            if self._is_awaited(at):
                for listener in self._listeners:
                    await listener.turn_ending(session_id)
        if event.tool_ended is not None:
            agent.uses.end(event.tool_ended)
            await self._tool_ended(session_id, ToolEnd(event.tool_ended, True, at, event.answers))
        if event.sub_agent_ended:
            for listener in self._listeners:
                await listener.sub_agent_ended(session_id, event.sub_agent_ended)
        if event.tool_started is not None:
            sub_agent = "" if event.observation is None else event.observation.who
            agent.uses.begin(event.tool_started, sub_agent, event.tool_digest)
            if self._is_awaited(at):
                for listener in self._listeners:
                    await listener.tool_started(session_id)

    async def transcript(self, agent: Agent, delta: TranscriptDelta) -> None:
        session_id = agent.session_id
        async for accepted in _with_pauses(delta.accepted):
            await self._prompt_accepted(session_id, accepted, Source.TRANSCRIPT)
        async for end in _with_pauses(delta.tools_ended):
            agent.uses.end(end.tool_use)
            agent.ledger.end_use(end.tool_use)
            await self._tool_ended(session_id, end)
        if delta.turn_finished is not None:
            ended = min(delta.turn_finished, self._clock())
            await self._turn_ended(session_id, ended)
            for listener in self._listeners:
                await listener.transcript_turn_ended(session_id, ended)

    def link_servers(self, session_id: str, link: AgentLink) -> list[Coroutine[Any, Any, None]]:
        return [listener.serve_link(session_id, link) for listener in self._listeners]

    async def link_event(self, agent: Agent, event: LinkEvent) -> None:
        for listener in self._listeners:
            await listener.link_event(agent.session_id, event)
        match event:
            case ToolEnd():
                await self._tool_ended(agent.session_id, event)
            case StateUpdate(observation=observation) if observation.finished:
                await self._turn_ended(agent.session_id, min(observation.at, self._clock()))
            case _:
                pass

    async def work_shown(self, session_id: str, at: float) -> None:
        for listener in self._listeners:
            await listener.work_shown(session_id, at)

    async def setup_dialog(self, session_id: str, dialog: SetupDialog | None) -> None:
        for listener in self._listeners:
            await listener.setup_dialog(session_id, dialog)

    def process_gone(self, session_id: str) -> None:
        for listener in self._listeners:
            listener.process_gone(session_id)

    def _is_awaited(self, emitted_at: float) -> bool:
        return self._clock() - emitted_at < _HOOK_WAITS_S

    async def _prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        for listener in self._listeners:
            await listener.prompt_accepted(session_id, accepted, source)

    async def _tool_ended(self, session_id: str, end: ToolEnd) -> None:
        for listener in self._listeners:
            await listener.tool_ended(session_id, end)

    async def _turn_ended(self, session_id: str, at: float) -> None:
        for listener in self._listeners:
            await listener.turn_ended(session_id, at)
