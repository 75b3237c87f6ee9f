"""The tool that shows how far sessions are."""

from dataclasses import asdict

from sm.core.models import Session
from sm.core.text import folded
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted, words
from sm.mcp.schemas import arguments, flag, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.services import Authorizer, Monitor, SessionFields

tools = ToolTable()

_CHECKPOINTS = 20
_NAME_MAX = 80


@tools.tool(
    arguments(
        session_id=text(200, "Without it your own."),
        tree=flag("Also all descendants."),
        output_lines=number(0, 50, default=0),
    ),
    result(session_id="string", status="string", tree="array", more="integer", duration_ms="number"),
    reads=True,
)
async def get_progress(
    call: ToolCall, *, monitor: Monitor, fields: SessionFields, authorizer: Authorizer
) -> Result:
    """Show how far a session is: status, tokens, cost, tools, todo list, checkpoints.
    Example: {"session_id": "1a2b3c4d", "tree": true}"""
    session = authorizer.find(call.caller, call.values.get("session_id", "me"))
    lines = call.values.get("output_lines", 0)
    shown = await _progress(call, session, lines, monitor, fields, authorizer)
    if call.values.get("tree"):
        descendants = await authorizer.descendants(call.caller, session.id)
        listed = [
            await _progress(call, s, lines, monitor, fields, authorizer) for s in descendants[:LISTED_MAX]
        ]
        shown = {**shown, "tree": listed, "more": omitted(descendants)}
    return shown


async def _progress(
    call: ToolCall,
    session: Session,
    lines: int,
    monitor: Monitor,
    fields: SessionFields,
    authorizer: Authorizer,
) -> Result:
    """The progress of one session. Texts of another session are quoted."""
    may_read = authorizer.may_read(call.caller, session)
    shown: Result = asdict(await monitor.progress(session, _CHECKPOINTS, may_read=may_read))
    shown["last_output"] = shown["last_output"][len(shown["last_output"]) - lines :] if lines else None
    if may_read:
        shown |= {field.name: field.brief(session.id) for field in fields}
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
