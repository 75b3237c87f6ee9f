"""The JSON objects in the answers of the routes of requests."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.states import RequestKind, RequestState
from sm.wire_types.fields import Anything, Time, narrowed


@dataclass(frozen=True, slots=True)
class QuestionView:
    question: str
    options: list[str]
    multiple: bool
    """Several of the options may be chosen."""


@dataclass(frozen=True, slots=True)
class AnswerView:
    approved: bool
    answers: list[str]
    message: str | None


@dataclass(frozen=True, slots=True)
class RequestView:
    """A question or a permission that a session waits for."""

    request_id: Annotated[str, narrowed("string", pattern="^r[1-9][0-9]*$")]
    session_id: str
    """The session that asks."""
    name: str | None
    """The display name of that session."""
    label: str
    """The session for people; its id if the session was removed."""
    kind: RequestKind
    tool: str | None
    """Of a permission: the tool; else null."""
    arguments: Anything | None
    """Of a permission: the arguments of the tool. Of a setup: `dialog` (`trust` or `bypass`) and
    `directory`."""
    agent: str | None
    """The sub-agent that asks, or null for the agent itself."""
    evidence: str | None
    """`completion` if sm found the request in the last words of a turn, null if the session asked."""
    cut: bool
    """The arguments were too long: their texts are cut."""
    questions: list[QuestionView]
    options: list[str]
    """The options of the only question. Of a permission: the decisions that the agent offers beside yes and no."""
    state: RequestState
    answer: AnswerView | None
    answered_by: str | None
    """`operator`, a session's id, a user such as `telegram:4711`, `rule` (the configuration), or `terminal`
    (a person at the terminal)."""
    answered_by_label: str | None
    """The same for people: the label of a session."""
    reason: str | None
    """Why the request ended without an answer or is open again; the rule that decided it."""
    digest: str
    """Of everything that a person decides on. An answer may carry it as `shown`."""
    confirmed: bool
    """The answer decided. False if there is no answer yet, or the agent has not shown that it took the answer."""
    created_at: Time
    expires_at: Time | None
    always: str | None
    """The line that `POST /v1/requests/{ref}/rule` would write. Null if no rule can say exactly what the request asks
    for, outside of lists, and for callers who may not write rules."""


@dataclass(frozen=True, slots=True)
class WrittenRuleView:
    """A rule of rules.yaml."""

    agent_type: str
    allow: str
    """The rule, as in `auto_allow`."""
    sandboxed: bool
    """True for a rule that only sandboxed sessions have."""
    line: str
    """Its line in the file."""
    origin: str
    """The file and the number of the line, such as `/home/ann/.config/sm/rules.yaml:2`. The file alone for a rule that
    is not written."""


@dataclass(frozen=True, slots=True)
class RuleOfRequestView:
    """The rule that always allows what a request asks for."""

    request_id: str
    rule: WrittenRuleView
    sentence: str
    """The effect of the rule, for people."""
    answers: list[str]
    """The open requests that the rule answers at once. After a `POST`: those whose agents took the answer."""
