"""The routes of agent types, and of the evidence, actions, progress, output and checkpoints of agents."""

from dataclasses import replace

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view, session_sums_json, written_rule_view
from sm.core.estimates import Estimate
from sm.core.labels import label, name_to_type, short_label
from sm.core.models import PermissionMode, RequestKey
from sm.core.observation import Source
from sm.core.pauses import pause_fact
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.equipment.agent_types import AgentType, Catalog
from sm.errors import NoTerminal
from sm.monitor.evidence import Ledger
from sm.operations import agent_operations, report_operations
from sm.operations.access_rules import READ
from sm.operations.agent_operations import (
    ATTACH,
    READ_OUTPUT,
    NewestActions,
    OutputLines,
    ProgressParts,
    TypesScope,
)
from sm.operations.arguments import SeenByPerson
from sm.operations.hints import Hint, Use
from sm.operations.report_operations import ActivityNote, Milestone, NewestCheckpoints, WorkResult
from sm.operations.session_operations import RESTORE
from sm.services import (
    Authorizer,
    LiveScreens,
    Monitor,
    ProgramChecks,
    Reads,
    Reports,
    RuleWriter,
    SessionSums,
    SpawnTypes,
)
from sm.wire_types.agent_answers import (
    ActionView,
    AgentTypesView,
    AgentTypeView,
    AttachView,
    CheckpointView,
    EvidenceView,
    OutputView,
    ProgressView,
    ReportedCheckpointView,
    SummaryView,
    WhyView,
)
from sm.wire_types.session_answers import StartedView

_REASON_MAX = 200
"""Characters of a status's reason for callers that may not read the session."""

routes = OperationTable()


@routes.carries_out(agent_operations.LIST_AGENT_TYPES)
async def agent_types(
    request: ApiRequest, query: TypesScope, *, usage: SessionSums, types: SpawnTypes, rules: RuleWriter
) -> AgentTypesView:
    variables = query.variables()
    catalog = await types.catalog(request.caller, query.workspace, query.cwd, variables)
    # A session gets the types that it may spawn; the operator also the unusable ones, with their problems.
    is_session = request.caller.session_id is not None
    estimates = await usage.estimates({t.name: t.agent.model for t in catalog.types})
    modes = await types.modes(request.caller, catalog, variables)
    shown = [t for t in catalog.types if (t.usable if is_session else not t.withheld)]
    names = {t.name for t in shown}
    written = [rule for rule in rules.visible(request.caller) if rule.agent_type in names]
    return AgentTypesView(
        workspace=catalog.workspace.slug if catalog.workspace else None,
        agents=[agent_type_json(t, estimates.get(t.name), modes.get(t.name)) for t in shown],
        rules=[written_rule_view(rule, rules.path) for rule in written],
        warnings=[] if is_session else [*_withheld(catalog), *catalog.warnings],
    )


@routes.carries_out(agent_operations.READ_OUTPUT)
async def output(request: ApiRequest, given: OutputLines, *, monitor: Monitor) -> OutputView:
    session = await request.look_at(READ, is_person=given.seen)
    shown = await monitor.output(session, given.lines)
    return OutputView(session_id=session.id, lines=shown.lines, archived=shown.archived)


@routes.carries_out(agent_operations.ATTACH)
async def attach(request: ApiRequest, given: SeenByPerson, *, screens: LiveScreens) -> AttachView:
    session = await request.look_at(ATTACH.audience, is_person=given.seen)
    try:
        argv = await screens.attach_command(session.terminal)
    except NoTerminal:
        if session.exit is None:
            raise
        name = name_to_type(session)
        raise NoTerminal(
            f"the terminal of session {short_label(session)} is closed, because the session has ended",
            Hint(
                "show its last output: ", Use(READ_OUTPUT, name), "; or start it again: ", Use(RESTORE, name)
            ),
        ) from None
    return AttachView(session_id=session.id, argv=list(argv))


@routes.carries_out(agent_operations.SHOW_PROGRESS)
async def progress(
    request: ApiRequest, given: ProgressParts, *, monitor: Monitor, usage: SessionSums, authorizer: Authorizer
) -> ProgressView:
    session = request.session()
    may_read = authorizer.may_read(request.caller, session)
    shown = await monitor.progress(session, given.checkpoints, may_read=may_read)
    if given.tree:
        sums = await usage.sums(request.caller, [session])
        both = session_sums_json(usage.own(session.id), sums(session.id), monitor.now())
        shown = replace(shown, own=both.own, tree=both.tree)
    return shown


@routes.carries_out(agent_operations.WHY)
async def why(
    request: ApiRequest, *, programs: ProgramChecks, monitor: Monitor, authorizer: Authorizer
) -> WhyView:
    session = request.session()
    ledger = monitor.ledger(session.id)
    facts = [
        *await monitor.facts(session.id),
        f"lifecycle mode {session.mode}, from {session.mode_source}",
    ]
    facts += programs.facts(session)
    if session.paused is not None:
        facts.insert(0, pause_fact(session.paused))
    evidence = [] if ledger is None else evidence_json(ledger, monitor.now())
    reason = session.status_reason
    if not authorizer.may_read(request.caller, session):
        reason, evidence = folded(reason, _REASON_MAX), [replace(entry, reason=None) for entry in evidence]
    return build_view(
        WhyView,
        session,
        session_id=session.id,
        label=label(session),
        status_reason=reason,
        status_stale=monitor.is_stale(session.id),
        evidence=evidence,
        facts=facts,
    )


@routes.carries_out(agent_operations.LIST_ACTIONS)
async def actions(request: ApiRequest, query: NewestActions, *, monitor: Monitor) -> list[ActionView]:
    session = await request.look_at(READ, is_person=query.seen)
    acts = await monitor.actions(session, query.lines)
    return [act for act in acts if query.after is None or act.timestamp > query.after]


@routes.carries_out(agent_operations.SUMMARIZE)
async def what(request: ApiRequest, *, monitor: Monitor) -> SummaryView:
    session = request.session(READ)
    summary = await monitor.summarize(session)
    return build_view(SummaryView, summary, session_id=session.id)


# Reports


@routes.carries_out(report_operations.LIST_CHECKPOINTS)
async def checkpoints(request: ApiRequest, given: NewestCheckpoints, *, store: Reads) -> list[CheckpointView]:
    return [build_view(CheckpointView, c) for c in await store.checkpoints(request.session().id, given.limit)]


@routes.carries_out(report_operations.CHECKPOINT)
async def checkpoint(
    request: ApiRequest, given: Milestone, key: RequestKey | None, *, reports: Reports
) -> ReportedCheckpointView:
    made, warnings = await reports.checkpoint(request.caller, given.message, given.metadata or {}, key)
    return build_view(ReportedCheckpointView, made, warnings=list(warnings))


@routes.carries_out(report_operations.NOTE)
async def note(
    request: ApiRequest, given: ActivityNote, key: RequestKey | None, *, reports: Reports
) -> StartedView:
    return request.views.started(await reports.note(request.caller, given.text or "", key))


@routes.carries_out(report_operations.COMPLETE)
async def complete(
    request: ApiRequest, given: WorkResult, key: RequestKey | None, *, reports: Reports
) -> StartedView:
    status = given.status or "completed"
    return request.views.started(await reports.complete(request.caller, given.message, status, key))


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
