"""Reported ends of turns that no status shows yet, at most one for each session.

An agent that was answered does not report the end again, so it is on disk before the answer.
"""

from dataclasses import asdict, fields

from sm.core.faults import Fault, FaultKind
from sm.core.observation import Activity, Observation, Source
from sm.core.timestamps import iso
from sm.core.turns import ReportedEnd, TurnWork
from sm.store.connection import Read
from sm.store.rows import decode_json, encode_json
from sm.store.writes import Writes

_FIELDS = frozenset(f.name for f in fields(Observation))
_OF_WORK = frozenset(f.name for f in fields(TurnWork))


class TurnEndWrites(Writes):
    def keep(self, end: ReportedEnd) -> None:
        """Store the end in place of an earlier one of the session."""
        self._tx.write(
            "INSERT OR REPLACE INTO turn_ends (session_id, at, runs, work, observation)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                end.session_id,
                iso(end.observation.at),
                end.runs,
                encode_json(asdict(end.work)),
                encode_json(asdict(end.observation)),
            ),
        )

    def remove(self, session_id: str, until: str | None = None) -> None:
        """Remove the end of the session; with `until`, only one that is not later than this time."""
        self._tx.write(
            "DELETE FROM turn_ends WHERE session_id = ?1 AND (?2 IS NULL OR at <= ?2)", (session_id, until)
        )


class TurnEndReads:
    def __init__(self, read: Read) -> None:
        self._read = read

    async def find(self, session_id: str) -> ReportedEnd | None:
        rows = await self._read(
            "SELECT runs, work, observation FROM turn_ends WHERE session_id = ?", (session_id,)
        )
        if not rows:
            return None
        return ReportedEnd(session_id, rows[0][0], _observation(rows[0][2]), _work(rows[0][1]))


def _work(text: str) -> TurnWork:
    return TurnWork(**{name: known for name, known in decode_json(text).items() if name in _OF_WORK})


def _observation(text: str) -> Observation:
    value = {name: known for name, known in decode_json(text).items() if name in _FIELDS}
    fault = value.get("fault")
    value["fault"] = None if fault is None else Fault(**{**fault, "kind": FaultKind(fault["kind"])})
    return Observation(
        **{**value, "source": Source(value["source"]), "activity": Activity(value["activity"])}
    )
