"""The JSON objects in the answers of the routes of workspaces."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.items import ItemKind, ItemState
from sm.core.states import Mode, TrustLevel
from sm.wire_types.fields import Anything, Time, narrowed

Name = Annotated[str, narrowed("string", pattern="^[A-Za-z0-9_.-]{1,64}$")]
Names = Literal["all"] | Annotated[list[Name], Field(max_length=200)]


class CapabilitiesView(TypedDict):
    mcps: Names
    skills: Names
    agents: Names


class WorkspaceView(TypedDict):
    """A team of sessions. Its members find, start and write to one another, and no other session does."""

    slug: str
    working_dir: str
    trust_level: Annotated[TrustLevel | None, doc("Null: the level of the configuration.")]
    lifecycle: Annotated[Mode | None, doc("The mode of its sessions; null: as configured.")]
    capabilities: CapabilitiesView
    strict_mcps: Annotated[
        bool, doc("Sessions of the workspace get only the MCP servers that sm gives them.")
    ]
    sandbox: Annotated[Anything, doc("The differences to `sandbox:` in the configuration.")]
    created_at: Time
    deleted_at: Annotated[
        Time | None, doc("Sessions of a deleted workspace stay readable; no session starts in it.")
    ]
    sessions: Annotated[int, doc("The number of sessions, ended ones included.")]
    live: Annotated[int, doc("The number of live sessions.")]


class ProjectItemView(TypedDict):
    """A part of a file in a workspace's directory that sessions get only if the operator agreed to it."""

    id: Annotated[str, doc("Identifies the item with its present content.")]
    kind: ItemKind
    name: str
    file: str
    state: Annotated[ItemState, doc("`changed`: the operator agreed to an earlier content.")]
    content: Annotated[str, doc("For people; cut after 10,000 characters.")]


class ShownWorkspaceView(WorkspaceView):
    """A workspace with the items of its files."""

    items: Annotated[list[ProjectItemView], doc("At most 200, those without an agreement first.")]
    warnings: Annotated[list[str], doc("The files that could not be read.")]


class ChangedWorkspaceView(WorkspaceView):
    """A workspace after a change."""

    warnings: list[str]
