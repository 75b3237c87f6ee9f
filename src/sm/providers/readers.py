"""Readers: turn an agent's hooks, published state, transcripts and screen into observations.

A provider fills in the parts of `Readers` that its agents support. Every method is pure and total: paths and contents
go in, their meaning comes out, and no input makes a reader raise, because an agent can write all of it. So each method
may be called at any time, from any thread, and repeated with the same result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sm.core.models import Process
from sm.core.observation import Observation
from sm.core.requests import Question, Request
from sm.core.states import RequestKind
from sm.core.usage import ActionLine, Todo, ToolUse, Usage

FIRST_TURN_S = 30.0
"""How long after its start an agent may publish `idle` before it begins the turn for its prompt."""


@dataclass(frozen=True, slots=True)
class AcceptedInput:
    """A text that the agent accepted as input or keeps in its own queue, in the agent's own words."""

    text: str = field(repr=False)
    """Empty: no text of a message, reported only for its `parent`."""
    at: float
    """Seconds since the epoch."""
    queued: bool = False
    """The text waits in the agent's queue for the end of the turn, or for the next result of a tool."""
    withdrawn: bool = False
    """The text was taken out of that queue again, unread."""
    refused: str | None = None
    """Why a hook of the agent's user kept the text from the model. With an empty `text` the prompt is unknown."""
    kept: bool = False
    """Refused, but still the last prompt of the conversation: the model reads it with the next one."""
    parent: str | None = None
    """The entry of the conversation that this one follows, where the agent names it. Of two entries with the same
    parent, the first was interrupted before its answer began and is no longer part of the conversation.
    """
    hook: str = ""
    """The name of the hook event that reported it; empty: a transcript did."""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A dialog that opens with a hook event, whose answer the hook may return."""

    kind: RequestKind
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    questions: tuple[Question, ...] = ()
    agent: str = ""
    """The sub-agent that asks; empty: the agent itself."""
    cut: bool = False
    """The arguments are incomplete: only yes and no are possible answers."""
    working_dir: str = ""
    """The agent's directory, to which relative paths in the arguments refer; empty: unknown."""
    tool_digest: str = ""
    """A digest of the tool and its arguments, equal to `HookEvent.tool_digest` of the same use."""


@dataclass(frozen=True, slots=True)
class HookEvent:
    """The meaning of one hook event of an agent CLI."""

    name: str
    """The event's own name."""
    observation: Observation | None = None
    conversation: str | None = None
    """The conversation that the event belongs to, where that may have changed."""
    transcript: str | None = None
    model: str | None = None
    ready: bool = False
    """The agent accepts input from now on."""
    started: bool = False
    """A conversation begins or continues in this process: observations of another one are void."""
    ending: str | None = None
    """Why the agent is about to end, in its own word."""
    activity: str | None = None
    """The current activity, in one line."""
    accepted: AcceptedInput | None = None
    tool_started: str | None = None
    """The id of a tool use that begins: a dialog may open as soon as the hook has ended."""
    tool_digest: str = ""
    """A digest of the tool that begins, or that a dialog asks about, and of its arguments."""
    tool_ended: str | None = None
    """The id of a tool use that is over: no dialog asks about it any more."""
    turn_finished: bool = False
    """The agent finished the turn for the input it accepted; False after a turn that failed or was interrupted."""


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """The meaning of some new lines of a transcript, in their order."""

    observations: tuple[Observation, ...] = ()
    usage: tuple[Usage, ...] = ()
    """By message id; a later one of the same id replaces it when it has more output."""
    tools: tuple[ToolUse, ...] = ()
    todo: tuple[Todo, ...] = ()
    """The agent's list after these lines."""
    context_tokens: int | None = None
    """Tokens that the conversation holds after these lines; None: the lines do not tell."""
    accepted: tuple[AcceptedInput, ...] = ()
    turn_finished: float | None = None
    """When the last turn was finished, in seconds since the epoch (as `HookEvent.turn_finished`)."""
    tools_ended: Mapping[str, bool] = field(default_factory=dict)
    """The tool uses that have a result, by id; False: a person refused the use."""


@dataclass(frozen=True, slots=True)
class StartProblem:
    """Why an agent does not start, and what to type."""

    message: str
    hint: str


class HookReader(Protocol):
    """Reads the events that an agent CLI sends through `sm hook`, and writes the answers that its hooks return."""

    ending_event: str
    """The name of the event with which the agent reports that it ends."""

    def event(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
        """The meaning of an event emitted at `at` (seconds since the epoch).

        `expects_turn`: the process was started with a prompt and has not begun a turn yet. An event without a known
        meaning is a `HookEvent` with a name only.
        """

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        """The dialog that opens with this event; None: no dialog. `cut`: a part of the event was left out."""

    def plan(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """The plan that the agent wants to begin, if the dialog of this tool asks for that; else None."""

    def decision(self, request: Request, by: str) -> str | None:
        """The output of the hook that waits for `request`, which hands the answer to the agent.

        `by`: who answered, in words. None: the hook cannot return this answer, or there is no answer yet.
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
        """Where a transcript is expected until a hook names it. `working_dir`: its real path, without links."""

    def delta(self, lines: Sequence[bytes], *, sidechain: bool, todo: Sequence[Todo]) -> TranscriptDelta:
        """The meaning of whole lines. `sidechain`: of a sub-agent's transcript; `todo`: the list before them."""

    def actions(self, lines: Sequence[bytes], count: int, working_dir: str) -> Sequence[ActionLine]:
        """The last `count` actions in these lines for a person to read, oldest first."""


class ScreenReader(Protocol):
    """Reads the title and the visible lines of an agent's terminal."""

    def title(self, glyph: str, at: float) -> Observation | None:
        """The state that the first character of the title shows at `at`; None: none."""

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        """The state that the visible lines show at `at`; None: the lines show nothing known."""

    def start_problem(self, lines: Sequence[str], working_dir: str) -> StartProblem | None:
        """What keeps the running agent from starting in `working_dir`; None: the lines show no such thing.

        To be asked before the agent has said that it is ready. The end of a process is for `Provider.read_exit`.
        """


@dataclass(frozen=True, slots=True)
class Readers:
    """How the agents of one provider are observed; None: its agents offer no such source."""

    hooks: HookReader | None = None
    state: StateReader | None = None
    transcripts: TranscriptReader | None = None
    screen: ScreenReader | None = None
