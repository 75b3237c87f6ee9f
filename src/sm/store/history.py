"""Reads the sessions that ended so long ago that they are no longer in memory.

Lookups of single sessions are synchronous: an indexed read of one row takes less than the switch to the thread of a
connection (docs/adr/0024). Everything that reads several rows awaits the reader's connection.
"""

import json
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import field, replace
from operator import attrgetter
from typing import TypeVar, cast
from urllib.parse import quote

from sm.core.attention import FAILURES, attention
from sm.core.attention import UNSEEN as UNSEEN_GROUPS
from sm.core.dataclass import dataclass
from sm.core.models import BridgeUser, Session
from sm.core.session_index import KnownSessions, oldest_first
from sm.core.states import TrustLevel
from sm.core.statuses import ENDED, Status
from sm.errors import UsageError
from sm.policy.relations import Principal
from sm.store.connection import Read
from sm.store.rows import SESSIONS
from sm.wire_types.live_answers import EarlierView

T = TypeVar("T")

CHUNK = 200
"""Sessions that are read at once."""
_FOUND_MAX = 256
"""Sessions found one by one that are remembered."""
_ANSWERS_MAX = 32
"""Answers about the history that are remembered, because most lists ask for the same."""
_OTHERS = (
    "SELECT 1 FROM sessions AS o WHERE o.friendly_name = s.friendly_name AND o.id <> s.id AND o.removed = 0"
)
_COLUMNS = f"{SESSIONS.columns}, EXISTS ({_OTHERS}) AS shares_name"
_SHORT_NAME = "substr(friendly_name, length(agent_type) + 2)"
_NAMES_TYPE = "substr(friendly_name, 1, length(agent_type) + 1) = lower(agent_type) || '-'"
_HAS_SHORT_NAME = f"friendly_name IS NOT NULL AND {_SHORT_NAME} = ? AND {_NAMES_TYPE}"
"""As `short_name`."""
SELECT = f"SELECT {_COLUMNS} FROM sessions AS s"  # noqa: S608 - constant names
"""The columns of sessions, with `shares_name`. The table's name is `s`."""


def texts(values: Iterable[str]) -> str:
    """The parameter of `among`."""
    return json.dumps(list(values))


def among(column: str) -> str:
    """The condition that the column is one of `texts`."""
    return f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant name


_ENDED = ", ".join(f"'{status}'" for status in sorted(ENDED))
_FAILED = ", ".join(f"'{status}'" for status in sorted(FAILURES))
_IS_ENDED = f"(ended = 1 AND status IN ({_ENDED}))"
UNFINISHED = f"NOT {_IS_ENDED}"
"""As `is_unfinished`."""
_CONCERNS_OPERATOR = "(parent_id IS NULL OR told_operator = 1 OR created_by NOT LIKE 'session:%')"
UNSEEN = (
    f"(archived = 0 AND status IN ({_FAILED}, '{Status.COMPLETED}') AND (seen_at IS NULL OR seen_at < status_at)"
    f" AND {_CONCERNS_OPERATOR})"
)
"""As `attention` says FAILED, DONE or OLDER of a session that has ended."""
READ_OF_KEPT = attrgetter("friendly_name", "parent_id", "workspace", "paired_user", "effective_mode")
"""The fields of sessions in memory that change what reads of the history return: names, trees and who sees them."""


def loaded(row: sqlite3.Row) -> Session:
    """The session of a row of `SELECT`."""
    session = SESSIONS.load(row)
    return replace(session, shares_name=True) if row["shares_name"] else session


@dataclass(frozen=True, slots=True)
class Chosen:
    """Sessions of the history that a list has. `where` and `values`: SQL; `keep`: what SQL cannot decide, if any.

    `key` names `keep`.
    """

    where: str = "1"
    values: tuple[str | int | None, ...] = ()
    keep: Callable[[Session], bool] | None = field(default=None, compare=False)
    key: str = ""
    is_tree: bool = False
    """Each read searches whole trees, so their ids are read once, and then the sessions by these."""

    def also(self, where: str, *values: str | int | None) -> "Chosen":
        return replace(self, where=f"{self.where} AND {where}", values=(*self.values, *values))


