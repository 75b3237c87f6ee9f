"""Defines the interface of a provider to its agent CLI: start, input, agent types and exit."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from sm.config import AgentConfig, Definition
from sm.core.dataclass import dataclass
from sm.core.models import Exit, PermissionMode, Session, Signal, SpawnRequest
from sm.core.program_states import ProgramState
from sm.core.usage import Usage
from sm.providers.links import LinkOpener
from sm.providers.readers import Readers, SetupQuestion
from sm.sandboxes.home import ContainerHome

TYPED_LINES_MAX = 3
"""The most lines of a prompt that is typed as the first message. A long paste looks to a model like a foreign text."""

_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}", re.ASCII)


def program_version(text: str) -> str | None:
    """Find the version of an agent CLI in what it says, such as `2.1.332`. Returns None if there is none."""
    found = _VERSION.search(text)
    return None if found is None else found[0]


@dataclass(frozen=True, slots=True)
class CapabilitySources:
    """Absolute paths at which an agent CLI finds MCP servers and skills by itself."""

    names: tuple[str, ...]
    """The names of its files and directories in a project, for messages."""
    user_mcps: str
    """The file of the user's own servers: `mcpServers`, and those for one project under `projects`."""
    project_mcps: Mapping[str, str]
    """The MCP server file of each project directory."""
    skills: tuple[str, ...]
    """Directories in which each entry is a skill."""
    commands: tuple[str, ...]
    """Directories in which, and below which, each `*.md` is a skill."""


@dataclass(frozen=True, slots=True)
class GrantedCapabilities:
    """The MCP servers and skills of one session, and those that its agent CLI must ignore."""

    mcp_file: str | None = None
    """The session's own file of MCP servers, absolute, or None if the session gets no servers."""
    strict_mcps: bool = False
    """The agent uses only the servers of `mcp_file`."""
    mcps_off: tuple[str, ...] = ()
    """Servers of project files that the agent neither starts nor asks a person about."""
    own_server: bool = False
    """One of the servers is that of sm."""
    skills: bool = True
    """The agent may use skills."""
    skills_off: tuple[str, ...] = ()
    own_skills: bool = True
    """Keep the skills bundled with the agent CLI."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """The answers of an installed agent CLI, and a choice of its user, or empty if unknown."""

    version: str = ""
    """Its output for `--version`."""
    help: str = ""
    """Its output for `--help`."""
    permission_mode: str = ""
    """The permission mode in the settings of the person who runs it, never in those of a project."""
    state: ProgramState | None = None
    """The outcomes of the contracts with this version, or None if unknown or not yet looked up."""

    @property
    def number(self) -> str | None:
        """The version alone, such as `2.1.332`. None if it is unknown."""
        return program_version(self.version)


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """The program that an agent would start, by its files."""

    link: str
    """The absolute path at which it is found."""
    path: str
    """Its file, without links."""
    version: str | None = None
    """As its files name it, or None if unknown."""
    is_script: bool = False
    """A script, which may start another program."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The session for which a provider plans a process."""

    session: Session
    """The session with its id, names, parent, trust level and directory, before it is stored."""
    sm: str
    """The absolute path of the `sm` command that agents find."""
    environment: Mapping[str, str] = field(repr=False)
    """The variables that the session inherits, without those of the configuration and `SM_*`."""
    parent: str | None = None
    """The display name of the parent, or None for the operator."""
    prompt_file: str = ""
    """The absolute path to which `AgentPlan.prompt_file` will be written."""
    files: str = ""
    """The absolute path of the directory with the files that messages name, which may not exist yet, or empty."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    """The settings of the agent type; empty for a command and for a type that no longer exists."""
    agent_types: Mapping[str, str | None] = field(default_factory=dict)
    """The agent types that the session may spawn, with their descriptions."""
    granted: GrantedCapabilities = GrantedCapabilities()
    """Its MCP servers and skills."""
    place: str = ""
    """Sentences for the agent about the container that it runs in, or empty if it runs on this host."""
    additions: tuple[str, ...] = ()
    """Lines of capabilities for the agent, such as one about its budget."""
    at_most: tuple[str, ...] | None = None
    """The flags of the parent, if the session may have no more permissions than the parent, else None."""
    parent_mode: str = ""
    """The permission mode that the parent has reported, with `at_most`, or empty for that of its flags."""
    is_parent_attended: bool = False
    """The operator had the parent's terminal on the screen at that report. Otherwise it raises no permission."""
    program: ProgramFacts = ProgramFacts()
    """The program that the plan starts, and the choice of its user."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How to start one agent. `environment`: the variables that the configuration adds, without `SM_*`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    typed_prompt: str | None = field(default=None, repr=False)
    prompt_file: str | None = field(default=None, repr=False)
    flags: tuple[str, ...] = ()
    """The program and the options with which every later process of this session is started too."""
    model: str | None = None
    conversation: str | None = None
    """The agent CLI's own id of the conversation."""
    warnings: tuple[str, ...] = ()
    permission: PermissionMode | None = None
    """The permission mode that the process starts in, or None if its provider has no such modes."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A conversation and its copy, by their ids."""

    original: str
    copy: str


