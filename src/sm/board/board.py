"""The list of sessions in a live view: order, folds, filter and selection. Pure.

Times are those of the reader's own clock (`clock_s`, monotonic).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sm.board.board_action import Target, audience
from sm.board.filter import Filter, parse_filter
from sm.board.needs import BoardNeed
from sm.board.order import NESTED, Line, Sort, arrange
from sm.board.row import BoardRow
from sm.board.table import RowChange, SessionTable

if TYPE_CHECKING:
    from sm.client.live_stream import Json

_TIMED_EVERY_S = 1.0


class Board:
    """Call `apply` for each update and `refresh` before each drawing.

    The order is taken anew only when the list rests, or when the person asks for another one: until then a changed row
    keeps its place, a removed one stays as a line that is `gone`, and a new one is only counted in `waiting`.

    Boards may share a `table`: its owner then calls `take` of each board with each change. `archived`: show archived
    sessions too, if the table has them.
    """

    def __init__(self, table: SessionTable | None = None, *, archived: bool = True) -> None:
        self.table = table or SessionTable()
        self._archived = archived
        self.lines: Sequence[Line] = ()
        self.selected: str | None = None
        """The id of the selected session."""
        self.filter = Filter()
        self.filter_text = ""
        self.sort = Sort.TREE
        self.workspace: str | None = None
        """The slug of the chosen workspace, or None for all."""
        self.waiting = 0
        """New rows that wait for a place in the list."""
        self._folded: set[str] = set()
        self._index: dict[str, int] = {}
        self._changed: set[str] = set()
        self._is_moved = bool(self.rows)
        """The order, or the set of the shown rows, may be another one."""
        self._arranged_at_s = 0.0
        self._known_audience: tuple[Mapping[str, BoardRow], str | None, Sequence[str]] = ({}, None, ())

    # The daemon

    @property
    def rows(self) -> Mapping[str, BoardRow]:
        """Every row that the view may show, oldest first."""
        return self.table.rows if self._archived else self.table.unarchived

    @property
    def earlier(self) -> int:
        """The sessions of the chosen workspace that have no row, because they ended too long ago."""
        return sum(
            counted["sessions"]
            for counted in self.table.earlier
            if self.workspace in (None, counted["workspace"]) and (self._archived or not counted["archived"])
        )

    @property
    def revision(self) -> str | None:
        return self.table.revision

    def apply(self, update: "Json", clock_s: float) -> None:
        """Take an update of `/v1/live`. Parts of an update have an effect when the last one has come."""
        change = self.table.apply(update, clock_s)
        if change is not None:
            self.take(change)

    def take(self, change: RowChange) -> None:
        """Note rows that the table has changed."""
        self._changed |= change.ids
        rows = self.rows
        for session_id in change.ids:
            before, row = change.before.get(session_id), rows.get(session_id)
            if before is None or row is None or self._moves(before, row):
                self._is_moved = True
                return

    def lose(self, clock_s: float) -> None:
        """Note that the daemon is gone. The rows stay as they were."""
        self.table.lose(clock_s)

    def lost_for_s(self, clock_s: float) -> float | None:
        """The age of the rows without a daemon, or None if they are up to date."""
        return self.table.lost_for_s(clock_s)

    def now_s(self, clock_s: float) -> float:
        """The daemon's time in seconds since the epoch. It stands still while the daemon is gone."""
        return self.table.now_s(clock_s)

    # The list

    def refresh(self, clock_s: float, *, rests: bool) -> bool:
        """Bring the lines up to date, and return whether one has changed. `rests`: nothing is pointed at."""
        rests = rests or not self.lines  # an empty list has nothing that a person could point at
        timed = self.filter.depends_on_time and clock_s - self._arranged_at_s >= _TIMED_EVERY_S
        if not self._changed and not (rests and (self._is_moved or timed)):
            return False
        if rests and (self._is_moved or timed):
            self.arrange(clock_s)
            return True
        changed, self._changed = self._changed, set()
        lines = list(self.lines)
        for session_id in changed & self._index.keys():
            place = self._index[session_id]
            line, row = lines[place], self.rows.get(session_id)
            lines[place] = line._replace(row=row or line.row, gone=row is None)
        self.lines = lines
        self.waiting = self._count_waiting() if self._is_moved else 0
        return True

    def arrange(self, clock_s: float) -> None:
        """Take the order anew. The selected session stays selected; if it is gone, its neighbour is."""
        now_s = self.now_s(clock_s)
        rows = [row for row in self.rows.values() if self._is_shown(row, now_s)]
        folded = self._folded if self.filter.is_empty else ()
        before, place = self.lines, self.place
        self.lines = arrange(self.rows, rows, self.sort, folded)
        self._index = {line.row.id: number for number, line in enumerate(self.lines)}
        self._changed, self._is_moved, self.waiting, self._arranged_at_s = set(), False, 0, clock_s
        if self.selected not in self._index:
            self.selected = self._neighbour(before, place)

    @property
    def place(self) -> int:
        """The index of the selected line; 0 without one."""
        return self._index.get(self.selected or "", 0)

    @property
    def current(self) -> BoardRow | None:
        """The selected row, or None if there is none or its session is gone."""
        return self.rows.get(self.selected or "") if self.selected in self._index else None

    def target(self, need: BoardNeed | None = None, *, cwd: str = "") -> Target:
        """The selection for an action: the entry that needs a person, else the selected row."""
        row = self.current if need is None else self.rows.get(need.session_id or "")
        return Target(row, need, self.workspace, self._audience(), cwd)

    def _audience(self) -> Sequence[str]:
        """The live sessions of the chosen workspace."""
        rows, chosen, found = self._known_audience
        if rows is not self.rows or chosen != self.workspace:
            rows, chosen = self.rows, self.workspace
            found = audience(rows, chosen)
            self._known_audience = rows, chosen, found
        return found

    def move(self, steps: int) -> None:
        self.select(self.place + steps)

    def select(self, place: int) -> None:
        """Select the line at that place, or the nearest one."""
        if self.lines:
            self.selected = self.lines[min(max(place, 0), len(self.lines) - 1)].row.id

    # What the person asks for

    def filter_by(self, text: str, clock_s: float) -> None:
        self.filter_text, self.filter = text, parse_filter(text)
        self.arrange(clock_s)

    def sort_by(self, sort: Sort, clock_s: float) -> None:
        self.sort = sort
        self.arrange(clock_s)

    def choose(self, workspace: str | None, clock_s: float) -> None:
        """Show the sessions of one workspace, or of all with None."""
        self.workspace = workspace
        self.arrange(clock_s)

    def show(
        self,
        clock_s: float,
        *,
        workspace: str | None,
        sort: Sort,
        folded: Iterable[str],
        filter_text: str = "",
    ) -> None:
        """Set the whole view at once."""
        self.workspace, self.sort, self._folded = workspace, sort, set(folded)
        self.filter_by(filter_text, clock_s)

    @property
    def folded(self) -> Collection[str]:
        """The sessions whose descendants are hidden."""
        return self._folded

    def fold(self, session_id: str, clock_s: float, *, folded: bool | None = None) -> None:
        """Hide or show the descendants of a session, or toggle it with None."""
        if folded is None:
            folded = session_id not in self._folded
        (self._folded.add if folded else self._folded.discard)(session_id)
        self.arrange(clock_s)

    def reveal(self, session_id: str, clock_s: float) -> None:
        """Select a session, wherever it is: unfold its ancestors, and drop the filter and workspace that hide it."""
        row = self.rows.get(session_id)
        if row is None:
            return
        if self.workspace is not None and row.workspace != self.workspace:
            self.workspace = None
        if not self.filter.selects(row, self.now_s(clock_s)):
            self.filter_text, self.filter = "", Filter()
        parent, seen = row.parent_id, set[str]()
        while parent is not None and parent not in seen:
            seen.add(parent)
            self._folded.discard(parent)
            above = self.rows.get(parent)
            parent = above.parent_id if above else None
        self.arrange(clock_s)
        if session_id in self._index:
            self.selected = session_id

    def _moves(self, before: BoardRow, row: BoardRow) -> bool:
        """Return whether a changed row may have another place, or is shown in place of being hidden."""
        if before.parent_id != row.parent_id or before.workspace != row.workspace:
            return True
        now_s = self.table.daemon_s
        if not self.filter.is_empty and self._is_shown(before, now_s) != self._is_shown(row, now_s):
            return True
        match self.sort:
            case Sort.NEEDS_ME:
                return before.urgency != row.urgency
            case Sort.AGE:
                return (before.status_at_s, before.is_live) != (row.status_at_s, row.is_live)
            case Sort.COST:
                return before.cost != row.cost
            case Sort.NAME:
                return before.label != row.label
            case Sort.TREE:
                return False

    def _is_shown(self, row: BoardRow, now_s: float) -> bool:
        is_chosen = self.workspace is None or row.workspace == self.workspace
        return is_chosen and self.filter.selects(row, now_s)

    def _count_waiting(self) -> int:
        folded_away = self.sort in NESTED and bool(self._folded)
        if folded_away:  # a new row may belong below a fold: counting it would need the whole order
            return 0
        now_s = self.table.daemon_s
        return sum(
            1 for row in self.rows.values() if row.id not in self._index and self._is_shown(row, now_s)
        )

    def _neighbour(self, before: Sequence[Line], place: int) -> str | None:
        """The nearest line after, then before, the old place that is still shown."""
        for line in (*before[place:], *reversed(before[:place])):
            if line.row.id in self._index:
                return line.row.id
        return self.lines[0].row.id if self.lines else None
