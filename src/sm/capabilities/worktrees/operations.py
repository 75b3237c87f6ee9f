"""The operation of worktrees. Standard library alone; `listing` carries it out."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Most, Operation
from sm.operations.access_rules import EVERY_CALLER, READ_ALSO_ITSELF, SEE
from sm.operations.arguments import WAIT_MAX_S
from sm.wire_types.worktrees import MadeTreeView


@dataclass(frozen=True, slots=True)
class TreesOf:
    """A session, named as in a path, or null for all worktrees."""

    path: str | None = None
    """The directory of one worktree, or null for all."""

    session: str | None = None
    wait_s: Annotated[int, Most(int(WAIT_MAX_S))] = 0
    """How long to wait until none of them is being made, in seconds, cut to 25."""


LIST = Operation(
    "worktrees",
    "List the worktrees that sm has made, also those of removed sessions that still exist or that git knows.",
    "GET /v1/worktrees",
    list[MadeTreeView],
    TreesOf,
    audience=EVERY_CALLER,
    rules=(READ_ALSO_ITSELF, SEE),
    command="worktree ls",
)
OPERATIONS = (LIST,)
