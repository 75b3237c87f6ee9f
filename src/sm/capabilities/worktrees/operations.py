"""The operation of worktrees. Standard library alone; `listing` carries it out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF, SEE
from sm.wire_types.worktrees import MadeTreeView


@dataclass(frozen=True, slots=True)
class TreesOf:
    """A session, named as in a path, or null for all worktrees."""

    session: str | None = None


LIST = Operation(
    "worktrees",
    "List the worktrees that sm has made for sessions, also those of removed sessions that still exist.",
    "GET /v1/worktrees",
    list[MadeTreeView],
    TreesOf,
    audience=EVERY_CALLER,
    rules=(READ_ALSO_ITSELF, SEE),
    command="worktree ls",
)
OPERATIONS = (LIST,)
