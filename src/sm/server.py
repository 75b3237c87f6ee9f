"""The daemon's HTTP side: who is calling, what they sent, what they get (docs/protocol.md)."""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from sm import __version__
from sm.api.agent_sockets import for_agents
from sm.api.body import event_type, narrowed, number, read_body, read_key
from sm.api.context import CALLER, VISIT, Daemon, comes, connected, json_answer, last_output, reads
from sm.api.middleware import edge
from sm.api.routes.agents import AgentRoutes
from sm.api.routes.hooks import LookRoutes
from sm.api.routes.messages import MailRoutes
from sm.api.routes.requests import DialogRoutes
from sm.api.routes.workspaces import WorkspaceRoutes
from sm.api.views import checkpoint_json, event_json, nest, pruned, session_json
from sm.core.lifecycle import is_ended, is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import NO_WORKSPACE, Caller, Event, Session, SpawnRequest
from sm.errors import TerminalError, Unauthenticated
from sm.messaging.messages import Letter
from sm.policy.access import Action, visible
from sm.sessions.manager import Answer
from sm.sessions.spawn import START_WAIT_S
from sm.wire import HEARTBEAT_S, PROTOCOL, PROTOCOL_HEADER

log = logging.getLogger(__name__)

_LINES_MAX = 10_000
_EVENTS_MAX = 10_000
_LAST_LINES = 50
_STATUS_LINES = 5


