"""The routes of workspaces."""

from dataclasses import asdict, replace
from typing import Any

from sm.api.context import ApiRequest
from sm.api.fields import REQUIRED
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.config import SandboxOptions
from sm.core.lifecycle import is_live
from sm.core.models import Caller, RequestKey, Workspace
from sm.operations import workspace_operations as operations
from sm.operations.workspace_operations import AgreedItems, NewWorkspace, WorkspaceSettings, WorkspacesScope
from sm.services import Workspaces
from sm.wire_types.workspaces import (
    CapabilitiesView,
    ChangedWorkspaceView,
    ProjectItemView,
    ShownWorkspaceView,
    WorkspaceView,
)

routes = OperationTable()
_OF_SETTINGS = {
    "sandbox": {"properties": {name: {"type": "string"} for name in SandboxOptions.model_fields}},
}
_OF_NEW = {**operations.CREATE_WORKSPACE.fields, **_OF_SETTINGS, "working_dir": {REQUIRED: True}}


@routes.carries_out(operations.LIST_WORKSPACES)
async def workspaces(
    request: ApiRequest, query: WorkspacesScope, *, workspaces: Workspaces
) -> list[WorkspaceView]:
    listed = workspaces.list_workspaces(request.caller, deleted=query.deleted)
    return [await _view(request.caller, workspace, workspaces) for workspace in listed]


@routes.carries_out(operations.SHOW_WORKSPACE)
async def workspace(request: ApiRequest, *, workspaces: Workspaces) -> ShownWorkspaceView:
    return await _shown(request, workspaces.find(request.caller, request.name), workspaces)


@routes.carries_out(replace(operations.CREATE_WORKSPACE, fields=_OF_NEW))
async def create_workspace(
    request: ApiRequest,
    body: NewWorkspace,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
) -> ChangedWorkspaceView:
    made, warnings = await workspaces.create(request.caller, body.slug, body.changes(), key)
    return await _changed(request, made, warnings, body.changes(), workspaces)


@routes.carries_out(replace(operations.SET_WORKSPACE, fields=_OF_SETTINGS))
async def set_workspace(
    request: ApiRequest,
    body: WorkspaceSettings,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
) -> ChangedWorkspaceView:
    changed = await workspaces.change(request.caller, request.name, body.changes(), key)
    return await _changed(request, changed, (), body.changes(), workspaces)


@routes.carries_out(operations.AGREE)
async def agree_to_items(
    request: ApiRequest, body: AgreedItems, *, workspaces: Workspaces
) -> ShownWorkspaceView:
    agreed = await workspaces.agree(request.caller, request.name, body.items)
    return await _shown(request, agreed, workspaces)


@routes.carries_out(operations.DELETE_WORKSPACE)
async def delete_workspace(
    request: ApiRequest,
    key: RequestKey | None,
    *,
    workspaces: Workspaces,
) -> WorkspaceView:
    deleted = await workspaces.delete(request.caller, request.name, key)
    return await _view(request.caller, deleted, workspaces)


async def _shown(request: ApiRequest, workspace: Workspace, workspaces: Workspaces) -> ShownWorkspaceView:
    listing = await workspaces.project_items(workspace)
    items = [build_view(ProjectItemView, item, state=state) for item, state in listing.items]
    shown = await _view(request.caller, workspace, workspaces)
    return build_view(ShownWorkspaceView, shown, items=items, warnings=list(listing.warnings))


async def _changed(
    request: ApiRequest,
    workspace: Workspace,
    warnings: tuple[str, ...],
    given: dict[str, Any],
    workspaces: Workspaces,
) -> ChangedWorkspaceView:
    capabilities = given.get("capabilities")
    if isinstance(capabilities, dict) and "agents" in capabilities:
        warnings = (
            *warnings,
            *await workspaces.unknown_agent_type_warnings(request.caller, workspace),
        )
    warnings = (*warnings, *await workspaces.agreement_warnings(workspace))
    shown = await _view(request.caller, workspace, workspaces)
    return build_view(ChangedWorkspaceView, shown, warnings=list(warnings))


async def _view(caller: Caller, workspace: Workspace, workspaces: Workspaces) -> WorkspaceView:
    members = workspaces.sessions(caller, workspace.slug)
    given = asdict(workspace.capabilities)
    return build_view(
        WorkspaceView,
        workspace,
        working_dir=workspace.directory,
        capabilities=CapabilitiesView(
            **{kind: "all" if names is None else names for kind, names in given.items()}
        ),
        sessions=len(members) + await workspaces.count_past(caller, workspace.slug),
        live=sum(is_live(s.status) for s in members),
    )
