"""Usage in the database: a row for each message, and sums of them, which triggers change in the same transaction.

The rows make counting idempotent: a transcript that is read again replaces them. The sums are by session, model,
sub-agents and slot (core/time_slots.py). They outlive the rows of a removed session.
"""

from collections.abc import Collection, Iterable
from dataclasses import astuple, fields
from typing import Any

from sm.core.time_slots import SLOT_S, rest_of_slot, slot_at
from sm.core.timestamps import epoch_s, iso
from sm.core.usage import UNREAD, Usage
from sm.store import Schema, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import encode_json
from sm.store.sums import only
from sm.store.usage_counting import UsageReads, UsageWrites

_COMPLETED_LOOKED_AT = 50
"""Bounds the cost of a query that `sm progress --watch` repeats every second."""
_COMPLETED_MIN = 3
"""One or two sessions say little about the next one."""
_ANY_UNREAD = f"%{UNREAD}"
"""Matches the models of usage that could not be read. The tokens of such a session are too low."""
_COUNTED = tuple(f.name for f in fields(Usage) if f.name not in ("message_id", "sidechain"))
_ADD = (
    f"INSERT INTO usage (session_id, {', '.join(f.name for f in fields(Usage))})"  # noqa: S608 - constant names
    f" VALUES ({', '.join('?' * (1 + len(fields(Usage))))}) ON CONFLICT (session_id, message_id)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COUNTED)}"
    f" WHERE excluded.model NOT LIKE '%{UNREAD}' AND (model LIKE '%{UNREAD}' OR excluded.output >= output)"
    f" AND ({', '.join(_COUNTED)}) IS NOT ({', '.join(f'excluded.{name}' for name in _COUNTED)})"
)
"""The condition is that of `Usage.replaces`, and that a column changes: a transcript read again writes nothing."""
_KINDS = "input, output, cache_read, cache_write, cache_write_1h"
_SUMS = ", ".join(f"sum({kind})" for kind in _KINDS.split(", "))


def _slot(at: str) -> str:
    """The slot of a time in SQL, as `core.time_slots.slot_at`; empty without a time."""
    minute = f"(CAST(substr({at}, 15, 2) AS INTEGER) / 15) * 15"
    return f"iif({at} = '', '', substr({at}, 1, 14) || printf('%02d', {minute}))"


_ADD_UP = """ON CONFLICT (session_id, at, model, sidechain) DO UPDATE SET messages = messages + excluded.messages,
            input = input + excluded.input, output = output + excluded.output,
            cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
            cache_write_1h = cache_write_1h + excluded.cache_write_1h"""
_ADD_TO_SUM = f"""INSERT INTO usage_sums (session_id, at, model, sidechain, messages,
            input, output, cache_read, cache_write, cache_write_1h)
        VALUES (NEW.session_id, {_slot("NEW.at")}, NEW.model, NEW.sidechain, 1,
            NEW.input, NEW.output, NEW.cache_read, NEW.cache_write, NEW.cache_write_1h)
        {_ADD_UP};"""  # noqa: S608 - constant names
_OLD_SUM = f"""WHERE session_id = OLD.session_id AND at = {_slot("OLD.at")}
            AND model = OLD.model AND sidechain = OLD.sidechain"""
_SCHEMA = Schema(
    "usage",
    (
        # `messages`: the number of rows of `usage` in the sum.
        """CREATE TABLE usage_sums (
            session_id TEXT NOT NULL REFERENCES sessions (id),
            at TEXT NOT NULL,
            model TEXT NOT NULL,
            sidechain INTEGER NOT NULL,
            messages INTEGER NOT NULL,
            input INTEGER NOT NULL,
            output INTEGER NOT NULL,
            cache_read INTEGER NOT NULL,
            cache_write INTEGER NOT NULL,
            cache_write_1h INTEGER NOT NULL,
            PRIMARY KEY (session_id, at, model, sidechain)
        ) WITHOUT ROWID""",
        "CREATE INDEX usage_sums_by_time ON usage_sums (at)",
        f"""INSERT INTO usage_sums SELECT session_id, {_slot("at")}, model, sidechain, count(*), {_SUMS}
            FROM usage GROUP BY 1, 2, 3, 4""",  # noqa: S608 - constant names
        # The sums of removed sessions, whose messages nobody has counted. The table stays: an older sm, which knows no
        # schema of usage and opens the database all the same, writes into it.
        f"""INSERT INTO usage_sums SELECT session_id, at, model, sidechain, 1,
                input, output, cache_read, cache_write, cache_write_1h
            FROM removed_usage WHERE true {_ADD_UP}""",  # noqa: S608 - constant names
        f"""CREATE TRIGGER usage_added AFTER INSERT ON usage BEGIN
        {_ADD_TO_SUM}
    END""",
        f"""CREATE TRIGGER usage_replaced AFTER UPDATE ON usage BEGIN
        UPDATE usage_sums SET messages = messages - 1, input = input - OLD.input, output = output - OLD.output,
            cache_read = cache_read - OLD.cache_read, cache_write = cache_write - OLD.cache_write,
            cache_write_1h = cache_write_1h - OLD.cache_write_1h
        {_OLD_SUM};
        {_ADD_TO_SUM}
        DELETE FROM usage_sums {_OLD_SUM} AND messages = 0;
    END""",  # noqa: S608 - constant names
    ),
)


