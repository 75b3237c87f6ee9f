"""The JSON objects in the answers of the routes that show the work of agents, and of their types."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.estimates import Estimate
from sm.core.items import ItemState
from sm.core.observation import Source
from sm.core.statuses import Status
from sm.wire_types.fields import Anything, SessionLabel, Time, words
from sm.wire_types.request_answers import WrittenRuleView
from sm.wire_types.session_answers import PausedView
from sm.wire_types.usage_answers import SumsView, TokensView, TreeSumsView

ProgressStatus = Annotated[str, words(["working" if s is Status.RUNNING else s for s in Status])]


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A milestone, in the words of the session."""

    timestamp: Time
    message: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReportedCheckpointView(CheckpointView):
    """A milestone that was just reported."""

    warnings: list[str]
    """Sentences for people."""


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """The report of one source about the status of a session."""

    source: Source
    says: str
    """`busy`, `blocked` or `idle`."""
    reason: str | None
    at: Time
    """The time of the last report."""
    since: Time
    """The start of the unbroken series of equal reports."""
    seen: Time
    """The time of the last confirmation."""
    believed: bool
    why_not: str | None


@dataclass(frozen=True, slots=True)
class WhyView:
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
    evidence: list[EvidenceView]
    """One entry for each source, the strongest first."""
    facts: list[str]
    """Sentences for people."""


@dataclass(frozen=True, slots=True)
class ActionView:
    """One prompt, text, tool use or event of an agent."""

    timestamp: Time
    kind: Annotated[str, words(["prompt", "text", "tool", "error", "mark", "event"])]
    text: str
    """One line: `TYPE: MESSAGE` for an event, `NAME: ARGUMENTS` for a tool."""


@dataclass(frozen=True, slots=True)
class SummaryView:
    """A summary of a session in a few sentences."""

    session_id: str
    summary: str
    made_by: str
    """`claude MODEL`, or `extract`."""
    reason: str | None
    """Why no model wrote the summary."""


@dataclass(frozen=True, slots=True)
class OutputView:
    session_id: str
    lines: list[str]
    archived: bool
    """The terminal is closed: these lines were saved before."""


@dataclass(frozen=True, slots=True)
class AttachView:
    session_id: str
    argv: list[str]


@dataclass(frozen=True, slots=True)
class AgentTypeView:
    """An agent type of the configuration or of a definition file."""

    name: str
    provider: str
    model: str | None
    description: str | None
    """The purpose of the agent type."""
    tools: list[str] | None
    permission_mode: str | None
    """Of a new session on this host without a parent, or null if the provider has no permission modes."""
    spawnable: bool
    """Sessions may start the type with its own permission mode, even where their mode allows less."""
    origin: str
    """`config`, or the path of the definition file."""
    problem: str | None
    """Why the type cannot be started."""
    agreement: ItemState
    """The operator's agreement to the file; without it the file is not used."""
    estimate: Estimate | None
    """For a new session, without `--model`. Null with fewer than 5 completed sessions."""
    shadowed_by: str | None
    """The origin of the type with the same name that is used instead."""
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class AgentTypesView:
    workspace: str | None
    """The slug of the workspace that was searched."""
    agents: list[AgentTypeView]
    rules: list[WrittenRuleView]
    """The rules of rules.yaml that apply to these types, oldest first. Empty for a session."""
    warnings: list[str]
    """Sentences for people."""


@dataclass(frozen=True, slots=True)
class SubagentsView:
    """The part of `tokens` that sub-agents used."""

    tokens: TokensView


@dataclass(frozen=True, slots=True)
class ToolView:
    name: str
    args: Anything
    timestamp: Time
    seconds_ago: int


@dataclass(frozen=True, slots=True)
class TodoView:
    status: str
    """In the agent's words."""
    text: str


@dataclass(frozen=True, slots=True)
class ProgressView:
    """The progress of a session. A field without a measurement is null."""

    session_id: str
    name: str
    status: ProgressStatus
    """`working` is `running`."""
    paused: PausedView | None
    """Null if the session is not paused."""
    elapsed_seconds: int
    tokens_used: int | None
    """The sum of `input` and `output`."""
    tokens: TokensView | None
    tokens_partial: bool
    """True if the tokens of some answers cannot be read, so that `tokens` is null."""
    subagents: SubagentsView | None
    tokens_remaining_estimate: int | None
    completion_percentage: int | None
    cost_usd: float | None
    """Null when the price of a model, or some tokens, are unknown."""
    minutes: float
    """Minutes of work: running and not paused."""
    estimate: Estimate | None
    """Null without evidence, or if the session has ended."""
    prices_as_of: str | None
    """The date of the list prices, or null if the provider has none."""
    tree: TreeSumsView | None
    """Null without `tree` in the query."""
    own: SumsView | None
    """The session itself; null without `tree` in the query."""
    permission_mode: str | None
    """The mode in which its agent CLI runs now, in the word of that program, or null if unknown."""
    permission_source: str | None
    """The setting or the act that decided the mode, or null if unknown."""
    context_tokens: int | None
    """The current size of the conversation."""
    context_window: int | None
    """The largest possible size of the conversation."""
    context_percent: int | None
    tools_used: dict[str, int]
    """The number of uses by tool name."""
    total_tools: int
    last_tool: ToolView | None
    current_activity: str | None
    todo: list[TodoView] | None
    checkpoints: list[CheckpointView]
    last_output: list[str]
    """The last lines of the terminal."""
    is_idle: bool
    idle_seconds: int
    is_waiting_input: bool
    is_complete: bool
    completion_status: str | None
    completion_message: str | None
