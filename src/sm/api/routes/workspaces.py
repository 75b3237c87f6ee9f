"""The routes of workspaces."""

from dataclasses import replace
from typing import Any

from sm.api.context import ApiRequest
from sm.api.fields import REQUIRED
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.config import SandboxOptions
from sm.core.models import RequestKey, Workspace
from sm.operations import workspace_operations as operations
from sm.operations.workspace_operations import AgreedItems, NewWorkspace, WorkspaceSettings, WorkspacesScope
from sm.wire_types.workspaces import (
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
async def workspaces(request: ApiRequest, query: WorkspacesScope) -> list[WorkspaceView]:
    listed = request.services.workspaces.list_workspaces(request.caller, deleted=query.deleted)
    return [await request.views.workspace(workspace) for workspace in listed]


@routes.carries_out(operations.SHOW_WORKSPACE)
async def workspace(request: ApiRequest) -> ShownWorkspaceView:
    return await _shown(request, request.services.workspaces.find(request.caller, request.name))


@routes.carries_out(replace(operations.CREATE_WORKSPACE, fields=_OF_NEW))
async def create_workspace(
    request: ApiRequest, body: NewWorkspace, key: RequestKey | None
) -> ChangedWorkspaceView:
    workspaces = request.services.workspaces
    made, warnings = await workspaces.create(request.caller, body.slug, body.changes(), key)
    return await _changed(request, made, warnings, body.changes())


@routes.carries_out(replace(operations.SET_WORKSPACE, fields=_OF_SETTINGS))
async def set_workspace(
    request: ApiRequest, body: WorkspaceSettings, key: RequestKey | None
) -> ChangedWorkspaceView:
    workspaces = request.services.workspaces
    changed = await workspaces.change(request.caller, request.name, body.changes(), key)
    return await _changed(request, changed, (), body.changes())


@routes.carries_out(operations.AGREE)
async def agree_to_items(request: ApiRequest, body: AgreedItems) -> ShownWorkspaceView:
    workspaces = request.services.workspaces
    return await _shown(request, await workspaces.agree(request.caller, request.name, body.items))


@routes.carries_out(operations.DELETE_WORKSPACE)
async def delete_workspace(request: ApiRequest, key: RequestKey | None) -> WorkspaceView:
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
