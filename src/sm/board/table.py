"""The rows of sessions, as the updates of the daemon tell them. Pure.

Ages are computed from the daemon's time, which comes with each update, so a wrong clock of the reader does not change
them. `clock_s`: the reader's own monotonic clock.
"""

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from sm.board.row import BoardRow, board_row
from sm.core.dataclass import dataclass
from sm.core.timestamps import epoch_s

if TYPE_CHECKING:
    from sm.client.live_stream import Json


@dataclass(frozen=True, slots=True)
class RowChange:
    """A complete update."""

    ids: Set[str]
    """The rows that are new, changed or removed."""
    before: Mapping[str, BoardRow]
    """All rows as they were before."""
    snapshot: bool = False
    """True if it has all rows."""


class SessionTable:
    def __init__(self) -> None:
        self.rows: Mapping[str, BoardRow] = {}
        """Every row, oldest first."""
        self.unarchived: Mapping[str, BoardRow] = {}
        """The rows of sessions that are not archived."""
        self.earlier: Sequence[Json] = ()
        """The numbers of sessions that have no row, each an EarlierView."""
        self.revision: str | None = None
        self.daemon_s = 0.0
        """The daemon's time at the last update, in seconds since the epoch."""
        self.received_s = 0.0
        """The reader's time at the last update."""
        self._lost_s: float | None = None
        self._partial: list[Json] = []
        """The first parts of an update that is not complete."""

    def apply(self, update: "Json", clock_s: float) -> RowChange | None:
        """Take an update of `/v1/live`. Returns None while more parts of it have to come."""
        self._partial.append(update)
        self.daemon_s, self.received_s, self._lost_s = epoch_s(update["at"]), clock_s, None
        if update["more"]:
            return None
        parts, self._partial = self._partial, []
        before = self.rows
        rows, ids = dict(before), set[str]()
        for part in parts:
            if part["snapshot"] and part is parts[0]:
                ids |= rows.keys()
                rows, self.earlier = {}, ()
            if (earlier := part.get("earlier")) is not None:  # an older daemon has no such field
                self.earlier = earlier
            for data in part["rows"]:
                row = board_row(data)
                rows[row.id] = row
                ids.add(row.id)
            for session_id in part["removed"]:
                if rows.pop(session_id, None) is not None:
                    ids.add(session_id)
        self.rows = rows
        is_mixed = any(row.data["archived"] for row in rows.values())
        self.unarchived = (
            {i: row for i, row in rows.items() if not row.data["archived"]} if is_mixed else rows
        )
        self.revision = update["revision"] or self.revision
        return RowChange(ids, before, parts[0]["snapshot"])

    def lose(self, clock_s: float) -> None:
        """Note that the daemon is gone. The rows stay as they were."""
        self._partial = []
        if self._lost_s is None:
            self._lost_s = clock_s

    def lost_for_s(self, clock_s: float) -> float | None:
        """The age of the rows without a daemon, or None if they are up to date."""
        return None if self._lost_s is None else max(0.0, clock_s - self._lost_s)

    def now_s(self, clock_s: float) -> float:
        """The daemon's time in seconds since the epoch. It stands still while the daemon is gone."""
        until_s = clock_s if self._lost_s is None else self._lost_s
        return self.daemon_s + max(0.0, until_s - self.received_s)
