"""The JSON objects of answers, as types: mypy checks the handlers against them, and docs/openapi.json shows them."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import Anything, Time, doc, schema, words
from sm.core.attention import Attention, TaskKind
from sm.core.items import ItemKind, ItemState
from sm.core.observation import Source
from sm.core.states import EventType, MessageMode, MessageState, Mode, RequestKind, RequestState, TrustLevel
from sm.core.statuses import Status
from sm.errors import BY_CODE

Name = Annotated[str, schema("string", pattern="^[A-Za-z0-9_.-]{1,64}$")]
Names = Literal["all"] | Annotated[list[Name], Field(max_length=200)]
ProgressStatus = Annotated[str, words(["working" if s is Status.RUNNING else s for s in Status])]
ErrorCode = Annotated[str, words(sorted(BY_CODE))]


class WorktreeView(TypedDict):
    """A git worktree that the client made for a session and removes again."""

    path: str
    branch: str | None


class SessionView(TypedDict):
    """One agent, alive or ended."""

    session_id: Annotated[str, doc("8 hexadecimal digits.", pattern="^[0-9a-f]{8}$")]
    name: Annotated[str, doc("`TYPE-ID`. It never changes.")]
    friendly_name: Annotated[str | None, doc("`TYPE-NAME`, unique among live sessions.")]
    title: Annotated[str | None, doc("One line for people.")]
    agent_type: str
    provider: Annotated[str, doc("The driver of the agent: `command` or `claude`.")]
    model: str | None
    status: Status
    status_source: Annotated[str, doc("The source of the status.")]
    status_reason: Annotated[str, doc("The reason for the status, for people.")]
    status_at: Time
    status_stale: Annotated[bool, doc("True while no source confirms the status.")]
    mode: Annotated[Mode, doc("Who decides that the session is finished.")]
    parent_session_id: Annotated[str | None, doc("Null: the operator is the parent.")]
    created_by: Annotated[str, doc("`operator`, or the session that spawned this one.")]
    working_dir: str
    workspace: Annotated[str | None, doc("A slug.")]
    trust_level: Annotated[TrustLevel, doc("The requested trust level.")]
    effective_mode: Annotated[TrustLevel, doc("The trust level in force. Every rule reads this one.")]
    tmux_session: str
    pid: int | None
    exit_code: int | None
    exit_signal: int | None
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    completion_status: Annotated[str | None, doc("The result that the session reported.")]
    completion_message: str | None
    note: Annotated[str | None, doc("The activity that the session reported last.")]
    last_activity_at: Time
    archived: bool
    worktree: WorktreeView | None
    children: Annotated["list[SessionView]", doc("Filled only with `recursive`.")]


class OverviewView(SessionView):
    """A session with its current task and its usage."""

    attention: Annotated[Attention, doc("`waiting`: for a word of a person or of the parent.")]
    task: Annotated[str, doc("What the session does or waits for; never empty.")]
    task_kind: Annotated[TaskKind, doc("The source of `task`.")]
    requests: Annotated[list[str], doc("The open requests that the caller may see, such as `r57`.")]
    context_percent: Annotated[int | None, doc("The used part of the context window.")]
    cost_usd: float | None


class StartedView(SessionView):
    """A session with warnings about its start or its end."""

    warnings: Annotated[list[str], doc("Sentences for people.")]


class SessionWithOutput(SessionView):
    """A session; an ended one with the last lines of its terminal."""

    last_output: NotRequired[
        Annotated[list[str], doc("Only of an ended session, and only for callers that may read the session.")]
    ]


class FailureView(TypedDict):
    """A session that could not be restored, and the reason."""

    session_id: str
    code: str
    message: str
    hint: str | None


class KilledView(SessionView):
    """A killed session, and every session that was killed with it."""

    killed: Annotated[list[str], doc("The ids of all killed sessions.")]
    killed_too: Annotated[list[SessionView], doc("The killed descendants.")]


class RestoredView(SessionView):
    """A restored session, and every session that was restored with it."""

    restored: Annotated[list[str], doc("The ids of all restored sessions.")]
    restored_too: Annotated[list[SessionView], doc("The restored descendants.")]
    continued: Annotated[list[str], doc("The ids of the sessions that were told to go on with their turn.")]
    failed: list[FailureView]


class AllRestoredView(TypedDict):
    restored: list[SessionView]
    continued: Annotated[list[str], doc("As in RestoredView.")]
    failed: list[FailureView]


class InterruptedView(SessionView):
    """A session after an interrupt."""

    interrupted: Annotated[
        bool | None,
        doc("False: the agent still works; null: unknown, because the agent has no turns or was suspended."),
    ]
    continued: Annotated[bool, doc("The agent was suspended, and works again. No key was pressed.")]


class RemovedView(TypedDict):
    """A removed session, and facts for the removal of its worktree."""

    removed: str
    effective_mode: TrustLevel | None
    worktree: WorktreeView | None
    used: Annotated[bool, doc("Another session works in the worktree.")]
    sandboxed: Annotated[bool, doc("A sandboxed session may have changed programs that git runs in it.")]


class EventView(TypedDict):
    """A recorded fact about a session."""

    seq: Annotated[int, doc("Rises without gaps.")]
    type: EventType
    session_id: str
    parent_session_id: str | None
    timestamp: Time
    message: Annotated[str, doc("A sentence for people.")]
    metadata: Anything


class EventsView(TypedDict):
    events: list[EventView]
    last_seq: int


class CheckpointView(TypedDict):
    """A milestone, in the words of the session."""

    timestamp: Time
    message: str
    metadata: dict[str, str]


_Sender = TypedDict("_Sender", {"from": Annotated[str, doc("`operator`, `sm`, or the id of a session.")]})


class MessageView(_Sender):
    """A message to a session, without its text."""

    message_id: Annotated[int | None, doc("Null: the text answered a question.")]
    session_id: Annotated[str | None, doc("The recipient; null: the operator's inbox.")]
    status: MessageState
    mode: MessageMode
    evidence: Annotated[str | None, doc("The proof of delivery.")]
    reason: Annotated[str | None, doc("Why the message is not delivered, or not yet.")]
    created_at: Time
    submitted_at: Annotated[Time | None, doc("When the recipient confirmed the message.")]
    acknowledged_at: Time | None
    expires_at: Time | None


class SentView(MessageView):
    """A sent message."""

    request_id: NotRequired[Annotated[str, doc("The question that the text answered.")]]


class LoggedView(MessageView):
    """A message of the log."""

    text: Annotated[str, doc("The first 2,000 characters.")]


class LetterView(MessageView):
    """A message with its text."""

    text: str
    shown: Annotated[str, doc("The text under the header that only the daemon writes.")]


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
    kind: RequestKind
    tool: Annotated[str | None, doc("Of a permission: the tool.")]
    arguments: Annotated[Anything | None, doc("Of a permission: the arguments of the tool.")]
    agent: Annotated[str | None, doc("The sub-agent that asks; null: the agent itself.")]
    cut: Annotated[bool, doc("The arguments were too long: their texts are cut.")]
    questions: list[QuestionView]
    options: Annotated[list[str], doc("The options of the only question.")]
    state: RequestState
    answer: AnswerView | None
    answered_by: Annotated[
        str | None,
        doc(
            "`operator`, a session's id, `rule` (the configuration), or `terminal` (a person at the terminal)."
        ),
    ]
    reason: Annotated[str | None, doc("Why the request ended without an answer; the rule that decided it.")]
    confirmed: Annotated[
        bool,
        doc("The answer decided. False: no answer yet, or the agent has not shown that it took the answer."),
    ]
    created_at: Time
    expires_at: Time | None


class TokensView(TypedDict):
    """Tokens by kind. Each token counts in exactly one field."""

    input: int
    output: int
    cache_read: int
    cache_write: int


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
    elapsed_seconds: int
    tokens_used: Annotated[int | None, doc("The sum of `input` and `output`.")]
    tokens: TokensView | None
    subagents: SubagentsView | None
    tokens_remaining_estimate: int | None
    completion_percentage: int | None
    cost_usd: Annotated[float | None, doc("Null when the price of a model is unknown.")]
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
    spawnable: Annotated[
        bool,
        doc("Sessions may start the type with its own permission mode, even where their mode allows less."),
    ]
    origin: Annotated[str, doc("`config`, or the path of the definition file.")]
    problem: Annotated[str | None, doc("Why the type cannot be started.")]
    agreement: Annotated[
        ItemState, doc("The operator's agreement to the file; without it the file is not used.")
    ]
    shadowed_by: Annotated[str | None, doc("The origin of the type with the same name that is used instead.")]
    warnings: list[str]


class AgentTypesView(TypedDict):
    workspace: Annotated[str | None, doc("The slug of the workspace that was searched.")]
    agents: list[AgentTypeView]
    warnings: Annotated[list[str], doc("Sentences for people.")]


class CapabilitiesView(TypedDict):
    mcps: Names
    skills: Names
    agents: Names


class WorkspaceView(TypedDict):
    """A team of sessions. Its members find, start and write to one another, and no other session does."""

    slug: str
    working_dir: str
    trust_level: Annotated[TrustLevel | None, doc("Null: the level of the configuration.")]
    capabilities: CapabilitiesView
    strict_mcps: Annotated[
        bool, doc("Sessions of the workspace get only the MCP servers that sm gives them.")
    ]
    sandbox: Annotated[Anything, doc("The differences to `sandbox:` in the configuration.")]
    created_at: Time
    deleted_at: Annotated[
        Time | None, doc("Sessions of a deleted workspace stay readable; no session starts in it.")
    ]
    sessions: Annotated[int, doc("The number of sessions, ended ones included.")]
    live: Annotated[int, doc("The number of live sessions.")]


class ProjectItemView(TypedDict):
    """A part of a file in a workspace's directory that sessions get only if the operator agreed to it."""

    id: Annotated[str, doc("Identifies the item with its present content.")]
    kind: ItemKind
    name: str
    file: str
    state: Annotated[ItemState, doc("`changed`: the operator agreed to an earlier content.")]
    content: Annotated[str, doc("For people; cut after 10,000 characters.")]


