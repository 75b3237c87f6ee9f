"""docs/openapi.json, written here and printed by `python -m tests.openapi`.

What the code knows itself (statuses, types of events, codes of errors) is taken from it. That the routes are those
of the daemon, and its answers as they say, is tried by tests/integration/test_openapi.py.
"""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sm import __version__
from sm.api.agent_sockets import AGENT_ROUTES
from sm.api.context import WAIT_MAX_S
from sm.config.model import Sandbox
from sm.core.observation import Source
from sm.core.states import (
    EventType,
    MessageMode,
    MessageState,
    Mode,
    RequestKind,
    RequestState,
    Status,
    TrustLevel,
)
from sm.errors import BY_CODE
from sm.requests.dialogs import Outcome
from sm.wire import KEY_HEADER, KEY_MAX, PROTOCOL, PROTOCOL_HEADER

Schema = dict[str, Any]

_WIDTH = 110

# ------------------------------------------------------------------------------------------ words for schemas


def text(description: str = "", **more: Any) -> Schema:
    return _described({"type": "string"}, description, more)


def whole(description: str = "", **more: Any) -> Schema:
    return _described({"type": "integer"}, description, more)


def amount(description: str = "", **more: Any) -> Schema:
    return _described({"type": "number"}, description, more)


def flag(description: str = "") -> Schema:
    return _described({"type": "boolean"}, description, {})


def time(description: str = "") -> Schema:
    return text(description, format="date-time")


def one_of(words: type[StrEnum] | Sequence[str], description: str = "") -> Schema:
    return _described({"enum": [str(word) for word in words]}, description, {})


def several(item: Schema, description: str = "", **more: Any) -> Schema:
    return _described({"type": "array", "items": item}, description, more)


def by_name(value: Schema, description: str = "") -> Schema:
    return _described({"type": "object", "additionalProperties": value}, description, {})


def anything(description: str = "") -> Schema:
    return _described({"type": "object"}, description, {})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema) -> Schema:
    """The same, or null."""
    if "null" in schema.get("type", ()):
        return schema
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]}


def shape(properties: Mapping[str, Schema], *, optional: Sequence[str] = (), description: str = "") -> Schema:
    """An object with all of these, but for the `optional`."""
    required = [name for name in properties if name not in optional]
    more: Schema = {"required": required} if required else {}
    return _described({"type": "object", "properties": dict(properties), **more}, description, {})


def given(required: Mapping[str, Schema] | None = None, /, **optional: Schema) -> Schema:
    """The body of a request: what may be missing may be null, too."""
    needed = required or {}
    return shape({**needed, **{n: or_null(s) for n, s in optional.items()}}, optional=list(optional))


def also(name: str, more: Mapping[str, Schema], *, optional: Sequence[str] = ()) -> Schema:
    """A component, and more besides."""
    return {"allOf": [ref(name), shape(more, optional=optional)]}


def _described(schema: Schema, description: str, more: Mapping[str, Any]) -> Schema:
    return {**schema, **more, **({"description": description} if description else {})}


# ------------------------------------------------------------------------------------------ what is answered

TOKENS = {name: whole() for name in ("input", "output", "cache_read", "cache_write")}
FAILED = shape({"session_id": text(), "code": text(), "message": text(), "hint": or_null(text())})
CAPABILITIES = {name: ref("Names") for name in ("mcps", "skills", "agents")}

WORKTREE = shape(
    {"path": text(), "branch": or_null(text())},
    description="A git worktree that the client made for it, and cleans.",
)

