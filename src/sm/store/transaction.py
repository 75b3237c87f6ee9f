"""What one unit of work may write: sessions, events, checkpoints, effects, and what `mail` holds."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import aiosqlite

from sm.core.effects import EffectKind
from sm.core.lifecycle import Decision, is_ended, is_live
from sm.core.models import Checkpoint, Event, EventType, Launch, Session, Workspace
from sm.errors import IllegalState, InternalError, NotFound
from sm.store.messages import Effect, MailWrites, Numbers, Open
from sm.store.rows import encoded, launch_to_json, to_row, workspace_row
from sm.store.usage import MeasureWrites


class Transaction:
    """What a unit of work may do. Valid only while its unit runs.

    Writes are held back and run together, in order, before the next read and at the end of the unit: a turn of
    the database's thread costs more than all of them (docs/benchmarks.md).
    """

    def __init__(
        self,
        db: aiosqlite.Connection,
        begin: str,
        sessions: Mapping[str, Session],
        workspaces: Mapping[str, Workspace],
        open: Open,
        numbers: Numbers,
    ) -> None:
        self._db = db
        self._begin = begin
        self._held: list[tuple[str, tuple[Any, ...], Callable[[sqlite3.Cursor], None] | None]] = []
        self._committed = sessions
        self._workspaces = workspaces
        self.begun = False
        """Whether the database knows of this transaction."""
        self.sessions: dict[str, Session] = {}
        self.workspaces: dict[str, Workspace] = {}
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.removed: set[str] = set()
        self.mail = MailWrites(self, open, numbers)
        self.measures = MeasureWrites(self.write)

    def write(
        self, sql: str, values: tuple[Any, ...], then: Callable[[sqlite3.Cursor], None] | None = None
    ) -> None:
        self._held.append((sql, values, then))

    async def read(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        if self._held:
            await self._run_held()
        return list(await self._db.execute_fetchall(sql, values))

    async def end(self, end: str) -> None:
        """Run what is still held back, and then `end`. After a failure nothing more is run, and `end` is not."""
        if self.begun or self._held:
            self.write(end, ())
            await self._run_held()

    async def _run_held(self) -> None:
        held, self._held = self._held, []
        if not self.begun:
            self.begun = True
            held.insert(0, (self._begin, (), None))

        def run(db: sqlite3.Connection) -> None:
            for sql, values, then in held:
                cursor = db.execute(sql, values)
                if then is not None:
                    then(cursor)

        # aiosqlite has no public call that runs several statements with values in one turn of its thread.
        await self._db._execute(run, self._db._conn)  # type: ignore[no-untyped-call]  # it is not typed

    def session(self, session_id: str) -> Session:
        """The session as this transaction sees it. Raises NotFound."""
        session = self.find(session_id)
        if session is None:
            raise NotFound(f"no such session: {session_id}")
        return session

    def find(self, session_id: str | None) -> Session | None:
        if session_id is None or session_id in self.removed:
            return None
        return self.sessions.get(session_id) or self._committed.get(session_id)

    def all_sessions(self) -> list[Session]:
        changed = [self.sessions.get(s.id, s) for s in self._committed.values()]
        new = [s for s in self.sessions.values() if s.id not in self._committed]
        return [s for s in (*changed, *new) if s.id not in self.removed]

    def workspace(self, slug: str) -> Workspace | None:
        """The workspace, a deleted one too, as this transaction sees it."""
        return self.workspaces.get(slug) or self._workspaces.get(slug)

    def all_workspaces(self) -> list[Workspace]:
        return list({**self._workspaces, **self.workspaces}.values())

    def put_workspace(self, workspace: Workspace) -> None:
        """Insert it, or write it over the one of its slug."""
        row = workspace_row(workspace)
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        self.write(
            f"INSERT OR REPLACE INTO workspaces ({names}) VALUES ({marks})",  # noqa: S608 - names of ours
            tuple(row.values()),
        )
        self.workspaces[workspace.slug] = workspace

    def insert_row(self, table: str, row: Mapping[str, Any]) -> None:
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        self.write(
            f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - names of ours
            tuple(row.values()),
        )

    async def insert(self, session: Session, launch: Launch, prompt: str | None) -> None:
        row = to_row(session) | {"spawn_prompt": prompt, "launch": launch_to_json(launch)}
        self.insert_row("sessions", row)
        self.sessions[session.id] = session

    async def remove(self, session: Session) -> None:
        """Forget the session. Its events stay, so that `seq` has no gaps, and with them a row without content."""
        self.write(
            "UPDATE sessions SET removed = 1, launch = '{}', spawn_prompt = NULL, title = NULL, note = NULL,"
            " completion_message = NULL, token_hash = NULL WHERE id = ?",
            (session.id,),
        )
        self.write("DELETE FROM checkpoints WHERE session_id = ?", (session.id,))
        self.write(
            "UPDATE outbox SET payload = '{}' WHERE session_id = ? AND state IN ('done', 'dead')",
            (session.id,),
        )
        self.measures.forget(session.id)
        self.mail.forget(session.id)
        self.removed.add(session.id)

    async def apply(self, session: Session, decision: Decision, **changes: Any) -> Session:
        """Move `session` as `decision` says. The only way to a new status.

        Raises IllegalState when the row is no longer in the status that was decided upon.
        """
        signal = decision.signal
        if is_ended(decision.before) and is_live(decision.after):
            changes |= {"openings": session.openings + 1, "completed_at": None}
            changes |= {"completion_status": None, "completion_message": None}
        if is_ended(decision.after) and not is_ended(decision.before):
            changes.setdefault("completed_at", signal.emitted_at)
            changes.setdefault("completion_status", decision.after.value)
            changes.setdefault("completion_message", signal.message)
        return await self._change(
            session,
            replace(
                session,
                status=decision.after,
                status_source=signal.source,
                status_reason=signal.reason,
                status_at=signal.emitted_at,
                **changes,
            ),
        )

    async def update(self, session: Session, **changes: Any) -> Session:
        """Change anything but the status."""
        if "status" in changes:
            raise InternalError("a status is changed by apply only")
        return await self._change(session, replace(session, **changes))

    async def _change(self, before: Session, after: Session) -> Session:
        old, new = to_row(before), to_row(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        if not changed:
            return before
        sets = ", ".join(f"{name} = ?" for name in changed)

        def check(cursor: sqlite3.Cursor) -> None:
            if cursor.rowcount != 1:
                raise IllegalState(f"session {before.id} is not {before.status} any more")

        self.write(
            f"UPDATE sessions SET {sets} WHERE id = ? AND status = ?",  # noqa: S608 - column names of ours
            (*changed.values(), before.id, before.status.value),
            check,
        )
        self.sessions[after.id] = after
        return after

    async def event(
        self, type: EventType, session: Session, at: str, message: str, metadata: Mapping[str, Any]
    ) -> None:
        def keep(cursor: sqlite3.Cursor) -> None:
            seq = cursor.lastrowid
            assert seq is not None
            self.events.append(Event(seq, type, session.id, session.parent_id, at, message, metadata))

        self.write(
            "INSERT INTO events (type, session_id, parent_session_id, timestamp, message, metadata)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (type.value, session.id, session.parent_id, at, message, encoded(dict(metadata))),
            keep,
        )

    async def newest_child_at(self, parent_id: str) -> str | None:
        """When the newest session that was ever inserted as its child came, whatever became of that since."""
        rows = await self.read(
            "SELECT timestamp FROM events WHERE type = 'spawned' AND parent_session_id = ? ORDER BY seq DESC LIMIT 1",
            (parent_id,),
        )
        return rows[0][0] if rows else None

    async def checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        self.write(
            "INSERT INTO checkpoints (session_id, timestamp, message, metadata) VALUES (?, ?, ?, ?)",
            (session_id, checkpoint.timestamp, checkpoint.message, encoded(dict(checkpoint.metadata))),
        )

    async def effect(self, kind: EffectKind, session_id: str, payload: Mapping[str, Any], at: str) -> None:
        effect = Effect(self.mail.new_id("outbox"), kind, session_id, payload)
        self.write(
            "INSERT INTO outbox (id, kind, session_id, payload, created_at) VALUES (?, ?, ?, ?, ?)",
            (effect.id, kind, session_id, encoded(dict(payload)), at),
        )
        self.effects.append(effect)
        self.mail.open = replace(self.mail.open, effects={**self.mail.open.effects, effect.id: effect})

    async def take(self, effect: Effect) -> None:
        """The effect is about to happen and must never be repeated."""
        self.write("UPDATE outbox SET state = 'taken' WHERE id = ?", (effect.id,))

    async def finish(self, effect: Effect, *, dead: str | None = None) -> None:
        """The effect is done, or given up for the reason `dead` (then it shows in `sm status`)."""
        self.write(
            "UPDATE outbox SET state = ?, reason = ?, payload = '{}' WHERE id = ?",
            ("dead" if dead else "done", dead, effect.id),
        )
        left = {key: each for key, each in self.mail.open.effects.items() if key != effect.id}
        self.mail.open = replace(self.mail.open, effects=left)

    def has_open(self, kind: EffectKind, session_id: str) -> bool:
        """Whether such an effect is still to be carried out, or is being carried out."""
        return any(e.kind == kind and e.session_id == session_id for e in self.mail.open.effects.values())

    async def recall(self, caller: str, key: str) -> tuple[str, str] | None:
        """(fingerprint, result) that `remember` stored for this caller and Idempotency-Key."""
        rows = await self.read(
            "SELECT fingerprint, result FROM idempotency WHERE caller = ? AND key = ?", (caller, key)
        )
        return (rows[0][0], rows[0][1]) if rows else None

    async def forget_keys(self, before: str) -> None:
        self.write("DELETE FROM idempotency WHERE created_at < ?", (before,))

    async def remember(self, caller: str, key: str, fingerprint: str, result: str, at: str) -> None:
        self.write(
            "INSERT INTO idempotency (caller, key, fingerprint, result, created_at) VALUES (?, ?, ?, ?, ?)",
            (caller, key, fingerprint, result, at),
        )
