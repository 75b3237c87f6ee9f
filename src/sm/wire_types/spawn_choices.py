"""The JSON objects in the answer of the route that shows what a person may choose for a new session."""

from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.estimates import Estimate
from sm.wire_types.fields import Time


class OwnPlace(StrEnum):
    """The way in which a session gets a directory of its own."""

    WORKTREE = "worktree"
    """The directory is in a git repository with a commit."""
    COPY = "copy"
    """The directory is in no git repository."""
    NONE = "none"
    """The git repository around it has no commit, or cannot be read."""


@dataclass(frozen=True, slots=True)
class SpawnDirectoryView:
    """A directory in which a session may start."""

    path: str
    workspace: str | None
    """The slug of the innermost workspace around it. A session that starts there without a parent joins it."""
    own_place: OwnPlace | None
    """Null if its file system did not answer in time, or with a `problem`."""
    problem: str | None
    """The reason why no session can start there, such as `does not exist`, or null."""
    used_at: Time | None
    """The start of the newest session that the operator started there without a parent, or null without one."""


@dataclass(frozen=True, slots=True)
class SpawnWorkspaceView:
    slug: str
    working_dir: str
    """The directory of its sessions that name none."""


@dataclass(frozen=True, slots=True)
class SpawnTypeView:
    """An agent type that a session may have."""

    name: str
    provider: str
    model: str | None
    description: str | None
    """The purpose of the agent type."""
    permission_mode: str | None
    """Of a new session on this host without a parent, or null if the provider has no permission modes."""
    auto_allow: list[str]
    """The rules for permissions that are granted without a question."""
    auto_deny: list[str]
    """The rules for permissions that are refused without a question."""
    estimate: Estimate | None
    """For a new session with the `model` of the query, if it has one. Null with fewer than 5 completed sessions."""
    takes_files: bool
    """Its task, and messages of the operator to it, may have files."""


@dataclass(frozen=True, slots=True)
class SpawnChoicesView:
    """The values among which a person chooses for a new session."""

    directory: SpawnDirectoryView | None
    """The directory of a session that starts with the parameters of the query, or null if they name none."""
    directories: list[SpawnDirectoryView]
    """The ones where the operator started sessions, the latest first, then those of workspaces. At most 40."""
    workspaces: list[SpawnWorkspaceView]
    """At most 200."""
    agent_type: str | None
    """The usable type that the operator started last, or null without one."""
    types: list[SpawnTypeView]
    """The usable ones for the directory. At most 200."""
    models: list[str]
    """The models of these types, and those of sessions that the operator started lately."""
