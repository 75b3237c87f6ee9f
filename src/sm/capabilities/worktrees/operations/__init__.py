"""The operation of worktrees. Standard library alone; `operations.listing` carries it out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.wire_types.worktrees import TreeView


@dataclass(frozen=True, slots=True)
class TreesOf:
    """A session, named as in a path, or null for all worktrees."""

    session: str | None = None


LIST = Operation(
    "worktrees",
    "List the worktrees that sm has made for sessions, also those of removed sessions that still exist.",
    "GET /v1/worktrees",
    list[TreeView],
    TreesOf,
    command="worktree ls",
)
OPERATIONS = (LIST,)
