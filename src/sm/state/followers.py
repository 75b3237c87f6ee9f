"""Followers of the usage and the facts of sessions, which register for them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.faults import Fault
from sm.core.models import Session
from sm.core.tool_calls import CallStep
from sm.core.usage import Usage
from sm.store import Transaction


class UsageFollower:
    """Acts in the transaction that stores the usage of an agent."""

    def needs_stored(self, session_id: str) -> bool:
        """True if `follow_usage` needs the usage that is stored already."""
        return False

    async def follow_usage(
        self,
        tx: Transaction,
        session: Session,
        usages: Sequence[Usage],
        stored: Mapping[str, Usage] | None,
    ) -> None:
        """Follow usage that the transaction is about to store.

        `stored`: the stored usage of these messages, by id, or None if it was not read.
        """

    async def follow_facts(
        self, tx: Transaction, session_id: str, facts: Mapping[str, Any], calls: Sequence[CallStep]
    ) -> None:
        """Follow changed facts in the transaction that stores them. Called again if that fails.

        `calls`: the state of the session's tool calls after each of the new ones.
        """


@dataclass(frozen=True, slots=True)
class MetLimit:
    """A limit of an account that ended a turn: its sessions wait, and this one gets a message to go on."""

    account: str
    words: str
    """For the notice."""
    roots: Collection[str]
    """Sessions that are told beside the parent."""
    is_news: bool
    """False if an earlier notice has said the same."""


class FaultFollower:
    """Acts in the transaction that records a failed turn."""

    async def follow_fault(
        self, tx: Transaction, session: Session, fault: Fault, at: float
    ) -> MetLimit | None:
        """Follow a turn that failed at `at` (seconds since the epoch). None if the session waits for no limit."""
        return None
