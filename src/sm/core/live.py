"""The rows of live views. Pure data."""

from dataclasses import field

from sm.core.attention import Attention
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.tree_totals import Totals, TreePart
from sm.core.usage import SessionUsage, TokenCounts


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A session with all values that a live view shows. A view of it for one caller may contain less."""

    session: Session
    label: str
    """Compared, unlike `Session.shares_name`."""
    parent_label: str | None
    printed_s: int | None
    """The time of the last output of its terminal, in seconds since the epoch."""
    stale: bool
    usage: SessionUsage
    activity: str | None
    model: str | None
    """Compared, unlike that of `usage`."""
    said: str | None
    """The beginning of the agent's last words. Compared, unlike those of `usage`."""
    prompt: str | None
    """The beginning of the task that the session was started with."""
    requests: tuple[Request, ...]
    """The open requests that have no proposed answer, oldest first."""
    messages_held: int
    """The queued messages to the session."""
    attention: Attention
    """Its group for the operator."""
    last_words: str | None
    """The last words of a session that failed and that the operator has not seen."""
    children_failed: int
    children_done: int
    of_capabilities: tuple[object, ...]
    """Compared: the rows of capabilities that its fields show."""
    tree: Totals = field(default_factory=Totals)
    """The sums of the session and all its descendants, hidden ones included."""

    @property
    def part(self) -> TreePart:
        """The session's own part of the sums."""
        return live_part(self.session, self.usage)


def live_part(session: Session, used: SessionUsage) -> TreePart:
    """The part of a session in the sums of a live view."""
    own = Totals(
        sessions=1,
        live=int(is_live(session.status)),
        tokens=used.tokens or TokenCounts(),
        measured=int(used.tokens is not None),
        cost=used.cost_usd or 0.0,
        unpriced=int(used.tokens is not None and used.cost_usd is None),
    )
    return TreePart(session.parent_id, own)
