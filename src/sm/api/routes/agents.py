"""The routes of what agents are, do and report: agent types, evidence, actions, progress, output, checkpoints."""

from typing import Annotated, cast

from sm.api.answers import (
    ActionView,
    AgentTypesView,
    AgentTypeView,
    AttachView,
    CheckpointView,
    EvidenceView,
    OutputView,
    ProgressView,
    SessionView,
    StartedView,
    SummaryView,
    WhyView,
)
from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import Anything, Count, LongText, NeededText, Time, doc, words
from sm.api.query import LISTED_MAX, Query, WorkspaceName
from sm.api.route import RouteTable
from sm.api.routes.sessions import started
from sm.api.views import checkpoint_json
from sm.capabilities.agent_types import AgentType, Catalog
from sm.core.models import RequestKey
from sm.core.observation import Source
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.monitor.evidence import Entry, Ledger, Verdict
from sm.policy.access import Action
from sm.providers import LOCATION_VARIABLES

_REASON_MAX = 200
"""Characters of a status's reason for callers that may not read the session."""
routes = RouteTable()


class AgentTypesQuery(Query):
    workspace: WorkspaceName | None = None
    cwd: Annotated[str | None, doc("The caller's directory.")] = None
    home: Annotated[str | None, doc("The caller's `HOME`.")] = None
    claude_config_dir: Annotated[str | None, doc("The caller's `CLAUDE_CONFIG_DIR`.")] = None


class OutputQuery(Query):
    lines: Annotated[int, Count(LISTED_MAX)] = 50


class ActionsQuery(Query):
    lines: Annotated[int, Count(LISTED_MAX)] = 10
    after: Annotated[Time | None, doc("Only later actions.")] = None


class CheckpointBody(Body):
    message: Annotated[NeededText, doc("", maxLength=10_000)] = ""
    metadata: Annotated[Anything | None, doc("At most 50 entries; kept as texts.")] = None


class NoteBody(Body):
    text: Annotated[str | None, doc("Empty or null: remove the note.")] = None


class CompleteBody(Body):
    message: LongText | None = None
    status: Annotated[
        Annotated[str, words(["completed", "error", "abandoned"])] | None, doc("Null: completed.")
    ] = None


@routes.route(
    "GET",
    "/v1/agents",
    agents=True,
    id="agentTypes",
    summary="List the agent types that the caller can spawn",
)
async def agents(request: ApiRequest, query: AgentTypesQuery) -> AgentTypesView:
    """For a session the types that it may spawn; for the operator also unusable types, with their problems."""
    named = {name: getattr(query, name.lower()) for name in LOCATION_VARIABLES}
    found = await request.services.sessions.agent_types(
        request.caller,
        query.workspace,
        query.cwd,
        {name: value for name, value in named.items() if value},
    )
    is_session = request.caller.session_id is not None
    shown = [t for t in found.types if (t.usable if is_session else not t.withheld)]
    return {
        "workspace": found.workspace.slug if found.workspace else None,
        "agents": [agent_type_json(each) for each in shown],
        "warnings": [] if is_session else [*_withheld(found), *found.warnings],
    }


@routes.route(
    "GET",
    "/v1/sessions/{ref}/output",
    agents=True,
    id="output",
    summary="Show the last lines of a session's terminal",
)
async def output(request: ApiRequest, query: OutputQuery) -> OutputView:
    session = request.services.sessions.find(request.caller, request.name, Action.READ)
    lines = await request.services.terminals.capture(session.terminal, query.lines)
    return {"session_id": session.id, "lines": lines}


@routes.route(
    "GET",
    "/v1/sessions/{ref}/attach",
    agents=False,
    id="attach",
    summary="Show the command that attaches a person's terminal to a session",
)
async def attach(request: ApiRequest) -> AttachView:
    terminals = request.services.terminals
    session = request.services.sessions.find(request.caller, request.name, Action.ATTACH)
    await terminals.capture(session.terminal, 1)  # raises the error of a terminal that is gone
    return {"session_id": session.id, "argv": list(terminals.attach_command(session.terminal))}


@routes.route(
    "GET", "/v1/sessions/{ref}/progress", agents=True, id="progress", summary="Show the progress of a session"
)
async def progress(request: ApiRequest) -> ProgressView:
    services = request.services
    session = services.sessions.find(request.caller, request.name)
    may_read = services.sessions.reads(request.caller, session)
    return cast(ProgressView, await services.monitor.progress(session, may_read=may_read))


