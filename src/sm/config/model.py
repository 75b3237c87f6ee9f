"""The model of config.yaml: every key with its type, default and description."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sm.config.fields import (
    NOTHING,
    AbsolutePath,
    AgentType,
    AllowRules,
    DenyRules,
    EvidenceSource,
    FileName,
    FriendlyNamePattern,
    Model,
    Name,
    Names,
    Price,
    Program,
    ProgramOrName,
    ShortIdPattern,
    Skills,
    Text,
    Tool,
    Trust,
    Url,
    Variable,
)
from sm.core.models import IDENTITY
from sm.core.states import TrustLevel

NOT_YET = (
    "telegram",
    "sandbox",
    "child_agents.auto_complete",
)
"""Documented keys without an implementation yet: accepted, and reported as without effect."""

SET_BY_SM = frozenset({*IDENTITY, "SM_PROMPT_FILE"})
"""Variables that sm sets last, overriding the configuration."""


class Section(BaseModel):
    """Keys with their defaults. Docstrings below keys become comments in config.yaml.example."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_section(cls, data: object) -> object:
        """An empty section (`tmux:` without content) has its defaults."""
        return {} if data is None else data


class TmuxSection(Section):
    socket_name: FileName | None = None
    """Name of a tmux server of its own (tmux -L); null is the one that `tmux ls` shows."""
    history_limit: int = Field(default=50000, ge=0, le=10_000_000)
    """Lines that a terminal remembers."""
    width: int = Field(default=200, ge=20, le=2000)
    """Columns of a terminal that nobody is attached to."""
    height: int = Field(default=50, ge=5, le=2000)
    """Its lines."""


class Command(Section):
    """An agent type that is any program."""

    command: Program
    """Program and arguments; a relative path is relative to the session's working directory."""
    prompt: Literal["argv", "tty", "file"] = "argv"
    """How it gets the prompt: as last argument, typed as one line, or in the file named by SM_PROMPT_FILE."""
    input: Literal["inbox", "tty"] = "inbox"
    """How it gets messages: it asks for them with `sm inbox --take --wait`, or each is typed as one line of at most
    4,000 bytes."""
    env: dict[Variable, Text] = {}
    """Added to its environment."""


class ModelArgs(Section):
    """The settings that `sm spawn --preset` adds to an agent type."""

    model: Model | None = None
    """What claude calls --model; null leaves it as it is."""
    args: tuple[Text, ...] = ()
    """Options of claude; of two the later one counts."""


class AgentConfig(ModelArgs):
    """An agent type that is Claude Code."""

    spawnable: bool = False
    """Whether sessions may start it with its own permission mode, where theirs allows less."""

    description: Text | None = None
    """What it is for, in a few words: agents that delegate are told."""
    prompt: Text | None = None
    """Added to its briefing."""
    tools: tuple[Tool, ...] | None = None
    """The built-in tools of claude that it has, and no others; null leaves it all. It reports with Bash."""
    auto_allow: AllowRules = ()
    """Permissions that are given without asking anybody: Tool, or Tool(PATTERN) as in Bash(npm test *), Edit(src/*),
    WebFetch(https://example.org/*); `*` is anything, mcp__SERVER__* every tool of a server. A pattern with `*`
    allows no command that joins others (; & | < > ( ) $ ` or a line break, but in quotes)."""
    auto_deny: DenyRules = ()
    """Permissions that are refused without asking anybody; they win. Bash(rm *) also looks into commands joined by ;
    && | and the like. Only what claude asks for: with bypassPermissions that is nothing. No wall: only a sandbox
    is."""


class What(Section):
    enabled: bool = False
    """Whether a model may be asked; it costs tokens of your account."""
    model: Model = "haiku"
    """Which one."""
    timeout_s: int = Field(default=60, ge=1, le=600)
    """How long it may take."""


class ModelPrices(Section):
    """US dollars for a million tokens."""

    input: Price
    """US dollars for a million tokens that are sent."""
    output: Price
    """And for as many that are made."""
    cache_read: Price | None = None
    """From the cache; null is a tenth of input."""
    cache_write: Price | None = None
    """Into the cache; null is 1.25 of input."""


_BYPASS = ("--permission-mode", "bypassPermissions")
_PLAN = ("--permission-mode", "plan")


