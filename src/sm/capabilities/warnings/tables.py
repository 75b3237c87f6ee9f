"""Warnings and exchanges in the database, with a copy of the open warnings in memory."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from sm.capabilities.warnings.model import MessageExchange, Sent, SessionWarning
from sm.core.warnings import WarningKind
from sm.store import Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, decode_json, encode_json, insertion

WARNINGS = RowTable(
    "warnings",
    SessionWarning,
    split={"limit": ("bound",)},
    encode={"limit": lambda limit: (limit,)},
    decode={"kind": WarningKind, "limit": float, "told": bool},
)

_RECENT = "SELECT id, sender, created_at FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?"


class WarningReads:
    """Reads the open warnings, as committed or as of a transaction."""

    def __init__(self, known: Callable[[], Mapping[str, tuple[SessionWarning, ...]]]) -> None:
        self.known = known

    def all_of(self, session_id: str) -> tuple[SessionWarning, ...]:
        """The open warnings of the session, oldest first."""
        return self.known().get(session_id, ())


class ExchangeWrites:
    def __init__(self, transaction: Transaction) -> None:
        self._tx = transaction

    async def find(self, first: str, second: str) -> MessageExchange:
        """The exchange of two sessions, in any order; an empty one when there is no row."""
        first, second = sorted((first, second))
        rows = await self._tx.read(
            "SELECT first, second, after_id, owner, request, is_refused FROM exchanges"
            " WHERE first = ? AND second = ?",
            (first, second),
        )
        if not rows:
            return MessageExchange(first, second)
        _, _, after_id, owner, request, is_refused = rows[0]
        return MessageExchange(first, second, after_id, owner, request, bool(is_refused))

    async def of_request(self, request_id: int) -> MessageExchange | None:
        """The exchange about which a request asks."""
        rows = await self._tx.read("SELECT first, second FROM exchanges WHERE request = ?", (request_id,))
        return await self.find(*rows[0]) if rows else None

    async def of_session(self, session_id: str) -> list[MessageExchange]:
        """The exchanges in which the session takes part."""
        rows = await self._tx.read(
            "SELECT first, second FROM exchanges WHERE first = ?1 OR second = ?1", (session_id,)
        )
        return [await self.find(*row) for row in rows]

    def put(self, exchange: MessageExchange) -> None:
        self._tx.write(*insertion("exchanges", asdict(exchange), verb="INSERT OR REPLACE"))

    def forget(self, session_id: str) -> None:
        """Delete the exchanges of a removed session."""
        self._tx.write("DELETE FROM exchanges WHERE first = ? OR second = ?", (session_id, session_id))

    async def sent(self, exchange: MessageExchange, most: int) -> list[Sent]:
        """The messages between the two, of the newest `most` that each of them got, in the order of sending."""
        found = list[Sent]()
        for recipient, sender in (
            (exchange.first, exchange.second),
            (exchange.second, exchange.first),
        ):
            rows = await self._tx.read(_RECENT, (recipient, most))
            found += [Sent(id, by, at) for id, by, at in rows if by == sender and id > exchange.after_id]
        return sorted(found, key=lambda message: message.id)

    async def worked_at(self, exchange: MessageExchange) -> str:
        """The time of the last tool call of one of the two that was no call of sm, or empty if none is known."""
        rows = await self._tx.read(
            "SELECT facts FROM observed WHERE session_id IN (SELECT value FROM json_each(?))",
            (encode_json([exchange.first, exchange.second]),),
        )
        facts = [decode_json(row[0]) for row in rows]
        return max((str((f.get("calls") or {}).get("worked_at") or "") for f in facts), default="")


class WarningWrites(WarningReads, PartWrites):
    """Opens, changes and closes warnings in a transaction."""

    def __init__(self, part: "WarningTable", transaction: Transaction) -> None:
        PartWrites.__init__(self, part, transaction)
        WarningReads.__init__(self, lambda: self.rows)
        self.exchanges = ExchangeWrites(transaction)

    def find(self, session_id: str, kind: WarningKind, subject: str = "") -> SessionWarning | None:
        """The open warning of this kind about this subject."""
        found = (w for w in self.all_of(session_id) if w.kind is kind and w.subject == subject)
        return next(found, None)

    def add(self, warning: SessionWarning) -> None:
        """Add an open warning. Its session must have none of that kind and subject."""
        self._tx.insert_row("warnings", WARNINGS.row(warning))
        self._keep(warning.session_id, (*self.all_of(warning.session_id), warning))

    def change(self, warning: SessionWarning, **changes: Any) -> SessionWarning:
        """Change an open warning; one that gets a `closed_at` is closed."""
        after = replace(warning, **changes)
        old, new = WARNINGS.row(warning), WARNINGS.row(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        if changed:
            sets = ", ".join(f"{name} = ?" for name in changed)
            self._tx.write(f"UPDATE warnings SET {sets} WHERE id = ?", (*changed.values(), warning.id))  # noqa: S608
        known = (after if w.id == warning.id else w for w in self.all_of(warning.session_id))
        self._keep(warning.session_id, tuple(w for w in known if w.closed_at is None))
        return after

    def forget(self, session_id: str) -> None:
        """Delete the warnings and the exchanges of a removed session."""
        self.exchanges.forget(session_id)
        self._tx.write("DELETE FROM warnings WHERE session_id = ?", (session_id,))
        if self.all_of(session_id):
            self._keep(session_id, ())

    def _keep(self, session_id: str, warnings: tuple[SessionWarning, ...]) -> None:
        known = {s: others for s, others in self.rows.items() if s != session_id}
        if warnings:
            known[session_id] = warnings
        self.keep(known)


class WarningTable(TablePart[WarningReads, WarningWrites]):
    """The table of warnings. Its copy has the open ones by session, oldest first."""

    by_session = keeps_sessions = True

    async def load(self, read: Read) -> Mapping[str, tuple[SessionWarning, ...]]:
        found: dict[str, tuple[SessionWarning, ...]] = {}
        for row in await read(f"{WARNINGS.select} WHERE closed_at IS NULL ORDER BY id", ()):
            warning = WARNINGS.load(row)
            found[warning.session_id] = (*found.get(warning.session_id, ()), warning)
        return found

    def reads(self, store: Store) -> WarningReads:
        return WarningReads(lambda: self.rows_of(store.mail.open))

    def writes(self, transaction: Transaction) -> WarningWrites:
        return WarningWrites(self, transaction)


PART = WarningTable()
