"""The routes of requests: questions and permissions that sessions wait for."""

from typing import Annotated

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import LongText, NeededText, Present, Seconds, doc
from sm.api.query import LISTED, Limit, Query, SessionName, WaitQuery
from sm.api.route import RouteTable
from sm.core.models import RequestKey
from sm.requests.answers import RequestReply
from sm.wire_types.fields import narrowed
from sm.wire_types.requests import RequestView

Option = Annotated[str, narrowed("string", maxLength=200)]
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
    approved: Annotated[bool | None, doc("False also denies a question.")] = None
    answers: Annotated[list[str] | None, doc("One for each question.")] = None
    message: LongText | None = None
    shown: Annotated[
        str | None,
        doc("The `digest` of the request that the caller has seen: the answer to another one is refused."),
    ] = None


@routes.route("GET", "/v1/requests", agents=True)
async def requests(request: ApiRequest, query: RequestsQuery) -> list[RequestView]:
    """List the open requests of sessions; with `all` the newest requests."""
    services, caller = request.services, request.caller
    requests = await services.requests.list_requests(caller, all=query.all, limit=query.limit)
    if query.session is not None:
        session = services.sessions.find(caller, query.session)
        requests = [r for r in requests if r.session_id == session.id]
    return [request.views.request(r) for r in requests]


@routes.route("POST", "/v1/requests", agents=True)
async def ask(request: ApiRequest, body: AskBody, key: RequestKey | None) -> RequestView:
    """Ask the parent of the calling session, or the operator."""
    requests, options = request.services.requests, tuple(body.options or ())
    asked = await requests.ask(request.caller, body.question, options, body.expires_s, key)
    return request.views.request(asked)


@routes.route("GET", "/v1/requests/{ref}", agents=True)
async def request(request: ApiRequest, query: WaitQuery) -> RequestView:
    """Show a request."""
    waits = request.services.waits
    return request.views.request(
        await waits.answer(request.caller, request.name, request.long_poll, query.wait_s)
    )


@routes.route("POST", "/v1/requests/{ref}/answer", agents=True)
async def answer(request: ApiRequest, body: AnswerBody, key: RequestKey | None) -> RequestView:
    """Answer a request, or the only open request of a session; the first answer wins."""
    reply = RequestReply(bool(body.approved), tuple(body.answers or ()), body.message, body.shown)
    services, caller = request.services, request.caller
    answered = await services.requests.answer(caller, request.name, reply, key)
    if (asker := services.store.sessions.get(answered.session_id)) is not None:
        await services.seen.look(caller, [asker])
    return request.views.request(answered)


@routes.route("POST", "/v1/requests/{ref}/taken", agents=True)
async def taken(request: ApiRequest) -> RequestView:
    """Confirm that the asking session has its answer."""
    requests = request.services.requests
    closed = await requests.find(request.caller, request.name)
    return request.views.request(await requests.confirm_answer(request.caller, closed))