EVERY = Chosen()
_BELOW = (
    "id IN (WITH RECURSIVE below (id) AS (SELECT id FROM sessions WHERE removed = 0"
    " AND parent_id IN (SELECT value FROM json_each(?))"
    " UNION SELECT c.id FROM sessions AS c JOIN below ON c.parent_id = below.id WHERE c.removed = 0)"
    " SELECT id FROM below)"
)


def seen_by(principal: Principal) -> Chosen:
    """The sessions that are `visible` to a caller."""
    if principal is None or (isinstance(principal, BridgeUser) and principal.is_owner):
        return EVERY
    if isinstance(principal, BridgeUser) and principal.workspace is None:
        chosen = Chosen("workspace IS NULL AND paired_user = ?", (principal.name,))
    else:
        chosen = Chosen("workspace IS ?", (principal.workspace,))
    mode = principal.effective_mode if isinstance(principal, Session) else principal.trust
    return chosen if mode is TrustLevel.DIRECT else chosen.also("effective_mode = ?", TrustLevel.SANDBOXED)


def roots_for(principal: Principal) -> Chosen:
    """The sessions that the caller sees whose parents it does not see."""
    seen = seen_by(principal)
    parents = f"SELECT 1 FROM sessions AS p WHERE p.id = s.parent_id AND removed = 0 AND {seen.where}"  # noqa: S608 - constant texts
    return seen.also(f"NOT EXISTS ({parents})", *seen.values)


def children_of(parent_id: str, principal: Principal) -> Chosen:
    return seen_by(principal).also("parent_id = ?", parent_id)


def descendants_of(parent_id: str, principal: Principal) -> Chosen:
    return replace(seen_by(principal).also(_BELOW, texts([parent_id])), is_tree=True)


def may_be_below(principal: Principal) -> Chosen:
    """The sessions of which the caller may read everything: its descendants; for a person, those it sees."""
    return descendants_of(principal.id, principal) if isinstance(principal, Session) else seen_by(principal)


def beginning_with(prefix: str, chosen: Chosen) -> Chosen:
    """The sessions among `chosen` whose id or one of whose names begins with `prefix`: the newest 200 of each kind."""
    kinds = ("id", "friendly_name", _SHORT_NAME, "name")
    conditions = {
        _SHORT_NAME: f" AND friendly_name IS NOT NULL AND {_NAMES_TYPE}",
        "name": " AND friendly_name IS NULL",
    }
    found, values = list[str](), list[str | int | None]()
    for kind in kinds:
        where = f"{kind} >= ? AND {kind} < ?{conditions.get(kind, '')} AND removed = 0 AND {chosen.where}"
        found.append(f"id IN (SELECT id FROM sessions WHERE {where} ORDER BY status_at DESC LIMIT {CHUNK})")  # noqa: S608 - constant texts
        values += (prefix, prefix + "\x7f", *chosen.values)
    return replace(chosen, where=f"({' OR '.join(found)})", values=tuple(values))


def below(parents: Iterable[str]) -> Chosen:
    """The descendants of these sessions, which need not be in the history."""
    return Chosen(_BELOW, (texts(parents),), is_tree=True)


PastCounts = Mapping[tuple[Status, bool], int]
"""The number of sessions by their status, and by whether the operator has not seen their end (`UNSEEN`).

Those with the oldest session come first.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Sessions, those that ended last first. `next`: where the next page begins, or None if there is none."""

    sessions: Sequence[Session] = ()
    next: str | None = None
    left: int = 0
    """The number of sessions after this page."""


def connect_reader(path: str) -> sqlite3.Connection:
    """A connection that only reads, for the loop's thread."""
    db = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    return db


