"""Interfaces that turn hooks, published state, transcripts and screens of agents into observations.

A provider fills the parts of `Readers` that its agents support. Every method is pure, thread-safe, and never raises,
because agents can write the input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Protocol

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.core.observation import Observation
from sm.core.requests import Question, Request
from sm.core.states import RequestKind
from sm.core.tool_calls import CallItem
from sm.core.turns import TurnWork
from sm.core.usage import ActionLine, SaidText, Todo, ToolUse, Usage

FIRST_TURN_S = 30.0
"""Time after its start for which an agent may report `idle` before the turn of its prompt begins."""

CONFIRM_KEY = "Enter"
"""The key that confirms the selected option of a `SetupDialog`."""

_NO_WORK = TurnWork()

ANSWER_MAX = 500
"""Characters of an agent's last words that are kept."""


@dataclass(frozen=True, slots=True)
class AcceptedInput:
    """A text that the agent reports as accepted input or as queued."""

    text: str = field(repr=False)
    """Empty if it is not the text of a message, and is reported only for `parent`."""
    at: float
    """Seconds since the epoch."""
    queued: bool = False
    """The text waits in the agent's queue for the end of the turn, or for the next result of a tool."""
    withdrawn: bool = False
    """The text was taken out of that queue again, unread."""
    refused: str | None = None
    """The reason of a user's hook that withheld the text from the model. With an empty `text` the prompt is unknown."""
    kept: bool = False
    """Refused, but still the last prompt of the conversation: the model reads the text with the next prompt."""
    parent: str | None = None
    """The preceding entry of the conversation, if reported. Of two entries with the same parent, the first was
    interrupted before its answer began and is no longer part of the conversation.
    """
    hook: str = ""
    """The name of the reporting hook event, or empty if a transcript reported it."""
    pasted: bool = False
    """The agent CLI marked a part of the text as pasted, so white space at the ends of that part is not exact."""
    command: bool = False
    """The text is a command to the agent CLI itself (`Provider.input_command`)."""


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """The end of a tool use: no dialog asks about the use any more."""

    tool_use: str
    """The agent CLI's id of the use."""
    allowed: bool | None
    """True if the tool ran, False if the use was refused or the running tool was interrupted, None if unknown."""
    at: float | None
    """Seconds since the epoch, or None if unknown."""
    answers: tuple[str, ...] = ()
    """The answers that the agent got to the questions of this use, as in `Answer.answers`, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A dialog that opens with a hook event. The hook may return its answer."""

    kind: RequestKind
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    questions: tuple[Question, ...] = ()
    agent: str = ""
    """The sub-agent that asks, or empty for the agent itself."""
    cut: bool = False
    """The arguments are incomplete: only yes and no are possible answers."""
    working_dir: str = ""
    """The agent's directory, to which relative paths in the arguments refer, or empty if unknown."""
    tool_digest: str = ""
    """A digest of the tool and its arguments, equal to `HookEvent.tool_digest` of the same use."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """The meaning of one hook event of an agent CLI."""

    name: str
    """The event's own name."""
    observation: Observation | None = None
    conversation: str | None = None
    """The conversation of the event, if it may have changed."""
    transcript: str | None = None
    model: str | None = None
    ready: bool = False
    """The agent accepts input from now on."""
    started: bool = False
    """A conversation begins or continues in this process: observations of another one are void."""
    ending: str | None = None
    """The agent's own word for why it is about to end."""
    activity: str | None = None
    """The current activity, in one line."""
    accepted: AcceptedInput | None = None
    tool_started: str | None = None
    """The id of a tool use that begins: a dialog may open as soon as the hook has ended."""
    tool_digest: str = ""
    """A digest of the tool that begins, or that a dialog asks about, and of its arguments."""
    tool_ended: str | None = None
    """The id of a tool use that is over, because the tool ran: no dialog asks about it any more."""
    answers: tuple[str, ...] = field(default=(), repr=False)
    """As `ToolEnd.answers`."""
    tool_failed: bool | None = None
    """True if a tool use of the agent itself failed or was denied, False if it succeeded, None if none has ended."""
    task: str | None = field(default=None, repr=False)
    """The task that the prompt of this event gives (`core.task_text`)."""
    sub_agents: int | None = None
    """At the end of a turn: the number of sub-agents that go on in the background."""
    sub_agent_ended: str = ""
    """The id of a sub-agent that has ended."""
    permission_mode: str = ""
    """The permission mode of the agent itself, as it is shown to people, or empty if the event names none."""
    peer: str | None = None
    """The name of another agent whose message, which did not go through sm, begins this turn. Empty without a name."""
    denial: str = ""
    """A tool use that the agent's permission mode denied without asking a person, and the reason, in one line."""
    turn_finished: bool = False
    """The agent finished the turn for the input it accepted; False after a turn that failed or was interrupted."""


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """The meaning of some new lines of a transcript, in their order."""

    observations: tuple[Observation, ...] = ()
    usage: tuple[Usage, ...] = ()
    """By message id. A later entry with the same id replaces the earlier one if it has more output."""
    tools: tuple[ToolUse, ...] = ()
    todo: tuple[Todo, ...] = ()
    """The agent's list after these lines."""
    context_tokens: int | None = None
    """Tokens of the conversation after these lines, or None if unknown."""
    accepted: tuple[AcceptedInput, ...] = ()
    failed: bool = False
    """After these lines, the end of a failed turn is still to be read: it is no success."""
    turn_finished: float | None = None
    """Time at which the last turn finished, in seconds since the epoch (see `HookEvent.turn_finished`)."""
    answer: str | None = None
    """The agent's last words in these lines, in one line, or None without any."""
    said: tuple[SaidText, ...] = ()
    """The agent's texts and tool uses, for the search."""
    tools_ended: tuple[ToolEnd, ...] = ()
    """The tool uses that have a result or were refused, in order. A use may occur twice."""
    calls: tuple[CallItem, ...] = ()
    """The starts and ends of tool calls of the agent itself, and the ends of turns, in order."""
    work: TurnWork = _NO_WORK
    """The agent's work in its last turn after these lines."""
    version: str = ""
    """The version of the program that wrote the last answer, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """An entry of a conversation, as its transcript names it."""

    id: str
    follows: str | None
    """The id of the entry before it, or None if the conversation begins with it."""
    at: str
    """ISO 8601, or empty if unknown."""


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The last turn of a conversation, which the agent has finished."""

    observation: Observation
    """The end of the turn, with the final message as its answer."""
    answered_at: float
    """The time of the agent's last words or tool use in the turn, in seconds since the epoch: before each report of
    the end."""
    tools_used: int
    """Uses of tools in the part of the turn that was read."""


