"""The JSON objects in the answers of the routes of workspaces."""

from typing import Annotated, Literal

from sm.core.dataclass import dataclass
from sm.core.items import ItemKind, ItemState
from sm.core.states import Mode, TrustLevel
from sm.wire_types.fields import Anything, Narrowed, Time

_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
NAMES = {"anyOf": [{"const": "all", "type": "string"}, {"type": "array", "items": _NAME, "maxItems": 200}]}
_Names = Annotated[Literal["all"] | list[str], Narrowed(NAMES)]


@dataclass(frozen=True, slots=True)
class CapabilitiesView:
    mcps: _Names
    skills: _Names
    agents: _Names


@dataclass(frozen=True, slots=True)
class WorkspaceView:
    """A team of sessions. Its members find, start and write to one another, and no other session does."""

    slug: str
    working_dir: str
    trust_level: TrustLevel | None
    """Null for the level of the configuration."""
    lifecycle: Mode | None
    """The mode of its sessions, or null for the configured one."""
    capabilities: CapabilitiesView
    strict_mcps: bool
    """Sessions of the workspace get only the MCP servers that sm gives them."""
    sandbox: Anything
    """The differences to `sandbox:` in the configuration."""
    created_at: Time
    deleted_at: Time | None
    """Sessions of a deleted workspace stay readable; no session starts in it."""
    sessions: int
    """The number of sessions, ended ones included."""
    live: int
    """The number of live sessions."""


@dataclass(frozen=True, slots=True)
class ProjectItemView:
    """A part of a file in a workspace's directory that sessions get only if the operator agreed to it."""

    id: str
    """Identifies the item with its present content."""
    kind: ItemKind
    name: str
    file: str
    state: ItemState
    """`changed`: the operator agreed to an earlier content."""
    content: str
    """For people; cut after 10,000 characters."""


@dataclass(frozen=True, slots=True)
class ShownWorkspaceView(WorkspaceView):
    """A workspace with the items of its files."""

    items: list[ProjectItemView]
    """At most 200, those without an agreement first."""
    warnings: list[str]
    """The files that could not be read."""


@dataclass(frozen=True, slots=True)
class ChangedWorkspaceView(WorkspaceView):
    """A workspace after a change."""

    warnings: list[str]
