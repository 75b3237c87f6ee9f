"""The routes of agent types, and of the evidence, actions, progress, output and checkpoints of agents."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import create_model

from sm.api.answers.agents import ProgressView
from sm.api.answers.sessions import StartedView
from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import NeededText, Present, count, doc
from sm.api.query import LISTED, LISTED_MAX, CheckpointLimit, Query, SeenQuery, WorkspaceName
from sm.api.route import RouteTable
from sm.api.sums import session_sums_json
from sm.api.views import build_view
from sm.core.estimates import Estimate
from sm.core.labels import label, name_to_type, short_label
from sm.core.models import PermissionMode, RequestKey
from sm.core.observation import Source
from sm.core.pauses import pause_fact
from sm.core.programs import location_variables
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.equipment.agent_types import AgentType, Catalog
from sm.errors import NoTerminal
from sm.monitor.evidence import Ledger
from sm.policy.access import Action
from sm.wire_types.agents import (
    ActionView,
    AgentTypesView,
    AgentTypeView,
    AttachView,
    CheckpointView,
    EvidenceView,
    OutputView,
    ReportedCheckpointView,
    SummaryView,
    WhyView,
)
from sm.wire_types.fields import Anything, Time, words

_REASON_MAX = 200
"""Characters of a status's reason for callers that may not read the session."""
routes = RouteTable()


class _AgentTypesQuery(Query):
    workspace: WorkspaceName | None = None
    cwd: Annotated[str | None, doc("The caller's directory.")] = None

    def variables(self) -> dict[str, str]:
        """The variables of the caller that locate files of agent CLIs."""
        given = {name: getattr(self, name.lower(), None) for name in location_variables()}
        return {name: value for name, value in given.items() if value}


if TYPE_CHECKING:
    AgentTypesQuery = _AgentTypesQuery
else:
    AgentTypesQuery = create_model(
        "AgentTypesQuery",
        __base__=_AgentTypesQuery,
        **{
            name.lower(): (Annotated[str | None, doc(f"The caller's `{name}`.")], None)
            for name in location_variables()
        },
    )


class OutputQuery(SeenQuery):
    lines: Annotated[int, count(LISTED_MAX)] = 50


class ActionsQuery(SeenQuery):
    lines: Annotated[int, count(LISTED_MAX)] = 10
    after: Annotated[Time | None, doc("Only later actions.")] = None


class ProgressQuery(Query):
    checkpoints: CheckpointLimit = LISTED
    tree: Annotated[Present, doc("Present: with the sums of the session and its descendants.")] = False


class CheckpointsQuery(Query):
    limit: CheckpointLimit = LISTED


class CheckpointBody(Body):
    message: Annotated[NeededText, doc("Cut to 50,000 characters.")] = ""
    metadata: Annotated[Anything | None, doc("At most 50 entries and 64 KiB; kept as texts.")] = None


class NoteBody(Body):
    text: Annotated[
        str | None, doc("One line of 200 characters is kept. Empty or null: remove the note.")
    ] = None


class CompleteBody(Body):
    message: Annotated[str | None, doc("Cut to 50,000 characters.")] = None
    status: Annotated[
        Annotated[str, words(["completed", "error", "abandoned"])] | None, doc("Null: completed.")
    ] = None


@routes.route("GET", "/v1/agents", agents=True, audit="agents")
async def agent_types(request: ApiRequest, query: AgentTypesQuery) -> AgentTypesView:
    """List the agent types that the caller can spawn."""
    variables = query.variables()
    catalog = await request.services.sessions.agent_types(
        request.caller, query.workspace, query.cwd, variables
    )
    # A session gets the types that it may spawn; the operator also the unusable ones, with their problems.
    is_session = request.caller.session_id is not None
    estimates = await request.services.usage.estimates({t.name: t.agent.model for t in catalog.types})
    modes = await request.services.sessions.type_modes(request.caller, catalog, variables)
    shown = [t for t in catalog.types if (t.usable if is_session else not t.withheld)]
    return AgentTypesView(
        workspace=catalog.workspace.slug if catalog.workspace else None,
        agents=[agent_type_json(t, estimates.get(t.name), modes.get(t.name)) for t in shown],
        warnings=[] if is_session else [*_withheld(catalog), *catalog.warnings],
    )


@routes.route("GET", "/v1/sessions/{ref}/output", agents=True)
async def output(request: ApiRequest, query: OutputQuery) -> OutputView:
    """Show the last lines of a session's terminal, or of its saved output once the terminal is closed."""
    session = await request.look_at(Action.READ, is_person=query.seen)
    shown = await request.services.monitor.output(session, query.lines)
    return OutputView(session_id=session.id, lines=shown.lines, archived=shown.archived)


@routes.route("GET", "/v1/sessions/{ref}/attach", agents=False)
async def attach(request: ApiRequest, query: SeenQuery) -> AttachView:
    """Show the command that attaches a person's terminal to a session."""
    session = await request.look_at(Action.ATTACH, is_person=query.seen)
    terminals = request.services.terminals
    try:
        await terminals.capture(session.terminal, 1)
    except NoTerminal:
        if session.exit is None:
            raise
        name = name_to_type(session)
        raise NoTerminal(
            f"the terminal of session {short_label(session)} is closed, because the session has ended",
            f"show its last output: sm output {name}; or start it again: sm restore {name}",
        ) from None
    return AttachView(session_id=session.id, argv=list(terminals.attach_command(session.terminal)))