class History:
    """`sessions`: those in memory, which no read of this class returns unless it finds them by name."""

    def __init__(self, path: str, read: Read, sessions: KnownSessions) -> None:
        self._read = read
        self._sessions = sessions
        self._db = connect_reader(path)
        self._found: OrderedDict[str, Session] = OrderedDict()
        self._answers: OrderedDict[Hashable, object] = OrderedDict()
        self._version = 0
        self.resets = 0
        """The changes of the history other than that sessions have left memory."""

    def close(self) -> None:
        self._db.close()

    def changed(self) -> None:
        """Forget what was read. Call it when sessions enter memory, are removed or renamed."""
        self.resets += 1
        self.grew()

    def grew(self) -> None:
        """Forget what was read. Call it when sessions leave memory."""
        self._found.clear()
        self._answers.clear()
        self._version += 1

    def follow_new(self, friendly_names: Iterable[str]) -> None:
        """Follow new sessions with these names, which old ones may have too. What is being read is not remembered."""
        if any(self.is_shared(name) for name in friendly_names):
            self.grew()
        self._version += 1

    # One session

    def find(self, session_id: str) -> Session | None:
        """The session with this id, as committed."""
        known = self._found.get(session_id)
        if known is None and 0 < len(session_id) <= CHUNK:
            rows = self._rows("id = ?", session_id)
            if not rows:
                return None
            known = rows[0]
            self._found[session_id] = known
            if len(self._found) > _FOUND_MAX:
                self._found.popitem(last=False)
        return known

    def named(self, word: str) -> list[Session]:
        """The sessions with this name, or with this friendly name with or without its agent type, oldest first.

        Of many with one friendly name some: the newest, and the newest of those that a caller may see (`seen_by`).
        """
        found = self._rows("id = ?", word[-8:])
        for name in ("friendly_name = ?", _HAS_SHORT_NAME):
            named = f"FROM sessions WHERE {name} AND removed = 0"
            newest = self._rows(f"id IN (SELECT id {named} ORDER BY created_at DESC LIMIT {CHUNK})", word)
            if len(newest) == CHUNK:
                kinds = "friendly_name, workspace, paired_user, effective_mode"
                each = f"SELECT id FROM (SELECT id, max(created_at) {named} GROUP BY {kinds})"  # noqa: S608 - constant texts
                newest += self._rows(f"id IN ({each})", word)
            found += newest
        return sorted({s.id: s for s in found}.values(), key=oldest_first)

    def with_prefix(self, prefix: str) -> list[Session]:
        """Some sessions whose id begins with `prefix`, by id. An id has only characters below the last one."""
        return self._rows("id >= ? AND id < ?", prefix, prefix + "\x7f")

    def has_any(self) -> bool:
        """True if there is a session, also in memory."""
        return bool(self._db.execute("SELECT 1 FROM sessions WHERE removed = 0 LIMIT 1").fetchall())

    def is_shared(self, friendly_name: str) -> bool:
        """True if several sessions have the name."""
        query = "SELECT 1 FROM sessions WHERE friendly_name = ? AND removed = 0 LIMIT 2"
        return len(self._db.execute(query, (friendly_name,)).fetchall()) > 1

    def newest_names(self, count: int) -> list[tuple[str, str, str | None]]:
        """The id, name and friendly name of the sessions that ended last."""
        query = (
            "SELECT id, name, friendly_name FROM sessions WHERE removed = 0 ORDER BY status_at DESC LIMIT ?"
        )
        return [
            tuple(row) for row in self._db.execute(query, (count,)) if not self._sessions.is_kept(row["id"])
        ]

    def _rows(self, where: str, *values: str) -> list[Session]:
        query = f"{SELECT} WHERE {where} AND removed = 0 LIMIT {CHUNK}"
        return [loaded(row) for row in self._db.execute(query, values)]

    # Lists

    async def page(self, chosen: Chosen, before: str | None, limit: int) -> Page:
        """The page of at most `limit` sessions that begins at `before`, or the first one if None. Raises UsageError."""
        if before is not None:
            at, separator, session_id = before.partition("_")
            if not separator:
                hint = "use the header SM-Next of the page before"
                raise UsageError(f"{before[:60]!r} is no page of a list", hint)
            chosen = chosen.also("(status_at, id) <= (?, ?)", at, session_id)
        return await self._remembered(("page", chosen, limit), lambda: self._page(chosen, limit))

    async def _page(self, chosen: Chosen, limit: int) -> Page:
        found, left = list[Session](), 0
        async for part in self.parts(chosen, limit + 1):
            left += len(part)
            found += part[: limit + 1 - len(found)]
            if len(found) > limit and chosen.keep is None:
                break
        if len(found) <= limit:
            return Page(found)
        left = left if chosen.keep is not None else await self.count(chosen)
        return Page(found[:limit], f"{found[limit].status_at}_{found[limit].id}", left - limit)

    async def _remembered(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Read it, unless that was done since the last change of the history."""
        if key not in self._answers:
            version, answer = self._version, await read()
            if version != self._version:
                return answer
            self._answers[key] = answer
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)
        return cast(T, self._answers[key])

    async def parts(self, chosen: Chosen = EVERY, first: int = CHUNK) -> AsyncIterator[list[Session]]:
        """Yield the sessions in parts, those that ended last first. Others run between two parts.

        `first`: how many are read first.
        """
        keep, part = chosen.keep, chosen
        if chosen.is_tree:
            ids = [row[0] for row in await self._select("id", chosen, "ORDER BY status_at DESC, id DESC")]
            for begin in range(0, len(ids), CHUNK):
                found = await self._chunk(Chosen(among("id"), (texts(ids[begin : begin + CHUNK]),)), CHUNK)
                yield found if keep is None else [session for session in found if keep(session)]
            return
        while True:
            size = min(first, CHUNK)
            found = await self._chunk(part, size)
            yield found if keep is None else [session for session in found if keep(session)]
            if len(found) < size:
                return
            first, last = CHUNK, found[-1]
            part = chosen.also("(status_at, id) < (?, ?)", last.status_at, last.id)

    async def all(self, chosen: Chosen = EVERY) -> list[Session]:
        """The sessions, those that ended last first."""
        return [session async for part in self.parts(chosen) for session in part]

    async def count(self, chosen: Chosen = EVERY) -> int:
        ((number,),) = await self._remembered(("count", chosen), lambda: self._select("count(*)", chosen))
        return int(number)

    async def ids(self, chosen: Chosen = EVERY) -> list[str]:
        return [row[0] for row in await self._select("id", chosen)]

    async def counts(self, chosen: Chosen = EVERY) -> PastCounts:
        return await self._remembered(("counts", chosen), lambda: self._counts(chosen))

    async def _counts(self, chosen: Chosen) -> PastCounts:
        if chosen.keep is None:
            rows = await self._select(
                f"status, {UNSEEN} AS unseen, count(*)",
                chosen,
                "GROUP BY status, unseen ORDER BY min(created_at)",
            )
            return {(Status(row[0]), bool(row[1])): row[2] for row in rows}
        found = Counter[tuple[Status, bool]]()
        for session in sorted(await self.all(chosen), key=oldest_first):
            found[session.status, attention(session, (), session.status_at) in UNSEEN_GROUPS] += 1
        return found

    async def by_workspace(self, chosen: Chosen) -> list[EarlierView]:
        columns, by = "workspace, archived, count(*)", "GROUP BY workspace, archived"
        rows = await self._remembered(("workspaces", chosen), lambda: self._select(columns, chosen, by))
        return [EarlierView(row[0], bool(row[1]), row[2]) for row in rows]

    async def ended_children(self, chosen: Chosen) -> list[tuple[str, Status, int]]:
        """Count the sessions: (parent, status, number)."""
        columns, by = "parent_id, status, count(*)", "GROUP BY parent_id, status"
        rows = await self._remembered(("children", chosen), lambda: self._select(columns, chosen, by))
        return [(row[0], Status(row[1]), row[2]) for row in rows]

    async def _chunk(self, chosen: Chosen, limit: int) -> list[Session]:
        rows = await self._select(_COLUMNS, chosen, f"ORDER BY status_at DESC, id DESC LIMIT {limit}")
        return [loaded(row) for row in rows]

    async def _select(self, columns: str, chosen: Chosen, rest: str = "") -> list[sqlite3.Row]:
        where = f"removed = 0 AND {_IS_ENDED} AND NOT {among('id')} AND {chosen.where}"
        query = f"SELECT {columns} FROM sessions AS s WHERE {where} {rest}"  # noqa: S608 - constant texts
        return await self._read(query, (texts(self._sessions), *chosen.values))