COMPONENTS: dict[str, Schema] = {
    "Session": shape(
        {
            "session_id": text("8 hexadecimal digits.", pattern="^[0-9a-f]{8}$"),
            "name": text("`TYPE-ID`, which never changes."),
            "friendly_name": or_null(text("`TYPE-NAME`, unique among what lives.")),
            "title": or_null(text("One line for people.")),
            "agent_type": text(),
            "provider": text("What drives the agent: `command` or `claude`."),
            "model": or_null(text()),
            "status": one_of(Status),
            "status_source": text("What the status was learned from."),
            "status_reason": text("Why it is so, in words."),
            "status_at": time(),
            "status_stale": flag("True while nobody can tell whether it still holds."),
            "mode": one_of(Mode, "Who decides that it is finished."),
            "parent_session_id": or_null(text("Null: the operator's.")),
            "created_by": text("`operator`, or the session that spawned it."),
            "working_dir": text(),
            "workspace": or_null(text("A slug.")),
            "trust_level": one_of(TrustLevel, "What was asked for."),
            "effective_mode": one_of(TrustLevel, "What is in force, and what every rule reads."),
            "tmux_session": text(),
            "pid": or_null(whole()),
            "exit_code": or_null(whole()),
            "exit_signal": or_null(whole()),
            "created_at": time(),
            "started_at": or_null(time()),
            "completed_at": or_null(time()),
            "completion_status": or_null(text("What it said of its own end.")),
            "completion_message": or_null(text()),
            "note": or_null(text("What it says that it does now.")),
            "last_activity_at": time(),
            "archived": flag(),
            "worktree": or_null(WORKTREE),
            "children": several(ref("Session"), "Filled only where `recursive` was asked for."),
        },
        description="One agent, alive or ended.",
    ),
    "Started": {
        **also("Session", {"warnings": several(text(), "Sentences for the person.")}),
        "description": "A session, with what there is to say of how it was begun or ended.",
    },
    "Event": shape(
        {
            "seq": whole("Rises without gaps."),
            "type": one_of(EventType),
            "session_id": text(),
            "parent_session_id": or_null(text()),
            "timestamp": time(),
            "message": text("A sentence for people."),
            "metadata": anything(),
        },
        description="A recorded fact of a session.",
    ),
    "Checkpoint": shape(
        {"timestamp": time(), "message": text(), "metadata": by_name(text())},
        description="A milestone, in the session's own words.",
    ),
    "Message": shape(
        {
            "message_id": or_null(whole("Null: the text was the answer to a question.")),
            "session_id": or_null(text("The recipient; null: the operator's inbox.")),
            "from": text("`operator`, `sm`, or a session's id."),
            "status": one_of(MessageState),
            "mode": one_of(MessageMode),
            "evidence": or_null(text("By what it is known to have arrived.")),
            "reason": or_null(text("Why it has not, or not yet.")),
            "created_at": time(),
            "submitted_at": or_null(time("When its recipient said that it has it.")),
            "acknowledged_at": or_null(time()),
            "expires_at": or_null(time()),
        },
        description="A text on its way to a session, without the text.",
    ),
    "Letter": also(
        "Message", {"text": text(), "shown": text("The text under the header that only the daemon writes.")}
    ),
    "Request": shape(
        {
            "request_id": text(pattern="^r[1-9][0-9]*$"),
            "session_id": text("Who asks."),
            "name": or_null(text("What that session is called.")),
            "kind": one_of(RequestKind),
            "tool": or_null(text("For a permission: the tool.")),
            "arguments": or_null(anything("For a permission: what the tool would be run with.")),
            "agent": or_null(text("The sub-agent that asks; null: the agent itself.")),
            "cut": flag("The arguments are too long to be kept: their texts are cut."),
            "questions": several(
                shape(
                    {
                        "question": text(),
                        "options": several(text()),
                        "multiple": flag("Several of the options may be chosen."),
                    }
                )
            ),
            "options": several(text(), "Those of the only question."),
            "state": one_of(RequestState),
            "answer": or_null(
                shape({"approved": flag(), "answers": several(text()), "message": or_null(text())})
            ),
            "answered_by": or_null(
                text(
                    "`operator`, a session's id, `rule` (the configuration), or `terminal` (whoever sat there)."
                )
            ),
            "reason": or_null(text("Why it ended without an answer; the rule that has decided it.")),
            "created_at": time(),
            "expires_at": or_null(time()),
        },
        description="Something that a session waits for.",
    ),
    "Progress": shape(
        {
            "session_id": text(),
            "name": text(),
            "status": one_of(
                ["working" if s is Status.RUNNING else s for s in Status], "`working` is `running`."
            ),
            "elapsed_seconds": whole(),
            "tokens_used": or_null(whole("`input` and `output`.")),
            "tokens": or_null(shape(TOKENS)),
            "subagents": or_null(shape({"tokens": shape(TOKENS)}, description="A part of `tokens`.")),
            "tokens_remaining_estimate": or_null(whole()),
            "completion_percentage": or_null(whole()),
            "cost_usd": or_null(amount("Null when a model has no known price.")),
            "context_tokens": or_null(whole("What the conversation holds now.")),
            "context_window": or_null(whole("What it can hold.")),
            "context_percent": or_null(whole()),
            "tools_used": by_name(whole(), "How often, by the tool's name."),
            "total_tools": whole(),
            "last_tool": or_null(
                shape({"name": text(), "args": anything(), "timestamp": time(), "seconds_ago": whole()})
            ),
            "current_activity": or_null(text()),
            "todo": or_null(several(shape({"status": text("In the agent's words."), "text": text()}))),
            "checkpoints": several(ref("Checkpoint")),
            "last_output": several(text(), "The last lines of its terminal."),
            "is_idle": flag(),
            "idle_seconds": whole(),
            "is_waiting_input": flag(),
            "is_complete": flag(),
            "completion_status": or_null(text()),
            "completion_message": or_null(text()),
        },
        description="How far a session is, by evidence only: what nobody measured is null.",
    ),
    "Why": shape(
        {
            "session_id": text(),
            "name": text(),
            "friendly_name": or_null(text()),
            "status": one_of(Status),
            "status_source": text(),
            "status_reason": text(),
            "status_at": time(),
            "status_stale": flag(),
            "completion_message": or_null(text()),
            "evidence": several(
                shape(
                    {
                        "source": one_of(Source),
                        "says": text("`busy`, `blocked` or `idle`."),
                        "reason": or_null(text()),
                        "at": time("When it last said so."),
                        "since": time("Since when without a break."),
                        "seen": time("When it was last seen to be so."),
                        "believed": flag(),
                        "why_not": or_null(text()),
                    }
                ),
                "One entry for each source that says something, the strongest first.",
            ),
            "facts": several(text(), "Sentences for people."),
        },
        description="What the status of a session rests on.",
    ),
    "Action": shape(
        {
            "timestamp": time(),
            "kind": one_of(["prompt", "text", "tool", "error", "mark", "event"]),
            "text": text("One line."),
        },
        description="Something that an agent was told, said or did.",
    ),
    "Names": {
        "description": "What is given of what there is: all, or these.",
        "oneOf": [{"const": "all"}, several(text(pattern="^[A-Za-z0-9_.-]{1,64}$"), maxItems=200)],
    },
    "AgentType": shape(
        {
            "name": text(),
            "provider": text(),
            "model": or_null(text()),
            "description": or_null(text("What it is for.")),
            "tools": or_null(several(text())),
            "spawnable": flag(
                "Sessions may start it with its own permission mode, where theirs allows less."
            ),
            "origin": text("`config`, or the file that it stands in."),
            "problem": or_null(text("Why nothing can be started so.")),
            "shadowed_by": or_null(text("The origin of another of this name, which counts.")),
            "warnings": several(text()),
        },
        description="Something that can be spawned, or was meant to be.",
    ),
    "Workspace": shape(
        {
            "slug": text(),
            "working_dir": text(),
            "trust_level": or_null(one_of(TrustLevel, "Null: as the configuration says.")),
            "capabilities": shape(CAPABILITIES),
            "strict_mcps": flag("Its sessions get no MCP servers but those that sm gives them."),
            "sandbox": anything("What differs from `sandbox:` in the configuration."),
            "created_at": time(),
            "deleted_at": or_null(time("Its sessions stay readable; nothing new is started in it.")),
            "sessions": whole("How many it has had."),
            "live": whole("How many of them live."),
        },
        description="A team: what is in it can be found, started and written to from within, and from nowhere else.",
    ),
    "Error": shape(
        {
            "error": shape(
                {
                    "code": one_of(sorted(BY_CODE)),
                    "message": text("What happened."),
                    "hint": or_null(text("What to type next.")),
                    "retry_after_s": amount("With `rate_limited`: in how many seconds to ask again."),
                },
                optional=["retry_after_s"],
            )
        },
    ),
}

