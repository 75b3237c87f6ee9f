"""Providers: what an agent CLI is started with, says, and means."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sm.config import AgentConfig
from sm.core.models import Exit, Session, Signal, SpawnRequest
from sm.core.usage import Usage
from sm.providers.readers import Readers


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

    def accepted_form(self, text: str) -> str:
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

    readers: Readers
    """How its agents are observed. Without any reader `sm` knows only whether they run."""

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

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        """The price of these sums by model; None when the price of one of the models is unknown."""

    def context_window(self, model: str) -> int | None:
        """How many tokens a conversation with this model may hold; None: unknown."""

    def input_of(self, agent_type: str) -> Input:
        """How agents of this type get messages; also for a type that is configured no more."""
