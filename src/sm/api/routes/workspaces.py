"""The routes of workspaces."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, SkipValidation, with_config
from typing_extensions import TypedDict  # pydantic supports `typing.TypedDict` only from Python 3.12 on

from sm.api.body import Body, EmptyBody
from sm.api.context import ApiRequest
from sm.api.fields import REQUIRED, NeededText, NeededTexts, Present, doc
from sm.api.query import Query
from sm.api.route import RouteTable
from sm.api.views import build_view
from sm.config import SandboxOptions
from sm.core.models import RequestKey, Workspace
from sm.wire_types.fields import narrowed
from sm.wire_types.workspaces import (
    ChangedWorkspaceView,
    Names,
    ProjectItemView,
    ShownWorkspaceView,
    WorkspaceView,
)

routes = RouteTable()


class WorkspacesQuery(Query):
    deleted: Annotated[Present, doc("If present, include deleted workspaces.")] = False


@with_config(ConfigDict(extra="forbid"))
class CapabilitiesBody(TypedDict, total=False):
    """The capabilities of sessions in a workspace: everything (`all`), or only the named things."""

    mcps: Names
    skills: Names
    agents: Names


SandboxSettings = Annotated[
    Any,
    narrowed(
        "object",
        properties={name: {"type": "string"} for name in SandboxOptions.model_fields},
        additionalProperties=False,
    ),
]
Directory = Annotated[SkipValidation[str], doc("An absolute path. Sessions below it are in the workspace.")]


class SettingsBody(Body):
    """The settings of a workspace. The use case checks the values, and keeps settings that are missing."""

    working_dir: Directory = ""
    trust: Annotated[
        SkipValidation[str | None], doc("`direct` or `sandboxed`, or null for the configured level.")
    ] = None
    lifecycle: Annotated[
        SkipValidation[str | None],
        doc("`auto`, `manual` or `supervised`, for later sessions, or null for the configured one."),
    ] = None
    capabilities: SkipValidation[CapabilitiesBody] = Field(default_factory=CapabilitiesBody)
    strict_mcps: Annotated[
        SkipValidation[bool], doc("Sessions of the workspace get only the MCP servers that sm gives them.")
    ] = False
    sandbox: Annotated[SandboxSettings, doc("Each value as YAML; an empty text removes a key.")] = None

    def changes(self) -> dict[str, Any]:
        """The settings that the body contains, including null."""
        return {
            name: getattr(self, name) for name in SettingsBody.model_fields if name in self.model_fields_set
        }


class CreateBody(SettingsBody):
    slug: Annotated[
        NeededText, doc("", pattern="^[a-z0-9][a-z0-9-]*[a-z0-9]$", minLength=2, maxLength=64)
    ] = ""
    working_dir: Annotated[Directory, doc("", **{REQUIRED: True})] = ""


class AgreeBody(Body):
    items: Annotated[
        NeededTexts,
        doc("The ids of the items, as `GET /v1/workspaces/{slug}` shows them.", minItems=1, maxItems=200),
    ] = Field(default_factory=list)


@routes.route("GET", "/v1/workspaces", agents=True, audit="list")
async def workspaces(request: ApiRequest, query: WorkspacesQuery) -> list[WorkspaceView]:
    """List the workspaces; for a session its own."""
    listed = request.services.workspaces.list_workspaces(request.caller, deleted=query.deleted)
    return [await request.views.workspace(workspace) for workspace in listed]


@routes.route("GET", "/v1/workspaces/{slug}", agents=True, audit="show")
async def workspace(request: ApiRequest) -> ShownWorkspaceView:
    """Show a workspace."""
    return await _shown(request, request.services.workspaces.find(request.caller, request.name))


@routes.route("POST", "/v1/workspaces", agents=False, audit="create")
async def create_workspace(
    request: ApiRequest, body: CreateBody, key: RequestKey | None
) -> ChangedWorkspaceView:
    """Create a workspace."""
    workspaces = request.services.workspaces
    made, warnings = await workspaces.create(request.caller, body.slug, body.changes(), key)
    return await _changed(request, made, warnings, body.changes())


@routes.route("POST", "/v1/workspaces/{slug}", agents=False, audit="set")
async def set_workspace(
    request: ApiRequest, body: SettingsBody, key: RequestKey | None
) -> ChangedWorkspaceView:
    """Change a workspace; sessions that run keep the old settings."""
    workspaces = request.services.workspaces
    changed = await workspaces.change(request.caller, request.name, body.changes(), key)
    return await _changed(request, changed, (), body.changes())


@routes.route("POST", "/v1/workspaces/{slug}/agree", agents=False, audit="agree")
async def agree_to_items(request: ApiRequest, body: AgreeBody) -> ShownWorkspaceView:
    """Agree to items of the workspace's files, so that its sessions get them.

    An item counts as it is now. After a change it is left out until the operator agrees again. `illegal_state`: an id
    belongs to no present item, so its file has changed meanwhile.
    """
    workspaces = request.services.workspaces
    return await _shown(request, await workspaces.agree(request.caller, request.name, body.items))


@routes.route("POST", "/v1/workspaces/{slug}/delete", agents=False, audit="delete")
async def delete_workspace(request: ApiRequest, body: EmptyBody, key: RequestKey | None) -> WorkspaceView:
    """Delete a workspace; its sessions stay readable, and no session starts in it."""
    workspaces = request.services.workspaces
    return await request.views.workspace(await workspaces.delete(request.caller, request.name, key))


async def _shown(request: ApiRequest, workspace: Workspace) -> ShownWorkspaceView:
    listing = await request.services.workspaces.project_items(workspace)
    items = [build_view(ProjectItemView, item, state=state) for item, state in listing.items]
    shown = await request.views.workspace(workspace)
    return build_view(ShownWorkspaceView, shown, items=items, warnings=list(listing.warnings))


async def _changed(
    request: ApiRequest, workspace: Workspace, warnings: tuple[str, ...], given: dict[str, Any]
) -> ChangedWorkspaceView:
    capabilities = given.get("capabilities")
    if isinstance(capabilities, dict) and "agents" in capabilities:
        warnings = (
            *warnings,
            *await request.services.workspaces.unknown_agent_type_warnings(request.caller, workspace),
        )
    warnings = (*warnings, *await request.services.workspaces.agreement_warnings(workspace))
    return build_view(ChangedWorkspaceView, await request.views.workspace(workspace), warnings=list(warnings))
