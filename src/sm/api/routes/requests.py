"""The routes of requests: questions and permissions that sessions wait for."""

from typing import Annotated

from sm.api.answers import RequestView
from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import LongText, NeededText, Present, Seconds, doc, schema
from sm.api.query import LISTED, Limit, Query, SessionName, WaitQuery
from sm.api.route import RouteTable
from sm.core.models import RequestKey
from sm.requests.answers import RequestReply

Option = Annotated[str, schema("string", maxLength=200)]
routes = RouteTable()


class RequestsQuery(Query):
    session: SessionName | None = None
    all: Annotated[Present, doc("Present: include closed requests.")] = False
    limit: Limit = LISTED


class AskBody(Body):
    question: Annotated[NeededText, doc("", maxLength=10_000)] = ""
    options: Annotated[list[Option] | None, doc("", maxItems=20)] = None
    expires_s: Annotated[Seconds | None, doc("Null: a day.")] = None


class AnswerBody(Body):
    approved: Annotated[bool | None, doc("False also declines a question.")] = None
    answers: Annotated[list[str] | None, doc("One for each question.")] = None
    message: LongText | None = None


@routes.route(
    "GET",
    "/v1/requests",
    agents=True,
    id="requests",
    summary="List the open requests of sessions; with `all` the newest requests",
)
async def requests(request: ApiRequest, query: RequestsQuery) -> list[RequestView]:
    services, caller = request.services, request.caller
    found = await services.requests.listed(caller, all=query.all, limit=query.limit)
    if query.session is not None:
        session = services.sessions.find(caller, query.session)
        found = [r for r in found if r.session_id == session.id]
    return [request.views.request(each) for each in found]


@routes.route(
    "POST",
    "/v1/requests",
    agents=True,
    id="ask",
    summary="Ask the parent of the calling session, or the operator",
)
async def ask(request: ApiRequest, body: AskBody, key: RequestKey | None) -> RequestView:
    options = tuple(body.options or ())
    requests = request.services.requests
    return request.views.request(
        await requests.ask(request.caller, body.question, options, body.expires_s, key)
    )


@routes.route(
    "GET", "/v1/requests/{ref}", agents=True, id="request", summary="Show a request", audit="request"
)
async def show(request: ApiRequest, query: WaitQuery) -> RequestView:
    waits = request.services.waits
    return request.views.request(await waits.answer(request.caller, request.name, request.hold, query.wait_s))


@routes.route(
    "POST",
    "/v1/requests/{ref}/answer",
    agents=True,
    id="answer",
    summary="Answer a request, or the only open request of a session; the first answer wins",
)
async def answer(request: ApiRequest, body: AnswerBody, key: RequestKey | None) -> RequestView:
    verdict = RequestReply(bool(body.approved), tuple(body.answers or ()), body.message)
    done = await request.services.requests.answer(request.caller, request.name, verdict, key)
    return request.views.request(done)


@routes.route(
    "POST",
    "/v1/requests/{ref}/taken",
    agents=True,
    id="taken",
    summary="Confirm that the asking session has its answer",
)
async def taken(request: ApiRequest) -> RequestView:
    requests = request.services.requests
    found = await requests.find(request.caller, request.name)
    return request.views.request(await requests.taken(request.caller, found))