# ------------------------------------------------------------------------------------------ what is asked

PARAMETERS: dict[str, Schema] = {
    "Protocol": {
        "name": PROTOCOL_HEADER,
        "in": "header",
        "description": "The protocol that you speak; a newer one is answered 426.",
        "schema": whole(enum=[PROTOCOL]),
    },
    "Key": {
        "name": KEY_HEADER,
        "in": "header",
        "description": "A repetition with the same key gets the first answer instead of doing it twice.",
        "schema": text(minLength=1, maxLength=KEY_MAX, pattern="^[ -~]+$"),
    },
    "Session": {
        "name": "ref",
        "in": "path",
        "required": True,
        "description": "An id, a unique prefix of one (4 digits or more), a name, a friendly name, or `me`.",
        "schema": text(minLength=1),
    },
    "SessionQuery": {
        "name": "session",
        "in": "query",
        "description": "Named as in a path.",
        "schema": text(minLength=1),
    },
    "Status": {
        "name": "status",
        "in": "query",
        "description": "Only those that are so.",
        "schema": one_of(["all", *Status]),
    },
    "Search": {
        "name": "search",
        "in": "query",
        "description": "Only those that have all of these words in what describes them, in any case.",
        "schema": text(),
    },
    "Workspace": {
        "name": "workspace",
        "in": "query",
        "description": "Only what is in it, named by its slug; `-`: what is in none.",
        "schema": text(minLength=1),
    },
    "EventType": {
        "name": "type",
        "in": "query",
        "description": "Only events of this type.",
        "schema": one_of(EventType),
    },
    "Wait": {
        "name": "wait_s",
        "in": "query",
        "description": f"How long to hold the answer back for news; longer than {WAIT_MAX_S:.0f} is that long.",
        "schema": whole(minimum=0),
    },
    **{
        name.title(): {
            "name": name,
            "in": "query",
            "description": f"Present: {what}.",
            "schema": text(enum=["1"]),
        }
        for name, what in {
            "archived": "the archived ones too",
            "recursive": "all below, not only the children",
            "all": "closed ones too",
            "deleted": "the deleted ones too",
        }.items()
    },
}

