"""The model of config.yaml: every key with its type, default and description."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, create_model

from sm import registry
from sm.config.capability_keys import keys_of_capabilities
from sm.config.fields import (
    NOTHING,
    AbsolutePath,
    AgentType,
    EvidenceSource,
    FileName,
    FriendlyNamePattern,
    Lifecycle,
    Names,
    Program,
    ShortIdPattern,
    Skills,
    Text,
    TimeOfDay,
    Trust,
    Url,
    Variable,
)
from sm.config.sandbox import SandboxSection
from sm.config.section import ProviderSection
from sm.config.telegram import TelegramSection
from sm.config.web import WebSection
from sm.core.models import IDENTITY
from sm.core.programs import agent_programs
from sm.core.states import TrustLevel
from sm.section import Section

_Kind = TypeVar("_Kind", bound=Section)

SET_BY_SM = frozenset({*IDENTITY, "SM_PROMPT_FILE"})
"""Variables that sm sets last, overriding the configuration."""


class RetrySettings(Section):
    max: int = Field(default=3, ge=0, le=100)
    """Maximum number of messages to go on in a row, until a turn succeeds. Then the failure is reported to the parent
    and to you. With 0, sm reports it at once. Each retry costs a turn."""
    backoff_s: Annotated[
        tuple[Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)], ...], Field(min_length=1)
    ] = (30, 120, 600)
    """Seconds before each retry. The last number repeats."""


class TmuxSection(Section):
    socket_name: FileName | None = None
    """Name of a separate tmux server (tmux -L NAME), or null for the default server, which `tmux ls` shows."""
    history_limit: int = Field(default=50000, ge=0, le=10_000_000)
    """Lines of scrollback of each terminal."""
    width: int = Field(default=200, ge=20, le=2000)
    """Columns of a terminal while nobody is attached to it."""
    height: int = Field(default=50, ge=5, le=2000)
    """Lines of a terminal while nobody is attached to it."""


class CommandKeys(Section):
    """The keys of the kernel in `Command`."""

    command: Program
    """The program and its arguments. A relative path is relative to the session's working directory."""
    prompt: Literal["argv", "tty", "file"] = "argv"
    """How the program gets the prompt. argv: as its last argument. tty: typed as one line. file: in the file that
    SM_PROMPT_FILE names."""
    input: Literal["inbox", "tty"] = "inbox"
    """How the program gets messages. inbox: it fetches them with `sm inbox --take --wait`. tty: sm types each message
    as one line of at most 4,000 bytes."""
    env: dict[Variable, Text] = {}
    """Variables added to the environment of the agent."""
    lifecycle: Lifecycle | None = None
    """The mode of its sessions, as in child_agents.mode, or null for that of the workspace."""


if TYPE_CHECKING:

    class _CommandKeysOfCapabilities(Section):
        """The keys of commands that capabilities add."""

else:
    _CommandKeysOfCapabilities = keys_of_capabilities("COMMAND", "AGENT")


class Command(_CommandKeysOfCapabilities, CommandKeys):
    """An agent type that runs any program."""


class KeepTerminals(Section):
    """A terminal that a person looks at, and one whose output could not be saved, stays open."""

    last: int = Field(default=50, ge=0, le=10_000)
    """How many terminals of ended sessions stay open: those that ended last."""
    hours: float = Field(default=24, ge=0, le=87_600, allow_inf_nan=False)
    """How many hours a terminal stays open after its process has ended."""


class Cleanup(Section):
    auto_kill_on_complete: bool = False
    """End the process of a session that has reported its completion."""
    auto_archive_transcript: bool = True
    """Save an archive of each ended session in archive_path: its terminal output, transcripts and records."""
    archive_path: AbsolutePath | None = None
    """Absolute path of the directory of archives, which must not be a link, or null for archives/ in the state
    directory. A change needs sm daemon restart."""
    close_tmux_session: bool = False
    """Remove the terminal of a session as soon as its process has ended, regardless of keep_terminals. It stays if
    auto_archive_transcript is on and the archive could not be saved."""
    reap_completed_after: int | None = Field(default=None, ge=1, le=31_536_000)
    """Seconds after which the process of a completed session ends, or null for never. `sm restore` starts it again."""
    keep_terminals: KeepTerminals = KeepTerminals()
    """When the terminals of ended sessions are removed. `sm output` then shows the output saved in archive_path."""


class Notifications(Section):
    """Requests, and sessions that were killed or abandoned, are always reported."""

    notify_parent_on_complete: bool = True
    """Report that a session has completed."""
    notify_parent_on_error: bool = True
    """Report that a session has ended with an error."""
    notify_parent_on_idle: bool = True
    """Report that a child is idle. The operator does not get this report."""
    notify_parent_on_checkpoint: bool = False
    """Report a child's checkpoints. The operator does not get this report."""


class Progress(Section):
    enable_token_tracking: bool = True
    """Count tokens and their cost."""
    enable_tool_tracking: bool = True
    """Count tool uses and keep the last ones."""
    snapshot_interval: int = Field(default=30, ge=1, le=3600)
    """Seconds between two checks of a transcript for which the system has reported no change."""


