"""The tools that show and start sessions."""

from sm.core.models import Session
from sm.core.text import folded
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted, words
from sm.mcp.schemas import arguments, flag, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable

tools = ToolTable()

_CHECKPOINTS = 20
_NAME_MAX = 80


@tools.tool(
    arguments(
        session_id=text(200, "Without it your own."),
        tree=flag("Also all descendants."),
        output_lines=number(0, 50, "Last lines of the terminal. 0 by default."),
    ),
    result(session_id="string", status="string", tree="array", more="integer", duration_ms="number"),
    reads=True,
)
async def get_progress(call: ToolCall) -> Result:
    """Show how far a session is: status, tokens, cost, tools, todo list, checkpoints.
    Example: {"session_id": "1a2b3c4d", "tree": true}"""
    sessions = call.services.sessions
    session = sessions.find(call.caller, call.values.get("session_id", "me"))
    lines = call.values.get("output_lines", 0)
    shown = await _progress(call, session, lines)
    if call.values.get("tree"):
        descendants = sessions.descendants(call.caller, session.id)
        listed = [await _progress(call, s, lines) for s in descendants[:LISTED_MAX]]
        shown = {**shown, "tree": listed, "more": omitted(descendants)}
    return shown


async def _progress(call: ToolCall, session: Session, lines: int) -> Result:
    """The progress of one session. Texts of another session are quoted."""
    may_read = call.services.sessions.may_read(call.caller, session)
    shown = await call.services.monitor.progress(session, _CHECKPOINTS, may_read=may_read)
    shown["last_output"] = shown["last_output"][len(shown["last_output"]) - lines :] if lines else None
    if session.id != call.caller.session_id:
        for name in ("current_activity", "completion_message"):
            shown[name] = words(shown[name], session)
        for entry in (*shown["checkpoints"], *(shown["todo"] or ())):
            named = "message" if "message" in entry else "text"
            entry[named] = words(entry[named], session)
        for point in shown["checkpoints"]:
            point["metadata"] = {
                folded(name, _NAME_MAX): words(str(value), session)
                for name, value in point["metadata"].items()
            }
        shown["last_output"] = shown["last_output"] and [folded(line) for line in shown["last_output"]]
        shown["untrusted"] = is_untrusted(session) or None
    return shown
