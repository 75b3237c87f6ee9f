"""Reads the tables that every instance has, as they are on disk."""

from collections.abc import Collection

import aiosqlite

from sm.core.effects import Effect, EffectKind
from sm.core.models import Checkpoint, Launch
from sm.errors import NotFound
from sm.operations.list_operations import SEE_SESSIONS
from sm.store.event_rows import EventReads
from sm.store.measures import MeasureReads
from sm.store.message_rows import MailReads
from sm.store.records import RecordReads
from sm.store.rows import CHECKPOINTS, OUTBOX, SHELL_LIMITS, TOLD, decode_json, encode_json, launch_from_json
from sm.store.sums import SumReads
from sm.store.telegram_preferences import PreferenceReads
from sm.store.telegram_rows import TelegramReads
from sm.store.turn_ends import TurnEndReads
from sm.store.writable_paths import WritablePathReads


class KernelReads(EventReads):
    def __init__(self, reader: aiosqlite.Connection) -> None:
        super().__init__(reader)
        read = self.read
        self.mail = MailReads(read)
        self.measures = MeasureReads(read)
        self.turn_ends = TurnEndReads(read)
        self.records = RecordReads(read)
        self.writable = WritablePathReads(read)
        self.sums = SumReads(read)
        self.telegram = TelegramReads(read)
        self.chat_preferences = PreferenceReads(read)

    async def removed_endings(self, since: str) -> int:
        """The number of sessions that ended after that time and were removed."""
        rows = await self.read(
            "SELECT count(*) FROM sessions WHERE removed = 1 AND completed_at >= ?", (since,)
        )
        return int(rows[0][0])

    async def checkpoints(self, session_id: str, limit: int) -> list[Checkpoint]:
        """The newest `limit` checkpoints of the session, oldest first."""
        rows = await self.read(
            f"{CHECKPOINTS.select} WHERE session_id = ? ORDER BY id DESC LIMIT ?", (session_id, limit)
        )
        return [CHECKPOINTS.load(row) for row in reversed(rows)]

    async def launch(self, session_id: str) -> Launch:
        rows = await self.read("SELECT launch FROM sessions WHERE id = ? AND removed = 0", (session_id,))
        if not rows:
            raise NotFound(f"no such session: {session_id}", SEE_SESSIONS)
        return launch_from_json(rows[0][0])

    async def newest_launch(self, created_by: str) -> Launch | None:
        """The launch of the newest session that this caller has started."""
        rows = await self.read(
            "SELECT launch FROM sessions WHERE created_by = ? AND removed = 0 ORDER BY created_at DESC LIMIT 1",
            (created_by,),
        )
        return launch_from_json(rows[0][0]) if rows else None

    async def shell_limits(self) -> dict[str, int]:
        """The umask and the soft limits of the shell of the last spawn; empty before the first one."""
        rows = await self.read("SELECT value FROM meta WHERE name = ?", (SHELL_LIMITS,))
        return decode_json(rows[0][0]) if rows else {}

    async def was_told(self, occasion: str) -> bool:
        """True if `Transaction.put_told` has remembered this announcement."""
        return bool(await self.read("SELECT value FROM meta WHERE name = ?", (TOLD + occasion,)))

    async def spawn_prompt(self, session_id: str) -> str | None:
        rows = await self.read("SELECT spawn_prompt FROM sessions WHERE id = ?", (session_id,))
        return rows[0][0] if rows else None

    async def spawn_prompts(self, session_ids: Collection[str], limit: int) -> dict[str, str]:
        """The first `limit` characters of the tasks of sessions, by id, without sessions that have none."""
        rows = await self.read(
            "SELECT id, substr(spawn_prompt, 1, ?) FROM sessions"
            " WHERE id IN (SELECT value FROM json_each(?)) AND spawn_prompt <> ''",
            (limit, encode_json(list(session_ids))),
        )
        return dict(rows)

    async def effects_in(self, state: str) -> list[Effect]:
        """Rows of the outbox in `state`, in order, except calls to Telegram. New rows arrive in `effects`."""
        rows = await self.read(
            f"{OUTBOX.select} WHERE state = ? AND kind <> 'telegram' ORDER BY id", (state,)
        )
        return [OUTBOX.load(row) for row in rows]

    async def last_failure(self, kind: EffectKind) -> tuple[str, str] | None:
        """(session id, reason) of the newest finished effect of this kind, if it failed."""
        rows = await self.read(
            "SELECT session_id, reason FROM outbox WHERE kind = ? AND state IN ('done', 'dead')"
            " ORDER BY id DESC LIMIT 1",
            (kind,),
        )
        return next(((session_id, reason) for session_id, reason in rows if reason is not None), None)

    async def dead_letters(self, sessions: Collection[str] | None = None) -> int:
        """Count the failed effects and the undelivered messages of these sessions (None for all)."""
        ids = None if sessions is None else encode_json(list(sessions))
        rows = await self.read(
            "SELECT count(*) FROM outbox WHERE state = 'dead'"
            " AND (?1 IS NULL OR session_id IN (SELECT value FROM json_each(?1)))",
            (ids,),
        )
        return int(rows[0][0]) + await self.mail.lost(sessions)
