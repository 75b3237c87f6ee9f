"""The operations of events, and those by which an agent's own hooks and MCP client report."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.states import EventType
from sm.operations import EventStream, Most, Operation
from sm.operations.access_rules import EVERY_CALLER, REPORT, SEE
from sm.operations.arguments import LISTED, NEEDED, Limit, OneOf, SessionName, WaitS, WorkspaceName
from sm.wire_types.event_answers import DialogTakenView, DialogView, EventsView, EventView
from sm.wire_types.fields import Anything, EmptyView, Time


@dataclass(frozen=True, slots=True)
class EventsScope:
    session: SessionName | None = None
    workspace: WorkspaceName | None = None
    recursive: bool = False
    """If present, include all descendants, not only the children."""
    type: Annotated[str, OneOf("event type", tuple(EventType))] | None = None
    """Only events of this type."""
    since: Annotated[int, Most(10**18)] | None = None
    """A `seq`."""


@dataclass(frozen=True, slots=True)
class RecordedScope(EventsScope):
    since_time: Time | None = None
    """Only events at or after this time."""
    limit: Limit = LISTED


@dataclass(frozen=True, slots=True)
class HookReport:
    emitted_at: Annotated[Time, NEEDED] = ""
    """With its zone."""
    provider: str | None = None
    payload: Anything | None = None
    """The JSON that the agent CLI sent."""
    cut: bool | None = None
    """A large part of the payload is missing."""
    awaits_tools: bool | None = None
    """The hook then sends `POST /v1/hooks/tools`."""


@dataclass(frozen=True, slots=True)
class DialogReport(HookReport):
    wait_s: WaitS | None = None


@dataclass(frozen=True, slots=True)
class PromptTime:
    emitted_at: Annotated[Time, NEEDED] = ""
    """With its zone."""


SHOW_EVENTS = Operation(
    "events",
    "List the newest events, oldest first; with `since` or `since_time` the first events after it.",
    "GET /v1/events",
    EventsView,
    RecordedScope,
    audience=EVERY_CALLER,
    rules=(SEE,),
    command="events",
    chat="events",
    chat_form="[ID] [COUNT]",
    chat_help="show the newest events",
)
FOLLOW_EVENTS = Operation(
    "follow_events",
    """Stream new events; with `since` all events after it.

    A comment line comes every 15 s, so that a longer silence means that the daemon is gone.""",
    "GET /v1/events/stream",
    EventStream(EventView, "SEQ"),
    EventsScope,
    audience=EVERY_CALLER,
    rules=(SEE,),
    audit="stream",
)
REPORT_EVENT = Operation(
    "hook",
    "Report an event of the calling session's own agent (`sm hook`).",
    "POST /v1/hooks",
    EmptyView,
    HookReport,
    audience=REPORT,
    takes_key=False,
)
AWAIT_TOOLS = Operation(
    "tools",
    "Wait until the calling session's own agent may begin its first turn, with the tools of sm in its requests.",
    "POST /v1/hooks/tools",
    EmptyView,
    PromptTime,
    audience=REPORT,
    takes_key=False,
)
AWAIT_DIALOG = Operation(
    "dialog",
    """Wait for the answer to a dialog of the calling session's own agent.

    The required Idempotency-Key names the hook. A repetition with the same key, also after a restart of the daemon, is
    about the same request and gets the same answer.""",
    "POST /v1/hooks/dialog",
    DialogView,
    DialogReport,
    audience=REPORT,
)
CONFIRM_DIALOG = Operation(
    "dialog_taken",
    """Confirm that the hook printed the answer.

    The Idempotency-Key names the hook. Idempotent.""",
    "POST /v1/hooks/dialog/taken",
    DialogTakenView,
    audience=REPORT,
    audit="taken",
)
EXCHANGE_MCP = Operation(
    "mcp",
    """Answer one message of the Model Context Protocol (docs/mcp.md).

    The body is a JSON-RPC message. A request is answered with 200 and its response as JSON, or as an event stream that
    begins with progress notifications. Notifications, responses and cancelled requests are answered with 202.""",
    "POST /v1/mcp",
    None,
    audience=EVERY_CALLER,
    takes_key=False,
    reads_body=False,
)
