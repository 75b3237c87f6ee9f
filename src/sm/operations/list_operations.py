"""The operations that list sessions, and show them over time."""

from collections.abc import Sequence
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import AgentOperation, EventStream, Most
from sm.operations.arguments import LISTED_MAX, PagedSessions, SessionFilter, SessionName, WorkspaceName
from sm.operations.hints import Hint, Use
from sm.wire_types.fields import Time
from sm.wire_types.live_answers import LiveUpdateView, TimelineView
from sm.wire_types.session_answers import OverviewRestView, OverviewView, SessionView, SessionWithSums


@dataclass(frozen=True, slots=True)
class SessionsScope(PagedSessions):
    sums: bool = False
    """If present, include what each session and its descendants have used."""
    prefix: str = ""
    """Only sessions whose id or one of whose names begins with this."""


@dataclass(frozen=True, slots=True)
class OverviewScope(PagedSessions):
    ended: bool = False
    """If present, include ended sessions."""


@dataclass(frozen=True, slots=True)
class ChildrenScope(PagedSessions):
    recursive: bool = False
    """If present, include all descendants, not only the children."""


@dataclass(frozen=True, slots=True)
class AudienceScope:
    recursive: bool = False
    """If present, include all descendants, not only the children."""
    workspace: WorkspaceName | None = None


@dataclass(frozen=True, slots=True)
class LiveScope(SessionFilter):
    since: str | None = None
    """The last `revision`, with the other parameters as before. An unknown one: a snapshot comes."""


@dataclass(frozen=True, slots=True)
class TimelineScope:
    since: Time | None = None
    """An hour ago if null."""
    session: SessionName | None = None
    """Only this session."""
    tree: bool = False
    """If present, include all descendants of `session`."""
    workspace: WorkspaceName | None = None
    limit: Annotated[int, Most(LISTED_MAX)] = LISTED_MAX
    """Only spans that began with the newest events."""


LIST_SESSIONS = AgentOperation(
    "all_sessions",
    "List all sessions, oldest first: all live ones and those that ended lately, then by page older ones.",
    "GET /v1/sessions",
    list[SessionWithSums],
    SessionsScope,
    command="all",
    tool="list_workspace_sessions",
    chat="list all",
    audit="all",
)
OVERVIEW = AgentOperation(
    "overview",
    "List sessions with their current tasks, oldest first.",
    "GET /v1/overview",
    list[OverviewView],
    OverviewScope,
    command="ls",
)
COUNT_REST = AgentOperation(
    "overview_rest",
    """Count the ended sessions that the overview leaves out and those that a loss of terminals ended.

    Names the programs of agents that were not checked or break a contract.""",
    "GET /v1/overview/rest",
    OverviewRestView,
    SessionFilter,
)
SHOW_CALLER = AgentOperation(
    "me",
    "Show the calling session; 404 for the operator.",
    "GET /v1/me",
    SessionView,
    command="me",
)
LIST_SIBLINGS = AgentOperation(
    "who",
    "List the other children of the caller's parent; for the operator the sessions without a parent.",
    "GET /v1/who",
    list[SessionView],
    PagedSessions,
    command="who",
)
LIST_OTHERS = AgentOperation(
    "others",
    "List the other sessions of the caller's workspace.",
    "GET /v1/others",
    list[SessionView],
    PagedSessions,
    command="others",
)
LIST_CHILDREN = AgentOperation(
    "children",
    "List the children of a session; of the caller if `ref` is `-`.",
    "GET /v1/sessions/{ref}/children",
    Sequence[SessionWithSums],
    ChildrenScope,
    command="children SESSION",
    chat="subagents",
)
LIST_AUDIENCE = AgentOperation(
    "audience",
    "List the recipients of the caller's broadcast.",
    "GET /v1/audience",
    list[SessionView],
    AudienceScope,
)
FOLLOW_ROWS = AgentOperation(
    "live",
    """Stream the sessions as rows: a snapshot, then each row that changes, whole.

    A row comes at most 4 times a second. A reader that is slower gets the newest state of each row. A comment line
    comes every 15 s.""",
    "GET /v1/live",
    EventStream(LiveUpdateView),
    LiveScope,
)
TIMELINE = AgentOperation(
    "timeline",
    "Show when each session had which status, archived and ended ones included.",
    "GET /v1/timeline",
    TimelineView,
    TimelineScope,
)

SEE_SESSIONS = Hint("list sessions: ", Use(LIST_SESSIONS))
