"""Providers: what an agent CLI is started with, says, and means."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from sm.config import AgentConfig
from sm.core.messages import Question, Request, RequestKind
from sm.core.models import Exit, Process, Session, Signal, SpawnRequest
from sm.core.observation import Observation
from sm.core.usage import ActionLine, Todo, ToolUse, Usage


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an agent CLI finds MCP servers and skills by itself: absolute paths."""

    user_mcps: str
    """The file of the user's own servers: `mcpServers`, and those for one project under `projects`."""
    project_mcps: Mapping[str, str]
    """The file of servers in each directory around."""
    skills: tuple[str, ...]
    """Directories in which each entry is a skill."""
    commands: tuple[str, ...]
    """Directories in which, and below which, each `*.md` is one."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a session is given of those, and what its agent CLI has to be told to leave alone (`capabilities`)."""

    mcp_file: str | None = None
    """The session's own file of MCP servers, absolute; None: none are given."""
    strict_mcps: bool = False
    """It uses no servers but those."""
    mcps_off: tuple[str, ...] = ()
    """Servers of project files that it neither starts as they stand there nor asks a person about."""
    skills: bool = True
    """Whether it may use any."""
    skills_off: tuple[str, ...] = ()
    own_skills: bool = True
    """Whether those that come with the agent CLI stay."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a provider is told of the session that it plans a process for."""

    session: Session
    """As it will be: with its id, names, parent, trust, directory."""
    sm: str
    """The absolute path of the `sm` command that agents find."""
    environment: Mapping[str, str] = field(repr=False)
    """What the session inherits, before the configuration and `SM_*`."""
    parent: str | None = None
    """How people call its parent; None: the operator."""
    prompt_file: str = ""
    """The absolute path at which AgentPlan.prompt_file will lie."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    """What its agent type says, wherever that is defined; nothing, for a command and for a type that is no more."""
    agent_types: Mapping[str, str | None] = field(default_factory=dict)
    """Those that it may spawn itself, each with what it is for."""
    given: Given = Given()
    """The MCP servers and skills that it is given."""
    at_most: tuple[str, ...] | None = None
    """The flags of its parent, where it may have no more permissions than that one has; None: any."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How to start one agent. `environment` is what the configuration adds, before `SM_*`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed_prompt: str | None = field(default=None, repr=False)
    prompt_file: str | None = field(default=None, repr=False)
    flags: tuple[str, ...] = ()
    """The program and the options that every later process of this session is started with too."""
    model: str | None = None
    conversation: str | None = None
    """The agent CLI's own id of what is said and done in the session."""
    warnings: tuple[str, ...] = ()


class Input(StrEnum):
    """How an agent gets messages."""

    INBOX = "inbox"
    """It asks for them (`sm inbox --take`)."""
    TTY = "tty"
    """Each is typed into its terminal as one line."""
    COMPOSER = "composer"
    """Each is pasted into the input box that its terminal shows (`Composer`), and the agent says that it has it."""


FIRST_TURN_S = 30.0
"""How long after its start the turn for its prompt may begin, when many start at once. Until then it says idle."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A text that the agent has taken as input, or keeps in its own queue, as it repeats it itself."""

    text: str = field(repr=False)
    """Empty: nothing of ours, and told for its `parent`."""
    at: float
    """When, in seconds since the epoch."""
    queued: bool = False
    """It waits in the agent's queue for the end of the turn, or for the next result of a tool."""
    withdrawn: bool = False
    """It was taken back out of that queue, unread."""
    refused: str | None = None
    """A hook of the agent's user did not let the model have it, in these words; empty text: of a prompt of whoever."""
    kept: bool = False
    """Refused, and in the conversation nevertheless, as the last prompt: it is read with the next one."""
    parent: str | None = None
    """Behind what in the conversation it stands, where the agent says so. Of two with the same one the first is no more
    in it: it was interrupted before its answer began.
    """


