"""The operations that list sessions, and show them over time."""

from collections.abc import Sequence
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import EventStream, Most, Operation
from sm.operations.access_rules import EVERY_CALLER, ITSELF, READ_ALSO_ITSELF, SEE, Audience
from sm.operations.arguments import LISTED_MAX, PagedSessions, SessionFilter, SessionName, WorkspaceName
from sm.operations.hints import Hint, Use
from sm.operations.message_operations import SEND
from sm.operations.request_operations import SEE_REQUESTS_OF
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
    """An hour before `until` if null."""
    until: Time | None = None
    """Now if null."""
    session: SessionName | None = None
    """Only this session."""
    tree: bool = False
    """If present, include all descendants of `session`."""
    workspace: WorkspaceName | None = None
    limit: Annotated[int, Most(LISTED_MAX)] = LISTED_MAX
    """Only spans that began with the newest events."""


LIST_SESSIONS = Operation(
    "all_sessions",
    "List all sessions, oldest first: all live ones and those that ended lately, then by page older ones.",
    "GET /v1/sessions",
    list[SessionWithSums],
    SessionsScope,
    audience=EVERY_CALLER,
    rules=(SEE,),
    command="all",
    tool="list_workspace_sessions",
    chat="list all",
    chat_form="[WORKSPACE] [all]",
    chat_help="list sessions; all: also ended ones",
    audit="all",
)
OVERVIEW = Operation(
    "overview",
    "List sessions with their current tasks, oldest first.",
    "GET /v1/overview",
    list[OverviewView],
    OverviewScope,
    audience=EVERY_CALLER,
    rules=(SEE, READ_ALSO_ITSELF, SEE_REQUESTS_OF),
    command="ls",
)
COUNT_REST = Operation(
    "overview_rest",
    """Count the ended sessions that the overview leaves out and those that a loss of terminals ended.

    Names the programs of agents that were not checked or break a contract.""",
    "GET /v1/overview/rest",
    OverviewRestView,
    SessionFilter,
    audience=EVERY_CALLER,
    rules=(SEE,),
)
SHOW_CALLER = Operation(
    "me",
    "Show the calling session; 404 for the operator.",
    "GET /v1/me",
    SessionView,
    audience=Audience("me", "be", ITSELF),
    command="me",
)
LIST_SIBLINGS = Operation(
    "who",
    "List the other children of the caller's parent; for the operator the sessions without a parent.",
    "GET /v1/who",
    list[SessionView],
    PagedSessions,
    audience=EVERY_CALLER,
    rules=(SEE,),
    command="who",
)
LIST_OTHERS = Operation(
    "others",
    "List the other sessions of the caller's workspace.",
    "GET /v1/others",
    list[SessionView],
    PagedSessions,
    audience=EVERY_CALLER,
    rules=(SEE,),
    command="others",
)
LIST_CHILDREN = Operation(
    "children",
    "List the children of a session; of the caller if `ref` is `-`.",
    "GET /v1/sessions/{ref}/children",
    Sequence[SessionWithSums],
    ChildrenScope,
    audience=SEE,
    command="children SESSION",
    chat="subagents",
    chat_form="ID",
    chat_help="list the sessions below a session",
)
LIST_AUDIENCE = Operation(
    "audience",
    "List the recipients of the caller's broadcast.",
    "GET /v1/audience",
    list[SessionView],
    AudienceScope,
    audience=EVERY_CALLER,
    rules=(SEND.audience,),
)
FOLLOW_ROWS = Operation(
    "live",
    """Stream the sessions as rows: a snapshot, then each row that changes, whole.

    A row comes at most 4 times a second. A reader that is slower gets the newest state of each row. A comment line
    comes every 15 s.""",
    "GET /v1/live",
    EventStream(LiveUpdateView),
    LiveScope,
    audience=EVERY_CALLER,
    rules=(SEE, READ_ALSO_ITSELF, SEE_REQUESTS_OF),
)
TIMELINE = Operation(
    "timeline",
    "Show when each session had which status, archived and ended ones included.",
    "GET /v1/timeline",
    TimelineView,
    TimelineScope,
    audience=EVERY_CALLER,
    rules=(SEE,),
)

SEE_SESSIONS = Hint("list sessions: ", Use(LIST_SESSIONS))