class ChildAgentsKeys(Section):
    """The keys of the kernel in `ChildAgents`."""

    mode: Lifecycle = "auto"
    """Completion of a session. auto: the session decides with `sm complete`, or sm detects it (auto_complete). manual:
    sm detects nothing. supervised: its parent decides, with `sm approve` or `sm deny`. A session, an agent type or a
    workspace may have another mode (--lifecycle)."""
    on_parent_end: Literal["adopt", "abandon", "keep"] = "adopt"
    """Effect on children when their parent's process ends. adopt: they move to the nearest live ancestor, or to
    the operator. abandon: sm interrupts them and marks them as abandoned. keep: they do not change."""
    cleanup: Cleanup = Cleanup()
    """Actions when a session has ended."""
    notifications: Notifications = Notifications()
    """Reports to the parent of a session. Reports of the same moment become one message."""
    progress: Progress = Progress()
    """Facts that sm reads from an agent's transcript."""
    allow_args: bool = False
    """Let sessions use `sm spawn --args` and `--env`, not only the operator."""


if TYPE_CHECKING:

    class _ChildAgentsKeysOfCapabilities(Section):
        """The keys of `child_agents` that capabilities add."""

else:
    _ChildAgentsKeysOfCapabilities = keys_of_capabilities("CHILD_AGENTS")


class ChildAgents(_ChildAgentsKeysOfCapabilities, ChildAgentsKeys):
    pass


class Limits(Section):
    """Limits for children and messages apply to sessions, not to the operator."""

    max_children: int = Field(default=10, ge=0, le=10_000)
    """Maximum number of live children of one session."""
    spawn_interval_s: float = Field(default=1.0, ge=0, le=3600, allow_inf_nan=False)
    """Minimum time in seconds between two spawns by one session."""
    max_depth: int = Field(default=4, ge=0, le=100)
    """Maximum number of generations below a session that the operator started."""
    max_per_workspace: int = Field(default=50, ge=1, le=10_000)
    """Maximum number of agent processes in one workspace, including the processes of ended sessions. This limit also
    applies to the operator. The sessions without a workspace share one limit."""
    messages_per_minute: int = Field(default=120, ge=1, le=100_000)
    """Maximum number of messages that one session may send in a minute."""
    operator_messages_per_minute: int = Field(default=6, ge=1, le=100_000)
    """Maximum number of messages that one session may send to the operator in a minute."""
    reports_per_minute: int = Field(default=120, ge=1, le=100_000)
    """Maximum number of checkpoints and notes that one session may report in a minute."""


class DefaultCapabilities(Section):
    """Capabilities of sessions without a workspace. For workspaces see `sm workspace set`."""

    mcps: Names = "all"
    """Names of your MCP servers, or all."""
    skills: Skills = "all"
    """Names of skills, or all."""
    agents: Names = "all"
    """Names of agent types, or all."""


class Webhook(Section):
    """A URL that gets events by signed POST requests. sm retries for a day until the URL answers 2xx."""

    url: Url
    """http:// or https://, without a fragment."""
    secret_file: AbsolutePath | None = None
    """A file that only you can read, with the key of the signature (HMAC-SHA256)."""
    events: tuple[
        Literal[
            "completed",
            "error",
            "abandoned",
            "killed",
            "request",
            "idle",
            "budget",
            "digest",
            "warning",
            "message",
            "program",
        ],
        ...,
    ] = (
        "completed",
        "error",
        "abandoned",
        "killed",
        "request",
        "budget",
        "message",
        "program",
    )
    """Types of the events that the URL gets. idle: a turn has ended (see turn_ended). budget: most of a budget is
    spent, or all of it. digest: see digest_at. warning: something goes wrong in a session (see warnings).
    message: an agent has sent you a message. program: an agent CLI breaks a contract (see sm check)."""


def _different(value: tuple[Webhook, ...]) -> tuple[Webhook, ...]:
    urls = [webhook.url for webhook in value]
    if len(set(urls)) < len(urls):
        raise ValueError("must not contain the same url twice")
    return value


class Notify(Section):
    turn_ended: bool = True
    """Report each turn that an agent without a parent ends without `sm complete`: in the operator's inbox, to command,
    and to the webhooks that get the event idle."""
    command: Program | None = None
    """A program that sm runs for every ended session, request, ended turn, budget, warning and message of an agent in
    the operator's inbox, for the digest, and for an agent CLI that breaks a contract. It gets a JSON object on
    stdin."""
    webhooks: Annotated[tuple[Webhook, ...], AfterValidator(_different)] = ()
    """URLs to which sm sends the same notices by POST. Keys of each: url, secret_file
    (key for HMAC-SHA256), events."""
    digest_at: TimeOfDay | None = None
    """A time of the local day at which you get what `sm digest` shows, since the last time: in the operator's inbox, to
    command, to the webhooks that get the event digest, and to the owners in Telegram. Example: "07:00" """


class Naming(Section):
    pattern: FriendlyNamePattern = "{agent_type}-{friendly_name}"
    """Friendly name of a session spawned with --name."""
    fallback: ShortIdPattern = "{agent_type}-{short_id}"
    """Name of every session."""


