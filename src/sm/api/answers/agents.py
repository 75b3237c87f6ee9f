"""The JSON objects in the answers of the routes that show the work of agents, and of their types."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.sessions import PausedView, SessionLabel
from sm.api.answers.usage import EstimateView, SumsView, TokensView, TreeSumsView
from sm.api.fields import doc
from sm.core.items import ItemState
from sm.core.observation import Source
from sm.core.statuses import Status
from sm.wire_types.fields import Anything, Time, words

ProgressStatus = Annotated[str, words(["working" if s is Status.RUNNING else s for s in Status])]


class CheckpointView(TypedDict):
    """A milestone, in the words of the session."""

    timestamp: Time
    message: str
    metadata: dict[str, str]


class ReportedCheckpointView(CheckpointView):
    """A milestone that was just reported."""

    warnings: Annotated[list[str], doc("Sentences for people.")]


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
    estimate: Annotated[EstimateView | None, doc("Null: no evidence, or the session has ended.")]
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


class EvidenceView(TypedDict):
    """The report of one source about the status of a session."""

    source: Source
    says: Annotated[str, doc("`busy`, `blocked` or `idle`.")]
    reason: str | None
    at: Annotated[Time, doc("The time of the last report.")]
    since: Annotated[Time, doc("The start of the unbroken series of equal reports.")]
    seen: Annotated[Time, doc("The time of the last confirmation.")]
    believed: bool
    why_not: str | None


class WhyView(TypedDict):
    """The status of a session, and the evidence for it."""

    session_id: str
    name: str
    friendly_name: str | None
    label: SessionLabel
    status: Status
    status_source: str
    status_reason: str
    status_at: Time
    status_stale: bool
    completion_message: str | None
    evidence: Annotated[list[EvidenceView], doc("One entry for each source, the strongest first.")]
    facts: Annotated[list[str], doc("Sentences for people.")]


class ActionView(TypedDict):
    """One prompt, text, tool use or event of an agent."""

    timestamp: Time
    kind: Annotated[str, words(["prompt", "text", "tool", "error", "mark", "event"])]
    text: Annotated[str, doc("One line.")]


class SummaryView(TypedDict):
    """A summary of a session in a few sentences."""

    session_id: str
    summary: str
    made_by: Annotated[str, doc("`claude MODEL`, or `extract`.")]
    reason: Annotated[str | None, doc("Why no model wrote the summary.")]


class OutputView(TypedDict):
    session_id: str
    lines: list[str]
    archived: Annotated[bool, doc("The terminal is closed: these lines were saved before.")]


class AttachView(TypedDict):
    session_id: str
    argv: list[str]


class AgentTypeView(TypedDict):
    """An agent type of the configuration or of a definition file."""

    name: str
    provider: str
    model: str | None
    description: Annotated[str | None, doc("The purpose of the agent type.")]
    tools: list[str] | None
    permission_mode: Annotated[
        str | None,
        doc("Of a new session on this host without a parent; null: the provider has no permission modes."),
    ]
    spawnable: Annotated[
        bool,
        doc("Sessions may start the type with its own permission mode, even where their mode allows less."),
    ]
    origin: Annotated[str, doc("`config`, or the path of the definition file.")]
    problem: Annotated[str | None, doc("Why the type cannot be started.")]
    agreement: Annotated[
        ItemState, doc("The operator's agreement to the file; without it the file is not used.")
    ]
    estimate: Annotated[
        EstimateView | None,
        doc("For a new session, without `--model`. Null: fewer than 5 completed sessions."),
    ]
    shadowed_by: Annotated[str | None, doc("The origin of the type with the same name that is used instead.")]
    warnings: list[str]


class AgentTypesView(TypedDict):
    workspace: Annotated[str | None, doc("The slug of the workspace that was searched.")]
    agents: list[AgentTypeView]
    warnings: Annotated[list[str], doc("Sentences for people.")]