@dataclass(frozen=True, slots=True)
class StartProblem:
    """The reason why an agent does not start, and the command to type."""

    message: str
    hint: str


class SetupQuestion(StrEnum):
    """The subject of a first-start dialog that the operator can answer with `sm`. Stored in requests."""

    TRUST = "trust"
    """Trust in the working directory."""
    BYPASS = "bypass"
    """Permission to bypass permissions."""


@dataclass(frozen=True, slots=True)
class SetupDialog:
    """A first-start dialog on the screen: a list of options, of which one is selected."""

    question: SetupQuestion
    text: str
    """The question, for the operator."""
    key: str
    """The key (tmux(1), send-keys) that moves the selection towards the option that approves, or confirms it."""

    @property
    def confirms(self) -> bool:
        """`key` approves: the option is selected."""
        return self.key == CONFIRM_KEY


class HookReader(Protocol):
    """Reads the events that an agent CLI sends through `sm hook`, and writes the answers that its hooks return."""

    ending_event: str
    """The name of the event with which the agent reports that it ends."""

    def event(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
        """Interpret an event emitted at `at` (seconds since the epoch).

        `expects_turn`: the process was started with a prompt and has not begun a turn yet. An unknown
        event gives a `HookEvent` with only a name.
        """

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        """The dialog that opens with this event, or None for no dialog. `cut`: a part of the event was left out."""

    def plan(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The plan for which the agent requests approval with this tool, or None if the tool does not."""

    def decision(self, request: Request, by: str) -> str | None:
        """The hook output that passes the answer of `request` to the agent.

        `by`: the name of the answerer. None if the hook cannot return this answer, or there is no answer yet.
        """


class StateReader(Protocol):
    """Reads the state that an agent CLI publishes in a file for each of its processes."""

    def path(self, environment: Mapping[str, str], pid: int) -> str:
        """The file of the process `pid`, absolute. `environment`: the environment of that process."""

    def state(self, content: bytes, process: Process) -> Observation | None:
        """The published state; None when the file does not belong to this process or has an unknown form."""

    def conversation(self, content: bytes, process: Process) -> str | None:
        """The conversation that the file names; None as for `state`, or when the file names none."""


class TranscriptReader(Protocol):
    """Reads the conversations that an agent CLI writes to files, and finds those files."""

    def root(self, environment: Mapping[str, str]) -> str:
        """The directory below which all transcripts lie, absolute; `sm` reads none outside of it."""

    def path(self, environment: Mapping[str, str], working_dir: str, conversation: str) -> str:
        """The expected path of a transcript until a hook reports one. `working_dir`: without links."""

    def delta(
        self,
        lines: Sequence[bytes],
        *,
        sidechain: bool,
        todo: Sequence[Todo],
        failed: bool = False,
        work: TurnWork = _NO_WORK,
    ) -> TranscriptDelta:
        """Interpret complete lines. `sidechain`: of a sub-agent's transcript.

        `todo`, `failed`, `work`: the list, `TranscriptDelta.failed` and `TranscriptDelta.work` before these lines.
        """

    def entries(self, lines: Sequence[bytes]) -> Sequence[TranscriptEntry]:
        """The entries of the conversation in these lines, in their order."""

    def last_turn(self, lines: Sequence[bytes]) -> LastTurn | None:
        """The last turn in these lines, the end of a transcript.

        None if the turn is under way, failed, was interrupted, or left background agents at work.
        """

    def actions(self, lines: Sequence[bytes], count: int, working_dir: str) -> Sequence[ActionLine]:
        """The last `count` actions in these lines for a person to read, oldest first."""


class ScreenReader(Protocol):
    """Reads the title and the visible lines of an agent's terminal."""

    def title(self, glyph: str, at: float) -> Observation | None:
        """The state that the first character of the title shows at `at`, or None for no state."""

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        """The state that the visible lines show at `at`, or None if the lines show nothing known."""

    def output(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines without the parts that the agent CLI draws for its user, such as an input box."""

    def start_problem(self, lines: Sequence[str], working_dir: str) -> StartProblem | None:
        """The problem that keeps a running agent from starting in `working_dir`, or None for no known problem.

        Call only before the agent reported ready. For an ended process use `Provider.read_exit`.
        """

    def limit_dialog(self, lines: Sequence[str]) -> bool:
        """True if these visible lines end with the dialog that the agent CLI opens by itself at its usage limit.

        Escape closes that dialog and changes nothing else. Any other key may choose an option that costs money.
        """

    def setup_dialog(self, lines: Sequence[str], directory: str) -> SetupDialog | None:
        """The first-start dialog in these visible lines that `sm` can answer, or None for no such dialog.

        `directory`: the working directory, without links. Call only before the agent reported ready: later it could
        imitate the dialog.
        """


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one provider, with None for a source that its agents do not offer."""

    hooks: HookReader | None = None
    state: StateReader | None = None
    transcripts: TranscriptReader | None = None
    screen: ScreenReader | None = None
