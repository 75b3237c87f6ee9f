"""The operations of requests: questions and permissions that sessions wait for."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import AgentOperation, DoorNames
from sm.operations.arguments import LISTED, NEEDED, Limit, LongText, NewsWait, Seconds, SessionName
from sm.operations.hints import Hint, Use
from sm.wire_types.fields import narrowed
from sm.wire_types.request_answers import RequestView


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """The requests to list."""

    session: SessionName | None = None
    all: bool = False
    """If present, include closed requests."""
    limit: Limit = LISTED


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question."""

    question: Annotated[str, NEEDED] = ""
    options: list[Annotated[str, narrowed("string", maxLength=200)]] | None = None
    expires_s: Seconds | None = None
    """A day if null."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer."""

    approved: bool | None = None
    """False also denies a question."""
    answers: list[str] | None = None
    """One for each question."""
    message: LongText | None = None
    shown: str | None = None
    """The `digest` of the request that the caller has seen: the answer to another one is refused."""


LIST_REQUESTS = AgentOperation(
    "requests",
    "List the open requests of sessions; with `all` the newest requests.",
    "GET /v1/requests",
    list[RequestView],
    RequestFilter,
    command="requests",
    tool="list_requests",
    chat="requests",
)
ASK = AgentOperation(
    "ask",
    "Ask the parent of the calling session, or the operator.",
    "POST /v1/requests",
    RequestView,
    AskedQuestion,
    command="ask QUESTION",
    tool="ask",
    fields={"question": {"maxLength": 10_000}, "options": {"maxItems": 20}},
)
SHOW_REQUEST = AgentOperation(
    "request",
    "Show a request.",
    "GET /v1/requests/{ref}",
    RequestView,
    NewsWait,
)
ANSWER = AgentOperation(
    "answer",
    "Answer a request, or the only open request of a session; the first answer wins.",
    "POST /v1/requests/{ref}/answer",
    RequestView,
    GivenAnswer,
    command="answer REQUEST TEXT",
    tool="answer_request",
    chat="answer",
)
APPROVE = DoorNames(command="approve", tool="answer_request", chat="approve")
DENY = DoorNames(command="deny", tool="answer_request", chat="deny")
TAKE_ANSWER = AgentOperation(
    "taken",
    "Confirm that the asking session has its answer.",
    "POST /v1/requests/{ref}/taken",
    RequestView,
    takes_key=False,
    reads_body=False,
)

SEE_REQUESTS = Hint("list requests: ", Use(LIST_REQUESTS))
