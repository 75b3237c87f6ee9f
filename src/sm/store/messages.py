"""What is still to be done: effects, messages, requests and notices in the database, the open ones in memory."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sm.core.effects import Effect
from sm.core.messages import Message, Notice
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.errors import NotFound
from sm.store.connection import Read
from sm.store.rows import MESSAGES, NOTICES, OUTBOX, REQUESTS, RowTable, encoded

if TYPE_CHECKING:
    from sm.store.transaction import Transaction

T = TypeVar("T")


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


class MailLookup:
    """Finds messages and requests: the open ones in memory, the others by one indexed query."""

    def __init__(self, open: Open, read: Read) -> None:
        self.open = open
        self._read = read

    async def message(self, message_id: int) -> Message:
        """Raises NotFound."""
        missing = no_message(message_id)
        return await self._find(MESSAGES, self.open.messages, message_id, missing)

    async def request(self, request_id: int) -> Request:
        """Raises NotFound."""
        missing = NotFound(f"no such request: r{request_id}", "sm requests")
        return await self._find(REQUESTS, self.open.requests, request_id, missing)

    async def request_of_hook(self, hook: str) -> Request | None:
        """The request that was opened under this key, whatever has become of it."""
        found = [r for r in self.open.requests.values() if r.hook == hook]
        found = found or await self._all(REQUESTS, "hook = ?", hook)
        return found[0] if found else None

    async def _find(self, table: RowTable[T], known: Mapping[int, T], number: int, missing: NotFound) -> T:
        if number in known:
            return known[number]
        found = await self._all(table, "id = ?", number)
        if not found:
            raise missing
        return found[0]

    async def _all(self, table: RowTable[T], where: str, *values: Any) -> list[T]:
        return [table.load(row) for row in await self._read(f"{table.select} WHERE {where}", values)]


class MailWrites(MailLookup):
    """The part of a transaction that is about messages, requests and notices. `open` is how it sees them."""

    def __init__(self, transaction: "Transaction", open: Open, numbers: Counter[str]) -> None:
        super().__init__(open, transaction.read)
        self._tx = transaction
        self._numbers = numbers

    def new_id(self, table: str) -> int:
        """The next id. Counted in memory: one process writes. A transaction that fails leaves its ids unused."""
        self._numbers[table] += 1
        return self._numbers[table]

    # Messages

    def add_message(self, message: Message, text: str) -> None:
        self._tx.insert_row("messages", MESSAGES.row(message) | {"text": text})
        self.open = replace(self.open, messages=_with(self.open.messages, message, message.open))

    async def unacknowledged(self, session_id: str) -> list[Message]:
        """What was typed to the session and has arrived, and may still be worked on."""
        where = "session_id = ? AND state = 'submitted' AND via = 'terminal' ORDER BY id"
        return await self._all(MESSAGES, where, session_id)

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
        self._change(MESSAGES, before, after)
        self.open = replace(self.open, messages=_with(self.open.messages, after, after.open))
        return after

    # Requests

    def add_request(self, request: Request) -> None:
        self._tx.insert_row("requests", REQUESTS.row(request))
        keep = request.open or request.unclaimed
        self.open = replace(self.open, requests=_with(self.open.requests, request, keep=keep))

    def change_request(self, before: Request, **changes: Any) -> Request:
        after = replace(before, **changes)
        self._change(REQUESTS, before, after)
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
        self._tx.insert_row("notices", NOTICES.row(notice))
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
        found = await self._all(NOTICES, where, *values)
        self._tx.write(
            f"UPDATE notices SET state = 'pending', message_id = NULL, recipient = ? WHERE {where}",  # noqa: S608
            (recipient, *values),
        )
        notices = {**self.open.notices, **{n.id: replace(n, recipient=recipient) for n in found}}
        self.open = replace(self.open, notices=dict(sorted(notices.items())))

    def readdress(self, notice: Notice, recipient: str | None) -> None:
        self._tx.write("UPDATE notices SET recipient = ? WHERE id = ?", (recipient, notice.id))
        after = replace(notice, recipient=recipient)
        self.open = replace(self.open, notices=_with(self.open.notices, after, keep=True))

    def forget(self, session_id: str) -> None:
        """Remove the words of a session that is removed; what others were told stays."""
        for statement in (
            "UPDATE messages SET text = '' WHERE session_id = ?",
            "UPDATE requests SET arguments = NULL, questions = '[]', answer = NULL, reason = NULL WHERE session_id = ?",
            "UPDATE notices SET text = '' WHERE session_id = ? AND state <> 'pending'",
        ):
            self._tx.write(statement, (session_id,))

    def _change(self, table: RowTable[Message] | RowTable[Request], before: Any, after: Any) -> None:
        self._tx.change(table, before, after, "state", f"number {before.id} of {table.name}")


class MailReads(MailLookup):
    """What readers see, as committed."""

    def __init__(self, read: Read) -> None:
        super().__init__(Open(), read)
        self.numbers = Counter[str]()
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
        self.open = Open(
            _by_id(await self._all(MESSAGES, "state IN ('queued', 'delivering') ORDER BY id")),
            _by_id(
                await self._all(
                    REQUESTS, "state = 'open' OR (state = 'answered' AND taken_at IS NULL) ORDER BY id"
                )
            ),
            _by_id(await self._all(NOTICES, "state = 'pending' ORDER BY id")),
            _by_id(await self._all(OUTBOX, "state IN ('pending', 'taken') ORDER BY id")),
        )
        self.numbers = Counter(dict(await self._read("SELECT name, seq FROM sqlite_sequence", ())))

    async def messages(self, sessions: Collection[str] | None, limit: int) -> list[Message]:
        """The newest `limit` from or to these sessions; None: all there are."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where = "(session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))"
            values = [encoded(list(sessions))]
        return (await self._all(MESSAGES, f"{where} ORDER BY id DESC LIMIT {int(limit)}", *values))[::-1]

    async def texts(self, message_ids: Collection[int], most: int = -1) -> dict[int, str]:
        """Their texts; `most`: only so many characters of each."""
        text = "text" if most < 0 else f"substr(text, 1, {int(most)})"
        query = f"SELECT id, {text} FROM messages WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - a number
        return dict(await self._read(query, (encoded(list(message_ids)),)))

    async def lost(self, sessions: Collection[str] | None = None) -> int:
        """How many messages never arrived; not those of sm itself whose notices went to somebody else.

        From and to these sessions; None: all.
        """
        ids = None if sessions is None else encoded(list(sessions))
        rows = await self._read(
            "SELECT count(*) FROM messages WHERE state IN ('failed', 'expired') AND (sender <> 'sm'"
            " OR EXISTS (SELECT 1 FROM notices WHERE message_id = messages.id)) AND (?1 IS NULL"
            " OR session_id IN (SELECT value FROM json_each(?1)) OR sender IN (SELECT value FROM json_each(?1)))",
            (ids,),
        )
        return int(rows[0][0])

    async def requests(self, limit: int, sessions: Collection[str] | None = None) -> list[Request]:
        """The newest `limit` of these sessions (None: of all), whatever became of them."""
        where, values = "1", list[Any]()
        if sessions is not None:
            where, values = "session_id IN (SELECT value FROM json_each(?))", [encoded(list(sessions))]
        return (await self._all(REQUESTS, f"{where} ORDER BY id DESC LIMIT ?", *values, limit))[::-1]


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def _by_id(values: Iterable[N]) -> dict[int, N]:
    return {value.id: value for value in values}


def _with(known: Mapping[int, N], value: N, keep: bool) -> dict[int, N]:
    """`known` with `value` in its place, or without it."""
    if keep:
        return {**known, value.id: value}
    return {number: each for number, each in known.items() if number != value.id}


def no_message(message_id: int) -> NotFound:
    return NotFound(f"no such message: {message_id}", "sm log shows yours")