IN_PATH: dict[str, tuple[str, Schema]] = {
    "messages": ("The number of a message.", whole(minimum=1)),
    "requests": ("`rN`; for an answer also a session with exactly one open.", text(minLength=1)),
    "workspaces": ("The slug of a workspace.", text(minLength=1)),
}
LISTED = ("Status", "Search", "Workspace", "Archived")
WAIT_S = amount(
    f"How long to hold the answer back for news, at most {WAIT_MAX_S:.0f}.", minimum=0, maximum=86_400
)
TRUST = or_null(text("`direct` or `sandboxed`; null: as the configuration says."))
WORKSPACE_SETTINGS = {
    "working_dir": text("Absolute; what is started below it is in the workspace."),
    "trust": TRUST,
    "capabilities": {
        **shape(CAPABILITIES, optional=list(CAPABILITIES)),
        "additionalProperties": False,
    },
    "strict_mcps": flag("Its sessions get no MCP servers but those that sm gives them."),
    "sandbox": {
        **shape({name: text() for name in Sandbox.model_fields}, optional=list(Sandbox.model_fields)),
        "additionalProperties": False,
        "description": "Each as YAML; an empty text takes a key away.",
    },
}


def count(name: str, default: int | None = None, description: str = "") -> Schema:
    """A parameter of a query that is a number."""
    more: Schema = {} if default is None else {"default": default}
    schema = whole(minimum=0, **more)
    return {
        "name": name,
        "in": "query",
        **({"description": description} if description else {}),
        "schema": schema,
    }


@dataclass(frozen=True, slots=True)
class Route:
    """One request, and what comes back."""

    method: str
    path: str
    id: str
    summary: str
    answer: Schema
    description: str = ""
    query: Sequence[str | Schema] = ()
    body: Schema | None = None


def get(path: str, id: str, summary: str, answer: Schema, **more: Any) -> Route:
    return Route("get", f"/v1{path}", id, summary, answer, **more)


def post(path: str, id: str, summary: str, answer: Schema, **more: Any) -> Route:
    return Route("post", f"/v1{path}", id, summary, answer, **more)


SESSION = ref("Session")
SESSIONS = several(SESSION)
WARNED = ref("Started")
STREAM: Schema = {"text/event-stream": {"schema": text("`id: SEQ` and `data: EVENT`, an Event as JSON.")}}
HEALTH = {"pid": whole(), "version": text(), "uptime_s": amount()}

