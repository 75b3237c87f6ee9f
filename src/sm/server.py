"""The daemon's HTTP side: who is calling, what they sent, what they get (docs/protocol.md)."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from aiohttp import web

from sm import __version__
from sm.agent_routes import AgentRoutes
from sm.errors import (
    Bug,
    LimitReached,
    NotPermitted,
    ProtocolMismatch,
    SmError,
    TerminalError,
    UsageError,
)
from sm.handling import CALLER, Daemon, connected, json_answer, last_output, reads
from sm.hostos import peer_of
from sm.intake import check_protocol, event_type, narrowed, number, read_body, read_key
from sm.lifecycle import is_ended, is_live
from sm.look_routes import LookRoutes
from sm.mail_routes import MailRoutes
from sm.manager import Answer
from sm.messages import Letter
from sm.models import SM_ITSELF, Caller, Session, SpawnRequest
from sm.policy import Action, may, visible
from sm.views import checkpoint_json, event_json, nest, pruned, session_json
from sm.wire import HEARTBEAT_S, PROTOCOL, PROTOCOL_HEADER

log = logging.getLogger(__name__)

BODY_MAX_BYTES = 4 * 1024 * 1024
_SPAWN_WAIT_S = 20.0  # less than a client waits for an answer
_LINES_MAX = 10_000
_EVENTS_MAX = 10_000
_LAST_LINES = 50
_STATUS_LINES = 5


class Server:
    """The routes of `sm.sock`."""

    def __init__(self, daemon: Daemon) -> None:
        self._d = daemon
        self._callers: WeakKeyDictionary[asyncio.BaseTransport, Caller] = WeakKeyDictionary()
        self._streams: set[asyncio.Task[Any]] = set()
        self._listed: dict[str, tuple[Session, int | None, bool, orjson.Fragment]] = {}

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._edge], client_max_size=BODY_MAX_BYTES)
        app.add_routes(
            [
                web.get("/v1/health", self.health),
                web.post("/v1/daemon/stop", self.stop),
                web.get("/v1/status", self.status),
                web.post("/v1/sessions", self.spawn),
                web.get("/v1/sessions", self.all),
                web.get("/v1/me", self.me),
                web.get("/v1/who", self.who),
                web.get("/v1/others", self.others),
                web.get("/v1/sessions/{ref}", self.session),
                web.get("/v1/sessions/{ref}/children", self.children),
                web.post("/v1/sessions/{ref}/kill", self.kill),
                web.post("/v1/sessions/{ref}/archive", self.archive),
                web.post("/v1/sessions/{ref}/unarchive", self.unarchive),
                web.post("/v1/sessions/{ref}/remove", self.remove),
                web.post("/v1/sessions/{ref}/reparent", self.reparent),
                web.get("/v1/sessions/{ref}/output", self.output),
                web.get("/v1/sessions/{ref}/attach", self.attach),
                web.get("/v1/sessions/{ref}/checkpoints", self.checkpoints),
                web.post("/v1/sessions/me/checkpoints", self.checkpoint),
                web.post("/v1/sessions/me/note", self.note),
                web.post("/v1/sessions/me/complete", self.complete),
                *AgentRoutes(self._d, self._view).routes(),
                *MailRoutes(self._d, self._view).routes(),
                *LookRoutes(self._d, self._view).routes(),
                web.get("/v1/events", self.events),
                web.get("/v1/events/stream", self.stream),
            ]
        )
        app.on_shutdown.append(self.end_streams)
        return app

    # The edge of every request

    @web.middleware
    async def _edge(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            check_protocol(request)
            request[CALLER] = await self._caller(request)
            response = await handler(request)
        except SmError as error:
            response = _error(error)
        except web.HTTPException as error:
            response = _error(_of_http(error), error.status)
        except ConnectionResetError:
            raise
        except Exception:
            bug = secrets.token_hex(4)
            log.exception("failed with bug %s", bug, extra={"sm_bug": bug})
            response = _error(Bug(f"a defect of sm, number {bug}", "sm daemon logs shows what happened"))
        if not response.prepared:
            response.headers[PROTOCOL_HEADER] = str(PROTOCOL)
        return response

    async def _caller(self, request: web.Request) -> Caller:
        """Who calls: asked of the kernel once for each connection, since its peer never changes."""
        transport = request.transport
        if transport is None:
            raise NotPermitted("the caller is gone")
        caller = self._callers.get(transport)
        if caller is None:
            caller = await self._d.identity.caller(peer_of(transport.get_extra_info("socket")))
            self._callers[transport] = caller
        return caller

    # The daemon

    async def health(self, request: web.Request) -> web.Response:
        return json_answer(
            {
                **self._daemon(),
                "socket": self._d.socket,
                "sessions": sum(is_live(s.status) for s in self._d.store.sessions.values()),
            }
        )

    def _daemon(self) -> dict[str, Any]:
        uptime_s = round(time.monotonic() - self._d.started_s, 3)
        return {"pid": os.getpid(), "version": __version__, "uptime_s": uptime_s}

    async def stop(self, request: web.Request) -> web.Response:
        if not may(request[CALLER], Action.STOP_DAEMON):
            raise NotPermitted("only the operator may stop the daemon")
        body = await read_body(request)
        killed: list[str] = []
        if body.flag("all"):
            killed = await self._d.manager.kill_all()
            with suppress(TerminalError):  # nothing is left to look at them with: ended ones go too
                for pane in (await self._d.terminals.snapshot()).values():
                    await self._d.terminals.close(pane.name)
        self._d.stop()
        return json_answer({"killed": killed})

    async def status(self, request: web.Request) -> web.Response:
        seen = self._seen(request[CALLER])
        requests = await self._d.requests.listed(request[CALLER], all=False, limit=0)
        inbox = self._d.messages.waiting(request[CALLER], idle=True)
        letters = await self._d.messages.letters(inbox[:_STATUS_LINES])
        lines = [line for letter in letters for line in _headline(letter)]
        by_status: dict[str, int] = {}
        for session in seen:
            by_status[session.status.value] = by_status.get(session.status.value, 0) + 1
        return json_answer(
            {
                "daemon": self._daemon(),
                "sessions": by_status,
                "orphans": sum(self._is_orphan(s) for s in seen),
                "dead_letters": await self._d.store.dead_letters(),
                "requests_open": len(requests),
                "inbox": len(inbox),
                "inbox_lines": lines[:_STATUS_LINES],
                "trouble": list(self._d.trouble)
                + [f"tmux does not answer for session {name}" for name in sorted(self._d.watcher.unverified)],
            }
        )

    def _is_orphan(self, session: Session) -> bool:
        """Live, while the process of its parent is gone."""
        parent = self._d.store.sessions.get(session.parent_id or "")
        return (
            is_live(session.status)
            and parent is not None
            and is_ended(parent.status)
            and parent.exit is not None
        )

    # Sessions

    async def spawn(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        wanted = SpawnRequest(
            agent_type=body.text("agent_type") or "",
            prompt=body.text("prompt"),
            name=body.text("name"),
            model=body.text("model"),
            preset=body.text("preset"),
            extra_args=body.texts("args"),
            parent=body.text("parent"),
            working_dir=body.text("working_dir"),
            current_dir=body.text("cwd"),
            trust=body.text("trust"),
            title=body.text("title"),
            workspace=body.text("workspace"),
            worktree=body.text("worktree"),
            branch=body.text("branch"),
            environment=body.mapping("environment", str),
        )
        wait_s = body.number("wait_s")
        until_s = time.monotonic() + (wait_s or 0.0)
        answer = await self._d.manager.spawn(
            request[CALLER],
            wanted,
            read_key(request, body),
            _SPAWN_WAIT_S if wait_s is None else wait_s,
            lambda: connected(request),
        )
        if wait_s is not None:
            ready = await self._d.manager.ready(answer.session.id, max(0.0, until_s - time.monotonic()))
            answer = replace(answer, session=ready)
        return self._answer(answer)

    async def all(self, request: web.Request) -> web.Response:
        sessions = self._seen(request[CALLER], archived="archived" in request.query)
        return self._sessions(narrowed(request, sessions))

    async def me(self, request: web.Request) -> web.Response:
        return json_answer(self._view(self._d.manager.find(request[CALLER], "me")))

    async def who(self, request: web.Request) -> web.Response:
        viewer = self._d.manager.viewer(request[CALLER])
        parent = viewer.parent_id if viewer else None
        seen = self._seen(request[CALLER], archived="archived" in request.query)
        return self._sessions(
            narrowed(request, [s for s in seen if s.parent_id == parent and s is not viewer])
        )

    async def others(self, request: web.Request) -> web.Response:
        viewer = self._d.manager.viewer(request[CALLER])
        seen = self._seen(request[CALLER], archived="archived" in request.query)
        return self._sessions(narrowed(request, [s for s in seen if s is not viewer]))

    async def session(self, request: web.Request) -> web.Response:
        session = self._find(request)
        view = self._view(session)
        if is_ended(session.status) and reads(self._d, request[CALLER], session):
            view["last_output"] = await last_output(self._d, session)
        return json_answer(view)

    async def children(self, request: web.Request) -> web.Response:
        family, caller = self._d.manager.family, request[CALLER]
        if request.match_info["ref"] == "-":
            viewer = self._d.manager.viewer(caller)
            top = family.roots() if viewer is None else family.children(viewer.id)
        else:
            top = family.children(self._find(request).id)
        if "archived" not in request.query:
            top = [s for s in top if not s.archived]
        if "recursive" not in request.query:
            return self._sessions(narrowed(request, top))
        below: dict[str, list[dict[str, Any]]] = {}
        for parent in top:
            for session in family.descendants(parent.id):
                below.setdefault(session.parent_id or "", []).append(self._view(session))
        tree = nest(map(self._view, top), below)
        wanted = {s.id for s in narrowed(request, self._d.store.sessions.values())}
        return json_answer(pruned(tree, wanted))

    async def kill(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        killed = await self._d.manager.kill(
            request[CALLER],
            request.match_info["ref"],
            read_key(request, body),
            force=body.flag("force"),
            tree=body.flag("tree"),
        )
        for each in killed:
            self._d.mailroom.hold(each.id, request[CALLER].session_id)
        if connected(request):
            await self._d.manager.heard(request[CALLER], [s.id for s in killed])
        session = self._find(request)
        below = [self._view(s) for s in killed if s.id != session.id]
        return json_answer({**self._view(session), "killed": [s.id for s in killed], "killed_too": below})

    async def archive(self, request: web.Request) -> web.Response:
        return await self._put_away(request, archived=True)

    async def unarchive(self, request: web.Request) -> web.Response:
        return await self._put_away(request, archived=False)

    async def _put_away(self, request: web.Request, *, archived: bool) -> web.Response:
        key = read_key(request, await read_body(request))
        reference = request.match_info["ref"]
        return json_answer(
            self._view(await self._d.records.archive(request[CALLER], reference, key, archived=archived))
        )

    async def remove(self, request: web.Request) -> web.Response:
        key = read_key(request, await read_body(request))
        removed = await self._d.records.remove(request[CALLER], request.match_info["ref"], key)
        self._listed.pop(removed, None)
        return json_answer({"removed": removed})

    async def reparent(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        session = await self._d.records.reparent(
            request[CALLER], request.match_info["ref"], body.text("parent"), read_key(request, body)
        )
        return json_answer(self._view(session))

    async def output(self, request: web.Request) -> web.Response:
        session = self._find(request, Action.READ)
        lines = number(request, "lines", _LAST_LINES, _LINES_MAX)
        return json_answer(
            {"session_id": session.id, "lines": await self._d.terminals.capture(session.terminal, lines)}
        )

    async def attach(self, request: web.Request) -> web.Response:
        session = self._find(request, Action.ATTACH)
        await self._d.terminals.capture(session.terminal, 1)  # raises what there is to say when it is gone
        return json_answer(
            {"session_id": session.id, "argv": self._d.terminals.attach_command(session.terminal)}
        )

    # What sessions say

    async def checkpoints(self, request: web.Request) -> web.Response:
        return json_answer(
            [checkpoint_json(c) for c in await self._d.store.checkpoints(self._find(request).id)]
        )

    async def checkpoint(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        checkpoint = await self._d.reports.checkpoint(
            request[CALLER],
            body.text("message") or "",
            body.mapping("metadata", object),
            read_key(request, body),
        )
        return json_answer(checkpoint_json(checkpoint))

    async def note(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        session = await self._d.reports.note(
            request[CALLER], body.text("text") or "", read_key(request, body)
        )
        return json_answer(self._view(session))

    async def complete(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        status = body.text("status") or "completed"
        key = read_key(request, body)
        return self._answer(
            await self._d.reports.complete(request[CALLER], body.text("message"), status, key)
        )

    # Events

    async def events(self, request: web.Request) -> web.Response:
        last = self._d.store.last_seq
        events = await self._d.store.events(
            sessions=self._scope(request),
            type=event_type(request),
            since=number(request, "since", None, None),
            limit=number(request, "limit", 50, _EVENTS_MAX),
        )
        # What came during the read is left out: it may be of children that the read did not ask for.
        events = [event for event in events if event.seq <= last]
        return json_answer({"events": [event_json(e) for e in events], "last_seq": last})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        store, type = self._d.store, event_type(request)
        cursor: int = number(request, "since", store.last_seq, None)
        self._scope(request)  # refuses before the stream begins
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                PROTOCOL_HEADER: str(PROTOCOL),
            }
        )
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            while True:
                last = store.last_seq
                read = await store.events(sessions=self._scope(request), type=type, since=cursor, limit=500)
                # What is committed during the read may be of children that it did not ask for: next time.
                found = [event for event in read if event.seq <= last]
                for event in found:
                    await response.write(
                        b"id: %d\ndata: %b\n\n" % (event.seq, orjson.dumps(event_json(event)))
                    )
                cursor = max(cursor, found[-1].seq if len(found) == 500 else last)
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await store.changed(lambda: store.last_seq > cursor)  # noqa: B023 - awaited in this turn
                except TimeoutError:
                    await response.write(b": heartbeat\n\n")
        finally:
            self._streams.discard(task)

    async def end_streams(self, app: web.Application) -> None:
        """Followers reconnect and go on from their cursor; a stopping daemon does not wait for them."""
        for task in self._streams:
            task.cancel()

    def _scope(self, request: web.Request) -> list[str] | None:
        """The ids of the sessions whose events are asked for; None for all there are."""
        caller, manager = request[CALLER], self._d.manager
        viewer = manager.viewer(caller)
        reference = request.query.get("session")
        if reference is None and viewer is None:
            return None
        session = manager.find(caller, reference or "me")
        family = manager.family
        below = (
            family.descendants(session.id) if "recursive" in request.query else family.children(session.id)
        )
        return [session.id, *(s.id for s in below if visible(viewer, s))]

    # Shapes

    def _find(self, request: web.Request, action: Action = Action.SEE) -> Session:
        return self._d.manager.find(request[CALLER], request.match_info["ref"], action)

    def _seen(self, caller: Caller, *, archived: bool = False) -> list[Session]:
        viewer = self._d.manager.viewer(caller)
        sessions = self._d.store.sessions.values()
        return [s for s in sessions if visible(viewer, s) and (archived or not s.archived)]

    def _view(self, session: Session) -> dict[str, Any]:
        stale = self._is_stale(session)
        return session_json(session, self._d.watcher.activity.get(session.id), stale=stale)

    def _is_stale(self, session: Session) -> bool:
        return session.id in self._d.watcher.unverified or self._d.observer.is_stale(session.id)

    def _sessions(self, sessions: Sequence[Session]) -> web.Response:
        return json_answer([self._text(s) for s in sessions])

    def _text(self, session: Session) -> orjson.Fragment:
        """What `_view` shows as JSON text: made once for each change, since lists are long and asked for often."""
        activity_s = self._d.watcher.activity.get(session.id)
        stale = self._is_stale(session)
        kept = self._listed.get(session.id)
        if kept is not None and kept[0] is session and kept[1:3] == (activity_s, stale):
            return kept[3]
        text = orjson.Fragment(orjson.dumps(session_json(session, activity_s, stale=stale)))
        self._listed[session.id] = (session, activity_s, stale, text)
        return text

    def _answer(self, answer: Answer) -> web.Response:
        return json_answer({**self._view(answer.session), "warnings": list(answer.warnings)})


def _headline(letter: Letter) -> list[str]:
    """What an overview shows of a message: all that sm itself tells, of others' only that it is there."""
    message = letter.message
    return (
        letter.text.split("\n")
        if message.sender == SM_ITSELF
        else [f"message {message.id} from {message.sender}"]
    )


def _error(error: SmError, status: int | None = None) -> web.Response:
    body = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    response = json_answer(body)
    response.set_status(status or error.http_status)
    return response


def _of_http(error: web.HTTPException) -> SmError:
    match error.status:
        case 404 | 405:
            return ProtocolMismatch(
                "this daemon does not know that request", "sm daemon restart, after an upgrade"
            )
        case 413:
            return LimitReached(f"the request is larger than {BODY_MAX_BYTES:,} bytes")
        case _:
            return UsageError(f"the request was refused: {error.reason}")
