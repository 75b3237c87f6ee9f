"""Worktrees in answers."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.core.statuses import Tolerant
from sm.wire_types.fields import Time


class TreeProgress(Tolerant):
    PLANNED = "planned"
    BEGUN = "begun"
    """The daemon makes it now."""
    SETTING_UP = "setting_up"
    """Its set-up runs in the terminal of its session. It is made already."""
    MADE = "made"


@dataclass(frozen=True, slots=True)
class MadeTreeView:
    """A git worktree that sm has made for a session, or makes now."""

    path: str
    branch: str
    repository: str
    """The main directory of the repository. For a bare one, the directory around it. Of a copy: what was copied."""
    git_directory: str | None
    """The git directory of the repository, or null if an earlier version of sm has made the worktree. That of a copy is
    `.git` in its `path`."""
    start: str | None
    """The commit that it began with; empty if it had none, or was not fetched yet. Null if it is not known."""
    is_new_branch: bool
    """False for a branch that was there before."""
    session_id: str
    label: str | None
    """The name of its session for people, or null if the session was removed."""
    status: str | None
    """The status of its session."""
    state: TreeProgress
    step: str | None
    """How far it is: `checking out 41%`. Null if it is made. Callers who may not read the output see no commands."""
    exists: bool
    """The directory is there."""
    used: bool
    """A live session works there."""
    copied_files: int
    copied_bytes: int
    linked: Sequence[str]
    """The paths that are links to those of the repository."""
    notes: Sequence[str]
    """Facts about it for a person, such as files that were not copied."""
    created_at: Time
    teardown: Sequence[str]
    """Commands to run in it before it is removed. Empty for callers who may not remove its session."""
    teardown_within_s: float
    """Seconds in which all of them must end."""
