"""Sums over each session and its descendants, kept up to date change by change. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Self, TypeAlias

from sm.core.dataclass import dataclass
from sm.core.usage import COST_DIGITS, TokenCounts, Usage

Price: TypeAlias = Callable[[Sequence[Usage]], float | None]
"""The cost of usage in US dollars, or None if unknown."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a session and its descendants, or the part of one session in them."""

    sessions: int = 0
    live: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)
    measured: int = 0
    """The sessions with counted tokens."""
    cost: float = 0.0
    """In US dollars, of the sessions whose price is known."""
    unpriced: int = 0
    """The sessions with counted tokens whose price is unknown, wholly or for a part of them."""
    removed: int = 0
    """Removed sessions, which count in no other number of sessions."""
    worked_ms: int = 0
    """Milliseconds of work that is over, without the work that is under way."""
    working: int = 0
    """The sessions that work now."""
    working_since_ms: int = 0
    """The sum of the times at which those sessions began to work, in milliseconds since the epoch."""
    unread: int = 0
    """The sessions of which some tokens cannot be read. They are among the unpriced ones."""

    @classmethod
    def of(cls, usages: Sequence[Usage], price: Price) -> Self:
        """The tokens of sums by model and their known cost."""
        is_unread = any(used.is_unread for used in usages)
        costs = [price([used]) for used in usages if used.context]
        return cls(
            tokens=TokenCounts.of(usages),
            measured=int(bool(usages)),
            cost=sum(cost for cost in costs if cost is not None),
            unpriced=int(is_unread or None in costs),
            unread=int(is_unread),
        )

    def plus(self, other: Self, sign: int = 1) -> Self:
        """The sum, or with `sign` -1 the difference."""
        mine, added = self.tokens, other.tokens
        return type(self)(
            self.sessions + sign * other.sessions,
            self.live + sign * other.live,
            TokenCounts(
                mine.input + sign * added.input,
                mine.output + sign * added.output,
                mine.cache_read + sign * added.cache_read,
                mine.cache_write + sign * added.cache_write,
            ),
            self.measured + sign * other.measured,
            self.cost + sign * other.cost,
            self.unpriced + sign * other.unpriced,
            self.removed + sign * other.removed,
            self.worked_ms + sign * other.worked_ms,
            self.working + sign * other.working,
            self.working_since_ms + sign * other.working_since_ms,
            self.unread + sign * other.unread,
        )

    def minutes(self, now_s: float) -> float:
        """Minutes of work until `now_s` (seconds since the epoch), to a tenth."""
        under_way_ms = max(0, self.working * int(now_s * 1000) - self.working_since_ms)
        return round((self.worked_ms + under_way_ms) / 60_000, 1)

    @property
    def known_cost_usd(self) -> float | None:
        """The part of the cost whose prices are known; None when there is none."""
        if not self.measured or (self.unpriced == self.measured and not self.cost):
            return None
        return round(self.cost, COST_DIGITS)

    @property
    def counted(self) -> TokenCounts | None:
        """The part of the tokens that is known; None when there is none."""
        if not self.measured or (self.unread == self.measured and self.tokens == TokenCounts()):
            return None
        return self.tokens

    @property
    def cost_usd(self) -> float | None:
        """None when nothing is counted, or when one price is unknown."""
        return round(self.cost, COST_DIGITS) if self.measured and not self.unpriced else None


@dataclass(frozen=True, slots=True)
class TreePart:
    """The place of a session in the tree, and its own part of the sums."""

    parent_id: str | None
    own: Totals


NO_TOTALS = Totals()
_NOTHING = TreePart(None, NO_TOTALS)


class TreeTotals:
    """The totals of every session. A parent may be unknown, or become known after its children."""

    def __init__(self) -> None:
        self._parts: dict[str, TreePart] = {}
        self._totals: dict[str, Totals] = {}

    def __getitem__(self, session_id: str) -> Totals:
        return self._totals.get(session_id, NO_TOTALS)

    def update(self, parts: Mapping[str, TreePart], removed: Collection[str] = ()) -> set[str]:
        """Set the parts of sessions, and forget the `removed` ones; return the ids of all changed totals.

        The children of a removed session keep their totals, and count for no ancestor.
        """
        changed: set[str] = set()
        wanted = {**parts, **dict.fromkeys(removed, _NOTHING)}
        moved = [s for s, part in wanted.items() if part.parent_id != self._part(s).parent_id]
        # First detach all, so that no intermediate state has a cycle when a parent and its child change places.
        for session_id in moved:
            part = self._part(session_id)
            changed |= self._add(part.parent_id, self[session_id], -1)
            self._parts[session_id] = TreePart(None, part.own)
        for session_id, part in wanted.items():
            before = self._part(session_id)
            if part.own != before.own:
                changed |= self._add(session_id, part.own.plus(before.own, -1))
                self._parts[session_id] = TreePart(before.parent_id, part.own)
        for session_id in moved:
            part = wanted[session_id]
            changed |= self._add(part.parent_id, self[session_id])
            self._parts[session_id] = part
        for session_id in removed:
            self._parts.pop(session_id, None)
            if self._totals.get(session_id) == Totals():
                self._totals.pop(session_id)
        return changed

    def _part(self, session_id: str) -> TreePart:
        return self._parts.get(session_id, _NOTHING)

    def _add(self, session_id: str | None, difference: Totals, sign: int = 1) -> set[str]:
        """Add the difference to the session and its ancestors, and return their ids."""
        if difference == Totals():
            return set()
        line = set(self._line(session_id))
        for member in line:
            self._totals[member] = self[member].plus(difference, sign)
        return line

    def _line(self, session_id: str | None) -> Iterator[str]:
        """The session and its ancestors."""
        while session_id is not None:
            yield session_id
            session_id = self._part(session_id).parent_id
