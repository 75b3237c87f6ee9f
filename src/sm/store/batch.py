"""One commit of several transactions: the turns of the callers, and the changes to publish after the commit."""

import asyncio
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import cast

from sm.core.effects import Effect
from sm.core.models import Event, Session, Workspace
from sm.store.open_work import Open
from sm.store.transaction import Transaction


class WriteTurn:
    """The place of one caller in the queue of the writer.

    The writer grants the turn, the caller's task runs the body and hands the transaction back, and the writer
    commits it.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[Transaction] = loop.create_future()
        self.handed_back: asyncio.Future[bool] = loop.create_future()
        """Set when the body ends; True: commit the transaction."""
        self._woken: asyncio.Future[None] = loop.create_future()
        self._over = False
        self._error: Exception | None = None

    @property
    def cancelled(self) -> bool:
        """The caller was cancelled while it waited for its turn."""
        return self.granted.cancelled()

    def hand_back(self, *, keep: bool) -> None:
        if self.granted.done() and not self.cancelled:
            self.handed_back.set_result(keep)
        else:
            self.granted.cancel()

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: Exception) -> None:
        """Raise `error` in the caller, which waits for its turn or for the commit."""
        if not self.granted.done():
            self.granted.set_exception(error)
        elif not self._over:
            self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        self._over, self._error = True, error
        if not self._woken.done():
            self._woken.set_result(None)

    async def outcome(self) -> None:
        """Wait for the commit and raise its error. A cancelled caller also waits, then raises CancelledError."""
        cancelled: asyncio.CancelledError | None = None
        while not self._over:
            try:
                await self._woken
            except asyncio.CancelledError as error:
                cancelled = error
                self._woken = asyncio.get_running_loop().create_future()
        if cancelled is not None:
            raise cancelled
        if self._error is not None:
            raise self._error


@dataclass(slots=True)
class Changes:
    """Changes of the transactions of one batch so far. `open` and `workspaces` are complete, not differences."""

    open: Open
    workspaces: Mapping[str, Workspace]
    sessions: dict[str, Session] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def apply_to(self, committed: Mapping[str, Session]) -> Mapping[str, Session]:
        """The committed sessions, some or all, as the next transaction of the batch sees them; plus changed ones."""
        # Not a copy, which would lose the sessions that are not in memory. Transactions only read it.
        below = cast(MutableMapping[str, Session], committed)
        return ChainMap(self.sessions, below) if self.sessions else committed

    def add(self, tx: Transaction) -> None:
        self.sessions |= tx.sessions
        if tx.workspaces:
            self.workspaces = {**self.workspaces, **tx.workspaces}
        self.removed |= tx.removed
        self.open = tx.open
        self.events += tx.events
        self.effects += tx.effects