class Claude(Section):
    default_command: ProgramOrName = ("claude",)
    """The program: its name, its absolute path, or a list with its first arguments."""
    default_args: tuple[Text, ...] = ()
    """Options for every agent type below."""
    prompt_via: Literal["argument", "file"] = "argument"
    """How it gets the prompt: as an argument, which `ps` shows to every user of this machine, or in a file that it is
    told to read."""
    env: dict[Variable, Text] = {}
    """Added to its environment."""
    briefing: AbsolutePath | None = None
    """An absolute path: a text that every agent is told before its task, in place of the shipped one. {name} {id}
    {agent_type} {parent} {trust} {working_dir} {agent_types} are filled in."""
    # No default type is `spawnable`: Engineer and Explore bypass all permissions, and any agent could gain these with
    # one `sm spawn`. Only the operator may allow such an escalation.
    agent_configs: Annotated[dict[AgentType, AgentConfig], NOTHING] = {
        "Engineer": AgentConfig(model="sonnet", args=_BYPASS, description="changes code, tests it"),
        "Architect": AgentConfig(model="opus", args=_PLAN, description="designs, plans, changes nothing"),
        "Explore": AgentConfig(model="haiku", args=_BYPASS, description="looks things up, quickly"),
        "general-purpose": AgentConfig(model="sonnet", description="anything else"),
    }
    """Agent types that are Claude Code, by name. In the file, they replace these."""
    presets: Annotated[dict[Name, ModelArgs], NOTHING] = {
        "quick-fix": ModelArgs(model="sonnet", args=_BYPASS),
        "deep-analysis": ModelArgs(model="opus", args=_PLAN),
    }
    """What `sm spawn --preset NAME` adds. In the file, they replace these."""
    what: What = What()
    """How `sm what` sums up what a session does."""
    prices: Annotated[dict[Model, ModelPrices], NOTHING] = {}
    """Prices that differ from the public ones, by the beginning of the model's full name."""


class Cleanup(Section):
    auto_kill_on_complete: bool = False
    """End the process of a session that has reported its completion."""
    auto_archive_transcript: bool = True
    """Keep what an ended session's terminal showed, in archive_path."""
    archive_path: AbsolutePath | None = None
    """An absolute directory; null is archives/ in the state directory."""
    close_tmux_session: bool = False
    """Remove the terminal of a session whose process has ended."""


class Notifications(Section):
    """Requests, and endings other than errors and completions, are always reported."""

    notify_parent_on_complete: bool = True
    """Tell of a completion."""
    notify_parent_on_error: bool = True
    """Tell of an ending with an error."""
    notify_parent_on_idle: bool = True
    """Tell a session that its child waits for messages (not the operator)."""
    notify_parent_on_checkpoint: bool = False
    """Tell a session of its child's checkpoints (not the operator)."""


class Progress(Section):
    enable_token_tracking: bool = True
    """Count tokens, and what they cost."""
    enable_tool_tracking: bool = True
    """Count tools, and remember the last ones."""
    snapshot_interval: int = Field(default=30, ge=1, le=3600)
    """Seconds after which a transcript is looked at although nothing told of a change."""


class ChildAgents(Section):
    mode: Literal["auto", "manual", "supervised"] = "auto"
    """Who decides that a session is finished; supervised: `sm complete` waits for sm approve."""
    on_parent_end: Literal["adopt", "abandon", "keep"] = "adopt"
    """What becomes of children when their parent's process is gone: they go to the nearest ancestor that lives, else
    to the operator; or are interrupted and abandoned; or stay as they are."""
    cleanup: Cleanup = Cleanup()
    """What happens when a session has ended."""
    notifications: Notifications = Notifications()
    """What a parent is told, in one message for all of a moment."""
    progress: Progress = Progress()
    """What is read from an agent's transcript."""
    allow_args: bool = False
    """Whether sessions, too, may use `sm spawn --args`."""


class Limits(Section):
    """The limits for children and messages apply to sessions, not to the operator."""

    max_children: int = Field(default=10, ge=0, le=10_000)
    """Live children of one session."""
    spawn_interval_s: float = Field(default=1.0, ge=0, le=3600, allow_inf_nan=False)
    """Seconds between two children of one session."""
    max_depth: int = Field(default=4, ge=0, le=100)
    """Generations below a session that the operator started."""
    max_per_workspace: int = Field(default=50, ge=1, le=10_000)
    """Agent processes that run in one workspace, those of ended sessions too; also for the operator. Sessions without
    a workspace count as one."""
    messages_per_minute: int = Field(default=120, ge=1, le=100_000)
    """Messages that one session may send."""


