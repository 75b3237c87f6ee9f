"""The changes of the transactions of one commit, to publish after it."""

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import field
from typing import cast

from sm.core.dataclass import dataclass
from sm.core.effects import Effect
from sm.core.models import Event, Session, Workspace
from sm.store.open_work import Open
from sm.store.transaction import Transaction


@dataclass(slots=True)
class Changes:
    """Changes of the transactions of one batch so far. `open` and `workspaces` are complete, not differences."""

    open: Open
    workspaces: Mapping[str, Workspace]
    sessions: dict[str, Session] = field(default_factory=dict)
    inserted: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    left_names: set[str] = field(default_factory=set)
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
        self.inserted |= tx.inserted
        self.removed |= tx.removed
        self.left_names |= tx.left_names
        self.open = tx.open
        self.events += tx.events
        self.effects += tx.effects
