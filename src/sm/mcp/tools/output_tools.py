"""The tools that show the work of sessions: progress and output."""

from dataclasses import asdict

from sm.core.models import Session
from sm.core.text import folded
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted, words
from sm.mcp.schemas import arguments, choice, flag, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.operations.audiences import READ
from sm.services import Authorizer, Monitor, SessionFields

tools = ToolTable()

_CHECKPOINTS = 20
_NAME_MAX = 80


@tools.tool(
    arguments(
        session_id=text(200, "Without it your own."),
        tree=flag("Also all descendants."),
        output_lines=number(0, 50, "0 by default."),
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


@tools.tool(
    arguments(
        {"session_id": text(200)},
        lines=number(1, 200, "50 by default."),
        what=choice(["screen", "actions", "summary"], "screen by default."),
    ),
    result(session_id="string", lines="array", archived="boolean", untrusted="boolean", duration_ms="number"),
    reads=True,
)
async def read_session_output(call: ToolCall, *, monitor: Monitor, authorizer: Authorizer) -> Result:
    """Read the screen of a descendant, what it did, or a summary.
    Example: {"session_id": "1a2b3c4d", "what": "actions", "lines": 20}"""
    session = authorizer.find(call.caller, call.values["session_id"], READ)
    count, archived = call.values.get("lines", 50), None
    match call.values.get("what", "screen"):
        case "actions":
            lines = [f"{a.timestamp} {a.kind}: {a.text}" for a in await monitor.actions(session, count)]
        case "summary":
            lines = (await monitor.summarize(session)).summary.splitlines()[:count]
        case _:
            output = await monitor.output(session, count)
            lines, archived = output.lines, output.archived or None
    return {
        "session_id": session.id,
        "lines": [folded(line) for line in lines],
        "archived": archived,
        "untrusted": is_untrusted(session) or None,
    }
