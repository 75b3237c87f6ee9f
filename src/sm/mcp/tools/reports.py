"""The tools with which a session reports about itself."""

from sm.core.text import NOTE_MAX
from sm.core.timestamps import iso
from sm.mcp.schemas import arguments, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable

tools = ToolTable()


@tools.tool(
    arguments({"text": text(NOTE_MAX, least=0)}),
    result(timestamp="string", duration_ms="number"),
    idempotent=True,
    in_session=True,
)
async def report_note(call: ToolCall) -> Result:
    """Say in one line what you do now; an empty text removes the note. Example: {"text": "running the tests"}"""
    await call.services.reports.note(call.caller, call.values["text"], call.key)
    return {"timestamp": iso(call.services.monitor.now())}
