"""Exchanges of messages in the database: what sm did about two sessions that only answer each other."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from sm.core.exchanges import MessageExchange, Sent
from sm.store.rows import decode_json, encode_json, insertion

if TYPE_CHECKING:
    from sm.store.transaction import Transaction

_RECENT = "SELECT id, sender, created_at FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?"


class ExchangeWrites:
    def __init__(self, transaction: "Transaction") -> None:
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
        """The time of the last tool call of one of the two that was no call of sm; empty: none is known."""
        rows = await self._tx.read(
            "SELECT facts FROM observed WHERE session_id IN (SELECT value FROM json_each(?))",
            (encode_json([exchange.first, exchange.second]),),
        )
        facts = [decode_json(row[0]) for row in rows]
        return max((str((f.get("calls") or {}).get("worked_at") or "") for f in facts), default="")
