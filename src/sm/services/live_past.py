"""Keeps the parts of the sums of sessions that are not in memory, below those that are."""

from collections.abc import Mapping

from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.core.tree_totals import NO_TOTALS, Totals, TreePart
from sm.policy.relations import Principal, visible

_Kind = tuple[str | None, str | None, TrustLevel]
"""The workspace, the paired user and the effective mode of sessions, which say who sees them."""


class LivePast:
    """The parts of sessions, which have no rows."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[TreePart, _Kind]] = {}
        self._alike: dict[_Kind, Session] = {}
        """A session of each kind."""
        self.number = 0
        """The number of changes."""

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._parts

    def put(self, session: Session, part: TreePart) -> None:
        kind = session.workspace, session.paired_user, session.effective_mode
        self._alike.setdefault(kind, session)
        self._parts[session.id] = part, kind
        self.number += 1

    def pop(self, session_id: str) -> None:
        if self._parts.pop(session_id, None) is not None:
            self.number += 1

    def sums(self, principal: Principal) -> Mapping[str, Totals]:
        """The sums of the sessions that the caller sees, each by its nearest ancestor that is not among them."""
        seen = {kind: visible(principal, session) for kind, session in self._alike.items()}
        sums: dict[str, Totals] = {}
        for part, kind in self._parts.values():
            above = part.parent_id
            while above in self._parts:
                above = self._parts[above][0].parent_id
            if above is not None and seen[kind]:
                sums[above] = sums.get(above, NO_TOTALS).plus(part.own)
        return sums