class CountedReads(UsageReads):
    """Reads sums, and rows of messages where a time is asked that no slot begins with."""

    counts = True

    def __init__(self, read: Read) -> None:
        self._read = read

    async def of(self, session_ids: Iterable[str]) -> dict[str, list[Usage]]:
        rows = await self._read(
            f"SELECT session_id, model, sidechain, {_SUMS} FROM usage_sums"  # noqa: S608 - constant names
            " WHERE session_id IN (SELECT value FROM json_each(?))"
            " GROUP BY session_id, model, sidechain ORDER BY session_id, model, sidechain",
            (encode_json(list(session_ids)),),
        )
        found: dict[str, list[Usage]] = {}
        for row in rows:
            used = Usage("", row[1], "", row[3], row[4], row[5], row[6], row[7], sidechain=bool(row[2]))
            found.setdefault(row[0], []).append(used)
        return found

    async def since(
        self, since: str, *, slots: bool = False, sessions: Collection[str] | None = None
    ) -> list[tuple[str, Usage]]:
        """See `UsageReads.since`. Of the slot in which `since` lies, the rows of messages count."""
        slot, first = _slots_since(since)
        shown, by = ("at", ", at") if slots else ("''", "")
        chosen, values = only(sessions)
        rows = await self._read(
            f"SELECT session_id, {shown}, model, {_SUMS} FROM ("  # noqa: S608 - constant names
            f"SELECT session_id, at, model, {_KINDS} FROM usage_sums WHERE at >= ?1{chosen}"
            f" UNION ALL SELECT session_id, {_slot('at')}, model, {_KINDS} FROM usage WHERE at >= ?2 AND at < ?1"
            f" AND session_id IN (SELECT session_id FROM usage_sums WHERE at = ?3{chosen})"
            f") GROUP BY session_id, model{by}",
            (first, since, slot, *values),
        )
        return [(row[0], _sum(*row[1:])) for row in rows]

    async def of_messages(self, session_id: str, message_ids: Iterable[str]) -> dict[str, Usage]:
        rows = await self._read(
            f"SELECT {', '.join(f.name for f in fields(Usage))} FROM usage WHERE session_id = ?"  # noqa: S608
            " AND message_id IN (SELECT value FROM json_each(?))",
            (session_id, encode_json(list(message_ids))),
        )
        return {
            row["message_id"]: Usage(**{**dict(row), "sidechain": bool(row["sidechain"])}) for row in rows
        }

    async def by_time(self, session_ids: Iterable[str], digits: int, since: str, until: str) -> list[Usage]:
        """Sums by time and model of several sessions; `at` is the first `digits` characters of the times.

        `since` and `until` are inclusive. Omits usage without a time.
        """
        rows = await self._read(
            f"SELECT substr(at, 1, ?) AS bucket, model, {_SUMS} FROM usage"  # noqa: S608 - constant names
            " WHERE session_id IN (SELECT value FROM json_each(?))"
            " AND at >= ? AND at <= ? AND at <> '' GROUP BY bucket, model",
            (digits, encode_json(list(session_ids)), since, until),
        )
        return [_sum(*row) for row in rows]

    async def by_step(
        self, session_ids: Iterable[str], since_s: float, until_s: float, step_s: int
    ) -> list[tuple[str, int, Usage]]:
        """Sums by session, part of the time and model, with the number of the part.

        `since_s`: of a slot, or of a minute if `step_s` is shorter than a slot. Then the rows of messages count, and
        sums of sessions that have no rows any more. Omits usage without a valid time.
        """
        since, until = iso(since_s), iso(until_s)
        sums = f"SELECT session_id, at, model, {_KINDS} FROM usage_sums WHERE at >= ?1 AND at < ?2"  # noqa: S608 - constant names
        if step_s % SLOT_S:
            sums = (
                f"{sums} AND NOT EXISTS (SELECT 1 FROM usage AS u WHERE u.session_id = usage_sums.session_id)"  # noqa: S608
                f" UNION ALL SELECT session_id, at, model, {_KINDS} FROM usage WHERE at >= ?1 AND at < ?2"
                " AND session_id IN (SELECT session_id FROM usage_sums WHERE at >= ?5 AND at < ?2)"
            )
        rows = await self._read(
            f"SELECT session_id, (CAST(strftime('%s', at) AS INTEGER) - ?3) / ?4 AS part, model, {_SUMS} FROM ({sums})"  # noqa: S608
            " WHERE session_id IN (SELECT value FROM json_each(?6)) AND part >= 0 GROUP BY session_id, part, model",
            (
                since[:16],
                until,
                int(since_s),
                step_s,
                slot_at(since_s),
                encode_json(list(session_ids)),
            ),
        )
        return [(row[0], row[1], _sum("", *row[2:])) for row in rows]

    async def tokens_between(self, session_id: str, since: str, until: str) -> list[tuple[str, int]]:
        rows = await self._read(
            "SELECT at, input + output FROM usage WHERE session_id = ? AND at > ? AND at <= ?",
            (session_id, since, until),
        )
        return [(row[0], row[1]) for row in rows]

    async def token_rates(self, agent_type: str) -> list[float]:
        rows = await self._read(
            "SELECT sum(u.input + u.output) * 60.0 / s.worked_s FROM usage_sums u"
            " JOIN (SELECT id, worked_s FROM sessions"
            " WHERE agent_type = ? AND status = 'completed' AND removed = 0 AND worked_s > 0"
            " ORDER BY completed_at DESC LIMIT ?) s ON s.id = u.session_id GROUP BY u.session_id"
            " HAVING NOT max(u.model LIKE ?)",
            (agent_type, _COMPLETED_LOOKED_AT, _ANY_UNREAD),
        )
        return [float(row[0]) for row in rows]

    async def usual_tokens(self, agent_type: str) -> int | None:
        rows = await self._read(
            "SELECT sum(u.input + u.output) FROM usage_sums u JOIN (SELECT id FROM sessions WHERE agent_type = ?"
            " AND status = 'completed' AND removed = 0 ORDER BY completed_at DESC LIMIT ?) s"
            " ON s.id = u.session_id GROUP BY u.session_id HAVING NOT max(u.model LIKE ?) ORDER BY 1",
            (agent_type, _COMPLETED_LOOKED_AT, _ANY_UNREAD),
        )
        totals = [row[0] for row in rows]
        return int(totals[len(totals) // 2]) if len(totals) >= _COMPLETED_MIN else None


class CountedWrites(PartWrites, CountedReads, UsageWrites):
    def __init__(self, part: "UsageTable", transaction: Transaction) -> None:
        PartWrites.__init__(self, part, transaction)
        CountedReads.__init__(self, transaction.read)

    def add(self, session_id: str, usages: Iterable[Usage]) -> None:
        self._tx.write_rows(_ADD, ((session_id, *astuple(usage)) for usage in usages))

    def forget(self, session_id: str) -> None:
        """Erase the rows of the session's messages. Its sums stay."""
        self._tx.write("DELETE FROM usage WHERE session_id = ?", (session_id,))


class UsageTable(TablePart[CountedReads, CountedWrites]):
    """The table `usage`, which the kernel's migrations made, and its sums."""

    schema = _SCHEMA

    def reads(self, store: Store) -> CountedReads:
        return CountedReads(store.read)

    def writes(self, transaction: Transaction) -> CountedWrites:
        return CountedWrites(self, transaction)


def _slots_since(since: str) -> tuple[str, str]:
    """The slot of the time, and the first slot that is wholly after it."""
    slot, rest_s = rest_of_slot(since)
    return slot, slot if rest_s == SLOT_S else slot_at(epoch_s(since) + SLOT_S)


def _sum(at: str, model: str, *kinds: Any) -> Usage:
    return Usage("", model, at, *kinds)


PART = UsageTable()
