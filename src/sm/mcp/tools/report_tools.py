"""The tools with which a session reports about itself."""

from sm.core.lifecycle import is_ended
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.timestamps import iso
from sm.mcp.schemas import arguments, choice, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.services import Monitor, Reports, Requests

tools = ToolTable()

TAKEN_MAX = 200_000
"""Characters of a report that a call may have: a report is cut, not refused."""
_METADATA = {"type": "object", "maxProperties": 50, "description": "Facts by name."}


@tools.tool(
    arguments({"message": text(TAKEN_MAX)}, metadata=_METADATA),
    result(timestamp="string", warnings="array", duration_ms="number"),
    idempotent=True,
    in_session=True,
)
async def report_checkpoint(call: ToolCall, *, reports: Reports) -> Result:
    """Report a milestone. Example: {"message": "Data model done (1/3 tasks)", "metadata": {"tests": 12}}"""
    values = call.values
    body = {"message": values["message"], "metadata": values.get("metadata", {})}
    key = call.report_key("checkpoints", body)
    made, warnings = await reports.checkpoint(call.caller, body["message"], body["metadata"], key)
    return {"timestamp": made.timestamp, "warnings": list(warnings) or None}


@tools.tool(
    arguments({"text": text(TAKEN_MAX, least=0)}),
    result(timestamp="string", warnings="array", duration_ms="number"),
    idempotent=True,
    in_session=True,
)
async def report_note(call: ToolCall, *, reports: Reports, monitor: Monitor) -> Result:
    """Say what you do now. An empty text removes it. Example: {"text": "running the tests"}"""
    key = call.report_key("note", {"text": call.values["text"]})
    noted = await reports.note(call.caller, call.values["text"], key)
    return {"timestamp": iso(monitor.now()), "warnings": list(noted.warnings) or None}


@tools.tool(
    arguments(
        {"message": text(TAKEN_MAX, "The result, for your parent.")},
        status=choice(["completed", "error", "abandoned"], default="completed"),
    ),
    result(status="string", request_id="string", warnings="array", duration_ms="number"),
    idempotent=True,
    in_session=True,
)
async def complete_session(call: ToolCall, *, reports: Reports, requests: Requests) -> Result:
    """Report that your task is done. proposed: your parent approves it first.
    Example: {"message": "All 26 tests pass"}"""
    body = {"message": call.values["message"], "status": call.values.get("status", "completed")}
    key = call.report_key("complete", body)
    done = await reports.complete(call.caller, body["message"], body["status"], key)
    shown: Result = {"status": done.session.status, "warnings": list(done.warnings) or None}
    if not is_ended(done.session.status):
        proposals = await _own_requests(call, requests, RequestKind.COMPLETION)
        if proposals:
            shown = {**shown, "status": "proposed", "request_id": proposals[-1].name}
    return shown


async def _own_requests(call: ToolCall, requests: Requests, kind: RequestKind) -> list[Request]:
    found = await requests.list_requests(call.caller, all=False, limit=0)
    return [r for r in found if r.session_id == call.caller.session_id and r.kind is kind]
