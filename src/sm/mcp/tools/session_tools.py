"""The tools that start, list and read sessions."""

from sm.core.lifecycle import is_live
from sm.core.models import Session, SpawnRequest
from sm.core.states import Mode
from sm.core.statuses import Status
from sm.core.text import PROMPT_MAX, folded
from sm.errors import RateLimited, SandboxBusy, UsageError
from sm.mcp.results import LISTED_MAX, is_untrusted, omitted, words
from sm.mcp.schemas import arguments, choice, flag, named_number, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.operations.access_rules import READ
from sm.services import Authorizer, ListPage, Monitor, SessionFilter, Sessions
from sm.sessions.spawn import SessionResult

tools = ToolTable()

RATE_WAIT_S = 30.0
"""How long `create_session` waits in all until the limit of children per time allows another one."""

_NEXT = "end your turn: a message wakes you when this session has finished, or asks something"


@tools.tool(
    arguments(
        {
            "title": text(200),
            "agent_name": text(100, "See list_agent_types."),
            "initial_message": text(PROMPT_MAX, "The whole task: the agent knows nothing else."),
        },
        name=text(200, "a-z, 0-9, . - _"),
        model=text(100),
        preset=text(100),
        lifecycle=choice(list(Mode), "supervised: you approve its end."),
        working_dir=text(4096, "Absolute. Yours by default."),
        budget=text(200, "usd=5,tokens=2M,minutes=90: for it and all below it."),
        restart=choice(("never", "on-failure")),
        worktree=flag(
            "In a git worktree that begins with base, pr or remote_branch, on a new or existing branch."
        ),
        base=text(300),
        branch=text(300),
        pr=named_number(),
        remote_branch=text(300),
        remote=text(300),
        copy=flag("In a copy of a directory without git."),
    ),
    result(
        session_id="string",
        name="string",
        title="string",
        agent_name="string",
        workspace_id="string",
        trust_level="string",
        parent_session_id="string",
        status="string",
        created_at="string",
        tmux_session="string",
        warnings="array",
        next="string",
        duration_ms="number",
    ),
    idempotent=True,
)
async def create_session(call: ToolCall, *, sessions: Sessions) -> Result:
    """Start an agent as your child. It reports to you when it ends.
    Example: {"title": "Backend API", "agent_name": "Engineer", "initial_message": "Write the API"}"""
    values = call.values
    if values.get("worktree") and values.get("copy"):
        raise UsageError("worktree and copy cannot be used together")
    wanted = SpawnRequest(
        agent_type=values["agent_name"],
        prompt=values["initial_message"],
        title=values["title"],
        name=values.get("name"),
        is_name_wish=True,
        model=values.get("model"),
        preset=values.get("preset"),
        lifecycle=values.get("lifecycle"),
        working_dir=values.get("working_dir"),
        additions={
            "budget": values.get("budget"),
            "restart": values.get("restart"),
            "new_worktree": values.get("worktree"),
            "base": values.get("base"),
            "branch": values.get("branch"),
            "pull_request": values.get("pr"),
            "remote_branch": values.get("remote_branch"),
            "remote": values.get("remote"),
            "new_copy": values.get("copy"),
        },
    )
    started = await _spawn(call, sessions, wanted)
    session = started.session
    return {
        "session_id": session.id,
        "name": session.display_name,
        "title": session.title,
        "agent_name": session.agent_type,
        "workspace_id": session.workspace,
        "trust_level": session.trust_level,
        "parent_session_id": session.parent_id,
        "status": session.status,
        "created_at": session.created_at,
        "tmux_session": session.terminal,
        "warnings": list(started.warnings) or None,
        "next": _NEXT,
    }


async def _spawn(call: ToolCall, sessions: Sessions, wanted: SpawnRequest) -> SessionResult:
    """Spawn, and wait for the limit per time as the command does: a model starts several agents in one step."""
    left_s = RATE_WAIT_S
    while True:
        try:
            return await sessions.spawn(call.caller, wanted, call.key, None, call.exchange.is_connected)
        except RateLimited as limited:
            if isinstance(limited, SandboxBusy) or limited.retry_after_s > left_s:
                raise
            await call.progress(f"waits {limited.retry_after_s:.1f} s: {limited.message}")
            left_s -= limited.retry_after_s
            await call.exchange.hold(lambda: False, limited.retry_after_s)


@tools.tool(
    arguments(
        include_ended=flag(),
        search=text(200, "Words of its name, title, note or result."),
        status=choice(tuple(Status)),
    ),
    result(
        workspace_id="string", session_count="integer", sessions="array", more="integer", duration_ms="number"
    ),
    reads=True,
)
async def list_workspace_sessions(call: ToolCall, *, sessions: Sessions, authorizer: Authorizer) -> Result:
    """List the agents of your team, the newest last. Example: {"search": "backend"}"""
    values = call.values
    status = values.get("status", "all")
    page = ListPage(limit=LISTED_MAX)
    found = await sessions.list_sessions(call.caller, SessionFilter(status, values.get("search", "")), page)
    listed, left = found.sessions, found.left
    if status == "all" and not values.get("include_ended"):
        listed, left = [s for s in listed if is_live(s.status)], 0
    own = authorizer.caller_session(call.caller)
    return {
        "workspace_id": own.workspace if own else None,
        "session_count": len(listed) + left,
        "sessions": [session_of(call, sessions, s) for s in listed[-LISTED_MAX:]],
        "more": (omitted(listed) or 0) + left or None,
    }


@tools.tool(
    arguments(
        {"session_id": text(200)},
        lines=number(1, 200, default=50),
        what=choice(["screen", "actions", "summary"], default="screen"),
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


def session_of(call: ToolCall, sessions: Sessions, session: Session) -> Result:
    """A session as the caller may see it."""
    shown = sessions.without_hidden_names(call.caller, session)
    return {
        "session_id": shown.id,
        "title": shown.title,
        "name": shown.display_name,
        "agent_name": shown.agent_type,
        "created_at": shown.created_at,
        "parent_session_id": shown.parent_id,
        "trust_level": shown.trust_level,
        "created_by": shown.created_by,
        "is_active": is_live(shown.status),
        "status": shown.status,
        "note": words(shown.note, shown),
    }