@dataclass(frozen=True, slots=True)
class Dialog:
    """What a hook event says of a dialog that opens, whose answer the hook may bring."""

    kind: RequestKind
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    questions: tuple[Question, ...] = ()
    agent: str = ""
    """The sub-agent that asks; empty: the agent itself."""
    cut: bool = False
    """The arguments are not whole: no answer can be made of them but yes and no."""
    working_dir: str = ""
    """Where the agent is, to whom relative paths in the arguments mean that; empty: unknown."""
    what: str = ""
    """A digest of the tool and its arguments, as `HookNews.what` of the use that it is about."""


@dataclass(frozen=True, slots=True)
class Box:
    """What a terminal shows of the agent's input box, at one moment."""

    closed: str | None
    """Why nothing may be typed: no box is there (a dialog, a shell, something unknown), in words. None: it is there."""
    draft: str = ""
    """What stands in it; empty: nothing."""
    stashed: bool = False
    """A draft was put aside, and comes back by itself."""
    unknown: bool = False
    """It is closed because the screen shows nothing that is known."""


@dataclass(frozen=True, slots=True)
class HookNews:
    """What one hook event of an agent CLI means."""

    name: str
    """The event's own name."""
    said: Observation | None = None
    conversation: str | None = None
    """The conversation that it belongs to, where that may have changed."""
    transcript: str | None = None
    model: str | None = None
    ready: bool = False
    """The agent takes input from here on."""
    started: bool = False
    """A conversation begins or goes on in this process: what was seen of another one means nothing any more."""
    ending: str | None = None
    """Why the agent is about to end, in its own word."""
    activity: str | None = None
    """What it does now, in one line."""
    heard: Heard | None = None
    tool_begins: str | None = None
    """A tool is about to be used, under this id: a dialog may open as soon as the hook has ended."""
    what: str = ""
    """A digest of the tool that begins, or is asked about, and of its arguments."""
    tool_ended: str | None = None
    """The use of a tool under this id is over: nothing is asked about it any more."""
    turn_finished: bool = False
    """What it has taken before it has dealt with; not after a turn that failed or was interrupted."""


@dataclass(frozen=True, slots=True)
class TranscriptNews:
    """What some new lines of a transcript mean, in their order."""

    said: tuple[Observation, ...] = ()
    usage: tuple[Usage, ...] = ()
    """By message id; a later one of the same id counts in its place when it has more output."""
    tools: tuple[ToolUse, ...] = ()
    todo: tuple[Todo, ...] = ()
    """The agent's list after them."""
    context_tokens: int | None = None
    """Tokens that the conversation holds after them; None: they do not tell."""
    heard: tuple[Heard, ...] = ()
    turn_finished: float | None = None
    """When the last turn was, in seconds since the epoch (as `HookNews.turn_finished`)."""
    tools_ended: Mapping[str, bool] = field(default_factory=dict)
    """The uses of tools that have their result; False: a person has refused it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps an agent from starting, and what to type."""

    message: str
    hint: str


