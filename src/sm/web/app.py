"""The application: the checks of every request, and the headers of every answer."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from sm.errors import (
    InternalError,
    LimitReached,
    NotFound,
    NotPermitted,
    SmError,
    Unauthenticated,
    UsageError,
)
from sm.web import lane_view, relay
from sm.web.browser_socket import BrowserSockets
from sm.web.changes import ChangesPages
from sm.web.channels import Channels
from sm.web.client_frames import FRAME_MAX_BYTES
from sm.web.connections import HEAD_WITHIN_S, note_login
from sm.web.daemon_link import DaemonLink
from sm.web.hosts import HostRules
from sm.web.hub import Hub
from sm.web.login_guard import LoginGuard
from sm.web.login_store import LoginStore
from sm.web.logins import WebLogin
from sm.web.page_files import TERMINAL_PAGE, PageFiles
from sm.web.sockets import SocketLogins
from sm.web.start_sheets import StartSheets
from sm.web.terminal_socket import TerminalSockets
from sm.web.uploads import FILE_MAX_BYTES, UPLOAD_PATH, FileUploads

log = logging.getLogger(__name__)

LOGIN = web.RequestKey("login", WebLogin)
HUB = web.AppKey("hub", Hub)
_FILES = web.AppKey("files", PageFiles)


def _policy(*own: str) -> str:
    """The content security policy of a page. `own`: what differs from page to page."""
    common = (
        "default-src 'none'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
    return "; ".join((*common, *own))


_TERMINAL_POLICY = _policy("style-src 'self' 'unsafe-inline'", "trusted-types 'none'")
"""xterm.js writes style elements."""
HEADERS = {
    "Content-Security-Policy": _policy("style-src 'self'", "trusted-types lit-html"),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


@asynccontextmanager
async def web_app(socket_path: str, store: LoginStore, hosts: HostRules) -> AsyncIterator[web.Application]:
    """The application, while it follows the daemon."""
    link = DaemonLink(socket_path)
    hub = Hub(link)
    guard = LoginGuard(store)
    running = [asyncio.create_task(part.run()) for part in (guard, hub)]
    try:
        yield _application(hub, link, guard, hosts, socket_path)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await link.close()


def _application(
    hub: Hub, link: DaemonLink, guard: LoginGuard, hosts: HostRules, socket_path: str
) -> web.Application:
    app = web.Application(
        middlewares=[web.middleware(partial(_answer, hosts, guard))], client_max_size=FRAME_MAX_BYTES
    )
    app[HUB] = hub
    app.on_response_prepare.append(_add_headers)
    app[_FILES] = PageFiles()
    app[_FILES].add_routes(app)
    app.router.add_post("/login", _login_handler(guard))
    logins = SocketLogins(guard)
    changes = ChangesPages(link, socket_path, LOGIN)
    sockets = BrowserSockets(hub, link, Channels(link), changes.keep, logins)
    app.router.add_get("/ws", sockets.serve, allow_head=False)
    app.router.add_get("/attach/ws", TerminalSockets(hub, link, logins).serve, allow_head=False)
    relay.add_routes(app, link, LOGIN)
    lane_view.add_routes(app, link, LOGIN)
    changes.add_routes(app)
    StartSheets(hub, link, LOGIN).add_routes(app)
    FileUploads(link, LOGIN).add_routes(app)
    return app


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    if request.path == TERMINAL_PAGE:
        response.headers["Content-Security-Policy"] = _TERMINAL_POLICY
    response.headers.pop("Server", None)
    cache_control = request.app[_FILES].cache_control(request.path, response.status)
    response.headers["Cache-Control"] = cache_control


async def _answer(
    hosts: HostRules, guard: LoginGuard, request: web.Request, handler: Handler
) -> web.StreamResponse:
    try:
        _check_page(hosts, request)
        if request.path.startswith("/api/"):
            request[LOGIN] = _authenticate(guard, request)
            note_login(request)
        return await handler(request)
    except SmError as error:
        return _refusal(error)
    except _Misdirected as error:
        return _refusal(NotPermitted(str(error)), 421)
    except web.HTTPException as error:
        return _refusal(_of_http(error, request.path), error.status)
    except ConnectionError:
        raise
    except Exception:
        bug = secrets.token_hex(4)
        log.exception("failed with bug %s", bug, extra={"sm_bug": bug})
        return _refusal(InternalError(f"internal error {bug}"))


class _Misdirected(Exception):
    """The Host header is not in the list."""


def _check_page(hosts: HostRules, request: web.Request) -> None:
    """Raise unless the request names a host of the list and, if it is not for the page itself, comes from our page."""
    headers = request.headers
    names = headers.getall("Host", ())
    if hosts.origin_of(names) is None or not request.raw_path.startswith("/"):
        raise _Misdirected("this host is not in the list")
    is_page = request.path in ("/", TERMINAL_PAGE) or request.path.startswith("/static/")
    if is_page and request.method in ("GET", "HEAD"):
        return
    reason = hosts.refusal(
        names,
        headers.getall("Origin", ()),
        headers.getall("Sec-Fetch-Site", ()),
        may_omit_origin=request.method == "GET" and not request.path.endswith("/ws"),
    )
    if reason is not None:
        raise NotPermitted(reason)


def _authenticate(logins: LoginGuard, request: web.Request) -> WebLogin:
    values = request.headers.getall("Authorization", ())
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return logins.authenticate(token if scheme == "Bearer" else "")


def _login_handler(guard: LoginGuard) -> Handler:
    async def login(request: web.Request) -> web.StreamResponse:
        if request.content_type != "application/json":
            raise UsageError("the content must be application/json")
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                content = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        traded = await guard.redeem(_code(content))
        if traded is None:
            raise Unauthenticated("the code is wrong, used or too old", "for a new link: sm web link")
        note_login(request)
        token, entry = traded
        log.info("a browser logged in as %s", entry.name)
        return _json({"token": token, "name": entry.name, "scope": entry.scope.value})

    return login


def _code(content: bytes) -> str:
    try:
        body = orjson.loads(content)
    except ValueError:
        body = None
    code = body.get("code") if isinstance(body, dict) else None
    if not isinstance(code, str) or len(code) > 200:
        raise UsageError('the content must be {"code": "..."}')
    return code


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def _refusal(error: SmError, status: int | None = None) -> web.Response:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return _json({"error": body}, status or error.http_status)


def _of_http(error: web.HTTPException, path: str) -> SmError:
    match error.status:
        case 404 | 405:
            return NotFound("there is nothing at this address")
        case 413 if path == UPLOAD_PATH:
            return LimitReached(f"the file is larger than {FILE_MAX_BYTES:,} bytes")
        case 413:
            return LimitReached(f"the request is larger than {FRAME_MAX_BYTES:,} bytes")
        case _:
            return UsageError(f"invalid request: {error.reason}")
