"""The JSON objects in the answers of the routes of requests."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.states import RequestKind, RequestState
from sm.wire_types.fields import Anything, Time


class QuestionView(TypedDict):
    question: str
    options: list[str]
    multiple: Annotated[bool, doc("Several of the options may be chosen.")]


class AnswerView(TypedDict):
    approved: bool
    answers: list[str]
    message: str | None


class RequestView(TypedDict):
    """A question or a permission that a session waits for."""

    request_id: Annotated[str, doc("", pattern="^r[1-9][0-9]*$")]
    session_id: Annotated[str, doc("The session that asks.")]
    name: Annotated[str | None, doc("The display name of that session.")]
    label: Annotated[str, doc("The session for people; its id if the session was removed.")]
    kind: RequestKind
    tool: Annotated[str | None, doc("Of a permission: the tool; else null.")]
    arguments: Annotated[
        Anything | None,
        doc(
            "Of a permission: the arguments of the tool. Of a setup: `dialog` (`trust` or `bypass`) and `directory`."
        ),
    ]
    agent: Annotated[str | None, doc("The sub-agent that asks; null: the agent itself.")]
    evidence: Annotated[
        str | None,
        doc("`completion`: sm found the request in the last words of a turn; null: the session asked."),
    ]
    cut: Annotated[bool, doc("The arguments were too long: their texts are cut.")]
    questions: list[QuestionView]
    options: Annotated[list[str], doc("The options of the only question.")]
    state: RequestState
    answer: AnswerView | None
    answered_by: Annotated[
        str | None,
        doc(
            "`operator`, a session's id, a user such as `telegram:4711`, `rule` (the configuration), or `terminal` "
            "(a person at the terminal)."
        ),
    ]
    answered_by_label: Annotated[str | None, doc("The same for people: the label of a session.")]
    reason: Annotated[
        str | None, doc("Why the request ended without an answer or is open again; the rule that decided it.")
    ]
    digest: Annotated[str, doc("Of everything that a person decides on. An answer may carry it as `shown`.")]
    confirmed: Annotated[
        bool,
        doc("The answer decided. False: no answer yet, or the agent has not shown that it took the answer."),
    ]
    created_at: Time
    expires_at: Time | None
