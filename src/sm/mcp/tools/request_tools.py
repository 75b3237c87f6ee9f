"""The tools that ask, and that show and answer requests."""

from sm.core.requests import Request
from sm.core.session_index import PREFIX_MIN
from sm.core.states import RequestState
from sm.core.text import REPORT_MAX, folded
from sm.core.wording import decider
from sm.errors import UsageError
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted
from sm.mcp.schemas import arguments, flag, many, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.requests.answers import RequestReply
from sm.services import Authorizer, Reads, Requests, Waits

tools = ToolTable()

_NEXT = "end your turn, or go on with other work: the answer comes as a message"


@tools.tool(
    arguments(session_id=text(200, "Only of this session.")),
    result(requests="array", more="integer", duration_ms="number"),
    reads=True,
)
async def list_requests(
    call: ToolCall, *, requests: Requests, authorizer: Authorizer, store: Reads
) -> Result:
    """List the open questions and permissions that you or your descendants wait for.
    Example: {"session_id": "1a2b3c4d"}"""
    reference = call.values.get("session_id")
    session = None if reference is None else authorizer.find(call.caller, reference)
    found = await requests.list_requests(call.caller, all=False, limit=0)
    if session is not None:
        found = [r for r in found if r.session_id == session.id]
    return {
        "requests": [request_of(store, r) for r in found[:LISTED_MAX]],
        "more": omitted(found),
    }


@tools.tool(
    arguments(
        {"request_id": text(200, "r57, or a session with one open request.")},
        approve=flag("For a permission, plan, completion or budget."),
        answers=many(text(50_000), 20, "For each question an option, its number or a text."),
        message=text(REPORT_MAX, "Why; for a budget the amounts."),
    ),
    result(request_id="string", state="string", answer="object", duration_ms="number"),
    idempotent=True,
)
async def answer_request(call: ToolCall, *, requests: Requests) -> Result:
    """Approve, deny or answer a request of a descendant; the first answer wins.
    Example: {"request_id": "r57", "answers": ["2"]}"""
    values = call.values
    if "approve" not in values and not values.get("answers"):
        raise UsageError("nothing to answer with", "give approve, or answers for a question")
    reply = RequestReply(
        values.get("approve", False), tuple(values.get("answers", ())), values.get("message")
    )
    asked = values["request_id"]
    if asked.isdecimal() and len(asked) < PREFIX_MIN:  # no session has so short a name
        asked = f"r{asked}"
    answered = await requests.answer(call.caller, asked, reply, call.key)
    return {"request_id": answered.name, "state": answered.state, "answer": answer_of(answered)}


@tools.tool(
    arguments(
        {"question": text(REPORT_MAX)},
        options=many(text(200), 20),
        wait_s=number(0, 3600, "0 by default: the answer is a message."),
    ),
    result(request_id="string", state="string", answer="object", duration_ms="number"),
    in_session=True,
)
async def ask(call: ToolCall, *, requests: Requests, waits: Waits) -> Result:
    """Ask your parent, or the operator. Example: {"question": "Which database?", "options": ["SQLite", "MySQL"]}"""
    values = call.values
    options = tuple(values.get("options", ()))
    asked = await requests.ask(call.caller, values["question"], options, None, call.key)
    closed = await waits.answer(call.caller, asked.name, call.exchange.hold, values.get("wait_s", 0))
    if closed.unclaimed and call.exchange.is_connected():
        closed = await requests.confirm_answer(call.caller, closed)
    is_open = closed.state is RequestState.OPEN
    return {
        "request_id": closed.name,
        "state": closed.state,
        "answer": answer_of(closed),
        "next": _NEXT if is_open else None,
    }


def request_of(store: Reads, request: Request) -> Result:
    """A request in full, with the texts of its session folded."""
    session = store.sessions.get(request.session_id)
    questions = [
        {
            "question": folded(q.question, REPORT_MAX),
            "options": [folded(option) for option in q.options] or None,
            "multiple": q.multiple or None,
        }
        for q in request.questions
    ]
    return {
        "request_id": request.name,
        "session_id": request.session_id,
        "name": session.display_name if session else None,
        "kind": request.kind,
        "tool": request.tool and folded(request.tool),
        "arguments": request.arguments,
        "cut": request.cut or None,
        "questions": questions or None,
        "created_at": request.created_at,
        "expires_at": request.expires_at,
        "untrusted": is_untrusted(session) or None,
    }


def answer_of(request: Request) -> Result | None:
    """The answer to a request; None without one."""
    if request.answer is None:
        return None
    return {
        "approved": request.answer.approved,
        "answers": list(request.answer.answers) or None,
        "message": request.answer.message,
        "by": decider(request).removeprefix("by "),
    }
