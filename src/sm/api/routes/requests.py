"""The routes of requests: questions and permissions that sessions wait for."""

from dataclasses import replace

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import written_rule_view
from sm.core.models import RequestKey
from sm.operations import request_operations as operations
from sm.operations.arguments import NewsWait
from sm.operations.request_operations import AskedQuestion, GivenAnswer, RequestFilter, SeenRule
from sm.requests.answers import RequestReply
from sm.requests.rule_writer import RuleOfRequest
from sm.services import Authorizer, Reads, Requests, RuleWriter, SeenSessions, Waits
from sm.wire_types.request_answers import RequestView, RuleOfRequestView

routes = OperationTable()


@routes.carries_out(operations.LIST_REQUESTS)
async def requests(
    request: ApiRequest,
    given: RequestFilter,
    *,
    requests: Requests,
    authorizer: Authorizer,
    rules: RuleWriter,
) -> list[RequestView]:
    caller = request.caller
    found = await requests.list_requests(caller, all=given.all, limit=given.limit)
    if given.session is not None:
        session = authorizer.find(caller, given.session)
        found = [r for r in found if r.session_id == session.id]
    lines = await rules.lines(caller, found)
    views = [(r.id, request.views.request(r)) for r in found]
    return [replace(view, always=lines[number]) if number in lines else view for number, view in views]


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


@routes.carries_out(operations.SHOW_RULE)
async def rule(request: ApiRequest, *, rules: RuleWriter) -> RuleOfRequestView:
    return _rule_view(await rules.preview(request.caller, request.name))


@routes.carries_out(operations.ANSWER_ALWAYS)
async def answer_always(request: ApiRequest, given: SeenRule, *, rules: RuleWriter) -> RuleOfRequestView:
    return _rule_view(await rules.write(request.caller, request.name, given.line))


def _rule_view(found: RuleOfRequest) -> RuleOfRequestView:
    return RuleOfRequestView(
        request_id=found.request.name,
        rule=written_rule_view(found.rule, found.path),
        sentence=found.rule.sentence,
        answers=[request.name for request in found.answers],
    )


@routes.carries_out(operations.TAKE_ANSWER)
async def taken(request: ApiRequest, *, requests: Requests) -> RequestView:
    closed = await requests.find(request.caller, request.name)
    return request.views.request(await requests.confirm_answer(request.caller, closed))
