"""The route of live screens."""

import orjson
from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.event_streams import HEARTBEAT, event_stream
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.monitor.live_screens import LiveScreen
from sm.operations import agent_operations as operations
from sm.operations.access_rules import READ
from sm.operations.arguments import SeenByPerson
from sm.services import Authorizer, LiveScreens, Reads, SeenSessions
from sm.wire import HEARTBEAT_S
from sm.wire_types.live_answers import ScreenRowView, ScreenUpdateView

routes = OperationTable()


@routes.carries_out(operations.FOLLOW_SCREEN)
async def follow_screen(
    request: ApiRequest,
    query: SeenByPerson,
    *,
    seen: SeenSessions,
    screens: LiveScreens,
    store: Reads,
    authorizer: Authorizer,
) -> web.StreamResponse:
    session = await request.look_at(READ, is_person=query.seen)
    async with (
        screens.looking(session.terminal) as screen,
        event_stream(request) as response,
    ):
        cursor, over = 0, False
        while not over and not request.context.is_over():
            current = store.sessions.get(session.id)
            if current is None or not authorizer.may_read(request.caller, current):
                break  # the session was removed, or moved away from the caller
            over = screen.is_over
            if over and query.seen:  # a person has watched the end
                await seen.look(request.caller, [current])
            if screen.number > cursor or over:
                update = orjson.dumps(screen_json(screen, cursor, over=over))
                cursor = screen.number
                await response.write(b"data: %b\n\n" % update)
            if not over and not await request.wait_until(
                lambda: screen.number > cursor or screen.is_over,  # noqa: B023 - awaited in this round
                HEARTBEAT_S,
                screen,
            ):
                await response.write(HEARTBEAT)
    return response


def screen_json(screen: LiveScreen, since: int, *, over: bool) -> ScreenUpdateView:
    rows = [build_view(ScreenRowView, row) for row in screen.rows(since)]
    return ScreenUpdateView(screen.height, rows, over)
