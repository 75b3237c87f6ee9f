"""The tool that waits for sessions."""

from sm.core.models import Session
from sm.core.statuses import ENDED_OF_ANY_KIND, Status
from sm.mcp.results import words
from sm.mcp.schemas import arguments, choice, flag, many, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.mcp.tools.request_tools import request_of
from sm.services import Reads, WaitEnd, Waits

tools = ToolTable()

_TIMEOUT_S = 50
"""The default, shorter than the time that most clients give a call."""
_LONG_TIMEOUT_S = 3300
_CHEAPER = "ending your turn is cheaper than another wait: a message wakes you"


@tools.tool(
    arguments(
        session_ids=many(text(200), 50, "Your live children by default."),
        until=choice((ENDED_OF_ANY_KIND, *Status), default=ENDED_OF_ANY_KIND),
        any=flag("One of them is enough."),
        timeout_s=number(1, 3600),
    ),
    result(
        reached="boolean",
        why=choice(tuple(WaitEnd)),
        sessions="array",
        requests="array",
        unread="integer",
        next="string",
        duration_ms="number",
    ),
    reads=True,
)
async def wait_for_sessions(call: ToolCall, *, waits: Waits, store: Reads) -> Result:
    """Wait until agents have ended. Returns early when one asks you, or a message comes.
    Example: {"session_ids": ["1a2b3c4d"], "timeout_s": 600}"""
    values = call.values
    default_s = _LONG_TIMEOUT_S if call.waits_long else _TIMEOUT_S
    ended = await waits.team(
        call.caller,
        values.get("session_ids") or None,
        values.get("until", ENDED_OF_ANY_KIND),
        call.exchange.hold,
        values.get("timeout_s", default_s),
        call.progress,
        any_of=bool(values.get("any")),
    )
    if call.exchange.is_connected():
        await waits.acknowledge(call.caller, ended)
    return {
        "reached": ended.why is WaitEnd.REACHED,
        "why": ended.why,
        "sessions": [_waited(s) for s in ended.sessions],
        "requests": [request_of(store, r) for r in ended.requests] or None,
        "unread": ended.unread or None,
        "next": _CHEAPER if ended.why is WaitEnd.TIMEOUT else None,
    }


def _waited(session: Session) -> Result:
    return {
        "session_id": session.id,
        "name": session.display_name,
        "status": session.status,
        "result": words(session.completion_message, session),
        "exit_code": session.exit.code if session.exit else None,
    }
