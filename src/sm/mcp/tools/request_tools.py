"""The tools that show and answer requests."""

from sm.core.requests import Request
from sm.core.session_index import PREFIX_MIN
from sm.core.text import REPORT_MAX, folded
from sm.errors import UsageError
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted
from sm.mcp.schemas import arguments, flag, many, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.mcp.tools.report_tools import answer_of
from sm.requests.answers import RequestReply
from sm.services import Authorizer, Reads, Requests

tools = ToolTable()


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
