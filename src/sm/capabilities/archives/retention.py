"""Deletes old archives (`archives:` in the configuration)."""

import asyncio
import logging

from sm.capabilities.archives.files.kept_transcripts import has_only_copy
from sm.capabilities.archives.keeper import Archives, announce, announced_at
from sm.capabilities.archives.rules import MB, ArchiveEntry, surplus
from sm.capabilities.archives.settings import ArchiveSettings
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.states import EventType, NoticeKind
from sm.core.timestamps import epoch_s, iso
from sm.core.wording import notice_subject, subject
from sm.errors import SmError
from sm.state.notices import Notices
from sm.store import Store

log = logging.getLogger(__name__)

_EVERY_S = 3600.0
_LOOKED_EVERY_S = 60.0
_GROWN_PART = 10
"""New archives are counted at once when they take this part of the limit, so that no hour of them fills the disk."""
_EVENTS_LOOKED_AT = 50
_ANNOUNCED_S = 86_400.0
_ANNOUNCED_AT_ONCE = 50
"""Notices in one pass. The rest waits for the next one."""


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """`held`: archives that are due, but have the only copy of a conversation, until their deletion was announced for
    a day.
    """

    size_bytes: int
    keep_days: int | None
    max_mb: int | None
    held: int


class ArchiveRetention:
    """Never deletes the only copy of a conversation before a notice of it is a day old."""

    def __init__(self, settings: ArchiveSettings, store: Store, notices: Notices, archives: Archives) -> None:
        self._settings = settings
        self._store = store
        self._notices = notices
        self._archives = archives
        self.status: RetentionStatus | None = None
        """After the last look, or None before the first look."""
        self._undeleted: set[str] = set()
        """Sessions whose archives could not be deleted, so that the log gets one warning for each."""

    async def run(self) -> None:
        """Delete what is too much at the start, every hour, and after many new archives. Never returns."""
        while True:
            written = self._archives.written_bytes
            try:
                await self.delete_surplus()
            except SmError as error:
                log.warning("could not delete old archives: %s", error.message)
            except Exception:
                log.exception("failed to delete old archives")
            for _ in range(int(_EVERY_S / _LOOKED_EVERY_S)):
                await asyncio.sleep(_LOOKED_EVERY_S)
                if self._has_grown(self._archives.written_bytes - written):
                    break

    def _has_grown(self, written_bytes: int) -> bool:
        limit = self._settings.max_mb
        return limit is not None and written_bytes > limit * MB / _GROWN_PART

    async def delete_surplus(self) -> None:
        entries = await asyncio.to_thread(self._archives.entries)
        live = {s.id for s in self._store.sessions.values() if is_live(s.status) or s.exit is None}
        now_s = epoch_s(self._store.now())
        limits = self._settings
        old = surplus(entries, live, now_s, keep_days=limits.keep_days, max_mb=limits.max_mb)
        recorded, held, announced = False, 0, 0
        for entry in old:
            if await self._has_only_copy(entry):
                path = self._archives.path(entry.session_id)
                at_s = await asyncio.to_thread(announced_at, path, entry.at_s)
                if at_s is None and announced < _ANNOUNCED_AT_ONCE:
                    announced += 1
                    await self._announce(entry, now_s)
                if at_s is None or now_s - at_s < _ANNOUNCED_S:
                    held += 1
                    continue
            recorded |= await self._delete(entry)
        self.status = RetentionStatus(
            sum(entry.size_bytes for entry in entries), limits.keep_days, limits.max_mb, held
        )
        if recorded:
            await self._store.log.scrub()

    async def _has_only_copy(self, entry: ArchiveEntry) -> bool:
        session = self._store.sessions.get(entry.session_id)
        paths = list(await self._store.measures.positions(entry.session_id))
        if session is not None and session.transcript is not None:
            paths.append(session.transcript)
        others = {path.rpartition("/")[2]: path for path in paths}
        path = self._archives.path(entry.session_id)
        return await asyncio.to_thread(has_only_copy, path, others)

    async def _announce(self, entry: ArchiveEntry, now_s: float) -> None:
        """Tell the operator that the archive will be deleted: once, also if the daemon ends in the middle."""
        until = iso(now_s + _ANNOUNCED_S)
        async with self._store.transaction() as tx:
            session = tx.find(entry.session_id)
            if session is not None:
                await self._notices.add(
                    tx,
                    session,
                    None,
                    NoticeKind.WARNING,
                    f"archive:{entry.at_s}",
                    _notice(session, until),
                    EventType.WARNING,
                )
        if session is None:
            log.warning(
                "will delete the archive of an unknown session, with the only copy of its conversation, after %s",
                until,
                extra={"sm_session": entry.session_id},
            )
        try:
            await asyncio.to_thread(announce, self._archives.path(entry.session_id), entry.at_s, now_s)
        except OSError as error:  # it is announced again
            log.warning("could not write when an archive is deleted: %s", error.strerror)

    async def _delete(self, entry: ArchiveEntry) -> bool:
        """Return True if the deletion is recorded, False if it is not possible."""
        session_id, extra = entry.session_id, {"sm_session": entry.session_id}
        reason = await self._archives.set_aside(session_id)
        recorded = reason is None
        if recorded:
            await self._record(entry)
            reason = await self._archives.remove(session_id)
        if reason is None:
            self._undeleted.discard(session_id)
            log.info("deleted an old archive", extra=extra)
        elif session_id not in self._undeleted:
            self._undeleted.add(session_id)
            log.warning("kept an old archive: %s", reason, extra=extra)
        return recorded

    async def _record(self, entry: ArchiveEntry) -> None:
        """Record the deletion of an archive that is set aside: once, also if the daemon ends before the removal."""
        facts = {"archive_deleted": entry.at_s, "size_bytes": entry.size_bytes}
        newest = await self._store.events(
            sessions=[entry.session_id], type=EventType.WARNING, limit=_EVENTS_LOOKED_AT
        )
        if any(event.metadata.get("archive_deleted") == entry.at_s for event in newest):
            return
        async with self._store.transaction() as tx:
            session = tx.find(entry.session_id)
            if session is not None:
                line = f"{subject(session)}: its archive was deleted, because archives: in config.yaml limits them"
                await tx.event(EventType.WARNING, session, tx.now, line, facts)
                for part in tx.parts:
                    part.forget_outputs(session.id)


def _notice(session: Session, until: str) -> str:
    """Entry of a notice that the archive of `session` will be deleted after `until` (ISO 8601)."""
    return (
        f"{notice_subject(session)}: its archive has the only copy of its conversation, and archives: in config.yaml "
        f"deletes it after {until}; keep it with: sm export {session.id} FILE"
    )
