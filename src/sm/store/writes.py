"""The statements of a transaction, and the base of classes that write rows with them."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import aiosqlite

from sm.core.dataclass import dataclass
from sm.errors import IllegalState, SmError
from sm.store.connection import Script, Statement
from sm.store.open_work import Open
from sm.store.rows import RowTable, insertion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """The statements that begin and end a transaction: its own commit, or a savepoint in a shared commit."""

    begin: str
    end: str
    undo: tuple[str, ...]


ALONE = Scope("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))
SHARED = Scope("SAVEPOINT unit", "RELEASE unit", ("ROLLBACK TO unit", "RELEASE unit"))


class StoreWriter:
    """Buffers the writes of one transaction.

    They are executed in one call, in order, before the next read and at the end of the transaction, because each call
    costs a thread switch (ADR 9).
    """

    def __init__(self, db: aiosqlite.Connection, scope: Scope, now: str, open: Open) -> None:
        self._db = db
        self._scope = scope
        self._held: list[Statement] = []
        self._begun = False
        self._script: asyncio.Task[aiosqlite.Cursor] | None = None
        self._failure: Exception | None = None
        self.now = now
        """The time at which the transaction began."""
        self.open = open
        """The unfinished work, with the changes of this transaction."""

    def write(
        self, sql: str, values: tuple[Any, ...], check: Callable[[sqlite3.Cursor], None] | None = None
    ) -> None:
        """Buffer a statement. `check` gets its cursor, in the database's thread, and may raise an SmError."""
        self._held.append(Statement(sql, values, check))

    def write_rows(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Buffer a statement for each of `rows`, which may be a generator: the database's thread iterates it."""
        self._held.append(Statement(sql, rows=rows))

    async def read(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        try:
            if self._held:
                # The store needs the result even when the caller is cancelled here.
                self._script = asyncio.create_task(self._run(self._due()))
                await asyncio.shield(self._script)
            return list(await self._db.execute_fetchall(sql, values))
        except Exception as error:
            self._failure = error
            raise

    async def _run(self, script: Script) -> aiosqlite.Cursor:
        return await self._db.executescript(script)

    def _due(self, *last: str) -> Script:
        held, self._held = self._held, []
        if not self._begun:
            self._begun = True
            held.insert(0, Statement(self._scope.begin))
        return Script([*held, *map(Statement, last)])

    async def end(self) -> None:
        """Execute the buffered writes. Only the store calls this. Raises the error of the first failed statement."""
        if self._failure is not None:
            raise self._failure
        if self._begun or self._held:
            await self._db.executescript(self._due(self._scope.end))

    async def undo(self) -> None:
        """Roll back. Only the store calls this. Raises aiosqlite.Error if SQLite rolled back the whole batch."""
        self._held = []
        try:
            if self._script is not None:
                await self._script
            if self._failure is not None:
                raise self._failure
        except (aiosqlite.IntegrityError, SmError):
            pass
        if self._begun:
            await self._db.executescript(Script([Statement(sql) for sql in self._scope.undo]))

    def insert_row(self, table: str, row: Mapping[str, Any]) -> None:
        self.write(*insertion(table, row))

    def change(self, table: RowTable[T], before: T, after: T, state: str, what: str) -> bool:
        """Update the columns that differ; False if none does.

        Optimistic lock: if the column `state` no longer has the value of `before`, the transaction fails with
        IllegalState, which calls the row `what`.
        """
        old, new = table.row(before), table.row(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        if not changed:
            return False

        def check(cursor: sqlite3.Cursor) -> None:
            if cursor.rowcount != 1:
                raise IllegalState(f"{what} is no longer {old[state]}")

        sets = ", ".join(f"{name} = ?" for name in changed)
        self.write(
            f"UPDATE {table.name} SET {sets} WHERE id = ? AND {state} = ?",  # noqa: S608 - constant names
            (*changed.values(), old["id"], old[state]),
            check,
        )
        return True


class Writes:
    """Writes rows in a transaction."""

    def __init__(self, tx: StoreWriter) -> None:
        self._tx = tx
