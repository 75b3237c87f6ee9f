"""Reads and writes of one transaction: sessions, events, checkpoints and effects, and through `mail` messages."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import aiosqlite

from sm.core.effects import Effect, EffectKind, EffectState
from sm.core.lifecycle import Decision, is_ended, is_live
from sm.core.messages import Message
from sm.core.models import Caller, Checkpoint, Event, Launch, RequestKey, Session, Workspace
from sm.core.pauses import PauseOrder
from sm.core.requests import Request
from sm.core.session_index import is_unfinished
from sm.core.states import EventType
from sm.core.statuses import Status
from sm.core.turns import FinishedTurn
from sm.core.warnings import Sign, WarningKind
from sm.core.work_time import track_work
from sm.errors import IllegalState, InternalError, NotFound
from sm.operations.list_operations import SEE_SESSIONS
from sm.store.history import SELECT, loaded
from sm.store.idempotency import IdempotencyKey
from sm.store.measures import MeasureWrites
from sm.store.message_rows import MailWrites
from sm.store.open_work import Open
from sm.store.part import PartWrites, TablePart
from sm.store.rows import (
    EVENTS,
    OUTBOX,
    SESSIONS,
    SHELL_LIMITS,
    TOLD,
    WORKSPACES,
    encode_json,
    insertion,
    launch_to_json,
)
from sm.store.sums import SumReads, SumWrites
from sm.store.telegram_preferences import PreferenceWrites
from sm.store.telegram_rows import TelegramWrites
from sm.store.telegram_texts import TextWrites
from sm.store.timers import TimerWrites
from sm.store.turn_ends import TurnEndWrites
from sm.store.usage_counting import UsageWrites
from sm.store.work_clock import RunClock, WorkClock
from sm.store.writes import Scope, StoreWriter

W = TypeVar("W", bound=PartWrites)


class SessionFollower:
    """Acts in the transaction of a change, once it is in `Store.followers`. The methods do nothing here."""

    async def follow_move(self, tx: "Transaction", before: Session, after: Session) -> None:
        """Follow the move of a session to another parent by a person."""

    async def leave(self, tx: "Transaction", session: Session) -> None:
        """Prepare for the removal of a session."""

    async def pause(self, tx: "Transaction", session: Session, order: PauseOrder) -> None:
        """Carry out an order to pause a live session, or to change its pause."""

    async def resume(self, tx: "Transaction", session: Session, by: str) -> None:
        """Carry out an order to end the pause of a session."""

    async def settle_status(self, tx: "Transaction", before: Status, session: Session) -> Session:
        """Complete a change of the session's status, before `follow_status` of all others. Returns the session."""
        return session

    async def follow_status(self, tx: "Transaction", session: Session) -> None:
        """Follow a change of the session's status or pause."""

    async def follow_turn(self, tx: "Transaction", session: Session, turn: FinishedTurn) -> Session:
        """Follow a finished turn of a session that is idle. Return the session, which may have another reason."""
        return session

    async def follow_request(self, tx: "Transaction", session: Session, request: Request) -> None:
        """Follow a request of the session that begins to wait for an answer."""

    async def follow_closed_request(self, tx: "Transaction", session: Session, request: Request) -> None:
        """Follow a request of the session that is closed."""

    async def admit(
        self, tx: "Transaction", sender: Session | None, to: Session, message: Message
    ) -> Message:
        """Return the new message as it is sent: at once, later, or held. Raises IllegalState.

        `sender`: None for a person.
        """
        return message

    def warns_of(self, kind: WarningKind) -> bool:
        """True if a sign of this kind is told to people."""
        return False

    def has_warned(self, tx: "Transaction", session: Session, kind: WarningKind) -> bool:
        """True while the last sign of this kind lasts."""
        return False

    async def follow_sign(self, tx: "Transaction", session: Session, sign: Sign) -> None:
        """Follow a sign that the session goes wrong."""

    async def follow_end_of_sign(self, tx: "Transaction", session: Session, kind: WarningKind) -> None:
        """Follow the end of what such signs have shown."""