class Server:
    """The routes, of which those for agents are on their sockets too."""

    def __init__(self, daemon: Daemon) -> None:
        self._d = daemon
        self._streams: set[asyncio.Task[Any]] = set()
        self._listed: dict[str, tuple[Session, int | None, bool, orjson.Fragment]] = {}

    def app(self) -> web.Application:
        """What exists on `sm.sock`."""
        return self._app(self._routes())

    def agent_app(self) -> web.Application:
        """What exists on agents' sockets."""
        return self._app(for_agents(self._routes()))

    def _app(self, routes: list[web.RouteDef]) -> web.Application:
        app = web.Application(middlewares=[edge(self._d.audit.record)])
        app.add_routes(routes)
        app.on_shutdown.append(self.end_streams)
        return app

    def _routes(self) -> list[web.RouteDef]:
        return [
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
            *DialogRoutes(self._d).routes(),
            *WorkspaceRoutes(self._d).routes(),
            web.get("/v1/events", self.events),
            web.get("/v1/events/stream", self.stream),
        ]

    # The daemon

    async def health(self, request: web.Request) -> web.Response:
        return json_answer(
            {
                **self._daemon(),
                "socket": self._d.socket,
                "sessions": sum(is_live(s.status) for s in self._seen(request[CALLER], archived=True)),
            }
        )

    def _daemon(self) -> dict[str, Any]:
        uptime_s = round(time.monotonic() - self._d.started_s, 3)
        return {"pid": os.getpid(), "version": __version__, "uptime_s": uptime_s}

    async def stop(self, request: web.Request) -> web.Response:
        self._d.manager.require(request[CALLER], Action.STOP_DAEMON)
        body = await read_body(request)
        killed: list[str] = []
        if body.flag("all"):
            killed = await self._d.kills.kill_all()
            with suppress(TerminalError):  # nothing is left to look at them with: ended ones go too
                for pane in (await self._d.terminals.snapshot()).values():
                    await self._d.terminals.close(pane.name)
        self._d.stop()
        return json_answer({"killed": killed})

    async def status(self, request: web.Request) -> web.Response:
        seen = self._of_workspace(request, self._seen(request[CALLER]))
        operator = self._d.manager.viewer(request[CALLER]) is None
        ids = None if operator else {s.id for s in self._seen(request[CALLER], archived=True)}
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
                "dead_letters": await self._d.store.dead_letters(ids),
                "requests_open": len(requests),
                "inbox": len(inbox),
                "inbox_lines": lines[:_STATUS_LINES],
                "trouble": list(self._d.trouble)
                + [
                    f"tmux does not answer for session {name}"
                    for name in sorted(self._d.watcher.unverified)
                    if ids is None or name in ids
                ],
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
        answer = await self._d.starts.spawn(
            request[CALLER],
            wanted,
            read_key(request, body),
            START_WAIT_S if wait_s is None else wait_s,
            lambda: connected(request),
        )
        if wait_s is not None:
            ready = await self._d.starts.ready(answer.session.id, max(0.0, until_s - time.monotonic()))
            answer = replace(answer, session=ready)
        return self._answer(request, answer)

    async def all(self, request: web.Request) -> web.Response:
        sessions = self._seen(request[CALLER], archived="archived" in request.query)
        return self._sessions(request, self._narrowed(request, sessions))

    async def me(self, request: web.Request) -> web.Response:
        return json_answer(self._view(request, self._d.manager.find(request[CALLER], "me")))

    async def who(self, request: web.Request) -> web.Response:
        viewer = self._d.manager.viewer(request[CALLER])
        parent = viewer.parent_id if viewer else None
        seen = self._seen(request[CALLER], archived="archived" in request.query)
        siblings = [s for s in seen if s.parent_id == parent and s is not viewer]
        return self._sessions(request, self._narrowed(request, siblings))

    async def others(self, request: web.Request) -> web.Response:
        viewer = self._d.manager.viewer(request[CALLER])
        seen = self._seen(request[CALLER], archived="archived" in request.query)
        return self._sessions(request, self._narrowed(request, [s for s in seen if s is not viewer]))

    async def session(self, request: web.Request) -> web.Response:
        session = self._find(request)
        view = self._view(request, session)
        if is_ended(session.status) and reads(self._d, request[CALLER], session):
            view["last_output"] = await last_output(self._d, session)
        return json_answer(view)

    async def children(self, request: web.Request) -> web.Response:
        family, viewer = self._d.manager.family, self._d.manager.viewer(request[CALLER])
        if request.match_info["ref"] == "-":
            top = family.roots() if viewer is None else family.children(viewer.id)
        else:
            top = family.children(self._find(request).id)
        top = [s for s in top if visible(viewer, s) and ("archived" in request.query or not s.archived)]
        if "recursive" not in request.query:
            return self._sessions(request, self._narrowed(request, top))
        below: dict[str, list[dict[str, Any]]] = {}
        for parent in top:
            for session in family.descendants(parent.id):
                if visible(viewer, session):
                    below.setdefault(session.parent_id or "", []).append(self._view(request, session))
        tree = nest([self._view(request, s) for s in top], below)
        wanted = {s.id for s in self._narrowed(request, self._d.store.sessions.values())}
        return json_answer(pruned(tree, wanted))

    async def kill(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        killed = await self._d.kills.kill(
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
        below = [self._view(request, s) for s in killed if s.id != session.id]
        return json_answer(
            {**self._view(request, session), "killed": [s.id for s in killed], "killed_too": below}
        )

    async def archive(self, request: web.Request) -> web.Response:
        return await self._put_away(request, archived=True)

    async def unarchive(self, request: web.Request) -> web.Response:
        return await self._put_away(request, archived=False)

    async def _put_away(self, request: web.Request, *, archived: bool) -> web.Response:
        key = read_key(request, await read_body(request))
        reference = request.match_info["ref"]
        return json_answer(
            self._view(
                request, await self._d.records.archive(request[CALLER], reference, key, archived=archived)
            )
        )

    async def remove(self, request: web.Request) -> web.Response:
        key = read_key(request, await read_body(request))
        removed = await self._d.records.remove(request[CALLER], request.match_info["ref"], key)
        self._listed.pop(removed.session_id, None)
        worktree = {"path": removed.worktree, "branch": removed.branch} if removed.worktree else None
        around = await self._d.records.around(removed)
        return json_answer(
            {
                "removed": removed.session_id,
                "effective_mode": removed.effective_mode or None,
                "worktree": worktree,
                "used": around.used,
                "sandboxed": around.sandboxed,
            }
        )

    async def reparent(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        session = await self._d.records.reparent(
            request[CALLER], request.match_info["ref"], body.text("parent"), read_key(request, body)
        )
        return json_answer(self._view(request, session))

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
        return json_answer(self._view(request, session))

    async def complete(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        status = body.text("status") or "completed"
        key = read_key(request, body)
        done = await self._d.reports.complete(request[CALLER], body.text("message"), status, key)
        return self._answer(request, done)

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
        return json_answer({"events": [self._event(request, e) for e in events], "last_seq": last})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        type = event_type(request)
        cursor: int = number(request, "since", self._d.store.last_seq, None)
        self._scope(request)  # refuses before the stream begins
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                PROTOCOL_HEADER: str(PROTOCOL),
            }
        )
        with request[VISIT].following():
            await self._follow(request, response, type, cursor)
        return response

    async def _follow(
        self, request: web.Request, response: web.StreamResponse, type: str | None, cursor: int
    ) -> None:
        store, visit = self._d.store, request[VISIT]
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            while not visit.is_over():
                last = store.last_seq
                read = await store.events(sessions=self._scope(request), type=type, since=cursor, limit=500)
                # What is committed during the read may be of children that it did not ask for: next time.
                found = [event for event in read if event.seq <= last]
                for event in found:
                    await response.write(
                        b"id: %d\ndata: %b\n\n" % (event.seq, orjson.dumps(self._event(request, event)))
                    )
                cursor = max(cursor, found[-1].seq if len(found) == 500 else last)
                try:
                    came = await comes(
                        request,
                        store,
                        lambda: store.last_seq > cursor,  # noqa: B023 - awaited in this turn
                        HEARTBEAT_S,
                    )
                except Unauthenticated:
                    return
                if not came:
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
            if "workspace" not in request.query:
                return None
            return [s.id for s in self._of_workspace(request, self._d.store.sessions.values())]
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

    def _narrowed(self, request: web.Request, sessions: Iterable[Session]) -> list[Session]:
        return self._of_workspace(request, narrowed(request, sessions))

    def _of_workspace(self, request: web.Request, sessions: Iterable[Session]) -> list[Session]:
        """Those in the workspace that the query names; `-`: those in none. Raises NotFound."""
        named = request.query.get("workspace")
        if named is None:
            return list(sessions)
        slug = None if named == NO_WORKSPACE else self._d.workspaces.find(request[CALLER], named).slug
        return [s for s in sessions if s.workspace == slug]

    def _view(self, request: web.Request, session: Session) -> dict[str, Any]:
        """As the caller may see it. Of what stands above a session only the session itself knows more than it sees."""
        activity_s, stale = self._d.watcher.activity.get(session.id), self._is_stale(session)
        return session_json(self._known_to(request[CALLER], session), activity_s, stale=stale)

    def _known_to(self, caller: Caller, session: Session) -> Session:
        """Without the names of sessions that are not there for the caller."""
        viewer = self._d.manager.viewer(caller)
        if viewer is None or viewer.id == session.id:
            return session
        if session.parent_id is not None and self._is_hidden(viewer, session.parent_id):
            session = replace(session, parent_id=None)
        kind, _, creator = session.created_by.partition(":")
        if creator and self._is_hidden(viewer, creator):
            session = replace(session, created_by=kind)
        return session

    def _event(self, request: web.Request, event: Event) -> dict[str, Any]:
        viewer = self._d.manager.viewer(request[CALLER])
        own = viewer is None or viewer.id == event.session_id
        if not own and self._is_hidden(viewer, event.parent_session_id):
            event = replace(event, parent_session_id=None)
        return event_json(event)

    def _is_hidden(self, viewer: Session | None, session_id: str | None) -> bool:
        session = self._d.store.sessions.get(session_id or "")
        return session is not None and not visible(viewer, session)

    def _is_stale(self, session: Session) -> bool:
        return session.id in self._d.watcher.unverified or self._d.observer.is_stale(session.id)

    def _sessions(self, request: web.Request, sessions: Sequence[Session]) -> web.Response:
        caller = request[CALLER]
        return json_answer(
            [self._text(s) if self._known_to(caller, s) is s else self._view(request, s) for s in sessions]
        )

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

    def _answer(self, request: web.Request, answer: Answer) -> web.Response:
        return json_answer({**self._view(request, answer.session), "warnings": list(answer.warnings)})


def _headline(letter: Letter) -> list[str]:
    """What an overview shows of a message: all that sm itself tells, of others' only that it is there."""
    message = letter.message
    return (
        letter.text.split("\n")
        if message.sender == SM_ITSELF
        else [f"message {message.id} from {message.sender}"]
    )