class InputMethod(StrEnum):
    """The way an agent receives messages."""

    INBOX = "inbox"
    """The agent takes its messages itself (`sm inbox --take`)."""
    TTY = "tty"
    """`sm` types each message into the terminal as one line."""
    COMPOSER = "composer"
    """`sm` pastes each message into the input box (`BoxReader`), and the agent reports that it accepted the message."""
    LINK = "link"
    """`sm` sends each message over the agent's link (`Provider.link`), which repeats the id of the message."""


@dataclass(frozen=True, slots=True)
class Box:
    """The agent's input box as its terminal shows it at one moment."""

    closed: str | None
    """The reason not to type, for people: a dialog, a shell or an unknown screen, or None if the box accepts input."""
    draft: str = ""
    """The text in the box."""
    stashed: bool = False
    """A draft was put aside; the agent CLI restores it after the next text was sent."""
    unknown: bool = False
    """The box is considered closed because the screen is not recognized."""


@dataclass(frozen=True, slots=True)
class InputCommand:
    """A command to the agent CLI itself, typed into its input box in place of a text for the model."""

    text: str
    """The command as it is typed."""
    by_parent: bool = False
    """The direct parent of a session may send it. Other commands are for the operator."""


@dataclass(frozen=True, slots=True)
class PromptRefusal:
    """A refusal of a prompt by a hook of the user, as the screen shows it."""

    words: str
    is_named: bool
    """The screen names the refused prompt. Otherwise it may be another one."""


class BoxReader(Protocol):
    """Interprets the input box of an agent CLI. Pure: does not access the terminal."""

    settle_s: float
    """Time for which the box may still show a text after the agent accepted the text."""
    stash_key: str | None
    """The key (tmux(1), send-keys) that puts a draft aside until the next text was sent, or None if no key does."""
    redraw_key: str | None
    """The key that redraws the screen and does nothing else, or None if there is no such key."""

    def clearing(self, draft: str) -> Sequence[str]:
        """The keys that, pressed in turn and repeatedly, empty a box with this draft from any cursor position."""

    def box(self, lines: Sequence[str]) -> Box:
        """The input box on a screen with its styles (`Terminals.capture_styled`)."""

    def paste_groups(self, text: str) -> Sequence[Sequence[str]]:
        """The texts to paste, each as a paste of its own, so that the agent receives the message `text`.

        Between two groups, the box must show all of the earlier ones and nothing else.
        """

    def shows_message(self, draft: str, text: str, shown: str | None = "") -> bool:
        """Return whether this draft is exactly the pasted message `text`.

        `shown`: the first draft that was seen after `text` was pasted, or empty if unknown, so that an ambiguous draft
        is not `text`. With None, `text` was just pasted into an empty box, so an ambiguous draft is `text`.
        """

    def contains_message(self, draft: str, text: str) -> bool:
        """Return whether this draft holds the pasted message `text` or its beginning, perhaps with other text."""

    def refusal(self, lines: Sequence[str], text: str) -> PromptRefusal | None:
        """The refusal of the message `text`, or of an unnamed prompt, or None if the screen shows none."""

    def accepted_form(self, text: str) -> str:
        """A form that is equal for two texts if they are the same input to the agent."""


class Definitions(Protocol):
    """Applies files `NAME.md` that define agent types of a provider. Pure."""

    project_directory: tuple[str, ...]
    """The agent CLI's own directory of such files below a project's directory, as the parts of its path."""

    def user_directory(self, environment: Mapping[str, str]) -> str | None:
        """The agent CLI's directory of such files for its user, absolute, or None if there is none.

        `environment`: that of the session that spawns.
        """

    def apply(self, definition: Definition) -> tuple[AgentConfig, tuple[str, ...]]:
        """The agent type as this provider starts it, and warnings for the author of the file."""


class Summarizer(Protocol):
    """A program that asks a model one question and can do nothing else: no tools, no hooks, no memory. Pure."""

    name: str
    """The program's name, for messages."""

    @property
    def model(self) -> str:
        """The model to use."""

    @property
    def timeout_s(self) -> float:
        """Time limit for the answer."""

    @property
    def unavailable(self) -> str | None:
        """The reason why the summarizer cannot be used, for people, or None if it is available."""

    def argv(self, instructions: str) -> Sequence[str]:
        """The command line. The program reads the question from stdin and writes the answer to stdout."""

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The variables of the program, for a session with this environment."""

    def as_data(self, line: str) -> str:
        """Escape a line of the question, so that the program treats no word as a command."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of `sm doctor`."""

    ok: bool
    what: str
    todo: str | None = None
    """The command to type."""


