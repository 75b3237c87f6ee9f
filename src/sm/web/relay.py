"""Passes an explicit list of routes on to the daemon. Nothing else of the daemon can be reached."""

import aiohttp
from aiohttp import web

from sm.client.http import percent_encode
from sm.errors import UsageError
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin
from sm.wire import LEFT_HEADER, NEXT_HEADER

GET_ROUTES = (
    "/v1/usage",
    "/v1/usage/chart",
    "/v1/timeline",
    "/v1/events",
    "/v1/requests",
    "/v1/requests/{ref}",
    "/v1/messages",
    "/v1/messages/{ref}",
    "/v1/agents",
    "/v1/sessions",
    "/v1/sessions/{ref}",
    "/v1/sessions/{ref}/output",
    "/v1/sessions/{ref}/why",
    "/v1/sessions/{ref}/progress",
    "/v1/sessions/{ref}/actions",
    "/v1/sessions/{ref}/checkpoints",
    "/v1/sessions/{ref}/children",
)
"""Every login may read them: they change nothing."""
_TIMEOUT_S = 60.0
_PIECE_BYTES = 64 * 1024


def add_routes(app: web.Application, link: DaemonLink, login: "web.RequestKey[WebLogin]") -> None:
    async def read(request: web.Request) -> web.StreamResponse:
        return await _pass_on(link, request, request[login])

    for path in GET_ROUTES:
        app.router.add_get(f"/api{path}", read, allow_head=False)


def _daemon_path(request: web.Request) -> str:
    """The path of the daemon's route. A name in it is encoded again, so that it stays one segment."""
    resource = request.match_info.route.resource
    assert resource is not None
    path = resource.canonical.removeprefix("/api")
    ref = request.match_info.get("ref")
    if ref is None:
        return path
    if ref in ("", ".", ".."):
        raise UsageError("invalid name in the path")
    return path.replace("{ref}", percent_encode(ref))


async def _pass_on(link: DaemonLink, request: web.Request, login: WebLogin) -> web.StreamResponse:
    path, query = _daemon_path(request), list(request.query.items())
    async with link.exchange("GET", path, login=login, query=query, timeout_s=_TIMEOUT_S) as answer:
        paging = {name: answer.headers[name] for name in (NEXT_HEADER, LEFT_HEADER) if name in answer.headers}
        headers = {"Content-Type": "application/json", **paging}
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        try:
            async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                await response.write(piece)
        except aiohttp.ClientError:  # the head is sent: only a broken connection can tell of the failure
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response