@routes.route(
    "GET", "/v1/sessions/{ref}/why", agents=True, id="why", summary="Explain the status of a session"
)
async def why(request: ApiRequest) -> WhyView:
    services = request.services
    session = services.sessions.find(request.caller, request.name)
    view = request.views.session(request.caller, session)
    ledger = services.monitor.ledger(session.id)
    answer: WhyView = {
        "session_id": view["session_id"],
        "name": view["name"],
        "friendly_name": view["friendly_name"],
        "status": view["status"],
        "status_source": view["status_source"],
        "status_reason": view["status_reason"],
        "status_at": view["status_at"],
        "status_stale": view["status_stale"],
        "completion_message": view["completion_message"],
        "evidence": [] if ledger is None else evidence_json(ledger, services.monitor.now()),
        "facts": await services.monitor.facts(session.id),
    }
    if not services.sessions.reads(request.caller, session):
        answer["status_reason"] = folded(session.status_reason, _REASON_MAX)
        answer["evidence"] = [{**each, "reason": None} for each in answer["evidence"]]
    return answer


@routes.route(
    "GET",
    "/v1/sessions/{ref}/actions",
    agents=True,
    id="actions",
    summary="List the last actions of an agent, oldest first",
)
async def actions(request: ApiRequest, query: ActionsQuery) -> list[ActionView]:
    session = request.services.sessions.find(request.caller, request.name, Action.READ)
    acts = await request.services.monitor.actions(session, query.lines)
    return [
        {"timestamp": act.timestamp, "kind": act.kind, "text": act.text}
        for act in acts
        if query.after is None or act.timestamp > query.after
    ]


@routes.route(
    "POST",
    "/v1/sessions/{ref}/what",
    agents=True,
    id="what",
    summary="Summarize a session in a few sentences",
)
async def what(request: ApiRequest) -> SummaryView:
    session = request.services.sessions.find(request.caller, request.name, Action.READ)
    made = await request.services.monitor.summarize(session)
    return {
        "session_id": session.id,
        "summary": made.summary,
        "made_by": made.made_by,
        "reason": made.reason,
    }


# Reports


@routes.route(
    "GET",
    "/v1/sessions/{ref}/checkpoints",
    agents=True,
    id="checkpoints",
    summary="List the milestones of a session",
)
async def checkpoints(request: ApiRequest) -> list[CheckpointView]:
    session = request.services.sessions.find(request.caller, request.name)
    return [checkpoint_json(c) for c in await request.services.store.checkpoints(session.id)]


@routes.route(
    "POST",
    "/v1/sessions/me/checkpoints",
    agents=True,
    id="checkpoint",
    summary="Report a milestone of the calling session",
)
async def checkpoint(request: ApiRequest, body: CheckpointBody, key: RequestKey | None) -> CheckpointView:
    reports = request.services.reports
    return checkpoint_json(await reports.checkpoint(request.caller, body.message, body.metadata or {}, key))


@routes.route(
    "POST",
    "/v1/sessions/me/note",
    agents=True,
    id="note",
    summary="Report the current activity of the calling session",
)
async def note(request: ApiRequest, body: NoteBody, key: RequestKey | None) -> SessionView:
    session = await request.services.reports.note(request.caller, body.text or "", key)
    return request.views.session(request.caller, session)


@routes.route(
    "POST",
    "/v1/sessions/me/complete",
    agents=True,
    id="complete",
    summary="Report that the calling session is done",
)
async def complete(request: ApiRequest, body: CompleteBody, key: RequestKey | None) -> StartedView:
    status = body.status or "completed"
    return started(
        request, await request.services.reports.complete(request.caller, body.message, status, key)
    )


# Shapes


def agent_type_json(kind: AgentType) -> AgentTypeView:
    agent = kind.agent
    return {
        "name": kind.name,
        "provider": kind.provider,
        "model": agent.model,
        "description": agent.description,
        "tools": None if agent.tools is None else list(agent.tools),
        "spawnable": agent.spawnable,
        "origin": kind.origin,
        "problem": kind.problem,
        "shadowed_by": kind.shadowed_by,
        "warnings": list(kind.warnings),
    }


def _withheld(found: Catalog) -> list[str]:
    count = sum(each.withheld for each in found.types)
    if not count:
        return []
    types = "1 more agent type is" if count == 1 else f"{count} more agent types are"
    if found.workspace is None:
        return [
            f"{types} not given to sessions without a workspace (default_capabilities.agents in config.yaml)"
        ]
    slug = found.workspace.slug
    return [f"{types} not given to sessions of workspace {slug} (sm workspace set {slug} --agents NAMES)"]


def evidence_json(ledger: Ledger, now: float) -> list[EvidenceView]:
    """The report of each source, strongest first, and whether it is believed."""
    verdict = ledger.verdict(now)
    return [
        _entry_json(source, ledger.entries[source], verdict) for source in Source if source in ledger.entries
    ]


def _entry_json(source: Source, entry: Entry, verdict: Verdict | None) -> EvidenceView:
    overruled = {} if verdict is None else verdict.overruled
    return {
        "source": source,
        "says": entry.said.activity,
        "reason": entry.said.reason,
        "at": iso(entry.said.at),
        "since": iso(entry.since),
        "seen": iso(entry.seen),
        "believed": source not in overruled,
        "why_not": overruled.get(source),
    }
