"""Warns of live sessions whose transcript is gone or will soon be deleted, and archives it before."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Mapping

from sm.config import Cleanup
from sm.core.effects import EffectKind
from sm.core.models import Session, digest
from sm.core.timestamps import iso
from sm.errors import SmError
from sm.providers.base import Provider
from sm.sandboxes.home import HomeOf
from sm.state.notices import Notices
from sm.store import Store

log = logging.getLogger(__name__)

_EVERY_S = 3600.0
_DAY_S = 86_400.0
_BEFORE_DAYS = 2.0


def expires_in_s(changed_s: float, days: int, now_s: float) -> float:
    """The seconds until an agent CLI deletes a transcript that was last changed at `changed_s`."""
    return changed_s + days * _DAY_S - now_s


def is_about_to_expire(changed_s: float, days: int, now_s: float) -> bool:
    """True in the last two days, or in the second half of a shorter time."""
    return expires_in_s(changed_s, days, now_s) <= min(_BEFORE_DAYS, days / 2) * _DAY_S


class TranscriptWatch:
    def __init__(
        self,
        store: Store,
        notices: Notices,
        providers: Mapping[str, Provider],
        home_of: HomeOf,
        *,
        settings: Cleanup,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._notices = notices
        self._providers = providers
        self._home_of = home_of
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        """Look at the start and every hour. Never returns."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        for session in list(self._store.sessions.values()):
            if session.exit is not None or session.process is None or session.transcript is None:
                continue
            try:
                await self._look_at(session, session.transcript)
            except SmError as error:
                log.warning(
                    "could not check a transcript: %s", error.message, extra={"sm_session": session.id}
                )
            except Exception:
                log.exception("failed to check a transcript", extra={"sm_session": session.id})

    async def _look_at(self, session: Session, transcript: str) -> None:
        setup = self._providers[session.provider].setup
        if setup is None:
            return
        try:
            status = await asyncio.to_thread(os.lstat, transcript)
        except OSError as error:
            position = (await self._store.measures.positions(session.id)).get(transcript)
            if error.errno == errno.ENOENT and position is not None and position.offset > 0:
                await self._warn(session, f"transcript-gone:{digest(transcript)[:16]}", _GONE)
            return
        launch = await self._store.launch(session.id)
        kept = await asyncio.to_thread(
            setup.retention, launch.environment, session.working_dir, self._home_of(session)
        )
        now_s = self._clock()
        if is_about_to_expire(status.st_mtime, kept.days, now_s):
            at = iso(now_s + expires_in_s(status.st_mtime, kept.days, now_s))
            trouble = _EXPIRES.format(at=at, days=kept.days)
            await self._warn(session, f"transcript-expires:{int(status.st_mtime)}", trouble, archive=True)

    async def _warn(self, session: Session, occasion: str, trouble: str, *, archive: bool = False) -> None:
        async with self._store.transaction() as tx:
            now = tx.find(session.id)
            if now is None or now.exit is not None:
                return
            if not await self._notices.add_for_transcript(tx, now, occasion, trouble):
                return
            if archive and self._settings.auto_archive_transcript:
                payload = {"terminal": now.terminal, "began": now.started_at}
                await tx.effect(EffectKind.ARCHIVE, now.id, payload, tx.now)


_GONE = (
    "its transcript is gone while its process lives: what it has said is only in its memory and in its archive, and "
    "sm fork and sm restore may not find all of it"
)
_EXPIRES = (
    "each start of its agent CLI after {at} deletes its transcript, because nobody has written to it for almost {days} "
    "days; sm archives it now; a message to the session keeps it"
)
