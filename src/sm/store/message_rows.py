"""Messages, requests, notices and effects in the database, with a copy of the open ones in memory."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from sm.core.messages import Message, Notice
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.errors import NotFound
from sm.operations.request_operations import SEE_REQUESTS
from sm.store.connection import Read
from sm.store.open_work import Open
from sm.store.part import PartWrites, TablePart
from sm.store.rows import (
    MESSAGES,
    NOTICES,
    OUTBOX,
    REQUESTS,
    TELEGRAM_TEXTS,
    TIMERS,
    RowTable,
    encode_json,
    outgoing,
)
from sm.store.writes import StoreWriter

T = TypeVar("T")
_OPEN_EFFECTS = "state IN ('pending', 'taken')"
_CALLS = f"SELECT id, payload, state, created_at FROM outbox WHERE {_OPEN_EFFECTS} AND kind = 'telegram' ORDER BY id"  # noqa: S608 - constant


class MailLookup:
    """Finds messages and requests: the open ones in memory, the others with one indexed query."""

    def __init__(self, read: Read) -> None:
        self._read = read

    @property
    def open(self) -> Open:
        """The unfinished work in memory, as of the reader."""
        raise NotImplementedError

    async def message(self, message_id: int) -> Message:
        """Raises NotFound."""
        return await self._find(MESSAGES, self.open.messages, message_id, no_message(message_id))

    async def request(self, request_id: int) -> Request:
        """Raises NotFound."""
        missing = NotFound(f"no such request: r{request_id}", SEE_REQUESTS)
        return await self._find(REQUESTS, self.open.requests, request_id, missing)

    async def told_occasions(
        self, recipient: str | None, session_ids: Collection[str], occasions: Collection[str]
    ) -> set[str]:
        """The occasions of these sessions of which the recipient was told.

        A session was told with the message that it received; the operator, whose messages wait in an inbox, with the
        answer to a wait.
        """
        rows = await self._read(
            "SELECT occasion FROM notices AS n WHERE session_id IN (SELECT value FROM json_each(?1))"
            " AND occasion IN (SELECT value FROM json_each(?2)) AND recipient IS ?3"
            " AND (state = 'heard' OR (state = 'sent' AND ?3 IS NOT NULL AND EXISTS (SELECT 1 FROM messages"
            " WHERE id = n.message_id AND state IN ('submitted', 'acknowledged'))))",
            (encode_json(list(session_ids)), encode_json(list(occasions)), recipient),
        )
        return {row[0] for row in rows}

    async def request_of_hook(self, hook: str) -> Request | None:
        """The request with this hook key, open or closed."""
        requests = [r for r in self.open.requests.values() if r.hook == hook]
        requests = requests or await self._all(REQUESTS, "hook = ?", hook)
        return requests[0] if requests else None

    async def _find(self, table: RowTable[T], known: Mapping[int, T], number: int, missing: NotFound) -> T:
        if number in known:
            return known[number]
        rows = await self._all(table, "id = ?", number)
        if not rows:
            raise missing
        return rows[0]

    async def unacknowledged(self, session_id: str) -> list[Message]:
        """Messages typed or sent to the session that the agent has received but not finished."""
        where = "session_id = ? AND state = 'submitted' AND via = 'terminal' ORDER BY id"
        typed = await self._all(MESSAGES, where, session_id)
        where = "session_id = ? AND state = 'submitted' AND via = 'link' ORDER BY id"
        return typed or await self._all(MESSAGES, where, session_id)

    async def _all(self, table: RowTable[T], where: str, *values: Any) -> list[T]:
        return [table.load(row) for row in await self._read(f"{table.select} WHERE {where}", values)]


class MailWrites(MailLookup):
    """Writes messages, requests and notices in a transaction. `open` includes the transaction's own changes."""

    def __init__(self, tx: StoreWriter, numbers: Counter[str]) -> None:
        super().__init__(tx.read)
        self._tx = tx
        self._numbers = numbers

    @property
    def open(self) -> Open:
        return self._tx.open

    def new_id(self, table: str) -> int:
        """The next id, counted in memory because only one process writes. A failed transaction leaves a gap."""
        self._numbers[table] += 1
        return self._numbers[table]

    # Messages

    def add_message(self, message: Message, text: str) -> None:
        self._tx.insert_row("messages", MESSAGES.row(message) | {"text": text})
        self._tx.open = replace(self.open, messages=_with(self.open.messages, message, message.open))

    async def sent_at(self, sender: str, nth: int) -> str | None:
        """Time of the sender's `nth` newest message; None when there are fewer."""
        rows = await self._tx.read(
            "SELECT created_at FROM messages WHERE sender = ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (sender, nth - 1),
        )
        return rows[0][0] if rows else None

    async def sent_to_operator_at(self, sender: str, nth: int, newest: int) -> str | None:
        """Time of the sender's `nth` newest message to the operator, among its `newest` ones. None if fewer."""
        rows = await self._tx.read(
            "SELECT created_at FROM (SELECT id, session_id, created_at FROM messages WHERE sender = ?"
            " ORDER BY id DESC LIMIT ?) WHERE session_id IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?",
            (sender, newest, nth - 1),
        )
        return rows[0][0] if rows else None

    def move_message(self, before: Message, state: MessageState, at: str, **changes: Any) -> Message:
        """Change the state of a message. Raises IllegalState if the stored state differs from that of `before`."""
        after = replace(before, state=state, state_at=at, **changes)
        self._change(MESSAGES, before, after)
        self._tx.open = replace(self.open, messages=_with(self.open.messages, after, after.open))
        return after

    # Requests

    def add_request(self, request: Request) -> None:
        self._tx.insert_row("requests", REQUESTS.row(request))
        keep = request.open or request.unclaimed or request.unconfirmed
        self._tx.open = replace(self.open, requests=_with(self.open.requests, request, keep=keep))

    def change_request(self, before: Request, **changes: Any) -> Request:
        after = replace(before, **changes)
        self._change(REQUESTS, before, after)
        keep = after.open or after.unclaimed or after.unconfirmed
        self._tx.open = replace(self.open, requests=_with(self.open.requests, after, keep=keep))
        return after

    # Notices

    async def last_notice(self, session_id: str, prefix: str) -> Notice | None:
        """The newest notice about the session whose occasion begins with `prefix`, in any state."""
        where = "session_id = ? AND substr(occasion, 1, ?) = ? ORDER BY id DESC LIMIT 1"
        found = await self._all(NOTICES, where, session_id, len(prefix), prefix)
        return found[0] if found else None

    async def has_notice(self, session_id: str, occasion: str) -> bool:
        rows = await self._tx.read(
            "SELECT 1 FROM notices WHERE session_id = ? AND occasion = ?", (session_id, occasion)
        )
        return bool(rows)

    async def add_notice(self, notice: Notice) -> bool:
        """False when a notice of this occasion exists already."""
        if await self.has_notice(notice.session_id, notice.occasion):
            return False
        self._tx.insert_row("notices", NOTICES.row(notice))
        self._tx.open = replace(self.open, notices=_with(self.open.notices, notice, keep=True))
        return True

    def finish_notices(self, notices: Iterable[Notice], state: str, message_id: int | None = None) -> None:
        """Close notices: `sent` in a message, `heard` in an answer, or `dropped`."""
        left = dict(self.open.notices)
        for notice in notices:
            left.pop(notice.id, None)
            self._tx.write(
                "UPDATE notices SET state = ?, message_id = ? WHERE id = ?", (state, message_id, notice.id)
            )
        self._tx.open = replace(self.open, notices=left)

    async def queued_notices(self, session_id: str) -> dict[int, list[Notice]]:
        """The queued messages with a notice about the session: all their notices, by the id of the message."""
        rows = await self._tx.read(
            "SELECT DISTINCT message_id FROM notices WHERE session_id = ? AND state = 'sent'"
            " AND message_id IN (SELECT id FROM messages WHERE state = 'queued') ORDER BY message_id",
            (session_id,),
        )
        return {row[0]: await self._all(NOTICES, "message_id = ? ORDER BY id", row[0]) for row in rows}

    async def text(self, message_id: int) -> str:
        rows = await self._tx.read("SELECT text FROM messages WHERE id = ?", (message_id,))
        return str(rows[0][0])

    async def reopen_notices(
        self, message_ids: Collection[int], recipient: str | None, mark: str = ""
    ) -> None:
        """Make the notices of these messages pending again, for `recipient`, with `mark` before each text."""
        # Notices of a session that was removed in the meantime have no text.
        where = "message_id IN (SELECT value FROM json_each(?)) AND text <> ''"
        values = (encode_json(list(message_ids)),)
        reopened = await self._all(NOTICES, where, *values)
        self._tx.write(
            f"UPDATE notices SET state = 'pending', message_id = NULL, recipient = ? WHERE {where}",  # noqa: S608
            (recipient, *values),
        )
        pending = [replace(n, recipient=recipient, text=mark + n.text.removeprefix(mark)) for n in reopened]
        for before, after in zip(reopened, pending, strict=True):
            if after.text != before.text:
                self._tx.write("UPDATE notices SET text = ? WHERE id = ?", (after.text, after.id))
        notices = {**self.open.notices, **{n.id: n for n in pending}}
        self._tx.open = replace(self.open, notices=dict(sorted(notices.items())))

    def readdress(self, notice: Notice, recipient: str | None) -> None:
        self._tx.write("UPDATE notices SET recipient = ? WHERE id = ?", (recipient, notice.id))
        after = replace(notice, recipient=recipient)
        self._tx.open = replace(self.open, notices=_with(self.open.notices, after, keep=True))

    def reword_notice(self, session_id: str, occasion: str, text: str) -> None:
        """Change the text of a pending notice. A notice that is part of a message stays unchanged."""
        for notice in self.open.notices.values():
            if (notice.session_id, notice.occasion) == (session_id, occasion) and notice.text != text:
                self._tx.write("UPDATE notices SET text = ? WHERE id = ?", (text, notice.id))
                after = replace(notice, text=text)
                self._tx.open = replace(self.open, notices=_with(self.open.notices, after, keep=True))
                return

    def forget(self, session_id: str) -> None:
        """Erase the texts of a removed session. Pending notices about the session keep their text."""
        for statement in (
            "UPDATE messages SET text = '' WHERE session_id = ?",
            "UPDATE requests SET arguments = NULL, questions = '[]', answer = NULL, reason = NULL WHERE session_id = ?",
            "UPDATE notices SET text = '' WHERE session_id = ? AND state <> 'pending'",
        ):
            self._tx.write(statement, (session_id,))

    def _change(self, table: RowTable[Message] | RowTable[Request], before: Any, after: Any) -> None:
        self._tx.change(table, before, after, "state", f"number {before.id} of {table.name}")


