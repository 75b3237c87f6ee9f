"""The worktrees that sm has made, or makes now, in the database, with a copy of all of them in memory."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from sm.capabilities.worktrees.model import MadeTree, PlannedTree, planned_from
from sm.capabilities.worktrees.rules import repository_of
from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.store import Open, Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, decode_json, encode_json, insertion

_SCHEMA = Schema(
    "worktrees",
    (
        # A row stays when its session is removed, as long as the directory does. `environment`: the variables with
        # which git runs, of a planned one only. `made`: the facts about a made one.
        """CREATE TABLE worktrees (
            path TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            state TEXT NOT NULL,
            plan TEXT NOT NULL,
            environment TEXT NOT NULL,
            made TEXT NOT NULL,
            created_at TEXT NOT NULL
        ) WITHOUT ROWID""",
    ),
)


class TreeState(StrEnum):
    """The values are stored in the database, so they never change."""

    PLANNED = "planned"
    BEGUN = "begun"
    """The daemon makes it. After a crash of the daemon, a part of it may be there."""
    SETTING_UP = "setting_up"
    """Made, and its set-up runs. After a crash of the daemon, the set-up may run or have ended."""
    MADE = "made"


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A worktree of a session, which may have been removed since."""

    path: str
    session_id: str
    state: TreeState
    plan: PlannedTree
    environment: Mapping[str, str]
    made: MadeTree | None
    created_at: str

    @property
    def git_directory(self) -> str | None:
        """The git directory of the repository, or None if an earlier version of sm has made the worktree."""
        return self.plan.common or None

    @property
    def start(self) -> str | None:
        """The commit that it began with, empty for none. None if it is not known."""
        if self.git_directory is None:
            return None
        return self.plan.start if self.made is None else self.made.start


def earlier_row(session_id: str, path: str, branch: str, created_at: str) -> TreeRow | None:
    """The row for a worktree that an earlier version of sm, or another client, has made. None if that is not one."""
    repository = repository_of(path, branch)
    if repository is None:
        return None
    plan = PlannedTree(path, branch, path, repository, common="", source=repository)
    return TreeRow(path, session_id, TreeState.MADE, plan, {}, None, created_at)


def _made(text: str) -> MadeTree | None:
    fields: dict[str, Any] = decode_json(text)
    return MadeTree(**fields) if fields else None


_TREES = RowTable(
    "worktrees",
    TreeRow,
    encode={
        "plan": lambda plan: encode_json(asdict(plan)),
        "environment": lambda environment: encode_json(dict(environment)),
        "made": lambda made: encode_json({} if made is None else asdict(made)),
    },
    decode={
        # A newer version knows more states. Nothing else is decided by them than who makes the tree.
        "state": lambda text: TreeState(text) if text in set(TreeState) else TreeState.MADE,
        "plan": lambda text: planned_from(decode_json(text)),
        "environment": decode_json,
        "made": _made,
    },
)

TreeRows = Mapping[str, TreeRow]
"""By path."""


class TreeReads:
    """Reads worktrees, as committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def rows(self) -> TreeRows:
        rows: TreeRows = PART.rows_of(self._store.mail.open)
        return rows

    def of(self, session_id: str) -> TreeRow | None:
        """The worktree of a session."""
        return next((row for row in self.rows.values() if row.session_id == session_id), None)


class TreeWrites(PartWrites):
    _tx: Transaction

    def find(self, path: str) -> TreeRow | None:
        row: TreeRow | None = self.rows.get(path)
        return row

    def awaited(self, session: Session) -> bool:
        """True if the session waits for its worktree."""
        return session.worktree is not None and is_awaited(self.find(session.worktree), session)

    def put(self, row: TreeRow) -> None:
        """Insert the row, or replace the one with its path."""
        self._tx.write(*insertion(_TREES.name, _TREES.row(row), verb="INSERT OR REPLACE"))
        self.keep({**self.rows, row.path: row})

    def erase(self, row: TreeRow) -> None:
        """Erase the row of a session. Does nothing if the path has that of another one by now."""
        found = self.find(row.path)
        if found is not None and found.session_id == row.session_id:
            self._tx.write("DELETE FROM worktrees WHERE path = ?", (row.path,))
            self.keep({other: kept for other, kept in self.rows.items() if other != row.path})


def is_awaited(row: TreeRow | None, session: Session) -> bool:
    """True if the session waits for the worktree of this row."""
    return row is not None and row.state is not TreeState.MADE and row.session_id == session.id


class TreeTable(TablePart[TreeReads, TreeWrites]):
    schema = _SCHEMA

    async def load(self, read: Read) -> TreeRows:
        rows = map(_TREES.load, await read(f"{_TREES.select} ORDER BY path", ()))
        return {row.path: row for row in rows}

    def reads(self, store: Store) -> TreeReads:
        return TreeReads(store)

    def writes(self, transaction: Transaction) -> TreeWrites:
        return TreeWrites(self, transaction)

    def postponed(self, session: Session, open: Open, now: float) -> str | None:
        """Postpone the start of a session until its worktree is made."""
        row = None if session.worktree is None else self.rows_of(open).get(session.worktree)
        return "its worktree is being made" if is_awaited(row, session) else None


PART = TreeTable()
