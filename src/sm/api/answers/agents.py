"""The JSON object of the progress of a session."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.sessions import PausedView
from sm.api.fields import doc
from sm.core.estimates import Estimate
from sm.core.statuses import Status
from sm.wire_types.agents import CheckpointView
from sm.wire_types.fields import Anything, Time, words
from sm.wire_types.usage import SumsView, TokensView, TreeSumsView

ProgressStatus = Annotated[str, words(["working" if s is Status.RUNNING else s for s in Status])]


class SubagentsView(TypedDict):
    """The part of `tokens` that sub-agents used."""

    tokens: TokensView


class ToolView(TypedDict):
    name: str
    args: Anything
    timestamp: Time
    seconds_ago: int


class TodoView(TypedDict):
    status: Annotated[str, doc("In the agent's words.")]
    text: str


class ProgressView(TypedDict):
    """The progress of a session. A field without a measurement is null."""

    session_id: str
    name: str
    status: Annotated[ProgressStatus, doc("`working` is `running`.")]
    paused: Annotated[PausedView | None, doc("Null: the session is not paused.")]
    elapsed_seconds: int
    tokens_used: Annotated[int | None, doc("The sum of `input` and `output`.")]
    tokens: TokensView | None
    tokens_partial: Annotated[
        bool, doc("True: the tokens of some answers cannot be read, so `tokens` is null.")
    ]
    subagents: SubagentsView | None
    tokens_remaining_estimate: int | None
    completion_percentage: int | None
    cost_usd: Annotated[float | None, doc("Null when the price of a model, or some tokens, are unknown.")]
    minutes: Annotated[float, doc("Minutes of work: running and not paused.")]
    estimate: Annotated[Estimate | None, doc("Null: no evidence, or the session has ended.")]
    prices_as_of: Annotated[str | None, doc("The date of the list prices; null: the provider has none.")]
    tree: Annotated[TreeSumsView | None, doc("Null without `tree` in the query.")]
    own: Annotated[SumsView | None, doc("The session itself; null without `tree` in the query.")]
    permission_mode: Annotated[
        str | None, doc("In which its agent CLI runs now, in the word of that program; null: unknown.")
    ]
    permission_source: Annotated[
        str | None, doc("The setting or the act that decided the mode; null: unknown.")
    ]
    context_tokens: Annotated[int | None, doc("The current size of the conversation.")]
    context_window: Annotated[int | None, doc("The largest possible size of the conversation.")]
    context_percent: int | None
    tools_used: Annotated[dict[str, int], doc("The number of uses by tool name.")]
    total_tools: int
    last_tool: ToolView | None
    current_activity: str | None
    todo: list[TodoView] | None
    checkpoints: list[CheckpointView]
    last_output: Annotated[list[str], doc("The last lines of the terminal.")]
    is_idle: bool
    idle_seconds: int
    is_waiting_input: bool
    is_complete: bool
    completion_status: str | None
    completion_message: str | None