ROUTES: dict[str, list[Route]] = {
    "daemon": [
        get(
            "/health",
            "health",
            "Whether the daemon answers",
            shape({**HEALTH, "socket": text(), "sessions": whole("How many live.")}),
        ),
        get(
            "/status",
            "status",
            "What is going on, in numbers",
            shape(
                {
                    "daemon": shape(HEALTH),
                    "sessions": by_name(whole(), "How many, by status."),
                    "orphans": whole("Live sessions whose parent's process is gone."),
                    "dead_letters": whole("What was given up, and messages that did not arrive."),
                    "requests_open": whole(),
                    "inbox": whole("How many messages wait for the caller."),
                    "inbox_lines": several(text(), "The first of them."),
                    "trouble": several(text(), "What the daemon cannot do right now."),
                }
            ),
            query=["Workspace"],
        ),
        post(
            "/daemon/stop",
            "stopDaemon",
            "End the daemon, and with `all` every session before",
            shape({"killed": several(text())}),
            body=given(all=flag()),
        ),
    ],
    "sessions": [
        get("/sessions", "allSessions", "All sessions, oldest first", SESSIONS, query=LISTED),
        post(
            "/sessions",
            "spawn",
            "Start an agent",
            WARNED,
            description="Answers when its process runs, or has run and ended; with `wait_s` when it is ready.",
            body=given(
                {"agent_type": text()},
                prompt=text(maxLength=10_000),
                name=text("The friendly name, without the type."),
                title=text(),
                model=text(),
                preset=text(),
                args=several(text(), "More arguments for the agent; operator only."),
                parent=text("A session, named as in a path; null: the caller."),
                workspace=text("A slug; `-`: none; null: the parent's, else that of the working directory."),
                working_dir=text("Absolute."),
                cwd=text("The caller's directory, where no `working_dir` is asked for."),
                worktree=text(
                    "The git worktree that the client has made for it: `DIRECTORY/.sm/worktrees/NAME`."
                ),
                branch=text("The branch that was made with it: `sm/NAME`."),
                trust=TRUST,
                environment=by_name(text(), "The caller's; what the configuration does not name is ignored."),
                wait_s=WAIT_S,
            ),
        ),
        get("/me", "me", "The calling session; 404 for the operator", SESSION),
        get(
            "/who",
            "who",
            "The other children of the caller's parent; for the operator those without a parent",
            SESSIONS,
            query=LISTED,
        ),
        get("/others", "others", "Every other session of the caller's workspace", SESSIONS, query=LISTED),
        get(
            "/sessions/{ref}",
            "session",
            "One session",
            also(
                "Session",
                {"last_output": several(text(), "When it has ended, for who may read it.")},
                optional=["last_output"],
            ),
        ),
        get(
            "/sessions/{ref}/children",
            "children",
            "The children of a session; of the caller where `ref` is `-`",
            SESSIONS,
            query=[*LISTED, "Recursive"],
        ),
        post(
            "/sessions/{ref}/kill",
            "kill",
            "End its process, and answer when it is gone",
            also(
                "Session",
                {
                    "killed": several(text(), "The ids of all that were killed."),
                    "killed_too": several(SESSION, "Those below it."),
                },
            ),
            body=given(force=flag("At once."), tree=flag("And all below it.")),
        ),
        post(
            "/sessions/{ref}/restore",
            "restore",
            "Start an ended session again, in a new process",
            also(
                "Session",
                {
                    "restored": several(text(), "The ids of all that were restored."),
                    "restored_too": several(SESSION, "Those below it."),
                    "failed": several(FAILED),
                },
            ),
            body=given(tree=flag("And the ended ones below it.")),
        ),
        post(
            "/restore",
            "restoreAll",
            "Start again what lived when tmux or the machine went down",
            shape({"restored": SESSIONS, "failed": several(FAILED)}),
            body=given(),
        ),
        post(
            "/sessions/{ref}/interrupt",
            "interrupt",
            "Stop what the agent does now",
            also(
                "Session",
                {
                    "interrupted": or_null(
                        flag("False: it still runs; null: an agent without turns does not say.")
                    )
                },
            ),
            body=given(),
        ),
        post(
            "/sessions/{ref}/fork",
            "fork",
            "A new session that goes on from the same conversation",
            WARNED,
            body=given(name=text()),
        ),
        post(
            "/adopt",
            "adopt",
            "Make a session of an agent that runs in a tmux pane already",
            WARNED,
            body=given(
                {"pane": text("As tmux names it: `%5`.")}, name=text(), agent_type=text(), trust=TRUST
            ),
        ),
        post(
            "/sessions/{ref}/reparent",
            "reparent",
            "Give it another parent; null: the operator",
            SESSION,
            body=given(parent=text("A session, named as in a path.")),
        ),
        post("/sessions/{ref}/archive", "archive", "Leave it out of lists", SESSION, body=given()),
        post("/sessions/{ref}/unarchive", "unarchive", "Take it back into lists", SESSION, body=given()),
        post(
            "/sessions/{ref}/remove",
            "remove",
            "Forget an ended session for good",
            shape(
                {
                    "removed": text(),
                    "effective_mode": or_null(one_of(TrustLevel)),
                    "worktree": or_null(WORKTREE),
                    "used": flag("Another session works in the worktree."),
                    "sandboxed": flag("A sandboxed session may have changed what git runs in it."),
                }
            ),
            body=given(),
        ),
    ],
    "looking": [
        get(
            "/sessions/{ref}/output",
            "output",
            "The last lines of its terminal",
            shape({"session_id": text(), "lines": several(text())}),
            query=[count("lines", 50)],
        ),
        get(
            "/sessions/{ref}/attach",
            "attach",
            "What to run to attach a person's terminal to it",
            shape({"session_id": text(), "argv": several(text())}),
        ),
        get("/sessions/{ref}/progress", "progress", "How far it is", ref("Progress")),
        get("/sessions/{ref}/why", "why", "What its status rests on", ref("Why")),
        get(
            "/sessions/{ref}/actions",
            "actions",
            "What it did last, oldest first",
            several(ref("Action")),
            query=[
                count("lines", 10),
                {"name": "after", "in": "query", "description": "Only what came later.", "schema": time()},
            ],
        ),
        post(
            "/sessions/{ref}/what",
            "what",
            "What it is about, in a few sentences",
            shape(
                {
                    "session_id": text(),
                    "summary": text(),
                    "made_by": text("`claude MODEL`, or `extract`."),
                    "reason": or_null(text("Why no model has made it.")),
                }
            ),
        ),
        get("/sessions/{ref}/checkpoints", "checkpoints", "Its milestones", several(ref("Checkpoint"))),
    ],
    "reports": [
        post(
            "/sessions/me/checkpoints",
            "checkpoint",
            "The calling session has come to a milestone",
            ref("Checkpoint"),
            body=given(
                {"message": text(maxLength=10_000)}, metadata=anything("At most 50 entries; kept as texts.")
            ),
        ),
        post(
            "/sessions/me/note",
            "note",
            "What the calling session does now",
            SESSION,
            body=given(text=text("Empty or null: nothing more to say.")),
        ),
        post(
            "/sessions/me/complete",
            "complete",
            "The calling session is done",
            WARNED,
            body=given(
                message=text(maxLength=10_000),
                status=one_of(["completed", "error", "abandoned"], "Null: completed."),
            ),
        ),
        post(
            "/hooks",
            "hook",
            "An event of the calling session's own agent, told by `sm hook`",
            shape({}),
            body=given(
                {"emitted_at": time("With its zone.")},
                provider=text(),
                payload=anything("What the agent CLI sent."),
                cut=flag("Something large was left out of it."),
            ),
        ),
        post(
            "/hooks/dialog",
            "dialog",
            "What the answer is to a dialog of the calling session's own agent, by the hook that waits for it",
            shape(
                {
                    "request": or_null(text("Null: the event tells of no dialog, or of one that is over.")),
                    "state": one_of(Outcome, "`over`: there is nothing to say to the agent."),
                    "output": or_null(text("What the hook has to print.")),
                }
            ),
            description="Its Idempotency-Key, which it has to have, is the hook: asked again with that, also after a "
            "restart of the daemon, it is about the same request, and has the same answer.",
            body=given(
                {"emitted_at": time("With its zone.")},
                provider=text(),
                payload=anything("What the agent CLI sent."),
                cut=flag("Something large was left out of it."),
                wait_s=WAIT_S,
            ),
        ),
        post(
            "/hooks/dialog/taken",
            "dialogTaken",
            "The hook has printed the answer",
            shape({"request": text(), "state": one_of(RequestState)}),
            description="Its Idempotency-Key is the one of the hook. Idempotent.",
            body=given(),
        ),
    ],
    "messages": [
        post(
            "/messages",
            "send",
            "Send a text to a session",
            also(
                "Message", {"request_id": text("The question that it has answered.")}, optional=["request_id"]
            ),
            body=given(
                {"to": text("A session, named as in a path."), "text": text(maxLength=50_000)},
                mode=one_of(MessageMode, "Null: auto."),
                ttl_s=amount("How long it may wait; null: a day.", minimum=0, maximum=86_400),
                wait_s=WAIT_S,
            ),
        ),
        get(
            "/messages",
            "messages",
            "The messages from and to a session; without one the caller's, for the operator all",
            several(also("Message", {"text": text("Its first 2,000 characters.")})),
            query=["SessionQuery", count("limit", 50)],
        ),
        get("/messages/{id}", "message", "One message", ref("Message"), query=["Wait"]),
        get(
            "/audience",
            "audience",
            "Whom a broadcast of the caller reaches",
            SESSIONS,
            query=["Recursive"],
        ),
        get(
            "/inbox",
            "inbox",
            "What waits for the caller",
            several(ref("Letter")),
            query=[count("limit", 50)],
        ),
        post(
            "/inbox/take",
            "takeInbox",
            "Take what waits for the caller; with `wait_s` the first that comes",
            several(ref("Letter")),
            description="It is `delivering` until it is confirmed, and told again when that does not come within 20 s.",
            body=given(limit=whole("At most 50.", minimum=0, maximum=86_400), wait_s=WAIT_S),
        ),
        post(
            "/inbox/confirm",
            "confirmInbox",
            "What was taken has arrived",
            several(ref("Message")),
            body=given(message_ids=several(whole(), maxItems=50)),
        ),
    ],
    "waiting": [
        post(
            "/wait",
            "wait",
            "Wait until sessions are in a status",
            shape(
                {
                    "reached": or_null(flag("False: it can be no more; null: not yet.")),
                    "sessions": SESSIONS,
                }
            ),
            body=given(
                {"sessions": several(text(), "Named as in a path.", minItems=1, maxItems=200)},
                until=one_of(["ended", *Status], "Null: ended."),
                any=flag("One of them is enough."),
                wait_s=WAIT_S,
            ),
        ),
        post(
            "/wait/heard",
            "heard",
            "The endings in an answer have arrived, and need no notice",
            shape({}),
            body=given(sessions=several(text())),
        ),
    ],
    "requests": [
        get(
            "/requests",
            "requests",
            "What sessions wait for: the open ones, or with `all` the newest",
            several(ref("Request")),
            query=["SessionQuery", "All", count("limit", 50)],
        ),
        post(
            "/requests",
            "ask",
            "The calling session asks its parent, or the operator",
            ref("Request"),
            body=given(
                {"question": text(maxLength=10_000)},
                options=several(text(maxLength=200), maxItems=20),
                expires_s=amount("Null: a day.", minimum=0, maximum=86_400),
            ),
        ),
        get("/requests/{ref}", "request", "One request", ref("Request"), query=["Wait"]),
        post(
            "/requests/{ref}/answer",
            "answer",
            "Answer a request, or the only one that a session has open; the first answer wins",
            ref("Request"),
            body=given(
                approved=flag("False also declines a question."),
                answers=several(text(), "For questions, one each."),
                message=text(maxLength=10_000),
            ),
        ),
        post(
            "/requests/{ref}/taken",
            "taken",
            "The session that asked has its answer",
            ref("Request"),
        ),
    ],
    "events": [
        get(
            "/events",
            "events",
            "The newest events, oldest of them first; with `since` the first ones after it",
            shape({"events": several(ref("Event")), "last_seq": whole()}),
            query=[
                "SessionQuery",
                "Workspace",
                "Recursive",
                "EventType",
                count("since", description="A `seq`."),
                count("limit", 50),
            ],
        ),
        get(
            "/events/stream",
            "followEvents",
            "Events as they come, after `since` or from now",
            STREAM,
            description="A comment line comes every 15 s, so that silence means that nobody is there.",
            query=[
                "SessionQuery",
                "Workspace",
                "Recursive",
                "EventType",
                count("since", description="A `seq`."),
            ],
        ),
    ],
    "agents": [
        get(
            "/agents",
            "agentTypes",
            "The agent types that a spawn by the caller would find",
            shape(
                {
                    "workspace": or_null(text("A slug: where they were looked for.")),
                    "agents": several(ref("AgentType")),
                    "warnings": several(text(), "Sentences for the person."),
                }
            ),
            query=[
                "Workspace",
                *(
                    {"name": name, "in": "query", "description": f"The caller's {what}.", "schema": text()}
                    for name, what in {
                        "cwd": "directory",
                        "home": "`HOME`",
                        "claude_config_dir": "`CLAUDE_CONFIG_DIR`",
                    }.items()
                ),
            ],
        ),
    ],
    "workspaces": [
        get(
            "/workspaces",
            "workspaces",
            "The workspaces; for a session its own",
            several(ref("Workspace")),
            query=["Deleted"],
        ),
        post(
            "/workspaces",
            "createWorkspace",
            "Make a workspace",
            also("Workspace", {"warnings": several(text())}),
            body=shape(
                {
                    "slug": text(pattern="^[a-z0-9][a-z0-9-]*[a-z0-9]$", minLength=2, maxLength=64),
                    **WORKSPACE_SETTINGS,
                },
                optional=[name for name in WORKSPACE_SETTINGS if name != "working_dir"],
            ),
        ),
        get("/workspaces/{slug}", "workspace", "One workspace", ref("Workspace")),
        post(
            "/workspaces/{slug}",
            "setWorkspace",
            "Change a workspace, for what is started from then on",
            also("Workspace", {"warnings": several(text())}),
            body=shape(WORKSPACE_SETTINGS, optional=list(WORKSPACE_SETTINGS)),
        ),
        post(
            "/workspaces/{slug}/delete",
            "deleteWorkspace",
            "Nothing is started in it any more; its sessions stay readable",
            ref("Workspace"),
            body=given(),
        ),
    ],
}

