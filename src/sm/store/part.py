"""Tables of capabilities: what the store asks of them, and the rules that the kernel asks for their rows."""

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from sm.core.capability_parts import capability_parts
from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.core.replacement import replaced
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.usage import SaidText
from sm.errors import IllegalState, SmError
from sm.store.connection import Read
from sm.store.migrations import Schema
from sm.store.open_work import Open, Parts, Rows
from sm.store.writes import StoreWriter

Find = Callable[[str], Session | None]
"""Finds a session by its id."""
OUTPUTS_MAX = 6
"""How many outputs of a session are kept, the newest ones: each process has one, and restarts begin new ones."""


@dataclass(frozen=True, slots=True)
class WorkHold:
    """The reason for which a session begins no turn, and no agent starts below it."""

    subject: str
    """The part's name for what holds it."""
    reason: str
    """A few words: `budget of engineer-login reached`."""
    passes: int | None = None
    """The number of a message that the agent gets all the same."""
    keeps_paused: bool = False
    """Nobody can end the session's pause."""


class PartWrites:
    """Changes the rows of a part in a transaction.

    The transaction calls the other methods when it changes sessions; here they do nothing.
    """

    _tx: StoreWriter
    """The transaction. A part that needs more than statements annotates it as a `Transaction`."""

    def __init__(self, part: "TablePart[Any, Any]", transaction: StoreWriter) -> None:
        self._part = part
        self._tx = transaction

    @property
    def outliving(self) -> frozenset[RequestKind]:
        """As `TablePart.outliving`."""
        return self._part.outliving

    @property
    def rows(self) -> Rows:
        """The rows as of the transaction."""
        return self._part.rows_of(self._tx.open)

    def keep(self, rows: Rows) -> None:
        """Replace the copy of the rows in memory."""
        kept = {**self._tx.open.parts, self._part: rows}
        # In one order, since the first part that holds a session names the reason.
        parts = {part: kept[part] for part in known_parts() if kept.get(part)}
        self._tx.open = replaced(self._tx.open, parts=parts)

    def follow(self, before: Session, after: Session) -> None:
        """Follow a change of a session."""

    def forget(self, session_id: str) -> None:
        """Erase the rows of a session that is removed."""

    def follow_said(self, session_id: str, texts: Sequence[SaidText]) -> None:
        """Follow texts of the agent, which were read from its conversation. The same text may come again."""

    def follow_output(self, session_id: str, began: str, lines: Iterable[str], at: str) -> None:
        """Follow the output of the process that began at that time, in place of an earlier one of this process.

        `at`: the time of the output.
        """

    def forget_outputs(self, session_id: str) -> None:
        """Erase what is kept of the outputs of all processes of the session."""

    def binds(self, session: Session) -> bool:
        """True if a limit of the session must go on to bind its children when it ends (`Session.bound_to`)."""
        return False

    async def before_move(self, session: Session) -> None:
        """Prepare for another parent of the session, or for another one that binds it."""

    def after_move(self, before: Session, after: Session) -> None:
        """Follow the move of a session to another parent."""

    def check_removal(self, session: Session) -> None:
        """Raise IllegalState if the session cannot be removed."""

    def needless_requests(self, session: Session) -> Sequence[Request]:
        """The open requests of outliving kinds that ask for nothing once the session's process is gone."""
        return ()

    def start_refusal(self, hold: WorkHold) -> IllegalState:
        """The error for an agent that a hold of this part keeps from starting."""
        raise NotImplementedError

    def resume_refusal(self, session: Session, hold: WorkHold) -> IllegalState:
        """The error for a paused session that a hold of this part keeps from going on."""
        raise NotImplementedError

    async def keep_paused(self, session: Session) -> IllegalState | None:
        """Take over the pause of a session that is about to go on.

        Returns the error for a caller who may not end that pause, or None if nothing of this part keeps it paused.
        """
        return None

    def wait_refusal(self, session: Session, why: str) -> SmError:
        """The error for a new session that may not wait although it is postponed (`TablePart.postponed`)."""
        raise NotImplementedError


R = TypeVar("R")
W = TypeVar("W", bound=PartWrites)


class TablePart(Generic[R, W]):
    """The tables of a capability. Its module `tables` has one as PART."""

    outliving: ClassVar[frozenset[RequestKind]] = frozenset()
    """Kinds of requests that the end of their session's process does not cancel."""
    schema: ClassVar[Schema | None] = None
    """Its tables, or None for those of the kernel's migrations."""
    empty: ClassVar[Rows] = MappingProxyType({})
    """The copy in memory of a table without rows."""
    by_session: ClassVar[bool] = False
    """The copy is a mapping by session, and live views show it."""
    keeps_sessions: ClassVar[bool] = False
    """The sessions of that mapping stay in memory."""

    def rows_of(self, open: Open) -> Rows:
        """The copy of the rows in memory."""
        return self.rows_in(open.parts)

    def rows_in(self, parts: Parts) -> Rows:
        """The copy of the rows among those of all parts."""
        return parts.get(self, self.empty)

    async def load(self, read: Read) -> Rows:
        """Read the copy of the rows at the start of the daemon, if the part has one."""
        return self.empty

    def reads(self, store: Any) -> R:
        """Reads of the rows as committed. `store`: the `Store`, which is above this module, as is the transaction."""
        raise NotImplementedError

    def writes(self, transaction: Any) -> W:
        """Changes of the rows in a `Transaction`."""
        raise NotImplementedError

    def hold(self, session: Session, find: Find, rows: Rows) -> WorkHold | None:
        """The hold on the session and on starts of agents below it, or None if this capability has none."""
        return None

    def postponed(self, session: Session, open: Open, now: float) -> str | None:
        """Why the session begins no turn now, and its process starts later, or None if this part postpones nothing.

        Unlike a hold it refuses nothing. `now`: seconds since the epoch.
        """
        return None


def known_parts() -> tuple[TablePart[Any, PartWrites], ...]:
    """The tables of all capabilities."""
    return tuple(module.PART for module in capability_parts("tables"))


def known_schemas() -> tuple[Schema, ...]:
    """The schemas of all capabilities that have their own."""
    return tuple(part.schema for part in known_parts() if part.schema is not None)
