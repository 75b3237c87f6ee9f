"""Starts sessions from copies of conversations."""

from collections.abc import Callable
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.models import Caller, RequestKey, ancestors
from sm.operations.session_operations import FORK
from sm.sessions.authorizer import Authorizer
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.resume_plan import ResumePlanner
from sm.sessions.spawn import SessionResult, Spawner
from sm.sessions.starts import START_WAIT_S, AgentStarts
from sm.state.part_holds import check_may_start
from sm.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Forks:
    _store: Store
    _authorizer: Authorizer
    _planner: ResumePlanner
    _files: ConversationFiles
    _spawner: Spawner
    _starts: AgentStarts

    async def fork(
        self,
        caller: Caller,
        reference: str,
        name: str | None,
        key: RequestKey | None,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> SessionResult:
        """Start a session from a copy of another session's conversation, under its nearest live ancestor.

        Returns when the agent has accepted the copy, as `Restorer.restore` does. Raises UsageError for an agent without
        conversations, IllegalState for one that has not begun any or whose conversation cannot be read,
        AgentStartFailed when the agent has ended at its start, and the errors of a spawn.
        """
        original = self._authorizer.find(caller, reference, FORK.audience)
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                check_may_start(tx, tx.session(original.id))
        living = (a for a in ancestors(original, self._store.sessions.get) if a.exit is None)
        parent = next(living, None)
        planned = await self._planner.fork(caller, original, parent, name)
        await self._files.give_back(original, planned.recovery)
        begun = await self._spawner.begin(caller, planned, key, START_WAIT_S, is_connected)
        if begun.session.process is None:  # its account is parked, or it has ended
            return begun
        return replace(
            begun, session=await self._starts.wait_for_agent(caller, begun.session.id, is_connected)
        )
