"""The routes of sessions that go on: restore, interrupt, fork, adopt (docs/protocol.md)."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from sm.api.body import read_body, read_key
from sm.api.context import CALLER, Daemon, connected, json_answer
from sm.core.models import Session
from sm.sessions.manager import Answer
from sm.sessions.restore import Restored


class AgentRoutes:
    """`view` shows a session as every other route does, to who has sent the request."""

    def __init__(self, daemon: Daemon, view: Callable[[web.Request, Session], dict[str, Any]]) -> None:
        self._d = daemon
        self._view = view

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/sessions/{ref}/restore", self.restore),
            web.post("/v1/restore", self.restore_all),
            web.post("/v1/sessions/{ref}/interrupt", self.interrupt),
            web.post("/v1/sessions/{ref}/fork", self.fork),
            web.post("/v1/adopt", self.adopt),
        ]

    async def restore(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        caller, reference = request[CALLER], request.match_info["ref"]
        session = self._d.manager.find(caller, reference)
        done = await self._d.revival.restore(
            caller,
            session.id,
            read_key(request, body),
            tree=body.flag("tree"),
            listens=lambda: connected(request),
        )
        too = [self._view(request, s) for s in done.sessions if s.id != session.id]
        now = self._d.store.sessions.get(session.id, session)
        ids = [s.id for s in done.sessions]
        view = self._view(request, now)
        return json_answer({**view, "restored": ids, "restored_too": too, "failed": _failed(done)})

    async def restore_all(self, request: web.Request) -> web.Response:
        key = read_key(request, await read_body(request))
        done = await self._d.revival.restore_all(request[CALLER], key, lambda: connected(request))
        restored = [self._view(request, s) for s in done.sessions]
        return json_answer({"restored": restored, "failed": _failed(done)})

    async def interrupt(self, request: web.Request) -> web.Response:
        key = read_key(request, await read_body(request))
        done = await self._d.interrupts.interrupt(request[CALLER], request.match_info["ref"], key)
        return json_answer({**self._view(request, done.session), "interrupted": done.stopped})

    async def fork(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        answer = await self._d.revival.fork(
            request[CALLER],
            request.match_info["ref"],
            body.text("name"),
            read_key(request, body),
            lambda: connected(request),
        )
        return self._answer(request, answer)

    async def adopt(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        answer = await self._d.adoptions.adopt(
            request[CALLER],
            body.text("pane") or "",
            read_key(request, body),
            name=body.text("name"),
            agent_type=body.text("agent_type"),
            trust=body.text("trust"),
            listens=lambda: connected(request),
        )
        return self._answer(request, answer)

    def _answer(self, request: web.Request, answer: Answer) -> web.Response:
        return json_answer({**self._view(request, answer.session), "warnings": list(answer.warnings)})


def _failed(done: Restored) -> list[dict[str, Any]]:
    return [
        {"session_id": session_id, "code": error.code, "message": error.message, "hint": error.hint}
        for session_id, error in done.failed
    ]
