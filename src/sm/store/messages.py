"""What is still to be done: effects, messages, requests and notices in the database, the open ones in memory."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

from sm.core.messages import Message, Notice
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.errors import IllegalState, NotFound
from sm.store.rows import (
    MESSAGE_COLUMNS,
    NOTICE_COLUMNS,
    REQUEST_COLUMNS,
    decoded,
    encoded,
    message_from,
    message_row,
    notice_from,
    notice_row,
    request_from,
    request_row,
)

if TYPE_CHECKING:
    from sm.store.transaction import Transaction

_MESSAGES = f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM messages"  # noqa: S608 - column names of ours
_REQUESTS = f"SELECT {', '.join(REQUEST_COLUMNS)} FROM requests"  # noqa: S608 - column names of ours
_NOTICES = f"SELECT {', '.join(NOTICE_COLUMNS)} FROM notices"  # noqa: S608 - column names of ours

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Effect:
    """A row of the outbox: something to do to the outside world, once it is committed."""

    id: int
    kind: str
    """An EffectKind; of another text if a newer version has written the row."""
    session_id: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Open:
    """What is still to be done, by id, in order."""

    messages: Mapping[int, Message] = field(default_factory=dict)
    """Queued and delivering."""
    requests: Mapping[int, Request] = field(default_factory=dict)
    """Open; or answered, and the session that asked has not heard."""
    notices: Mapping[int, Notice] = field(default_factory=dict)
    """Not yet part of a message."""
    effects: Mapping[int, Effect] = field(default_factory=dict)
    """Pending and taken rows of the outbox."""


class Numbers:
    """The next ids. Taken in memory, because one process writes; what a failed unit took stays unused."""

    def __init__(self, last: Mapping[str, int]) -> None:
        self._last = dict(last)

    def next(self, table: str) -> int:
        number = self._last[table] = self._last.get(table, 0) + 1
        return number


class MailWrites:
    """The part of a transaction that is about messages, requests and notices. `open` is how it sees them."""

    def __init__(self, transaction: "Transaction", open: Open, numbers: Numbers) -> None:
        self._tx = transaction
        self._numbers = numbers
        self.open = open

    # Messages

    def new_id(self, table: str) -> int:
        return self._numbers.next(table)

    def add_message(self, message: Message, text: str) -> None:
        self._tx.insert_row("messages", message_row(message) | {"text": text})
        self.open = replace(self.open, messages=_with(self.open.messages, message, message.open))

    async def message(self, message_id: int) -> Message:
        """Raises NotFound."""
        found = self.open.messages.get(message_id)
        if found is None:
            rows = await self._tx.read(f"{_MESSAGES} WHERE id = ?", (message_id,))
            if not rows:
                raise NotFound(f"no such message: {message_id}")
            found = message_from(dict(rows[0]))
        return found

    async def unacknowledged(self, session_id: str) -> list[Message]:
        """What was typed to the session and has arrived, and may still be worked on."""
        rows = await self._tx.read(
            f"{_MESSAGES} WHERE session_id = ? AND state = 'submitted' AND via = 'terminal' ORDER BY id",
            (session_id,),
        )
        return [message_from(dict(row)) for row in rows]

    async def sent_at(self, sender: str, nth: int) -> str | None:
        """When the sender sent the newest but `nth` - 1 of its messages; None when there are not so many."""
        rows = await self._tx.read(
            "SELECT created_at FROM messages WHERE sender = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (sender, nth - 1),
        )
        return rows[0][0] if rows else None

    def move_message(self, before: Message, state: MessageState, at: str, **changes: Any) -> Message:
        """The only way to a new state. Raises IllegalState when it is no longer in the state of `before`."""
        after = replace(before, state=state, state_at=at, **changes)
        self._change("messages", message_row(before), message_row(after), before.state.value)
        self.open = replace(self.open, messages=_with(self.open.messages, after, after.open))
        return after

    # Requests

    def add_request(self, request: Request) -> None:
        self._tx.insert_row("requests", request_row(request))
        keep = request.open or request.unclaimed
        self.open = replace(self.open, requests=_with(self.open.requests, request, keep=keep))

    async def request(self, request_id: int) -> Request:
        """Raises NotFound."""
        found = self.open.requests.get(request_id)
        if found is None:
            rows = await self._tx.read(f"{_REQUESTS} WHERE id = ?", (request_id,))
            if not rows:
                raise NotFound(f"no such request: r{request_id}", "sm requests")
            found = request_from(dict(rows[0]))
        return found

    async def request_of_hook(self, hook: str) -> Request | None:
        """The request that was opened under this key, whatever has become of it."""
        found = next((r for r in self.open.requests.values() if r.hook == hook), None)
        if found is None:
            rows = await self._tx.read(f"{_REQUESTS} WHERE hook = ?", (hook,))
            found = request_from(dict(rows[0])) if rows else None
        return found

    def change_request(self, before: Request, **changes: Any) -> Request:
        after = replace(before, **changes)
        self._change("requests", request_row(before), request_row(after), before.state.value)
        keep = after.open or after.unclaimed
        self.open = replace(self.open, requests=_with(self.open.requests, after, keep=keep))
        return after

    # Notices

    async def add_notice(self, notice: Notice) -> bool:
        """False when this occasion has been noted before."""
        told = await self._tx.read(
            "SELECT 1 FROM notices WHERE session_id = ? AND occasion = ?",
            (notice.session_id, notice.occasion),
        )
        if told:
            return False
        self._tx.insert_row("notices", notice_row(notice))
        self.open = replace(self.open, notices=_with(self.open.notices, notice, keep=True))
        return True

    def finish_notices(self, notices: Iterable[Notice], state: str, message_id: int | None = None) -> None:
        """Take notices off the pending ones: `sent` in a message, `heard` in an answer, or `dropped`."""
        left = dict(self.open.notices)
        for notice in notices:
            del left[notice.id]
            self._tx.write(
                "UPDATE notices SET state = ?, message_id = ? WHERE id = ?", (state, message_id, notice.id)
            )
        self.open = replace(self.open, notices=left)

    async def reopen_notices(self, message_ids: Collection[int], recipient: str | None) -> None:
        """Make the notices of these messages pending again, for `recipient`."""
        # Those of a session that was removed meanwhile have nothing more to tell.
        where = "message_id IN (SELECT value FROM json_each(?)) AND text <> ''"
        values = (encoded(list(message_ids)),)
        rows = await self._tx.read(f"{_NOTICES} WHERE {where}", values)
        found = [notice_from(dict(row) | {"recipient": recipient}) for row in rows]
        self._tx.write(
            f"UPDATE notices SET state = 'pending', message_id = NULL, recipient = ? WHERE {where}",  # noqa: S608
            (recipient, *values),
        )
        notices = {**self.open.notices, **{notice.id: notice for notice in found}}
        self.open = replace(self.open, notices=dict(sorted(notices.items())))

    def readdress(self, notice: Notice, recipient: str | None) -> None:
        self._tx.write("UPDATE notices SET recipient = ? WHERE id = ?", (recipient, notice.id))
        after = replace(notice, recipient=recipient)
        self.open = replace(self.open, notices=_with(self.open.notices, after, keep=True))

    def forget(self, session_id: str) -> None:
        """Remove the words of a session that is removed; what others were told stays."""
        self._tx.write("UPDATE messages SET text = '' WHERE session_id = ?", (session_id,))
        self._tx.write(
            "UPDATE requests SET arguments = NULL, questions = '[]', answer = NULL, reason = NULL"
            " WHERE session_id = ?",
            (session_id,),
        )
        self._tx.write(
            "UPDATE notices SET text = '' WHERE session_id = ? AND state <> 'pending'", (session_id,)
        )

    def _change(self, table: str, old: Mapping[str, Any], new: Mapping[str, Any], state: str) -> None:
        changed = {name: value for name, value in new.items() if value != old[name]}
        if not changed:
            return
        sets = ", ".join(f"{name} = ?" for name in changed)

        def check(cursor: sqlite3.Cursor) -> None:
            if cursor.rowcount != 1:
                raise IllegalState(f"number {old['id']} of {table} is not {state} any more")

        self._tx.write(
            f"UPDATE {table} SET {sets} WHERE id = ? AND state = ?",  # noqa: S608 - names of ours
            (*changed.values(), old["id"], state),
            check,
        )


class MailReads:
    """What readers see: the open ones at once, all of them by indexed queries."""

    def __init__(self, reader: aiosqlite.Connection) -> None:
        self._reader = reader
        self.open = Open()
        self.numbers = Numbers({})
        self._of: Mapping[int, Message] = {}
        self._queued: dict[str | None, list[Message]] = {}

    def queued(self) -> Mapping[str | None, Sequence[Message]]:
        """The queued messages of each recipient, in order."""
        if self._of is not self.open.messages:
            self._of = self.open.messages
            self._queued = {}
            for message in self._of.values():
                if message.state is MessageState.QUEUED:
                    self._queued.setdefault(message.session_id, []).append(message)
        return self._queued

    async def load(self) -> None:
        """Read what is open, at the start."""
        messages = await self._rows(f"{_MESSAGES} WHERE state IN ('queued', 'delivering') ORDER BY id")
        requests = await self._rows(
            f"{_REQUESTS} WHERE state = 'open' OR (state = 'answered' AND taken_at IS NULL) ORDER BY id"
        )
        notices = await self._rows(f"{_NOTICES} WHERE state = 'pending' ORDER BY id")
        effects = await self._rows(
            "SELECT id, kind, session_id, payload FROM outbox WHERE state IN ('pending', 'taken') ORDER BY id"
        )
        self.open = Open(
            {row["id"]: message_from(dict(row)) for row in messages},
            {row["id"]: request_from(dict(row)) for row in requests},
            {row["id"]: notice_from(dict(row)) for row in notices},
            {row["id"]: Effect(row[0], row[1], row[2], decoded(row[3])) for row in effects},
        )
        self.numbers = Numbers(
            {row[0]: row[1] for row in await self._rows("SELECT name, seq FROM sqlite_sequence")}
        )

    async def message(self, message_id: int) -> Message:
        """As committed. Raises NotFound."""
        found = self.open.messages.get(message_id)
        if found is not None:
            return found
        rows = await self._rows(f"{_MESSAGES} WHERE id = ?", message_id)
        if not rows:
            raise NotFound(f"no such message: {message_id}")
        return message_from(dict(rows[0]))

    async def messages(self, sessions: Collection[str] | None, limit: int) -> list[Message]:
        """The newest `limit` from or to these sessions; None: all there are."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where = "(session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))"
            values = [encoded(list(sessions))]
        query = f"{_MESSAGES} WHERE {where} ORDER BY id DESC LIMIT {int(limit)}"
        return [message_from(dict(row)) for row in reversed(await self._rows(query, *values))]

    async def texts(self, message_ids: Collection[int], most: int = -1) -> dict[int, str]:
        """Their texts; `most`: only so many characters of each."""
        text = "text" if most < 0 else f"substr(text, 1, {int(most)})"
        rows = await self._rows(
            f"SELECT id, {text} FROM messages WHERE id IN (SELECT value FROM json_each(?))",  # noqa: S608 - a number
            encoded(list(message_ids)),
        )
        return {row[0]: row[1] for row in rows}

    async def lost(self, sessions: Collection[str] | None = None) -> int:
        """How many messages never arrived; not those of sm itself whose notices went to somebody else.

        From and to these sessions; None: all.
        """
        ids = None if sessions is None else encoded(list(sessions))
        rows = await self._rows(
            "SELECT count(*) FROM messages WHERE state IN ('failed', 'expired') AND (sender <> 'sm'"
            " OR EXISTS (SELECT 1 FROM notices WHERE message_id = messages.id)) AND (?1 IS NULL"
            " OR session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))",
            ids,
        )
        return int(rows[0][0])

    async def request(self, request_id: int) -> Request:
        """As committed. Raises NotFound."""
        found = self.open.requests.get(request_id)
        if found is not None:
            return found
        rows = await self._rows(f"{_REQUESTS} WHERE id = ?", request_id)
        if not rows:
            raise NotFound(f"no such request: r{request_id}", "sm requests")
        return request_from(dict(rows[0]))

    async def request_of_hook(self, hook: str) -> Request | None:
        """As committed: the request that was opened under this key."""
        found = next((r for r in self.open.requests.values() if r.hook == hook), None)
        if found is None:
            rows = await self._rows(f"{_REQUESTS} WHERE hook = ?", hook)
            found = request_from(dict(rows[0])) if rows else None
        return found

    async def requests(self, limit: int, sessions: Collection[str] | None = None) -> list[Request]:
        """The newest `limit` of these sessions (None: of all), whatever became of them."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where, values = "session_id IN (SELECT value FROM json_each(?))", [encoded(list(sessions))]
        rows = await self._rows(f"{_REQUESTS} WHERE {where} ORDER BY id DESC LIMIT ?", *values, limit)
        return [request_from(dict(row)) for row in reversed(rows)]

    async def _rows(self, query: str, *values: Any) -> list[aiosqlite.Row]:
        return list(await self._reader.execute_fetchall(query, values))


def _with(known: Mapping[int, V], value: Any, keep: bool) -> dict[int, V]:
    """`known` with `value` in its place, or without it."""
    if keep:
        return {**known, value.id: value}
    return {number: each for number, each in known.items() if number != value.id}
