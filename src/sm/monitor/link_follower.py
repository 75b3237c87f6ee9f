"""Follows the links of agents: turns their words into evidence, measurements and events, and opens lost links again.

A link is lost when its program restarts or this daemon ends. The loss says nothing about the agent: the evidence of the
protocol is dropped, weaker sources speak meanwhile, and the status is stale without them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import assert_never

from sm.core.backoff import Backoff
from sm.core.messages import LINK, link_message_id
from sm.core.observation import Activity, Observation, Source
from sm.core.states import MessageState
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.core.usage import ToolUse, Usage
from sm.errors import SmError
from sm.monitor.agent import Agent
from sm.monitor.bounded_link import BoundedLink, within
from sm.monitor.listeners import AgentListeners
from sm.monitor.recorder import Recorder
from sm.monitor.sources import Sources, awaits_prompt
from sm.monitor.usage import UsageMeter
from sm.providers.base import Provider
from sm.providers.links import (
    AgentLink,
    ContextUpdate,
    ConversationEnded,
    ConversationStarted,
    LinkEvent,
    LinkOpener,
    LinkTarget,
    MessageUpdate,
    PlanUpdate,
    RequestOpened,
    RequestResolved,
    StateUnknown,
    StateUpdate,
)
from sm.providers.readers import ToolEnd
from sm.store import Store

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_ACTIVITY_MAX = 200
_OPENS_WITHIN_S = 30.0
_STEADY_S = 30.0
"""A link that was open for this time counts as a success: the next pause is a short one."""


class LinkFollower:
    """Keeps a link to each running agent whose provider has links.

    `decide`: makes the session's status follow the evidence. `keep_end`: stores an end of a turn that the status does
    not follow yet. The caller of both holds the agent's lock. `is_observed`: whether the agent is still the observed
    one of its session.
    """

    def __init__(
        self,
        store: Store,
        providers: Mapping[str, Provider],
        recorder: Recorder,
        sources: Sources,
        usage: UsageMeter,
        listeners: AgentListeners,
        *,
        decide: Callable[[Agent], Awaitable[float | None]],
        keep_end: Callable[[Agent, Observation], Awaitable[None]],
        is_observed: Callable[[Agent], bool],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._providers = providers
        self._recorder = recorder
        self._sources = sources
        self._usage = usage
        self._listeners = listeners
        self._decide = decide
        self._keep_end = keep_end
        self._is_observed = is_observed
        self._clock = clock
        self._links: dict[str, AgentLink] = {}

    def find(self, session_id: str) -> AgentLink | None:
        """The open link to the session's agent, or None if there is none now."""
        return self._links.get(session_id)

    def opener(self, session_id: str) -> LinkOpener | None:
        """The opener of the session's provider, or None if its agents have no links."""
        session = self._store.sessions.get(session_id)
        return None if session is None else self._providers[session.provider].link

    async def check_ready(self, agent: Agent) -> None:
        """Count the agent as started if its program reports a state. The caller holds the agent's lock.

        A program may be idle for a while before the turn of its prompt begins, or that turn may never begin.
        """
        told = agent.ledger.entries.get(Source.PROTOCOL)
        if not agent.ready and told is not None and not awaits_prompt(agent, told.observation, self._clock()):
            await self._sources.mark_ready(
                agent, Source.PROTOCOL, "the agent's program reports over its link"
            )

    async def follow(self, agent: Agent, opener: LinkOpener) -> None:
        """Keep a link to the agent open, until the caller cancels. Never returns."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        agent.link_lost = "it has told no state yet"
        while True:
            began_s = loop.time()
            try:
                link = await self._open(agent, opener)
                await self._serve(agent, link)
                reason = "the link was lost"
            except OSError as error:
                reason = folded(f"no link: {error}", _ACTIVITY_MAX)
            except SmError as error:
                reason = folded(f"no link: {error.message}", _ACTIVITY_MAX)
            except Exception as error:
                reason = folded(f"no link: {error}", _ACTIVITY_MAX)
                log.exception("failed to follow a link", extra={"sm_session": agent.session_id})
            await self._lose(agent, reason)
            if loop.time() - began_s >= _STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _open(self, agent: Agent, opener: LinkOpener) -> AgentLink:
        async with agent.lock:
            await self._sources.prepare(agent)
        session = self._store.sessions.get(agent.session_id)
        if session is None or agent.process is None:
            raise ConnectionError("the process is not known yet")
        sent = [
            message
            for message in self._store.mail.open.messages.values()
            if (message.session_id, message.via, message.state) == (session.id, LINK, MessageState.DELIVERING)
        ]
        target = LinkTarget(
            session.id,
            agent.process,
            session.working_dir,
            agent.environment or {},
            session.conversation,
            tuple(link_message_id(session.id, message.id) for message in sent),
        )
        return BoundedLink(await within(_OPENS_WITHIN_S, opener.open(target)))

    async def _serve(self, agent: Agent, link: AgentLink) -> None:
        """Follow an open link until it is lost. Raises the error of a listener."""
        self._links[agent.session_id] = link
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(serve) for serve in self._listeners.link_servers(agent.session_id, link)
                ]
                await asyncio.sleep(0)  # each of them is set up before the first event is read
                async for event in link.events():
                    await self._take(agent, event)
                for task in tasks:
                    task.cancel()
        except* ConnectionError:
            pass
        finally:
            if self._links.get(agent.session_id) is link:
                del self._links[agent.session_id]
            await link.close()

    async def _lose(self, agent: Agent, reason: str) -> None:
        try:
            await self._take(agent, StateUnknown(self._clock(), reason))
        except Exception:
            log.exception("failed to record the loss of a link", extra={"sm_session": agent.session_id})

    async def _take(self, agent: Agent, event: LinkEvent) -> None:
        async with agent.lock:
            if not self._is_observed(agent):
                return
            await self._record(agent, event)
        await self._listeners.link_event(agent, event)

    async def _record(self, agent: Agent, event: LinkEvent) -> None:
        session_id = agent.session_id
        match event:
            case StateUpdate(observation=observation):
                await self._follow_state(agent, observation)
            case StateUnknown(reason=reason):
                self._forget_state(agent, reason)
            case ConversationStarted():
                agent.uses.forget()
                agent.ledger.forget(Source.TRANSCRIPT, Source.SCREEN)
                await self._usage.begin_conversation(session_id, event.id)
                await self._recorder.learn(
                    session_id, event.id, event.transcript or None, event.model or None
                )
            case ConversationEnded():
                self._forget_state(agent, "the program has closed the conversation")
            case ToolUse():
                who = "subagent" if event.sidechain else ""
                agent.uses.begin(event.id, who, event.digest)
                if not event.sidechain:
                    agent.work = agent.work.start_tool()
                    agent.activity = folded(event.name, _ACTIVITY_MAX)
                await self._usage.report(session_id, tools=[event])
            case ToolEnd():
                agent.uses.end(event.tool_use)
                agent.ledger.end_use(event.tool_use)
                agent.work = agent.work.end_tool(failed=event.allowed is False)
            case Usage():
                await self._usage.report(session_id, usage=[event])
            case PlanUpdate():
                await self._usage.report(session_id, todo=event.entries)
            case ContextUpdate():
                await self._usage.report(session_id, context=(event.used, event.size))
            case MessageUpdate() | RequestOpened() | RequestResolved():
                pass  # the listeners record them
            case _:
                assert_never(event)

    def _forget_state(self, agent: Agent, reason: str) -> None:
        agent.ledger.forget(Source.PROTOCOL)
        agent.link_lost = reason
        agent.poke(screen_s=self._clock())

    async def _follow_state(self, agent: Agent, observation: Observation) -> None:
        observation = replace(observation, at=min(observation.at, self._clock()))
        agent.link_lost = None
        if observation.opens:
            agent.work = agent.work.begin(None)
        added = agent.add(observation, self._clock())
        await self.check_ready(agent)
        if observation.turn is not None:
            agent.expects_turn = False
        if not added:
            return
        if observation.answer:
            await self._usage.report(agent.session_id, answer=observation.answer)
        if observation.final:
            agent.uses.end_turn()
        await self._recorder.record_fault(agent.session_id, observation)
        session = self._store.sessions.get(agent.session_id)
        if session is not None and observation.activity is Activity.BUSY and observation.opens:
            await self._recorder.reopen(session, Source.PROTOCOL, iso(observation.at))
        await self._decide(agent)
        await self._keep_end(agent, observation)
