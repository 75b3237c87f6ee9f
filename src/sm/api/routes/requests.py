"""The routes of requests: questions and permissions that sessions wait for."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.core.models import RequestKey
from sm.operations import request_operations as operations
from sm.operations.arguments import NewsWait
from sm.operations.request_operations import AskedQuestion, GivenAnswer, RequestFilter
from sm.requests.answers import RequestReply
from sm.services import Authorizer, Reads, Requests, SeenSessions, Waits
from sm.wire_types.request_answers import RequestView

routes = OperationTable()


@routes.carries_out(operations.LIST_REQUESTS)
async def requests(
    request: ApiRequest, given: RequestFilter, *, requests: Requests, authorizer: Authorizer
) -> list[RequestView]:
    caller = request.caller
    found = await requests.list_requests(caller, all=given.all, limit=given.limit)
    if given.session is not None:
        session = authorizer.find(caller, given.session)
        found = [r for r in found if r.session_id == session.id]
    return [request.views.request(r) for r in found]


@routes.carries_out(operations.ASK)
async def ask(
    request: ApiRequest, given: AskedQuestion, key: RequestKey | None, *, requests: Requests
) -> RequestView:
    options = tuple(given.options or ())
    asked = await requests.ask(request.caller, given.question, options, given.expires_s, key)
    return request.views.request(asked)


@routes.carries_out(operations.SHOW_REQUEST)
async def request(request: ApiRequest, wait: NewsWait, *, waits: Waits) -> RequestView:
    return request.views.request(
        await waits.answer(request.caller, request.name, request.long_poll, wait.wait_s)
    )


@routes.carries_out(operations.ANSWER)
async def answer(
    request: ApiRequest,
    given: GivenAnswer,
    key: RequestKey | None,
    *,
    seen: SeenSessions,
    requests: Requests,
    store: Reads,
) -> RequestView:
    reply = RequestReply(bool(given.approved), tuple(given.answers or ()), given.message, given.shown)
    caller = request.caller
    answered = await requests.answer(caller, request.name, reply, key)
    if (asker := store.sessions.get(answered.session_id)) is not None:
        await seen.look(caller, [asker])
    return request.views.request(answered)


@routes.carries_out(operations.TAKE_ANSWER)
async def taken(request: ApiRequest, *, requests: Requests) -> RequestView:
    closed = await requests.find(request.caller, request.name)
    return request.views.request(await requests.confirm_answer(request.caller, closed))
