"""The routes of hooks that wait for the answer to a dialog of their agent (docs/protocol.md)."""

from datetime import datetime
from typing import Any

from aiohttp import web

from sm.api.body import Body, moment, read_body, read_key
from sm.api.context import CALLER, Daemon, hold, json_answer
from sm.core.requests import Request
from sm.errors import NotPermitted, UsageError
from sm.requests.dialogs import Outcome, Told
from sm.wire import KEY_HEADER

_LATE_S = 3.0
"""What is heard of a dialog so long after it opened is looked at twice."""


class DialogRoutes:
    """Each hook has a key of its own, by which its request is found again after a restart."""

    def __init__(self, daemon: Daemon) -> None:
        self._d = daemon

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/hooks/dialog", self.dialog),
            web.post("/v1/hooks/dialog/taken", self.taken),
        ]

    async def dialog(self, request: web.Request) -> web.Response:
        """What the hook of a dialog has to say to its agent, once somebody has answered; `open` until then."""
        asked, wait_s = await self._asked(request)  # a whole event shall not lie in memory while it is held
        if asked is None:
            return json_answer(_told(None, Told(Outcome.OVER)))
        number = asked.id
        await hold(request, self._d.store, lambda: self._d.dialogs.is_decided(number), wait_s)
        return json_answer(_told(asked, await self._d.dialogs.told(number)))

    async def _asked(self, request: web.Request) -> tuple[Request | None, float]:
        """The request of the hook, opened when it is heard first, and how long it waits. None: there is no dialog."""
        session_id = _session(request)
        body = await read_body(request)
        emitted_at, payload = moment(body.text("emitted_at"), "emitted_at"), body.mapping("payload", object)
        key, wait_s = _key(request, body), body.number("wait_s") or 0
        known = await self._d.dialogs.known(session_id, key)
        if known is not None:
            return known, wait_s
        # First, so that the session waits for input before anybody hears that it does.
        await self._d.observer.hook(session_id, payload, emitted_at)
        dialog = self._d.dialogs.dialog(session_id, payload, cut=body.flag("cut"))
        if dialog is None or await self._is_over(session_id, emitted_at):
            return None, wait_s
        tool_use = self._d.observer.tool_use(session_id, dialog.agent, dialog.tool_digest)
        return await self._d.dialogs.attach(session_id, dialog, key, tool_use), wait_s

    async def _is_over(self, session_id: str, emitted_at: str) -> bool:
        """Whether the dialog was answered before its hook was heard: while no daemon ran, or it was busy."""
        if self._d.observer.now() - datetime.fromisoformat(emitted_at).timestamp() < _LATE_S:
            return False
        return await self._d.observer.blocked(session_id) is None

    async def taken(self, request: web.Request) -> web.Response:
        """The hook has said it: the request is answered."""
        session_id = _session(request)
        done = await self._d.dialogs.taken(session_id, _key(request, await read_body(request)))
        return json_answer({"request": done.name, "state": done.state})


def _session(request: web.Request) -> str:
    session_id: str | None = request[CALLER].session_id
    if session_id is None:
        raise NotPermitted("only an agent's own hooks wait for the answers to its dialogs")
    return session_id


def _key(request: web.Request, body: Body) -> str:
    key = read_key(request, body)
    if key is None:
        raise UsageError(f"a hook names itself by {KEY_HEADER}")
    return key.text


def _told(request: Request | None, told: Told) -> dict[str, Any]:
    return {
        "request": None if request is None else request.name,
        "state": told.outcome,
        "output": told.output,
    }
