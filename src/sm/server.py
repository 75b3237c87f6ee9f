"""The HTTP applications of the daemon: one for the operator's socket, one for the sockets of agents."""

from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from sm.api.context import CONTEXT, HEADERS, ApiRequest, json_answer
from sm.api.event_streams import STREAMS, end_streams
from sm.api.live_updates import SHARED
from sm.api.middleware import edge
from sm.api.route import Route
from sm.api.routes import ROUTES
from sm.api.routes.mcp import MESSAGES, MessageServer
from sm.api.views import SessionTexts, SumsTexts, Views
from sm.services.parts import DoorParts
from sm.store.audit import Record


class ApiServer:
    """Makes the applications from the route table. `record` writes refusals to the audit log."""

    def __init__(self, parts: DoorParts, record: Record, mcp: MessageServer, left: set[str]) -> None:
        """`left` gets the ids of sessions that leave memory."""
        self._parts = parts
        self._make_views, self._make_request = parts.bound(Views), parts.bound(ApiRequest)
        self._mcp = mcp
        self._record = record
        self._texts: SessionTexts = {}
        self._sums_texts: SumsTexts = {}
        self._left = left
        self._routes = [route for routes in ROUTES.values() for route in routes]

    def app(self) -> web.Application:
        """All routes, for `sm.sock`."""
        return self._app(self._routes)

    def agent_app(self) -> web.Application:
        """The routes of agents, for agent sockets."""
        return self._app(route for route in self._routes if route.agents)

    def _app(self, routes: Iterable[Route]) -> web.Application:
        routes = list(routes)
        files = {route.path: route.file_max_bytes for route in routes if route.file_max_bytes}
        app = web.Application(middlewares=[edge(self._record, files)])
        app.add_routes([web.RouteDef(r.method, r.path, self._handler(r), {}) for r in routes])
        app[STREAMS] = set()
        app[SHARED] = {}
        app[MESSAGES] = self._mcp
        app.on_shutdown.append(end_streams)
        return app

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        texts, sums_texts, given = self._texts, self._sums_texts, self._parts.given(route.parts)
        make_views, make_request = self._make_views, self._make_request

        async def handle(request: web.Request) -> web.StreamResponse:
            views = make_views(request[CONTEXT].caller, texts, sums_texts)
            while self._left:
                views.forget(self._left.pop())
            answer = await route.handler(make_request(views, request), **await route.inputs(request), **given)
            response = answer if isinstance(answer, web.StreamResponse) else json_answer(answer, route.status)
            response.headers.update(request.get(HEADERS, {}))
            return response

        handle.__name__ = route.audit
        return handle
