"""The routes of archives: the room that they take, and the export of one as a file."""

import asyncio

from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.route import RouteTable
from sm.core.labels import short_label
from sm.core.lifecycle import is_live
from sm.errors import ExternalError, IllegalState, NotFound, NotPermitted
from sm.policy.access import Action
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from sm.wire_types.daemon import ArchivesView

_DUE_WITHIN_S = 10.0
"""The process of the session may have ended just now."""
_PIECE_BYTES = 256 * 1024
routes = RouteTable()


@routes.route("GET", "/v1/archives", agents=False)
async def archives(request: ApiRequest) -> ArchivesView:
    """Show the room that archives take, and their limits."""
    if request.services.sessions.principal(request.caller) is not None:
        raise NotPermitted("only the operator may see the room of archives")
    status = request.services.retention.status
    if status is None:  # the daemon has just started
        return ArchivesView(bytes=None, keep_days=None, max_mb=None, held=0)
    return ArchivesView(
        bytes=status.size_bytes, keep_days=status.keep_days, max_mb=status.max_mb, held=status.held
    )


@routes.route("GET", "/v1/sessions/{ref}/export", agents=False)
async def export(request: ApiRequest) -> web.StreamResponse:
    """Read the archive of an ended session, as a tar.gz file."""
    session = request.session(Action.EXPORT)
    archives, store = request.services.archives, request.services.store
    await request.wait_until(
        lambda: not store.is_archive_due(session.id) or archives.lack_of_space(session.id) is not None,
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
        if store.is_archive_due(session.id):
            raise IllegalState(
                f"session {short_label(session)} is not archived yet",
                "try again later: sm status shows problems",
            )
        raise NotFound(
            f"session {short_label(session)} has no archive",
            "see child_agents.cleanup.auto_archive_transcript and archives in config.yaml",
        )
    with archives.export():
        try:
            file = await asyncio.to_thread(archives.packed, session.id)
        except OSError as error:
            raise ExternalError(
                f"cannot read the archive of session {short_label(session)}: {error.strerror}"
            ) from None
        with file:
            response = web.StreamResponse(
                headers={"Content-Type": "application/gzip", PROTOCOL_HEADER: str(PROTOCOL)}
            )
            await response.prepare(request.http)
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                await response.write(piece)
    return response
