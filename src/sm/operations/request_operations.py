"""The operations of requests: questions and permissions that sessions wait for."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import DoorNames, Operation
from sm.operations.access_rules import ABOVE, EVERY_CALLER, OPERATOR, REPORT, SEE, SESSION_AND_ABOVE, Audience
from sm.operations.arguments import LISTED, NEEDED, Limit, LongText, NewsWait, Seconds, SessionName
from sm.operations.hints import Hint, Use
from sm.wire_types.fields import narrowed
from sm.wire_types.request_answers import RequestView, RuleOfRequestView


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


@dataclass(frozen=True, slots=True)
class SeenRule:
    """A rule that a person has seen."""

    line: Annotated[str, NEEDED] = ""
    """Its line in rules.yaml. If it would be another one now, nothing is written."""


ANSWER_SETUP = Audience("answer_setup", "answer the first-start dialog of", OPERATOR)
"""The answer trusts a directory or a mode of the agent CLI permanently, and changes what it asks the user in future."""
SEE_REQUESTS_OF = Audience("see_requests", "see requests of", SESSION_AND_ABOVE)
ALLOW_ALWAYS = Audience("allow_always", "write permission rules", OPERATOR)
LIST_REQUESTS = Operation(
    "requests",
    "List the open requests of sessions; with `all` the newest requests.",
    "GET /v1/requests",
    list[RequestView],
    RequestFilter,
    audience=EVERY_CALLER,
    rules=(SEE, SEE_REQUESTS_OF, ALLOW_ALWAYS),
    command="requests",
    tool="list_requests",
    chat="requests",
    chat_help="list the open requests",
)
ASK = Operation(
    "ask",
    "Ask the parent of the calling session, or the operator.",
    "POST /v1/requests",
    RequestView,
    AskedQuestion,
    audience=REPORT,
    command="ask QUESTION",
    tool="ask",
    fields={"question": {"maxLength": 10_000}, "options": {"maxItems": 20}},
)
SHOW_REQUEST = Operation(
    "request",
    "Show a request.",
    "GET /v1/requests/{ref}",
    RequestView,
    NewsWait,
    audience=SEE_REQUESTS_OF,
)
ANSWER = Operation(
    "answer",
    "Answer a request, or the only open request of a session; the first answer wins.",
    "POST /v1/requests/{ref}/answer",
    RequestView,
    GivenAnswer,
    audience=Audience("answer", "answer requests of", ABOVE),
    rules=(SEE_REQUESTS_OF, ANSWER_SETUP),
    command="answer REQUEST TEXT",
    tool="answer_request",
    chat="answer",
    chat_form="rN TEXT",
    chat_help="answer a question",
    key="t",
    title="Answer with a text",
)
APPROVE = DoorNames(
    command="approve",
    tool="answer_request",
    chat="approve",
    chat_form="rN",
    chat_help="approve a request",
    key="a",
    title="Approve",
)
DENY = DoorNames(
    command="deny",
    tool="answer_request",
    chat="deny",
    chat_form="rN [WHY]",
    chat_help="deny a request",
    key="d",
    title="Deny, with words",
)
SHOW_RULE = Operation(
    "rule",
    "Show the rule that always allows what a request asks for, as `POST` would write it into rules.yaml.",
    "GET /v1/requests/{ref}/rule",
    RuleOfRequestView,
    audience=ALLOW_ALWAYS,
    rules=(SEE_REQUESTS_OF,),
)
ANSWER_ALWAYS = Operation(
    "answer_always",
    "Write the rule that always allows what a request asks for, and answer the open requests that it matches.",
    "POST /v1/requests/{ref}/rule",
    RuleOfRequestView,
    SeenRule,
    audience=ALLOW_ALWAYS,
    rules=(SEE_REQUESTS_OF,),
    command="approve REQUEST --always",
    takes_key=False,
    key="L",
    title="Always allow this",
)
TAKE_ANSWER = Operation(
    "taken",
    "Confirm that the asking session has its answer.",
    "POST /v1/requests/{ref}/taken",
    RequestView,
    audience=REPORT,
    rules=(SEE_REQUESTS_OF,),
    takes_key=False,
    reads_body=False,
)

SEE_REQUESTS = Hint("list requests: ", Use(LIST_REQUESTS))
