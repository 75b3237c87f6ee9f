"""The last lines of a terminal for browsers, with their styles. They are read in this process, not in the daemon."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from sm.client.http import session_path
from sm.core.styled_text import Run, styled_runs
from sm.errors import UsageError
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin

_LINES_MAX = 10_000
_TIMEOUT_S = 60.0


def add_routes(app: web.Application, link: DaemonLink, login: "web.RequestKey[WebLogin]") -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        query = {"lines": str(_count(request.query.get("lines", ""))), "seen": "1", "styled": "1"}
        path = session_path(request.match_info["ref"], "/output")
        answer = await link.get(path, query, login=request[login], timeout_s=_TIMEOUT_S)
        # Ten thousand lines take so long that others would wait.
        body = await asyncio.to_thread(_body, answer)
        return web.Response(body=body, content_type="application/json")

    app.router.add_get("/api/past-lines/{ref}", show, allow_head=False)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) <= _LINES_MAX):
        raise UsageError(f"lines: a number from 1 to {_LINES_MAX} is needed")
    return int(text)


def _body(answer: Mapping[str, Any]) -> bytes:
    lines: Sequence[Sequence[Run]] = styled_runs(answer["lines"])
    return orjson.dumps({"lines": lines, "archived": answer["archived"]})
