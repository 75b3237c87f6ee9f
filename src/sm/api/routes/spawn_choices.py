"""The route that shows what a person may choose for a new session."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.core.estimates import Estimate
from sm.core.models import NO_WORKSPACE, PermissionMode
from sm.equipment.agent_types import AgentType
from sm.operations import spawn_operations
from sm.operations.spawn_operations import SpawnScope
from sm.services import Attachers, SessionSums, SpawnChoices, SpawnTypes
from sm.wire_types.spawn_choices import SpawnChoicesView, SpawnTypeView

routes = OperationTable()
_TYPES_MAX = 200
_MODELS_MAX = 20


@routes.carries_out(spawn_operations.SHOW_CHOICES)
async def spawn_choices(
    request: ApiRequest,
    query: SpawnScope,
    *,
    usage: SessionSums,
    types: SpawnTypes,
    choices: SpawnChoices,
    attachers: Attachers,
) -> SpawnChoicesView:
    caller, variables = request.caller, query.variables()
    request.authorizer.require(caller, spawn_operations.SHOW_CHOICES.audience, is_read=True)
    parent = None if query.parent is None else request.authorizer.find(caller, query.parent)
    path = choices.directory(parent, query.workspace, query.working_dir, query.cwd)
    lately = await choices.lately()
    directory, directories = await choices.describe(lately, path)
    slug = query.workspace if parent is None else parent.workspace or NO_WORKSPACE
    catalog = await types.catalog(caller, slug, path, variables)
    usable = {kind.name: kind for kind in catalog.usable[:_TYPES_MAX]}
    models = {name: query.model or kind.agent.model for name, kind in usable.items()}
    estimates = await usage.estimates(models)
    modes = await types.modes(caller, catalog, variables)
    used = (session for session in lately if session.agent_type in usable)
    known = filter(None, (*(kind.agent.model for kind in usable.values()), *(s.model for s in lately)))
    return SpawnChoicesView(
        directory=directory,
        directories=list(directories),
        workspaces=list(choices.workspaces()),
        agent_type=next((session.agent_type for session in used), None),
        types=[
            _view(
                kind,
                estimates.get(name),
                modes.get(name),
                takes_files=attachers.takes_files(kind.provider, name),
            )
            for name, kind in usable.items()
        ],
        models=list(dict.fromkeys(known))[:_MODELS_MAX],
    )


def _view(
    kind: AgentType, estimate: Estimate | None, permission: PermissionMode | None, *, takes_files: bool
) -> SpawnTypeView:
    agent = kind.agent
    return SpawnTypeView(
        kind.name,
        kind.provider,
        agent.model,
        agent.description,
        None if permission is None else permission.mode,
        list(agent.auto_allow),
        list(agent.auto_deny),
        estimate,
        takes_files,
    )
