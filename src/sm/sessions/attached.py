"""Marks ended sessions as seen whose terminal the operator has on the screen."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from sm.core.attention import is_unseen
from sm.core.dataclass import dataclass
from sm.core.models import OPERATOR, Session
from sm.errors import NoServer, TerminalUnreachable
from sm.sessions.seen import SeenSessions
from sm.store import Store
from sm.store.change_signal import ChangeSignal
from sm.terminals.base import Terminals


@dataclass(eq=False)
class AttachedOperator:
    """Follows the clients that show the terminals of sessions.

    A session is seen if a client of the operator shows its terminal at its end or later. Clients that an agent has
    started do not count. `is_operator` decides that about a process.
    """

    _store: Store
    _seen: SeenSessions
    _terminals: Terminals
    _is_operator: Callable[[int], Awaitable[bool]]
    _clients: dict[str, frozenset[str]] = field(init=False, default_factory=dict)
    """The clients of each session, as the terminal server reported them last."""
    _is_new: bool = field(init=False, default=False)
    _news: ChangeSignal = field(init=False, default_factory=ChangeSignal)
    _attached: frozenset[str] = field(init=False, default=frozenset())
    """The sessions that a client of the operator shows."""
    _marked: set[tuple[str, str]] = field(init=False, default_factory=set)
    """The endings that were marked, or stay unseen because the disk is full."""

    def __post_init__(self) -> None:
        self._terminals.on_viewers(self._changed)

    def shows(self, session_id: str) -> bool:
        """Return whether a client of the operator shows the terminal of this session."""
        return session_id in self._attached

    async def run(self) -> None:
        """Mark sessions as seen. Never returns."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_clients())
            group.create_task(self._follow_endings())

    def _changed(self, clients: Mapping[str, frozenset[str]]) -> None:
        self._clients.update(clients)
        self._is_new = True
        self._news.changed()

    async def _follow_clients(self) -> None:
        while True:
            await self._news.wait_until(lambda: self._is_new)
            self._is_new = False
            self._clients = {session_id: names for session_id, names in self._clients.items() if names}
            self._attached = await self._find_attached()
            self._marked = {key for key in self._marked if key[0] in self._attached}
            await self._mark_due()

    async def _follow_endings(self) -> None:
        while True:
            await self._store.wait_until(lambda: bool(self._due()))
            await self._mark_due()

    async def _find_attached(self) -> frozenset[str]:
        clients = dict(self._clients)
        try:
            pids = await self._terminals.client_pids() if clients else {}
        except (NoServer, TerminalUnreachable):
            return frozenset()
        wanted = {name for names in clients.values() for name in names}
        own = {name for name in wanted if name in pids and await self._is_operator(pids[name])}
        return frozenset(session_id for session_id, names in clients.items() if names & own)

    def _due(self) -> list[Session]:
        found = (self._store.sessions.get(session_id) for session_id in sorted(self._attached))
        unseen = (session for session in found if session is not None and is_unseen(session))
        return [s for s in unseen if (s.id, s.status_at) not in self._marked]

    async def _mark_due(self) -> None:
        due = self._due()
        self._marked |= {(session.id, session.status_at) for session in due}
        await self._seen.look(OPERATOR, due)