class ShownWorkspaceView(WorkspaceView):
    """A workspace with the items of its files."""

    items: Annotated[list[ProjectItemView], doc("At most 200, those without an agreement first.")]
    warnings: Annotated[list[str], doc("The files that could not be read.")]


class ChangedWorkspaceView(WorkspaceView):
    """A workspace after a change."""

    warnings: list[str]


class DaemonView(TypedDict):
    """The process of the daemon."""

    pid: int
    version: str
    uptime_s: float


class HealthView(DaemonView):
    """The daemon, and its socket."""

    socket: str
    sessions: Annotated[int, doc("The number of live sessions.")]


class StatusOverview(TypedDict):
    """An overview in numbers."""

    daemon: DaemonView
    sessions: Annotated[dict[str, int], doc("The number of sessions by status.")]
    orphans: Annotated[int, doc("Live sessions whose parent's process has ended.")]
    dead_letters: Annotated[int, doc("Abandoned effects and undelivered messages.")]
    requests_open: int
    inbox: Annotated[int, doc("The number of messages that wait for the caller.")]
    inbox_lines: Annotated[list[str], doc("The first lines of these messages.")]
    trouble: Annotated[list[str], doc("Current failures of the daemon.")]


class StoppedView(TypedDict):
    killed: list[str]


class WaitView(TypedDict):
    reached: Annotated[bool | None, doc("False: the status can no longer be reached; null: not yet.")]
    sessions: list[SessionView]


class EmptyView(TypedDict):
    """No fields."""


class ErrorBody(TypedDict):
    code: ErrorCode
    message: Annotated[str, doc("The failure.")]
    hint: Annotated[str | None, doc("The command to type next.")]
    retry_after_s: NotRequired[
        Annotated[float, doc("With `rate_limited`: the seconds to wait before the next try.")]
    ]
    directory: NotRequired[
        Annotated[str, doc("With `directory_not_trusted`: the absolute path of the directory.")]
    ]


class ErrorView(TypedDict):
    """The body of every answer that is not a success."""

    error: ErrorBody
