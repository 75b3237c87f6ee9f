"""The routes of requests: questions and permissions that sessions wait for."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.core.models import RequestKey
from sm.operations import request_operations as operations
from sm.operations.arguments import NewsWait
from sm.operations.request_operations import AskedQuestion, GivenAnswer, RequestFilter
from sm.requests.answers import RequestReply
from sm.wire_types.request_answers import RequestView

routes = OperationTable()


@routes.carries_out(operations.LIST_REQUESTS)
async def requests(request: ApiRequest, given: RequestFilter) -> list[RequestView]:
    services, caller = request.services, request.caller
    requests = await services.requests.list_requests(caller, all=given.all, limit=given.limit)
    if given.session is not None:
        session = services.sessions.find(caller, given.session)
        requests = [r for r in requests if r.session_id == session.id]
    return [request.views.request(r) for r in requests]


@routes.carries_out(operations.ASK)
async def ask(request: ApiRequest, given: AskedQuestion, key: RequestKey | None) -> RequestView:
    requests, options = request.services.requests, tuple(given.options or ())
    asked = await requests.ask(request.caller, given.question, options, given.expires_s, key)
    return request.views.request(asked)


@routes.carries_out(operations.SHOW_REQUEST)
async def request(request: ApiRequest, wait: NewsWait) -> RequestView:
    waits = request.services.waits
    return request.views.request(
        await waits.answer(request.caller, request.name, request.long_poll, wait.wait_s)
    )


@routes.carries_out(operations.ANSWER)
async def answer(request: ApiRequest, given: GivenAnswer, key: RequestKey | None) -> RequestView:
    reply = RequestReply(bool(given.approved), tuple(given.answers or ()), given.message, given.shown)
    services, caller = request.services, request.caller
    answered = await services.requests.answer(caller, request.name, reply, key)
    if (asker := services.store.sessions.get(answered.session_id)) is not None:
        await services.seen.look(caller, [asker])
    return request.views.request(answered)


@routes.carries_out(operations.TAKE_ANSWER)
async def taken(request: ApiRequest) -> RequestView:
    requests = request.services.requests
    closed = await requests.find(request.caller, request.name)
    return request.views.request(await requests.confirm_answer(request.caller, closed))
