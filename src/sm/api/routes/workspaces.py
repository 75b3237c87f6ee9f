"""The routes of workspaces."""

from dataclasses import asdict
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
from sm.core.lifecycle import is_live
from sm.core.models import Caller, RequestKey, Workspace
from sm.services import SessionFilter, Sessions, Workspaces
from sm.wire_types.fields import narrowed
from sm.wire_types.workspaces import (
    CapabilitiesView,
    ChangedWorkspaceView,
    Names,
    ProjectItemView,
    ShownWorkspaceView,
    WorkspaceView,
)

routes = RouteTable()


class WorkspacesQuery(Query):
    deleted: Annotated[Present, doc("Present: include deleted workspaces.")] = False


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
        SkipValidation[str | None], doc("`direct` or `sandboxed`; null: the level of the configuration.")
    ] = None
    lifecycle: Annotated[
        SkipValidation[str | None],
        doc("`auto`, `manual` or `supervised`, for sessions that start later; null: as configured."),
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
async def workspaces(
    request: ApiRequest, query: WorkspacesQuery, *, workspaces: Workspaces, sessions: Sessions
) -> list[WorkspaceView]:
    """List the workspaces; for a session its own."""
    listed = workspaces.list_workspaces(request.caller, deleted=query.deleted)
    return [await _view(request.caller, workspace, workspaces, sessions) for workspace in listed]


@routes.route("GET", "/v1/workspaces/{slug}", agents=True, audit="show")
async def workspace(request: ApiRequest, *, workspaces: Workspaces, sessions: Sessions) -> ShownWorkspaceView:
    """Show a workspace."""
    return await _shown(request, workspaces.find(request.caller, request.name), workspaces, sessions)


@routes.route("POST", "/v1/workspaces", agents=False, audit="create")
async def create_workspace(
    request: ApiRequest,
    body: CreateBody,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
    sessions: Sessions,
) -> ChangedWorkspaceView:
    """Create a workspace."""
    made, warnings = await workspaces.create(request.caller, body.slug, body.changes(), key)
    return await _changed(request, made, warnings, body.changes(), workspaces, sessions)


@routes.route("POST", "/v1/workspaces/{slug}", agents=False, audit="set")
async def set_workspace(
    request: ApiRequest,
    body: SettingsBody,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
    sessions: Sessions,
) -> ChangedWorkspaceView:
    """Change a workspace; sessions that run keep the old settings."""
    changed = await workspaces.change(request.caller, request.name, body.changes(), key)
    return await _changed(request, changed, (), body.changes(), workspaces, sessions)


@routes.route("POST", "/v1/workspaces/{slug}/agree", agents=False, audit="agree")
async def agree_to_items(
    request: ApiRequest, body: AgreeBody, *, workspaces: Workspaces, sessions: Sessions
) -> ShownWorkspaceView:
    """Agree to items of the workspace's files, so that its sessions get them.

    An item counts as it is now. After a change it is left out until the operator agrees again. `illegal_state`: an id
    belongs to no present item, so its file has changed meanwhile.
    """
    agreed = await workspaces.agree(request.caller, request.name, body.items)
    return await _shown(request, agreed, workspaces, sessions)


@routes.route("POST", "/v1/workspaces/{slug}/delete", agents=False, audit="delete")
async def delete_workspace(
    request: ApiRequest,
    body: EmptyBody,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
    sessions: Sessions,
) -> WorkspaceView:
    """Delete a workspace; its sessions stay readable, and no session starts in it."""
    deleted = await workspaces.delete(request.caller, request.name, key)
    return await _view(request.caller, deleted, workspaces, sessions)


async def _shown(
    request: ApiRequest, workspace: Workspace, workspaces: Workspaces, sessions: Sessions
) -> ShownWorkspaceView:
    listing = await workspaces.project_items(workspace)
    items = [build_view(ProjectItemView, item, state=state) for item, state in listing.items]
    shown = await _view(request.caller, workspace, workspaces, sessions)
    return build_view(ShownWorkspaceView, shown, items=items, warnings=list(listing.warnings))


async def _changed(
    request: ApiRequest,
    workspace: Workspace,
    warnings: tuple[str, ...],
    given: dict[str, Any],
    workspaces: Workspaces,
    sessions: Sessions,
) -> ChangedWorkspaceView:
    capabilities = given.get("capabilities")
    if isinstance(capabilities, dict) and "agents" in capabilities:
        warnings = (
            *warnings,
            *await workspaces.unknown_agent_type_warnings(request.caller, workspace),
        )
    warnings = (*warnings, *await workspaces.agreement_warnings(workspace))
    shown = await _view(request.caller, workspace, workspaces, sessions)
    return build_view(ChangedWorkspaceView, shown, warnings=list(warnings))


async def _view(
    caller: Caller, workspace: Workspace, workspaces: Workspaces, sessions: Sessions
) -> WorkspaceView:
    members = workspaces.sessions(caller, workspace.slug)
    past = SessionFilter(workspace=workspace.slug, archived=True)
    ended = (await sessions.past_counts(caller, past)).values()
    given = asdict(workspace.capabilities)
    return build_view(
        WorkspaceView,
        workspace,
        working_dir=workspace.directory,
        capabilities=CapabilitiesView(
            **{kind: "all" if names is None else names for kind, names in given.items()}
        ),
        sessions=len(members) + sum(ended),
        live=sum(is_live(s.status) for s in members),
    )