# ------------------------------------------------------------------------------------------ the document

ABOUT = f"""\
What the daemon of sm answers: HTTP/1.1 with JSON over Unix sockets. The operator's is `state/run/sm.sock`, where the
kernel says who calls; each workspace's agents have one of their own, with fewer routes (those that take a `token`).
Every answer carries `{PROTOCOL_HEADER}: {PROTOCOL}`. Fields are only ever added: leave alone what you do not know.
`docs/protocol.md` tells the rest."""

ERRORS = "\n".join(
    ["Not done. The codes, by HTTP status:", ""]
    + [
        f"- {status}: {', '.join(f'`{code}`' for code in codes)}"
        for status, codes in sorted(
            {
                e.http_status: [c for c, other in BY_CODE.items() if other.http_status == e.http_status]
                for e in BY_CODE.values()
            }.items()
        )
    ]
)


def document() -> dict[str, Any]:
    """All of docs/openapi.json."""
    paths: dict[str, dict[str, Any]] = {}
    for tag, routes in ROUTES.items():
        for route in routes:
            of_all = [*_in_path(route.path), _parameter("Protocol")]
            paths.setdefault(route.path, {"parameters": of_all})[route.method] = _operation(tag, route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sm", "version": __version__, "description": ABOUT},
        "servers": [{"url": "http://sm", "description": "Any host name will do: it is a Unix socket."}],
        "tags": [{"name": tag} for tag in ROUTES],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "On the sockets of agents: the text of the file that `SM_TOKEN_FILE` names.",
                }
            },
            "parameters": PARAMETERS,
            "responses": {
                "Error": {
                    "description": ERRORS,
                    "headers": {
                        "Retry-After": {
                            "description": "With `rate_limited`: in how many seconds to ask again.",
                            "schema": whole(),
                        }
                    },
                    "content": {"application/json": {"schema": ref("Error")}},
                }
            },
            "schemas": COMPONENTS,
        },
    }