@routes.route("GET", "/v1/sessions/{ref}/progress", agents=True)
async def progress(request: ApiRequest, query: ProgressQuery) -> ProgressView:
    """Show the progress of a session."""
    services, session = request.services, request.session()
    may_read = services.sessions.may_read(request.caller, session)
    shown = await services.monitor.progress(session, query.checkpoints, may_read=may_read)
    if query.tree:
        sums = await services.usage.sums(request.caller, [session])
        both = session_sums_json(services.usage.own(session.id), sums(session.id), services.monitor.now())
        shown |= {"own": both.own, "tree": both.tree}
    return cast(ProgressView, shown)


@routes.route("GET", "/v1/sessions/{ref}/why", agents=True)
async def why(request: ApiRequest) -> WhyView:
    """Explain the status of a session."""
    services, session = request.services, request.session()
    ledger = services.monitor.ledger(session.id)
    facts = [
        *await services.monitor.facts(session.id),
        f"lifecycle mode {session.mode}, from {session.mode_source}",
    ]
    facts += services.programs.facts(session)
    if session.paused is not None:
        facts.insert(0, pause_fact(session.paused))
    evidence = [] if ledger is None else evidence_json(ledger, services.monitor.now())
    reason = session.status_reason
    if not services.sessions.may_read(request.caller, session):
        reason, evidence = folded(reason, _REASON_MAX), [replace(entry, reason=None) for entry in evidence]
    return build_view(
        WhyView,
        session,
        session_id=session.id,
        label=label(session),
        status_reason=reason,
        status_stale=services.monitor.is_stale(session.id),
        evidence=evidence,
        facts=facts,
    )


@routes.route("GET", "/v1/sessions/{ref}/actions", agents=True)
async def actions(request: ApiRequest, query: ActionsQuery) -> list[ActionView]:
    """List the last actions of an agent, oldest first."""
    session = await request.look_at(Action.READ, is_person=query.seen)
    acts = await request.services.monitor.actions(session, query.lines)
    return [act for act in acts if query.after is None or act.timestamp > query.after]


@routes.route("POST", "/v1/sessions/{ref}/what", agents=True)
async def what(request: ApiRequest) -> SummaryView:
    """Summarize a session in a few sentences."""
    session = request.session(Action.READ)
    summary = await request.services.monitor.summarize(session)
    return build_view(SummaryView, summary, session_id=session.id)


# Reports


@routes.route("GET", "/v1/sessions/{ref}/checkpoints", agents=True)
async def checkpoints(request: ApiRequest, query: CheckpointsQuery) -> list[CheckpointView]:
    """List the newest milestones of a session, oldest first."""
    return [
        build_view(CheckpointView, c)
        for c in await request.services.store.checkpoints(request.session().id, query.limit)
    ]


@routes.route("POST", "/v1/sessions/me/checkpoints", agents=True)
async def checkpoint(
    request: ApiRequest, body: CheckpointBody, key: RequestKey | None
) -> ReportedCheckpointView:
    """Report a milestone of the calling session."""
    reports = request.services.reports
    made, warnings = await reports.checkpoint(request.caller, body.message, body.metadata or {}, key)
    return build_view(ReportedCheckpointView, made, warnings=list(warnings))


@routes.route("POST", "/v1/sessions/me/note", agents=True)
async def note(request: ApiRequest, body: NoteBody, key: RequestKey | None) -> StartedView:
    """Report the current activity of the calling session."""
    return request.views.started(await request.services.reports.note(request.caller, body.text or "", key))


@routes.route("POST", "/v1/sessions/me/complete", agents=True)
async def complete(request: ApiRequest, body: CompleteBody, key: RequestKey | None) -> StartedView:
    """Report that the calling session is done."""
    reports, status = request.services.reports, body.status or "completed"
    return request.views.started(await reports.complete(request.caller, body.message, status, key))


# Shapes


def agent_type_json(
    kind: AgentType, estimate: Estimate | None, permission: PermissionMode | None
) -> AgentTypeView:
    agent = kind.agent
    return build_view(
        AgentTypeView,
        kind,
        model=agent.model,
        description=agent.description,
        tools=agent.tools,
        spawnable=agent.spawnable,
        estimate=estimate,
        permission_mode=None if permission is None else permission.mode,
    )


def _withheld(catalog: Catalog) -> list[str]:
    count = sum(agent_type.withheld for agent_type in catalog.types)
    if not count:
        return []
    types = "1 more agent type is" if count == 1 else f"{count} more agent types are"
    if catalog.workspace is None:
        return [
            f"{types} not given to sessions without a workspace (default_capabilities.agents in config.yaml)"
        ]
    slug = catalog.workspace.slug
    return [f"{types} not given to sessions of workspace {slug} (sm workspace set {slug} --agents NAMES)"]


def evidence_json(ledger: Ledger, now: float) -> list[EvidenceView]:
    """The report of each source, strongest first."""
    verdict = ledger.verdict(now)
    overruled = {} if verdict is None else verdict.overruled
    entries = [ledger.entries[source] for source in Source if source in ledger.entries]
    return [
        EvidenceView(
            source=entry.observation.source,
            says=entry.observation.activity,
            reason=entry.observation.reason,
            at=iso(entry.observation.at),
            since=iso(entry.since),
            seen=iso(entry.seen),
            believed=entry.observation.source not in overruled,
            why_not=overruled.get(entry.observation.source),
        )
        for entry in entries
    ]
