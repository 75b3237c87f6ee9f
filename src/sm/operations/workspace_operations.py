"""The operations of workspaces."""

from dataclasses import field, fields
from typing import Annotated, Any

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import (
    EVERY_CALLER,
    ITSELF,
    OPERATOR,
    OPERATOR_AND_OWNERS,
    Audience,
    CallerRole,
)
from sm.operations.arguments import ABSENT, NEEDED, UNCHECKED, absent
from sm.wire_types.fields import narrowed
from sm.wire_types.workspaces import NAMES, ChangedWorkspaceView, ShownWorkspaceView, WorkspaceView


@dataclass(frozen=True, slots=True)
class WorkspacesScope:
    deleted: bool = False
    """If present, include deleted workspaces."""


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The settings of a workspace. The use case checks the values, and keeps settings that are missing."""

    working_dir: Annotated[str, UNCHECKED] = field(default_factory=absent)
    """An absolute path. Sessions below it are in the workspace."""
    trust: Annotated[str | None, UNCHECKED] = field(default_factory=absent)
    """`direct` or `sandboxed`, or null for the level of the configuration."""
    lifecycle: Annotated[str | None, UNCHECKED] = field(default_factory=absent)
    """`auto`, `manual` or `supervised`, for sessions that start later, or null for the configured one."""
    capabilities: Annotated[
        Any,
        narrowed(
            "object", properties={"mcps": NAMES, "skills": NAMES, "agents": NAMES}, additionalProperties=False
        ),
    ] = field(default_factory=absent)
    """The capabilities of sessions in a workspace: everything (`all`), or only the named things."""
    strict_mcps: Annotated[bool, UNCHECKED] = field(default_factory=absent)
    """Sessions of the workspace get only the MCP servers that sm gives them."""
    sandbox: Annotated[Any, narrowed("object", additionalProperties=False)] = field(default_factory=absent)
    """Each value as YAML; an empty text removes a key."""

    def changes(self) -> dict[str, Any]:
        """The settings that the caller has given, including null."""
        settings = {f.name: getattr(self, f.name) for f in fields(WorkspaceSettings)}
        return {name: value for name, value in settings.items() if value is not ABSENT}


@dataclass(frozen=True, slots=True)
class NewWorkspace(WorkspaceSettings):
    slug: Annotated[str, NEEDED] = ""


@dataclass(frozen=True, slots=True)
class AgreedItems:
    items: Annotated[list[str], NEEDED] = field(default_factory=list)
    """The ids of the items, as `GET /v1/workspaces/{slug}` shows them."""


SEE_WORKSPACE = Audience(
    "see_workspace", "see the workspace", OPERATOR_AND_OWNERS | ITSELF | {CallerRole.PAIRED_WITH_IT}
)
_WORKSPACES = Audience("manage_workspaces", "create, change or delete workspaces", OPERATOR)
LIST_WORKSPACES = Operation(
    "workspaces",
    "List the workspaces; for a session its own.",
    "GET /v1/workspaces",
    list[WorkspaceView],
    WorkspacesScope,
    audience=EVERY_CALLER,
    rules=(SEE_WORKSPACE,),
    command="workspace list",
    audit="list",
)
SHOW_WORKSPACE = Operation(
    "workspace",
    "Show a workspace.",
    "GET /v1/workspaces/{slug}",
    ShownWorkspaceView,
    audience=SEE_WORKSPACE,
    command="workspace show WORKSPACE",
    audit="show",
)
CREATE_WORKSPACE = Operation(
    "create_workspace",
    "Create a workspace.",
    "POST /v1/workspaces",
    ChangedWorkspaceView,
    NewWorkspace,
    audience=_WORKSPACES,
    command="workspace create WORKSPACE --working-dir PATH",
    key="+",
    title="Create a workspace",
    audit="create",
    fields={"slug": {"pattern": "^[a-z0-9][a-z0-9-]*[a-z0-9]$", "minLength": 2, "maxLength": 64}},
)
SET_WORKSPACE = Operation(
    "set_workspace",
    "Change a workspace; sessions that run keep the old settings.",
    "POST /v1/workspaces/{slug}",
    ChangedWorkspaceView,
    WorkspaceSettings,
    audience=_WORKSPACES,
    command="workspace set WORKSPACE",
    audit="set",
)
AGREE = Operation(
    "agree_to_items",
    """Agree to items of the workspace's files, so that its sessions get them.

    An item counts as it is now. After a change it is left out until the operator agrees again. `illegal_state`: an id
    belongs to no present item, so its file has changed meanwhile.""",
    "POST /v1/workspaces/{slug}/agree",
    ShownWorkspaceView,
    AgreedItems,
    audience=_WORKSPACES,
    command="workspace agree WORKSPACE",
    audit="agree",
    takes_key=False,
    fields={"items": {"minItems": 1, "maxItems": 200}},
)
DELETE_WORKSPACE = Operation(
    "delete_workspace",
    "Delete a workspace; its sessions stay readable, and no session starts in it.",
    "POST /v1/workspaces/{slug}/delete",
    WorkspaceView,
    audience=_WORKSPACES,
    command="workspace delete WORKSPACE",
    audit="delete",
)