class Reader(Protocol):
    """How the agents of one provider are observed. Pure: paths and contents in, meaning out."""

    def hook(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookNews:
        """What a hook event emitted at `at` means. `expects_turn`: the process was started with a prompt."""

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        """The dialog that this hook event tells of; None: none. `cut`: something of the event was left out."""

    def decision(self, request: Request, by: str) -> str | None:
        """What the hook that waits for the answer of `request` says to the agent, as text; `by`: who answered.

        None: this answer cannot be given that way.
        """

    def home(self, environment: Mapping[str, str]) -> str:
        """The directory below which the agent CLI keeps its transcripts, absolute."""

    def state_file(self, environment: Mapping[str, str], pid: int) -> str:
        """Where the agent publishes its state, absolute."""

    def state(self, text: bytes, process: Process) -> tuple[Observation, str] | None:
        """The state in such a file and the conversation it names; None when it is not of this process."""

    def transcript(self, environment: Mapping[str, str], working_dir: str, conversation: str) -> str:
        """Where the transcript is expected before the agent has said so. `working_dir`: without links."""

    def lines(self, lines: Sequence[bytes], *, sidechain: bool, todo: Sequence[Todo]) -> TranscriptNews:
        """What whole lines of a transcript mean; `sidechain`: of a sub-agent's; `todo`: the list before them."""

    def actions(self, lines: Sequence[bytes], count: int, working_dir: str) -> Sequence[ActionLine]:
        """The last things done in these lines, for a person, oldest first."""

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        """What these sums by model cost; None when the price of one of them is not known."""

    def context_window(self, model: str) -> int:
        """How many tokens a conversation with this model may hold."""

    def title(self, glyph: str, at: float) -> Observation | None:
        """What the first character of the terminal's title says."""

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        """What the visible lines of the terminal say."""

    def trouble(self, screen: Sequence[str], working_dir: str, *, exited: bool) -> Trouble | None:
        """What keeps the agent from starting, by what its terminal shows."""


class Composer(Protocol):
    """The input box of an agent CLI. Pure: screens and texts in, meaning out."""

    settle_s: float
    """How long after a text was taken the box needs to be empty for sure."""
    stash_key: str | None
    """The key (tmux(1), send-keys) that puts a person's draft aside until the next text was sent; None: none does."""
    redraw_key: str | None
    """The key that draws the screen anew and does nothing else; None: none does."""

    clearing: Sequence[str]
    """The keys that, in turn and again and again, empty the box, wherever the cursor stands in it."""

    def box(self, lines: Sequence[str]) -> Box:
        """What a screen with its styles (`Terminals.styled`) shows."""

    def pasted(self, letter: str) -> str:
        """What to paste so that it arrives as `letter`."""

    def is_ours(self, draft: str, letter: str, shown: str | None = "") -> bool:
        """Whether this draft is the pasted `letter` and nothing else.

        `shown`: the draft as which that was seen first. Empty: none is known, and what only may be it is not; None: it
        was just pasted into an empty box, and what may be it is.
        """

    def holds_ours(self, draft: str, letter: str) -> bool:
        """Whether the pasted `letter`, or the beginning of it, stands in this draft, perhaps beside other text."""

    def heard(self, text: str) -> str:
        """The form in which two texts are the same input to the agent, so that they can be compared."""


class Provider(Protocol):
    """One kind of agent CLI. Pure: it plans and reads, others act."""

    name: str

    has_turns: bool
    """Whether its agents say themselves when they are busy; else one is idle only while its `sm` waits."""

    interrupt_key: str
    """The key (tmux(1), send-keys) that makes an agent leave off what it does."""

    install_hint: str | None
    """What to type where its program is not installed; None: nobody knows."""

    reader: Reader | None
    """How its agents are observed; None: nothing is known of them but that they run."""

    composer: Composer | None
    """Its input box, where `input_of` says that there is one."""

    never_inherited: frozenset[str]
    """Variables that an agent is never given from a shell, whatever the configuration says."""

    @property
    def agent_types(self) -> Collection[str]:
        """The agent types that this provider starts, as configured."""

    def sources(self, environment: Mapping[str, str], around: Sequence[str]) -> Sources | None:
        """Where its agents find MCP servers and skills; None: they take none.

        `around`: the working directory, without links, and all above it, nearest first; the workspace's among them.
        """

    def plan(self, request: SpawnRequest, start: Start) -> AgentPlan:
        """What to run for this request. Raises UsageError when an option means nothing to this provider."""

    def resume(self, start: Start, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        """What to run to go on with a conversation, or with a copy of it (`fork`) in a session of its own.

        `flags` are those of the plan that it was started with. Raises UsageError where there is no such thing.
        """

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        """What the end of the agent's process means. `screen`: what its terminal showed last."""

    def adopts(self, argv: Sequence[str]) -> bool:
        """Whether a process with this argv is an agent of this provider, which somebody else has started."""

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The program and the options, as `AgentPlan.flags`, of an agent that was started with this."""

    def input_of(self, agent_type: str) -> Input:
        """How agents of this type get messages; also for a type that is configured no more."""
