"""Passes files that a person attaches to a message on to the daemon.

The server receives a whole file before it asks the daemon: a browser may be slow, and the daemon waits for no body.
"""

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from sm.client.http import TIMEOUT_S, percent_encode
from sm.errors import LimitReached, NotPermitted, UsageError
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin, scope_of

DAEMON_ROUTES = ("POST /v1/files", "DELETE /v1/files/{ref}")
"""The routes of the daemon that are called for a browser."""
UPLOAD_PATH = "/api/v1/files"
FILE_MAX_BYTES = 10 * 1024 * 1024
"""The limit of the daemon."""
FILE_TYPE = "application/octet-stream"
_WITHIN_S = 600.0
"""The time for the content of a file. A phone can be slow."""
_RECEIVED_MAX_BYTES = 64 * 1024 * 1024
"""Of all files in receipt together."""


class FileUploads:
    """The routes of files. `login`: the key of a request's login."""

    def __init__(self, link: DaemonLink, login: "web.RequestKey[WebLogin]") -> None:
        self._link = link
        self._login = login
        self._received = 0

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post(UPLOAD_PATH, self._upload)
        app.router.add_delete(f"{UPLOAD_PATH}/{{ref}}", self._remove)

    async def _upload(self, request: web.Request) -> web.Response:
        login = self._permitted(request)
        if request.content_type != FILE_TYPE:
            raise UsageError(f"the content must be {FILE_TYPE}")
        name = request.query.get("name", "")
        with self._counted() as content:
            await self._receive(request, content)
            return await self._pass_on("POST", "/v1/files", login, {"name": name}, content)

    async def _remove(self, request: web.Request) -> web.Response:
        login, ref = self._permitted(request), request.match_info["ref"]
        if ref in ("", ".", ".."):
            raise UsageError("invalid name in the path")
        return await self._pass_on("DELETE", f"/v1/files/{percent_encode(ref)}", login)

    def _permitted(self, request: web.Request) -> WebLogin:
        """The login of the request. Raises NotPermitted if it may send no message."""
        login = request[self._login]
        if not login.scope.includes(needed := scope_of("send")):
            raise NotPermitted(
                f"this login may not send files: it needs the scope {needed}", f"sm web link --scope {needed}"
            )
        return login

    @contextmanager
    def _counted(self) -> Iterator[io.BytesIO]:
        """A buffer whose content counts as received until the context ends."""
        content = io.BytesIO()
        try:
            yield content
        finally:
            self._received -= content.getbuffer().nbytes

    async def _receive(self, request: web.Request, content: io.BytesIO) -> None:
        """Raises LimitReached and HTTP exceptions."""
        announced = request.content_length or 0
        if announced > FILE_MAX_BYTES:
            raise web.HTTPRequestEntityTooLarge(FILE_MAX_BYTES, announced)
        try:
            async with asyncio.timeout(_WITHIN_S):
                while piece := await request.content.readany():
                    self._received += content.write(piece)
                    if (size := content.tell()) > FILE_MAX_BYTES:
                        raise web.HTTPRequestEntityTooLarge(FILE_MAX_BYTES, size)
                    if self._received > _RECEIVED_MAX_BYTES:
                        raise LimitReached(
                            "other files are being uploaded at this time", "try again in a moment"
                        )
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except web.RequestPayloadError:
            raise UsageError("the content does not match the headers of the request") from None
        content.seek(0)

    async def _pass_on(
        self,
        method: str,
        path: str,
        login: WebLogin,
        query: dict[str, str] | None = None,
        content: io.BytesIO | None = None,
    ) -> web.Response:
        async with self._link.exchange(
            method,
            path,
            login=login,
            query=query,
            content=content,
            content_type="application/json" if content is None else FILE_TYPE,
            timeout_s=TIMEOUT_S,
        ) as answer:
            return web.Response(
                body=await answer.read(), status=answer.status, content_type="application/json"
            )
