"""Adopts agents: makes a session of an agent that a person started in a tmux pane."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.models import Caller, Launch, Process, RequestKey, SpawnRequest
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.errors import IllegalState, NoServer, NoTerminal, NotFound, UsageError
from sm.linux import processes
from sm.linux.files import read_or_empty
from sm.linux.process_limits import soft_limits
from sm.operations.hints import Hint, Use
from sm.operations.list_operations import SEE_SESSIONS
from sm.operations.session_operations import ADOPT, SHOW_STATUS, SPAWN
from sm.providers.base import Provider
from sm.sessions.authorizer import Authorizer
from sm.sessions.spawn import SessionResult, Spawner, as_payload
from sm.sessions.spawn_plan import SpawnPlanner
from sm.sessions.starts import START_WAIT_S, AgentStarts
from sm.store import Store, Transaction
from sm.terminals.base import ForeignPane, Lifecycle

_PUBLISHED_MAX_BYTES = 64 * 1024
_USUAL_TYPE = "general-purpose"


@dataclass(frozen=True, slots=True, eq=False)
class Adoptions:
    _store: Store
    _authorizer: Authorizer
    _spawner: Spawner
    _starts: AgentStarts
    _planner: SpawnPlanner
    _terminals: Lifecycle
    _providers: Mapping[str, Provider]

    async def adopt(
        self,
        caller: Caller,
        target: str,
        key: RequestKey | None,
        *,
        name: str | None,
        agent_type: str | None,
        trust: str | None,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> SessionResult:
        """Make a session of the agent that runs in the tmux pane `target`. Changes neither the agent nor its pane.

        Raises NotFound without such a pane, IllegalState when the pane is a session already or does not have exactly
        one agent, and the errors of a spawn.
        """
        self._authorizer.require(caller, ADOPT.audience, target)
        async with self._store.transaction(caller, key) as tx:
            earlier = tx.replayed
        if earlier is not None:
            return SessionResult(
                await self._starts.wait_for_start(caller, earlier, START_WAIT_S, is_connected)
            )
        pane = await self._pane(target)
        process, provider = await self._agent_in(pane)
        request = SpawnRequest(
            agent_type=agent_type or _usual_type(provider),
            name=name,
            working_dir=processes.working_dir(process.pid),
            trust=trust or TrustLevel.DIRECT.value,
            environment=processes.environment(process.pid),
            process_limits=soft_limits(process.pid),
        )
        planned = await self._planner.plan(caller, request, None, runs=True)
        if planned.session.provider != provider.name:
            raise UsageError(
                f"process {process.pid} in pane {pane.pane_id} is a {provider.name}, "
                f"but agent type {request.agent_type} is not",
                f"add --type {_usual_type(provider)}",
            )
        session = replace(
            planned.session,
            status_reason=f"adopted from pane {pane.pane_id}",
            effective_mode=TrustLevel.DIRECT,  # the agent runs outside of a sandbox
            model=None,
            conversation=await self._conversation(provider, planned.launch, process),
            token_hash=None,  # a running process cannot get a token
            program_version=None,  # that of a new process may be another one
        )
        flags = provider.flags_of(processes.command_line(process.pid))
        launch = replace(planned.launch, flags=flags, permission=None)
        planned = replace(planned, session=session, launch=launch)
        adopted = {"pane_id": pane.pane_id, "pane_pid": pane.pid, **as_payload(process)}
        async with self._store.transaction(caller, key) as tx:
            _refuse_an_adopted(tx, pane, process, adopted)
            inserted = await self._spawner.insert(tx, planned, caller, {"adopt": adopted})
        return SessionResult(
            await self._starts.wait_for_start(caller, inserted.id, START_WAIT_S, is_connected),
            planned.warnings,
        )

    async def _pane(self, target: str) -> ForeignPane:
        """Find the pane. Raises NotFound, and IllegalState for the terminal of a session."""
        try:
            pane = await self._terminals.look(target)
        except (NoTerminal, NoServer) as error:
            raise NotFound(
                f"no such pane: {folded(target, 80)} ({error.message})", "list panes: tmux list-panes -a"
            ) from None
        if pane.taken:
            raise IllegalState(
                f"pane {pane.pane_id} belongs to a terminal of this or another instance of sm",
                "sm adopt is for agents that you started yourself",
            )
        known = self._store.sessions.get(pane.session_id or "")
        if known is not None and known.exit is None:
            raise IllegalState(
                f"pane {pane.pane_id} is already session {short_label(known)}",
                Hint(Use(SHOW_STATUS, name_to_type(known))),
            )
        return pane

    async def _agent_in(self, pane: ForeignPane) -> tuple[Process, Provider]:
        """The only agent in the process tree of the pane. Descendants of an agent do not count as agents."""
        root = processes.identify(pane.pid)
        tree = [] if root is None else await asyncio.to_thread(processes.process_tree, root)
        agents: dict[int, tuple[Process, Provider]] = {}
        for process in tree:
            argv = processes.command_line(process.pid)
            for provider in self._providers.values():
                if argv and provider.adopts(argv):
                    agents[process.pid] = (process, provider)
        top = [agent for pid, agent in agents.items() if not agents.keys() & set(processes.ancestry(pid)[1:])]
        if len(top) == 1:
            return top[0]
        if not top:
            raise IllegalState(
                f"no agent runs in pane {pane.pane_id}",
                Hint("start the agent in the pane first, or a new one: ", Use(SPAWN, "AGENT_TYPE")),
            )
        pids = ", ".join(str(process.pid) for process, _ in top)
        raise IllegalState(
            f"more than one agent runs in pane {pane.pane_id}: processes {pids}",
            "end all of these processes but one",
        )

    async def _conversation(self, provider: Provider, launch: Launch, process: Process) -> str | None:
        """The id of the conversation from the agent's state file; None without one."""
        reader = provider.readers.state
        if reader is None:
            return None
        path = reader.path(launch.environment, process.pid)
        text = await asyncio.to_thread(read_or_empty, path, _PUBLISHED_MAX_BYTES)
        return reader.conversation(text, process) if text else None


def _usual_type(provider: Provider) -> str:
    types: Collection[str] = provider.agent_types
    if not types:
        raise UsageError(
            f"no agent type is configured for {provider.name}", "show the configuration: sm config"
        )
    return _USUAL_TYPE if _USUAL_TYPE in types else next(iter(types))


def _refuse_an_adopted(
    tx: Transaction, pane: ForeignPane, process: Process, adopted: Mapping[str, object]
) -> None:
    """Raise IllegalState if a session has this process, or is about to have it."""
    starts = [e.payload.get("adopt") for e in tx.mail.open.effects.values() if e.kind == EffectKind.START]
    has_session = any(s.process == process and s.exit is None for s in tx.unfinished_sessions())
    if has_session or adopted in starts:
        raise IllegalState(
            f"process {process.pid} in pane {pane.pane_id} already belongs to a session",
            SEE_SESSIONS,
        )