class DefaultCapabilities(Section):
    """Capabilities of sessions without a workspace; for workspaces see `sm workspace set`."""

    mcps: Names = "all"
    """MCP servers, by name, of the user's own; or all."""
    skills: Skills = "all"
    """Skills, by name; or all."""
    agents: Names = "all"
    """Agent types, by name; or all."""


class SandboxOptions(Section):
    """Settings of a workspace's container that override the configuration."""

    image: Text | None = None
    runtime: FileName | None = None
    network: FileName | None = None
    host_access: bool | None = None
    memory: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}[bkmg]?$")] | None = None
    pids: Annotated[int, Field(ge=64, le=1_000_000)] | None = None
    pass_env: tuple[Variable, ...] | None = None
    mounts: tuple[AbsolutePath, ...] | None = None


class Webhook(Section):
    """A URL that gets events by POST, with a signature. Retried for a day until it answers 2xx."""

    url: Url
    """http:// or https://, without a fragment."""
    secret_file: AbsolutePath | None = None
    """The key of the signature (HMAC-SHA256), in a file that only you can read."""
    events: tuple[Literal["completed", "error", "abandoned", "killed", "request"], ...] = (
        "completed",
        "error",
        "abandoned",
        "killed",
        "request",
    )
    """What it is told."""


def _different(value: tuple[Webhook, ...]) -> tuple[Webhook, ...]:
    urls = [webhook.url for webhook in value]
    if len(set(urls)) < len(urls):
        raise ValueError("must not name one url twice")
    return value


class Notify(Section):
    command: Program | None = None
    """Run for every ending and request that the operator's inbox is told, with a JSON object on its stdin."""
    webhooks: Annotated[tuple[Webhook, ...], AfterValidator(_different)] = ()
    """Each told the same: url, secret_file (HMAC-SHA256), events."""


class Naming(Section):
    pattern: FriendlyNamePattern = "{agent_type}-{friendly_name}"
    """For a session with --name."""
    fallback: ShortIdPattern = "{agent_type}-{short_id}"
    """For every session."""


class SessionSettings(Section):
    default_working_dir_behavior: Literal["inherit", "specify"] = "inherit"
    """Without --working-dir: the caller's directory, or an error."""
    inherit_environment_vars: tuple[Variable, ...] = (
        "SSH_AUTH_SOCK",
        "PATH",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CONFIG_DIR",
        "OPENAI_API_KEY",
        "HTTPS_PROXY",
        "NO_PROXY",
    )
    """What a session gets from the caller's environment, besides HOME, USER, LOGNAME, SHELL, LANG, LC_* and TZ."""
    naming: Naming = Naming()
    """Names of sessions; always in lower case."""


class DaemonSection(Section):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What `sm daemon logs` shows."""
    ignore_evidence: tuple[EvidenceSource, ...] = ()
    """Sources of an agent's state that are not believed: hook, state file, transcript, title, screen; to measure what
    each is worth, or when a new version of an agent makes one of them lie."""


class Config(Section):
    """The whole configuration. Without a file, all defaults apply."""

    default_trust: Trust = TrustLevel.SANDBOXED
    """Trust level of a session that asks for none: sandboxed or direct."""
    tmux: TmuxSection = TmuxSection()
    """The terminals."""
    claude: Claude = Claude()
    """Claude Code."""
    commands: Annotated[dict[AgentType, Command], NOTHING] = {}
    """Agent types that are any program, by name."""
    child_agents: ChildAgents = ChildAgents()
    """How sessions live and end."""
    sessions: SessionSettings = SessionSettings()
    """What a new session is given."""
    limits: Limits = Limits()
    """How many agents there may be, and how fast they come."""
    default_capabilities: DefaultCapabilities = DefaultCapabilities()
    """What sessions without a workspace are given."""
    notify: Notify = Notify()
    """Who else is told what the operator's inbox is told."""
    daemon: DaemonSection = DaemonSection()
    """The daemon itself."""

    @property
    def claude_agents(self) -> tuple[str, ...]:
        """The agent types that run Claude Code. A command replaces a default type of the same name."""
        taken = {name.lower() for name in self.commands}
        return tuple(name for name in self.claude.agent_configs if name.lower() not in taken)