class MailReads(MailLookup):
    """Reads of committed messages, requests and notices."""

    def __init__(self, read: Read) -> None:
        super().__init__(read)
        self._committed = Open()
        self.numbers = Counter[str]()
        self._of: Mapping[int, Message] = {}
        self._queued: dict[str | None, list[Message]] = {}

    @property
    def open(self) -> Open:
        return self._committed

    def publish(self, committed: Open) -> None:
        """Replace the copy in memory after a commit."""
        self._committed = committed

    def queued(self) -> Mapping[str | None, Sequence[Message]]:
        if self._of is not self.open.messages:
            self._of = self.open.messages
            self._queued = {}
            for message in self._of.values():
                if message.state is MessageState.QUEUED:
                    self._queued.setdefault(message.session_id, []).append(message)
        return self._queued

    async def load(self, parts: Iterable[TablePart[Any, PartWrites]]) -> None:
        """Read the unfinished work at the start of the daemon."""
        self._committed = Open(
            _by_id(await self._all(MESSAGES, "state IN ('queued', 'delivering') ORDER BY id")),
            _by_id(
                await self._all(
                    REQUESTS, "state = 'open' OR (state = 'answered' AND taken_at IS NULL) ORDER BY id"
                )
            ),
            _by_id(await self._all(NOTICES, "state = 'pending' ORDER BY id")),
            _by_id(await self._all(OUTBOX, f"{_OPEN_EFFECTS} AND kind <> 'telegram' ORDER BY id")),
            {timer.key: timer for timer in await self._all(TIMERS, "1 ORDER BY due_at")},
            _by_id(map(outgoing, await self._read(_CALLS, ()))),
            _by_id(await self._all(TELEGRAM_TEXTS, "1 ORDER BY id")),
            {part: rows for part in parts if (rows := await part.load(self._read))},
        )
        self.numbers = Counter(dict(await self._read("SELECT name, seq FROM sqlite_sequence", ())))

    async def messages(self, sessions: Collection[str] | None, limit: int) -> list[Message]:
        """The newest `limit` messages from or to these sessions (None for all), oldest first."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where = "(session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))"
            values = [encode_json(list(sessions))]
        return (await self._all(MESSAGES, f"{where} ORDER BY id DESC LIMIT {int(limit)}", *values))[::-1]

    async def texts(self, message_ids: Collection[int], most: int = -1) -> dict[int, str]:
        """The texts by message id, each cut to `most` characters (-1: whole)."""
        text = "text" if most < 0 else f"substr(text, 1, {int(most)})"
        query = f"SELECT id, {text} FROM messages WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - a number
        return dict(await self._read(query, (encode_json(list(message_ids)),)))

    async def marked_texts(self, message_ids: Collection[int]) -> dict[int, tuple[str, int]]:
        """The texts by message id, each with the number of lines of sm itself at its end."""
        query = "SELECT id, text, own_lines FROM messages WHERE id IN (SELECT value FROM json_each(?))"
        rows = await self._read(query, (encode_json(list(message_ids)),))
        return {number: (text, own_lines) for number, text, own_lines in rows}

    async def lost(self, sessions: Collection[str] | None = None) -> int:
        """Count the undelivered messages from and to these sessions (None for all).

        A message of sm itself does not count once its notices were readdressed.
        """
        ids = None if sessions is None else encode_json(list(sessions))
        rows = await self._read(
            "SELECT count(*) FROM messages WHERE state IN ('failed', 'expired') AND (sender <> 'sm'"
            " OR EXISTS (SELECT 1 FROM notices WHERE message_id = messages.id)) AND (?1 IS NULL"
            " OR session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))",
            (ids,),
        )
        return int(rows[0][0])

    async def requests(self, limit: int, sessions: Collection[str] | None = None) -> list[Request]:
        """The newest `limit` requests of these sessions (None for all), open or closed, oldest first."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where, values = "session_id IN (SELECT value FROM json_each(?))", [encode_json(list(sessions))]
        return (await self._all(REQUESTS, f"{where} ORDER BY id DESC LIMIT ?", *values, limit))[::-1]


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def _by_id(values: Iterable[N]) -> dict[int, N]:
    return {value.id: value for value in values}


def _with(known: Mapping[int, N], value: N, keep: bool) -> dict[int, N]:
    """`known` with `value` added or replaced; without `value` unless `keep`."""
    if keep:
        return {**known, value.id: value}
    return {number: other for number, other in known.items() if number != value.id}


def no_message(message_id: int) -> NotFound:
    return NotFound(f"no such message: {message_id}", "list your messages: sm log")