class Transaction(StoreWriter):
    """The operations of the body of `Store.transaction`. Valid until the body ends."""

    replayed: str | None = None
    """The result that an earlier transaction remembered for the same request, or None to carry out the request."""
    _key = IdempotencyKey(None, None)
    inserted: set[str]
    """The new sessions."""
    removed: set[str]
    """The sessions that this transaction, or an earlier one of its commit, has removed."""
    left_names: set[str]
    """The friendly names that a session had before."""

    def __init__(
        self,
        db: aiosqlite.Connection,
        scope: Scope,
        now: str,
        sessions: Mapping[str, Session],
        unfinished: Mapping[str, Session],
        removed: Collection[str],
        workspaces: Mapping[str, Workspace],
        open: Open,
        numbers: Counter[str],
        work: WorkClock,
        runs: RunClock,
        parts: Sequence[TablePart[Any, Any]],
        followers: Sequence[SessionFollower],
    ) -> None:
        super().__init__(db, scope, now, open)
        self._committed = sessions
        self._unfinished = unfinished
        self._workspaces = workspaces
        self._work, self._runs = work, runs
        self.sessions: dict[str, Session] = {}
        self.workspaces: dict[str, Workspace] = {}
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.inserted = set[str]()
        self.removed = set(removed)
        self.left_names = set[str]()
        self.mail = MailWrites(self, numbers)
        self.measures = MeasureWrites(self)
        self.sums = SumWrites(self)
        self.summed = SumReads(self.read)
        self.timers = TimerWrites(self)
        self.turn_ends = TurnEndWrites(self)
        self.chat_preferences = PreferenceWrites(self)
        self.telegram_texts = TextWrites(self)
        self.telegram = TelegramWrites(self, self.mail, self.telegram_texts, self.chat_preferences)
        self._parts = {part: part.writes(self) for part in parts}
        self.usage = next((w for w in self.parts if isinstance(w, UsageWrites)), UsageWrites())
        self.followers = followers

    async def recall(self, caller: Caller | None, key: RequestKey | None) -> None:
        """Set `replayed` for a request. Raises UsageError when the key belongs to another request of the caller."""
        if key is not None:
            self._key = IdempotencyKey(caller, key)
            self.replayed = await self._key.result(self.read)

    def remember(self, result: str) -> None:
        """Store the result of this transaction's request for retries."""
        self._key.store(self.write, result, self.now)

    @property
    def parts(self) -> Iterable[PartWrites]:
        """The tables of all capabilities."""
        return self._parts.values()

    async def before_move(self, session: Session) -> None:
        """Prepare for another parent of the session, or for another one that binds it."""
        for part in self.parts:
            await part.before_move(session)

    async def keep_paused(self, session: Session) -> IllegalState | None:
        """As `PartWrites.keep_paused`, of all parts."""
        for part in self.parts:
            if (refusal := await part.keep_paused(session)) is not None:
                return refusal
        return None

    def part(self, part: TablePart[Any, W]) -> W:
        """The tables of one capability."""
        return cast(W, self._parts[part])

    def session(self, session_id: str) -> Session:
        """Raises NotFound."""
        session = self.find(session_id)
        if session is None:
            raise NotFound(f"no such session: {session_id}", SEE_SESSIONS)
        return session

    def find(self, session_id: str | None) -> Session | None:
        if session_id is None or session_id in self.removed:
            return None
        return self.sessions.get(session_id) or self._committed.get(session_id)

    async def children(self, parent_id: str) -> list[Session]:
        """The children of a session, also those that ended long ago, oldest first."""
        return await self.select("parent_id = ?", parent_id)

    async def descendants(self, session_id: str, *, bound: bool = False) -> list[Session]:
        """All descendants of a session, nearest first. `bound`: also those that it or they bind (`bound_to`)."""
        where = "parent_id IN (SELECT value FROM json_each(?1))"
        where = f"({where} OR {where.replace('parent_id', 'bound_to')})" if bound else where
        found, parents, seen = list[Session](), [session_id], {session_id}
        while parents:
            below = await self.select(where, encode_json(parents))
            new = [session for session in below if session.id not in seen]
            parents = [session.id for session in new]
            seen |= {*parents}
            found += new
        return found

    async def select(self, where: str = "1", *values: str) -> list[Session]:
        """Sessions as of this transaction, oldest first. `where`: a condition in SQL."""
        rows = await self.read(
            f"{SELECT} WHERE removed = 0 AND {where} ORDER BY created_at, id",
            values,
        )
        return [loaded(row) for row in rows]

    async def newest_session(self) -> Session | None:
        """The session that was made last."""
        newest = "SELECT id FROM sessions WHERE removed = 0 ORDER BY created_at DESC, id DESC LIMIT 1"
        rows = await self.read(f"{SELECT} WHERE id = ({newest})", ())
        return loaded(rows[0]) if rows else None

    def unfinished_sessions(self) -> list[Session]:
        """The sessions that are live or whose process runs, in no fixed order, without a scan of the ended ones."""
        known = {**self._unfinished, **self.sessions}
        return [s for s in known.values() if is_unfinished(s) and s.id not in self.removed]

    def workspace(self, slug: str) -> Workspace | None:
        """The workspace, also if it is deleted."""
        return self.workspaces.get(slug) or self._workspaces.get(slug)

    def all_workspaces(self) -> list[Workspace]:
        return list({**self._workspaces, **self.workspaces}.values())

    def put_workspace(self, workspace: Workspace) -> None:
        """Insert the workspace, or replace the one with its slug."""
        self.write(*insertion("workspaces", WORKSPACES.row(workspace), verb="INSERT OR REPLACE"))
        self.workspaces[workspace.slug] = workspace

    async def insert(self, session: Session, launch: Launch, prompt: str | None) -> None:
        self.insert_row(
            "sessions",
            SESSIONS.row(session) | {"spawn_prompt": prompt, "launch": launch_to_json(launch)},
        )
        self.sessions[session.id] = session
        self.inserted.add(session.id)

    def put_shell_limits(self, limits: Mapping[str, int]) -> None:
        """Remember the umask and the soft limits of the shell of the last spawn; see `Store.shell_limits`."""
        self.write(
            "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)",
            (SHELL_LIMITS, encode_json(dict(limits))),
        )

    def put_told(self, occasion: str) -> None:
        """Remember that the operator was told; see `Store.was_told`."""
        self.write("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (TOLD + occasion, self.now))

    async def remove(self, session: Session) -> None:
        """Erase the session. Its events and an empty row stay, so that `seq` has no gaps, and its sums (`sums`)."""
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
        self.sums.inherit(session.id, None if self.find(session.parent_id) is None else session.parent_id)
        self.measures.forget(session.id)
        self.mail.forget(session.id)
        self.timers.remove(session.id)
        self.turn_ends.remove(session.id)
        self.telegram.forget(session.id)
        self.chat_preferences.forget(session.id)
        for part in self.parts:
            part.forget(session.id)
        self.removed.add(session.id)
        self._leave_name(session)

    async def apply(self, session: Session, decision: Decision, **changes: Any) -> Session:
        """Change the status as decided. Raises IllegalState if the stored status differs from that of `session`."""
        signal = decision.signal
        if is_ended(decision.before) and is_live(decision.after):
            changes |= {"runs": session.runs + 1, "completed_at": None}
            changes |= {"completion_status": None, "completion_message": None, "reminders": 0}
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
            min(signal.emitted_at, self.now),
        )

    async def update(self, session: Session, **changes: Any) -> Session:
        """Change anything but the status."""
        if "status" in changes:
            raise InternalError("update cannot change a status, only apply can")
        return await self._change(session, replace(session, **changes), self.now)

    async def _change(self, before: Session, after: Session, at: str) -> Session:
        after = track_work(before, after, at, self._work.elapsed_s(before, at))
        if not self.change(SESSIONS, before, after, "status", f"session {before.id}"):
            return before
        if before.working_since is not None and after.worked_s > before.worked_s:
            self.sums.add_work(after.id, before.working_since, after.worked_s - before.worked_s)
        self.sessions[after.id] = after
        if after.friendly_name != before.friendly_name:
            self._leave_name(before)
        self._work.follow(before, after)
        self._runs.follow(before, after)
        for part in self.parts:
            part.follow(before, after)
        return after

    def _leave_name(self, session: Session) -> None:
        if session.friendly_name is not None:
            self.left_names.add(session.friendly_name)

    def elapsed_s(self, session: Session) -> float:
        """Seconds of the session's work that is under way."""
        return self._work.elapsed_s(session, self.now)

    def ran_s(self, session: Session) -> float:
        """Seconds since the session's process started."""
        return self._runs.elapsed_s(session, self.now)

    async def event(
        self, type: EventType, session: Session, at: str, message: str, metadata: Mapping[str, Any]
    ) -> None:
        event = Event(0, type, session.id, session.parent_id, at, message, metadata)

        def keep(cursor: sqlite3.Cursor) -> None:
            assert cursor.lastrowid is not None
            self.events.append(replace(event, seq=cursor.lastrowid))

        self.write(*insertion("events", EVENTS.row(event) | {"seq": None}), keep)

    async def newest_child_at(self, parent_id: str) -> str | None:
        """The time at which the newest child was spawned, also if that child was removed or moved since."""
        rows = await self.read(
            "SELECT timestamp FROM events WHERE type = 'spawned' AND parent_session_id = ? ORDER BY seq DESC LIMIT 1",
            (parent_id,),
        )
        return rows[0][0] if rows else None

    async def newest_created_at(self, created_by: str) -> str | None:
        """The time at which that caller spawned its newest session, also if the session was removed since."""
        rows = await self.read("SELECT max(created_at) FROM sessions WHERE created_by = ?", (created_by,))
        return rows[0][0] if rows else None

    async def status_before_end(self, session_id: str) -> Status | None:
        """The status that the session's last end ended; None if no stored event says so."""
        rows = await self.read(
            "SELECT json_extract(metadata, '$.status_before') FROM events WHERE session_id = ?"
            " AND json_extract(metadata, '$.status_before') IS NOT NULL ORDER BY seq DESC LIMIT 1",
            (session_id,),
        )
        return Status(rows[0][0]) if rows else None

    async def checkpoint(self, session: Session, checkpoint: Checkpoint, message: str) -> None:
        """Record the checkpoint, and its event with the text `message`.

        Only the event holds the metadata. The checkpoint has the event's seq as its id, and empty metadata.
        """
        at = checkpoint.timestamp
        await self.event(EventType.CHECKPOINT, session, at, message, checkpoint.metadata)
        self.write(
            "INSERT INTO checkpoints (id, session_id, timestamp, message, metadata)"
            " VALUES (last_insert_rowid(), ?, ?, ?, '')",
            (session.id, at, checkpoint.message),
        )

    async def effect(self, kind: EffectKind, session_id: str, payload: Mapping[str, Any], at: str) -> None:
        effect = Effect(self.mail.new_id("outbox"), kind, session_id, payload)
        self.insert_row("outbox", OUTBOX.row(effect) | {"created_at": at})
        self.effects.append(effect)
        self.open = replace(self.open, effects={**self.open.effects, effect.id: effect})

    async def take(self, effect: Effect) -> None:
        """Mark the effect as started: the daemon never repeats it."""
        self.write("UPDATE outbox SET state = ? WHERE id = ?", (EffectState.TAKEN, effect.id))

    async def finish(self, effect: Effect, *, dead: str | None = None) -> None:
        """Mark the effect as done, or as failed for the reason `dead` (`sm status` counts those)."""
        self.write(
            "UPDATE outbox SET state = ?, reason = ?, payload = '{}' WHERE id = ?",
            (EffectState.DEAD if dead else EffectState.DONE, dead, effect.id),
        )
        remaining = {key: other for key, other in self.open.effects.items() if key != effect.id}
        self.open = replace(self.open, effects=remaining)

    def has_open(self, kind: EffectKind, session_id: str) -> bool:
        """True while such an effect is pending or running."""
        return self.open_effect(kind, session_id) is not None

    def open_effect(self, kind: EffectKind, session_id: str) -> Effect | None:
        """The first such effect that is pending or running."""
        effects = self.open.effects.values()
        return next((e for e in effects if e.kind == kind and e.session_id == session_id), None)
