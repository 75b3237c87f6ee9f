"""The types of arguments that several operations have, and the marks in their annotations that doors check."""

from collections.abc import Sequence
from typing import Annotated, Any

from sm.core.dataclass import dataclass
from sm.core.statuses import Status
from sm.operations import Most
from sm.wire_types.fields import narrowed


@dataclass(frozen=True, slots=True)
class Needed:
    """Documents an argument as required. A missing or null one counts as empty, which the use case refuses."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Leaves the check of an argument of a body to the use case, in its annotation."""


@dataclass(frozen=True, slots=True)
class Within:
    """Limits a number, in the annotation of an argument: another one is refused."""

    least: float
    most: float


LISTED = 50
LISTED_MAX = 10_000
WAIT_MAX_S = 25.0
"""The longest wait of one request, shorter than a client's timeout. For a longer wait a client repeats the request."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Limits a text, in the annotation of an argument, to a closed set. An empty one of a body counts as none."""

    noun: str
    options: Sequence[str]


NEEDED = Needed()
UNCHECKED = Unchecked()
ABSENT: Any = object()
"""The value of an argument that the caller has not given, where null means something else."""
CHECKPOINTS_MAX = 200
"""Checkpoints can be so large that the answer with more of them would be too large for a client."""
Limit = Annotated[int, Most(LISTED_MAX)]
CheckpointLimit = Annotated[int, Most(CHECKPOINTS_MAX)]
WholeNumber = Annotated[int, Within(-(10**18), 10**18), narrowed("integer")]
Seconds = Annotated[float, Within(0, 86_400)]
WaitS = Annotated[
    Seconds,
    narrowed(
        "number",
        minimum=0,
        maximum=86_400,
        description="How long to wait for news, in seconds, at most 25.",
    ),
]
LongText = Annotated[str, narrowed("string", maxLength=10_000)]
SessionName = Annotated[
    str, narrowed("string", minLength=1, description="An id, a name or `me`, as in a path.")
]
WorkspaceName = Annotated[
    str,
    narrowed(
        "string", minLength=1, description="Only members of this workspace (a slug, or `-` for no workspace)."
    ),
]
TrustName = Annotated[
    str, narrowed("string", description="`direct` or `sandboxed`; null: the level of the configuration.")
]
PAGE = 200
"""Sessions on a further page of a list, and found by a search."""


def absent() -> Any:
    """The factory of such a value, so that the schema of the argument has no default."""
    return ABSENT


@dataclass(frozen=True, slots=True)
class NewsWait:
    """The time to wait for news."""

    wait_s: Annotated[int, Most(int(WAIT_MAX_S))] = 0
    """How long to wait for news, in seconds, cut to 25."""


@dataclass(frozen=True, slots=True)
class SeenByPerson:
    """Shows one session."""

    seen: bool = False
    """If present, mark the session as seen, because a person reads this. Only the operator can."""


@dataclass(frozen=True, slots=True)
class InWorkspace:
    workspace: WorkspaceName | None = None


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Narrows a list of sessions."""

    status: Annotated[str, OneOf("status", ("all", *Status))] = "all"
    """Only sessions with this status."""
    search: str = ""
    """Only sessions whose descriptions contain all of these words, in any case."""
    workspace: WorkspaceName | None = None
    archived: bool = False
    """If present, include archived sessions."""

    def filter(self) -> "SessionFilter":
        """The filter without further arguments."""
        return SessionFilter(self.status, self.search, self.workspace, self.archived)


@dataclass(frozen=True, slots=True)
class ListPage:
    """The part of a list that a caller asks for."""

    before: str | None = None
    """The `next` of the page before, or None for the first page, which has all sessions in memory."""
    limit: int | None = None
    """The number of sessions to which those in memory are filled up; of a further page its most sessions."""


@dataclass(frozen=True, slots=True)
class PagedSessions(SessionFilter):
    """Narrows a list of sessions of which old ones come by page."""

    before: str | None = None
    """The header `SM-Next` of the page before, or null for the first page, with all sessions in memory."""
    limit: Annotated[int, Most(PAGE)] | None = None
    """The most sessions of a further page. The first page always has all in memory."""

    def page(self) -> ListPage:
        return ListPage(self.before, self.limit)