@dataclass(frozen=True, slots=True)
class TranscriptRetention:
    """After how many days without a new line an agent CLI deletes a transcript."""

    days: int
    source: str | None = None
    """The file that sets it, or None if it is the default of the agent CLI."""


@dataclass(frozen=True, slots=True)
class TrustEntry:
    """The entry with which an agent CLI trusts a directory and does not ask."""

    file: str
    """The file of the entry."""
    by: str
    """The trusted directory: the requested one, or a directory above it."""
    changed: bool
    """The entry is new."""
    running: tuple[int, ...] = ()
    """Running processes of the agent CLI, checked not to have overwritten the new entry."""


@dataclass(frozen=True, slots=True)
class Login:
    """The login of an agent: two agents with the same one share their usage limits."""

    directory: str
    """The agent CLI's configuration directory on this host, absolute."""
    identity: str = field(repr=False)
    """The key, the token or the account of the login, which may be a secret."""


class Setup(Protocol):
    """The installation of an agent CLI on this machine. Reads and writes its files, so every method but one blocks.

    `environ`: the environment of the operator's shell.
    """

    def session_warnings(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> tuple[str, ...]:
        """Settings of the user or the project that limit `sm` in a session, as sentences.

        `environment`: that of the agent's process. `home`: the home directory of its container, which holds the user's
        settings.
        """

    def runs_hooks(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> bool:
        """True unless a setting turns off the hooks of sm. Arguments: as for `session_warnings`."""

    def retention(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> TranscriptRetention:
        """How long the transcripts of an agent are kept. Arguments: as for `session_warnings`."""

    def checks(self, environ: Mapping[str, str], current_dir: str) -> Iterable[Finding]:
        """Check everything that may block an agent when it starts in `current_dir`."""

    def project_effects(self, directory: str) -> Iterable[str]:
        """Everything that its files make an agent execute or apply without a question once the directory is trusted.

        One text each, with the words of the files as they are.
        """

    def trust(self, environ: Mapping[str, str], directory: str) -> TrustEntry:
        """Trust `directory` (absolute, without links) and below, for all agents. Idempotent.

        Raises SmError; then nothing is changed. ProgramMissing: the agent CLI is not installed.
        """

    def accept_bypass(self, environ: Mapping[str, str]) -> TrustEntry:
        """Accept for all agents that they may bypass permissions. Idempotent.

        `by` is empty. Raises SmError; then nothing is changed.
        """

    def approve(self, environment: Mapping[str, str], question: SetupQuestion, directory: str) -> None:
        """Store the operator's approval of a first-start dialog, as `trust` and `accept_bypass` do.

        `environment`: that of the agent that shows the dialog. `directory`: its working directory, without links.
        """

    async def program(self, environment: Mapping[str, str], home: ContainerHome | None) -> ProgramFacts:
        """The program that an agent with this environment starts. Waits a short time for its answers.

        Nothing is known of a program in a container, and the agents there can write the settings of its user.
        """

    def installed(self, environment: Mapping[str, str]) -> InstalledProgram | None:
        """Find the program that an agent on this host with this environment starts. Runs nothing.

        Returns None if there is none, or if it is no program of this agent CLI. Blocks: call it in a thread.
        """

    def login(self, environment: Mapping[str, str], home: ContainerHome | None) -> Login:
        """The login of an agent with this environment. `home`: the home directory of its container."""

    def require_ready(
        self,
        environment: Mapping[str, str],
        argv: Sequence[str],
        directory: str,
        project_of: Callable[[str], str],
    ) -> None:
        """Raise SetupRequired if an agent with this command line would open a first-start dialog in `directory`.

        `project_of`: finds the directory that a person trusts in place of another one, which it outlives.
        """

    def require_login(
        self, environment: Mapping[str, str], argv: Sequence[str], home: ContainerHome, container: str
    ) -> None:
        """Raise SetupRequired if an agent in a container would wait for a login or an answer.

        `home`: the home directory of the container, which may be new. `container`: its name in commands.
        """


class Provider(Protocol):
    """One kind of agent CLI. Pure, except for `setup`: a provider plans and interprets, callers act."""

    name: str

    has_turns: bool
    """Its agents report when they are busy. Otherwise an agent is idle only while its `sm` command waits."""

    interrupt_key: str
    """The key (tmux(1), send-keys) that interrupts an agent."""

    stop_background_keys: tuple[str, ...] = ()
    """The keys that stop all its background agents, and do nothing without one, or empty if there are none."""

    install_hint: str | None = None
    """The command that installs its program, or None if unknown."""

    readers: Readers = Readers()
    """Readers of its agents' activity. Without any reader `sm` knows only whether they run."""

    link: LinkOpener | None = None
    """Opens standing connections to its agents, which report and take messages and answers there. None without them."""

    box_reader: BoxReader | None = None
    """Its input box, or None if no agent type of this provider has `InputMethod.COMPOSER`."""

    compact: InputCommand | None = None
    """The command that replaces the conversation by a summary, or None if there is none."""

    @property
    def summarizes_at_resume(self) -> bool:
        """True if a long and old conversation is to be replaced by a summary when it is resumed."""
        return False

    setup: Setup | None = None
    """Its installation on this machine, or None if there is nothing to check."""

    summarizer: Summarizer | None = None
    """The program that summarizes sessions, or None if this provider has none."""

    @property
    def never_inherited(self) -> frozenset[str]:
        """Variables that an agent never inherits from a shell, whatever the configuration says."""
        return frozenset()

    sandbox_environment: Mapping[str, str] = MappingProxyType({})
    """Variables that its agents get in a container, over those of the configuration."""

    definitions: Definitions | None = None
    """Its definition files, or None if only the configuration defines agent types."""

    @property
    def prices_as_of(self) -> str | None:
        """The date (ISO 8601) at which its list prices were taken, or None if it has none."""
        return None

    @property
    def agent_types(self) -> Collection[str]:
        """The names of the configured agent types that this provider starts."""

    def agent_config(self, agent_type: str) -> AgentConfig | None:
        """The settings of an agent type in the configuration, even if another provider now has that name.

        None if it is not configured.
        """

    def permission_mode(self, agent: AgentConfig, program: ProgramFacts) -> PermissionMode | None:
        """Return the mode of a new session of this type without a parent, or None if there are no such modes."""
        return None

    def home_files(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The files with which its agents start in a new container without a question.

        The content of each file, by its path in the container. `environment`: that of the agent.
        """
        return {}

    def capability_sources(
        self, environment: Mapping[str, str], around: Sequence[str]
    ) -> CapabilitySources | None:
        """The paths of MCP servers and skills of its agents, or None if its agents use neither.

        `around`: the working directory, without links, and all directories above it, nearest first.
        """

    def own_server(self, sm: str) -> Mapping[str, object] | None:
        """The MCP server of sm in the form of its agent CLI, or None if its agents get no servers.

        `sm`: the absolute path of the command, as the agent sees it.
        """
        return None

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        """Plan the process for this request. Raises UsageError for an option that the provider does not support."""

    def begin_again(
        self, start: PlanContext, flags: Sequence[str], conversation: str, prompt: str
    ) -> AgentPlan:
        """Plan a process for a conversation of which nothing is stored, with the prompt that it was to begin with.

        `flags`, errors: as in `resume`.
        """

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        """Plan the process that continues a conversation, or a copy (`fork`) for a separate session.

        The copy gets the id that `start.session` has as its conversation; without one, or with that of the original,
        a new id. `flags`: those of the plan with which the conversation began. Raises UsageError for a provider without
        conversations, and IllegalState for an invalid id.
        """

    def fork_in(self, argv: Sequence[str]) -> Fork | None:
        """The copy that the process with this `AgentPlan.argv` makes of a conversation, or None if it makes none."""

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        """The meaning of the end of the agent's process. `screen`: the last lines of its terminal."""

    def adopts(self, argv: Sequence[str]) -> bool:
        """Return whether a process with this command line, not started by sm, is an agent of this provider."""

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The program and the options (as `AgentPlan.flags`) of an agent with this command line."""

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        """The total price in US dollars of token sums, one for each model; None when a price is unknown."""

    @property
    def program(self) -> str | None:
        """The path or the name of the agent CLI in the configuration, unless it names another program."""
        return None

    @property
    def checks_programs(self) -> bool:
        """True if the daemon has programs checked that were not (`sm check`)."""
        return False

    def program_notes(self, version: str | None, outcomes: Mapping[str, bool]) -> Sequence[str]:
        """Say what is special in what sm knows about a version, a line each. `outcomes`: by contract; may be empty."""
        return ()

    def is_own_program(self, path: str) -> bool:
        """Return whether the program at a path is this agent CLI."""
        return False

    def knows_price(self, model: str) -> bool:
        """Return whether `cost_usd` knows the price of a model, named as for a spawn."""
        return True

    def context_window(self, model: str, version: str = "") -> int | None:
        """Return the maximum tokens of a conversation with this model; None if unknown.

        `version`: of the agent's program, as its transcript names it, or empty if unknown.
        """

    def input_command(self, text: str) -> InputCommand | None:
        """The command that a message with this text is, or None if the message is a text for the model.

        Raises InvalidText for a command that cannot be typed.
        """
        return None

    def input_of(self, agent_type: str) -> InputMethod:
        """The input method of an agent type, also for a type that is no longer configured."""