def _operation(tag: str, route: Route) -> dict[str, Any]:
    parameters = [_parameter(each) if isinstance(each, str) else each for each in route.query]
    if route.method == "post":
        parameters.append(_parameter("Key"))
    content = route.answer if route.answer is STREAM else {"application/json": {"schema": route.answer}}
    operation: dict[str, Any] = {"tags": [tag], "operationId": route.id, "summary": route.summary}
    if route.description:
        operation["description"] = route.description
    # Nothing at all on the operator's socket, or a token on an agent's.
    for_agents = f"{route.method.upper()} {route.path}" in AGENT_ROUTES
    operation["security"] = [{}, {"token": []}] if for_agents else []
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        needed = bool(route.body.get("required"))
        operation["requestBody"] = {
            "required": needed,
            "content": {"application/json": {"schema": route.body}},
        }
    operation["responses"] = {
        "200": {"description": "Done.", "content": content},
        "default": {"$ref": "#/components/responses/Error"},
    }
    return operation


def _parameter(name: str) -> Schema:
    return {"$ref": f"#/components/parameters/{name}"}


def _in_path(path: str) -> list[Schema]:
    name = path[path.index("{") + 1 : path.index("}")] if "{" in path else None
    if name is None or path.startswith("/v1/sessions/"):
        return [] if name is None else [_parameter("Session")]
    description, schema = IN_PATH[path.split("/")[2]]
    return [{"name": name, "in": "path", "required": True, "description": description, "schema": schema}]


def printed(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON, where what fits into a line is on one. `before`: the characters that precede it in its line."""
    line = json.dumps(value, ensure_ascii=False)
    if before + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        named = [(f"{deeper}{json.dumps(name)}: ", item) for name, item in value.items()]
        items = [start + printed(item, deeper, len(start)) for start, item in named]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if not any(isinstance(item, dict | list) for item in value):
        words = ", ".join(map(json.dumps, value))  # names and the like: without a blank in them
        filled = textwrap.wrap(words, _WIDTH, initial_indent=deeper, subsequent_indent=deeper)
        return "[\n" + "\n".join(filled) + f"\n{indent}]"
    items = [deeper + printed(item, deeper, len(deeper)) for item in value]
    return "[\n" + ",\n".join(items) + f"\n{indent}]"


if __name__ == "__main__":
    sys.stdout.write(printed(document()) + "\n")
