"""Sums that outlive their sessions: work by time, reminders and retries, and who inherits those of removed ones."""

from collections.abc import Collection
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.core.time_slots import rest_of_slot, split
from sm.core.usage import FollowUpKind
from sm.store.connection import Read
from sm.store.rows import encode_json
from sm.store.writes import Writes


@dataclass(frozen=True, slots=True)
class RemovedSums:
    """A removed session, of which sums are stored, or one that ended long ago.

    It fulfils `policy.relations.AccessTarget`.
    """

    id: str
    heir: str | None
    """The nearest ancestor that is not removed, or None for the operator."""
    agent_type: str
    provider: str
    model: str | None
    account: str | None
    workspace: str | None
    effective_mode: TrustLevel
    paired_user: str | None
    status: Status
    created_at: str
    started_at: str | None
    completed_at: str | None
    worked_s: float
    is_removed: bool = True
    """False for a session that is not in memory, whose parent is `heir`."""


def only(sessions: Collection[str] | None, parameter: str = "?4") -> tuple[str, tuple[str, ...]]:
    """The condition that a row is of one of these sessions, after others, and its parameter. No condition for None."""
    if sessions is None:
        return "", ()
    chosen = f" AND session_id IN (SELECT value FROM json_each({parameter}))"  # noqa: S608 - a constant name
    return chosen, (encode_json(list(sessions)),)


class SumWrites(Writes):
    def add_work(self, session_id: str, since: str, seconds: float) -> None:
        """Count the work of a session that began at `since` and lasted so long."""
        self._tx.write_rows(
            "INSERT INTO work (session_id, at, seconds) VALUES (?, ?, ?)"
            " ON CONFLICT (session_id, at) DO UPDATE SET seconds = seconds + excluded.seconds",
            ((session_id, slot, seconds) for slot, seconds in split(since, seconds)),
        )

    def add_follow_up(self, session_id: str, kind: FollowUpKind, at: str) -> None:
        self._tx.write(
            "INSERT INTO follow_ups (session_id, kind, at) VALUES (?, ?, ?)", (session_id, kind.value, at)
        )

    def inherit(self, session_id: str, heir: str | None) -> None:
        """Give the sums of a session that is removed to its parent, with those that the session has inherited."""
        self._tx.write("UPDATE removed_sums SET heir = ? WHERE heir = ?", (heir or "", session_id))
        self._tx.write(
            "INSERT OR REPLACE INTO removed_sums (session_id, heir) VALUES (?, ?)", (session_id, heir or "")
        )


class SumReads:
    """Reads sums of sessions, and of removed ones."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def removed(self, session_ids: Collection[str] | None = None) -> list[RemovedSums]:
        """The removed sessions among these (None for all) whose sums are stored."""
        rows = await self._read(
            "SELECT s.id, r.heir, agent_type, provider, model, account, workspace, effective_mode, paired_user, status,"
            " created_at, started_at, completed_at, worked_s FROM removed_sums r JOIN sessions s ON s.id = r.session_id"
            " WHERE ?1 IS NULL OR r.session_id IN (SELECT value FROM json_each(?1))",
            (None if session_ids is None else encode_json(list(session_ids)),),
        )
        return [_removed_sums(*row) for row in rows]

    async def work_since(
        self, since: str, *, slots: bool, sessions: Collection[str] | None = None
    ) -> list[tuple[str, str, float]]:
        """(session, slot, seconds) of all work that is over; without `slots` one row with an empty slot a session.

        `sessions`: only of these. `since`: only later work; of the slot in which it lies, at most the rest of the slot.
        """
        at, by = ("at", "session_id, at") if slots else ("''", "session_id")
        first, rest_s = rest_of_slot(since)
        chosen, values = only(sessions, "?3")
        rows = await self._read(
            f"SELECT session_id, {at}, sum(iif(at = ?1, min(seconds, ?2), seconds)) FROM work"  # noqa: S608 - constant names
            f" WHERE at >= ?1{chosen} GROUP BY {by}",
            (first, rest_s, *values),
        )
        return [(row[0], row[1], row[2]) for row in rows]

    async def endings_since(
        self, since: str, sessions: Collection[str] | None = None
    ) -> list[tuple[str, str, Status]]:
        """(session, time, kind) of each ending, or of those of some sessions."""
        chosen, values = only(sessions, "?2")
        # With `+` the index of sessions is used, not the one of times.
        at = "timestamp" if sessions is None else "+timestamp"
        rows = await self._read(
            f"SELECT session_id, timestamp, type FROM events WHERE {at} >= ?1"  # noqa: S608 - constant texts
            f" AND type IN ('completed', 'error', 'abandoned', 'killed'){chosen}",
            (since, *values),
        )
        return [(row[0], row[1], Status(row[2])) for row in rows]

    async def follow_ups_since(
        self, since: str, sessions: Collection[str] | None = None
    ) -> list[tuple[str, str, FollowUpKind]]:
        """(session, time, kind) of each reminder and retry, or of those of some sessions."""
        kinds = list(FollowUpKind)
        chosen, values = only(sessions, "?2")
        rows = await self._read(
            f"SELECT session_id, at, kind FROM follow_ups WHERE at >= ?1{chosen}",  # noqa: S608 - constant texts
            (since, *values),
        )
        return [(row[0], row[1], FollowUpKind(row[2])) for row in rows if row[2] in kinds]


def _removed_sums(
    id: str,
    heir: str,
    agent_type: str,
    provider: str,
    model: str | None,
    account: str | None,
    workspace: str | None,
    mode: str,
    paired_user: str | None,
    status: str,
    *times: Any,
) -> RemovedSums:
    # An unknown level must not read as the most trusted one.
    level = TrustLevel.DIRECT if mode == TrustLevel.DIRECT else TrustLevel.SANDBOXED
    created_at, started_at, completed_at, worked_s = times
    return RemovedSums(
        id,
        heir or None,
        agent_type,
        provider,
        model,
        account,
        workspace,
        level,
        paired_user,
        Status(status),
        created_at,
        started_at,
        completed_at,
        worked_s,
    )