class SessionSettings(Section):
    default_working_dir_behavior: Literal["inherit", "specify"] = "inherit"
    """Working directory without --working-dir. inherit: the caller's directory. specify:
    a spawn without --working-dir fails."""
    inherit_environment_vars: tuple[Variable, ...] = (
        *("SSH_AUTH_SOCK", "PATH"),
        *(name for program in agent_programs() for name in program.inherited_variables),
        *("HTTPS_PROXY", "NO_PROXY"),
    )
    """Variables that a session gets from the caller's environment, in addition to HOME, USER, LOGNAME, SHELL, LANG,
    LC_* and TZ."""
    naming: Naming = Naming()
    """Patterns for the names of sessions. sm changes names to lower case."""


class DaemonSection(Section):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that the daemon writes to its log (`sm daemon logs`)."""
    ignore_evidence: tuple[EvidenceSource, ...] = ()
    """Sources of an agent's status to ignore: process, protocol, hook, state file, transcript, title, screen. Use
    this to measure a source, or when a source reports wrong states after an update of the agent. A change needs sm
    daemon restart."""


class McpSettings(Section):
    """The MCP server of the daemon, which agents reach with `sm mcp`."""

    enabled: bool = True
    """Answer MCP clients, and give agents the MCP server sm."""
    resources: bool = False
    """Announce resources. Clients then spend tokens on tools that read them."""
    tools: Names = "all"
    """Names of the tools that agents get, or all (docs/mcp.md)."""


class _Terminals(Section):
    default_trust: Trust = TrustLevel.SANDBOXED
    """Trust level of sessions spawned without --trust: sandboxed or direct."""
    tmux: TmuxSection = TmuxSection()
    """The terminals of agents. A change needs sm daemon restart."""


def with_sections(base: type[Section], sections: Mapping[str, type[Section]]) -> type[Section]:
    """Add a section under each name to the keys of `base`, after its own."""
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections.items()}
    return create_model(f"{base.__name__}Extended", __base__=base, **fields)


def _provider_sections() -> dict[str, type[ProviderSection]]:
    """The sections of the packages of the registry, by the names of the providers."""
    parts = {name: registry.part(package, "section") for name, package in registry.PROVIDERS.items()}
    return {name: part.SECTION for name, part in parts.items() if part is not None}


if TYPE_CHECKING:

    class _WithProviders(_Terminals):
        pass

else:
    _WithProviders = with_sections(_Terminals, _provider_sections())


class KernelSections(_WithProviders):
    """The keys of the kernel and of the providers in `Config`."""

    commands: Annotated[dict[AgentType, Command], NOTHING] = {}
    """Agent types that run any other program, by name."""
    child_agents: ChildAgents = ChildAgents()
    """Lifecycle of sessions."""
    sessions: SessionSettings = SessionSettings()
    """Environment and names of new sessions."""
    limits: Limits = Limits()
    """Limits for the number of agents, spawns and messages."""
    default_capabilities: DefaultCapabilities = DefaultCapabilities()
    """Capabilities of sessions without a workspace."""
    sandbox: SandboxSection = SandboxSection()
    """Containers of sandboxed sessions."""
    notify: Notify = Notify()
    """Programs and URLs that also get the notices of the operator's inbox."""
    telegram: TelegramSection = TelegramSection()
    """A bot of Telegram that reports to you, and that you command from a phone. A change needs sm daemon restart."""
    web: WebSection = WebSection()
    """Live views in browsers. A change needs sm daemon restart, or a new start of your own sm web."""
    unseen_days: int = Field(default=7, ge=1, le=3650)
    """Days for which lists show a session that has ended and that you have not looked at (sm seen)."""
    retry: RetrySettings = RetrySettings()
    """Turns that failed because the service is overloaded, fails or cannot be reached: sm lets the agent go on."""
    on_context_full: Literal["tell", "compact"] = "tell"
    """The step after a turn that failed because the context is full. tell: the parent and you are told. compact: sm
    sends /compact and then a message to go on, once until a turn succeeds; if that does not help, you are told."""
    mcp: McpSettings = McpSettings()
    """Tools for agents over the Model Context Protocol. A change needs sm daemon restart."""
    daemon: DaemonSection = DaemonSection()
    """Settings of the daemon."""


if TYPE_CHECKING:

    class _Sections(Section):
        """The sections that capabilities add."""

else:
    _Sections = keys_of_capabilities("CONFIG")


class Config(_Sections, KernelSections):
    """The whole configuration. Without a file, all defaults apply."""

    def section(self, kind: type[_Kind]) -> _Kind:
        """The section of this type."""
        return next(value for _, value in self if type(value) is kind)

    def provider_sections(self) -> dict[str, ProviderSection]:
        """The sections of providers, by the names of the providers."""
        return {name: value for name, value in self if isinstance(value, ProviderSection)}

    def agent_types_of(self, section: ProviderSection) -> tuple[str, ...]:
        """The agent types of a provider. A command replaces a default type of the same name."""
        taken = {name.lower() for name in self.commands}
        return tuple(name for name in section.agent_configs if name.lower() not in taken)
