"""Shows the room of archives, and exports one as a file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import IO

from sm.capabilities.archives.keeper import Archives
from sm.capabilities.archives.operations import EXPORT, SHOW
from sm.capabilities.archives.retention import ArchiveRetention
from sm.core.effects import EffectKind
from sm.core.labels import short_label
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.errors import ExternalError, IllegalState, NotFound, NotPermitted
from sm.kernel import OperationCall
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SHOW_STATUS
from sm.policy.relations import may_at_all
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.wire_types.archives import ArchivesView

_DUE_WITHIN_S = 10.0
"""The process of the session may have ended just now."""


class Exporting:
    """Use cases of archives, within the permissions of the caller."""

    def __init__(
        self, store: Store, authorizer: Authorizer, archives: Archives, retention: ArchiveRetention
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._archives = archives
        self._retention = retention

    async def show(self, call: OperationCall) -> ArchivesView:
        """Show the room that archives take, and their limits."""
        if not may_at_all(call.caller, SHOW.audience):
            raise NotPermitted("only the operator may see the room of archives")
        status = self._retention.status
        if status is None:  # the daemon has just started
            return ArchivesView(None, None, None, 0)
        return ArchivesView(status.size_bytes, status.keep_days, status.max_mb, status.held)

    async def export(self, call: OperationCall) -> AbstractAsyncContextManager[IO[bytes]]:
        """Read the archive of an ended session."""
        session = self._authorizer.find(call.caller, call.target, EXPORT.audience)
        archives = self._archives
        await call.wait_until(
            lambda: not self._is_due(session.id) or archives.lack_of_space(session.id) is not None,
            _DUE_WITHIN_S,
        )
        if not await asyncio.to_thread(archives.has, session.id):
            if is_live(session.status):
                raise IllegalState(
                    f"session {short_label(session)} is {session.status}: it has no archive yet",
                    "a session is archived when it ends",
                )
            if (full := archives.lack_of_space(session.id)) is not None:
                raise full
            if self._is_due(session.id):
                raise IllegalState(
                    f"session {short_label(session)} is not archived yet",
                    Hint("try again later: ", Use(SHOW_STATUS), " shows problems"),
                )
            raise NotFound(
                f"session {short_label(session)} has no archive",
                "see child_agents.cleanup.auto_archive_transcript and archives in config.yaml",
            )
        return self._packed(session)

    def _is_due(self, session_id: str) -> bool:
        """True while the archive of an ended session waits to be written."""
        effects = self._store.mail.open.effects.values()
        return any(e.kind == EffectKind.ARCHIVE and e.session_id == session_id for e in effects)

    @asynccontextmanager
    async def _packed(self, session: Session) -> AsyncIterator[IO[bytes]]:
        with self._archives.export():
            try:
                file = await asyncio.to_thread(self._archives.packed, session.id)
            except OSError as error:
                raise ExternalError(
                    f"cannot read the archive of session {short_label(session)}: {error.strerror}"
                ) from None
            with file:
                yield file
