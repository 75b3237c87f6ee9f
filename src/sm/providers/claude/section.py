"""The section `claude` of config.yaml. Import `sm.config` before: it builds the configuration from this module."""

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Annotated, Literal

from sm.config.agents import AgentConfig, ModelArgs, ModelPrices, SummarizerSettings
from sm.config.fields import NOTHING, AbsolutePath, AgentType, Model, Name, ProgramOrName, Text, Variable
from sm.config.section import ProviderSection

BRIEFING_MAX_BYTES = 32 * 1024
_COORDINATOR = (
    "You lead a team and do not change files yourself. Split the task into parts that do not depend on each other. "
    "Start one agent for each part, with a name and a prompt that says what the part is, how to test it, and to report "
    "with sm complete. Then end your turn: a message wakes you when an agent ends, asks a question or needs a "
    "permission. Answer with sm answer, sm approve and sm deny; approve only what the part needs. When all agents have "
    "ended, check their results, start an agent for what is missing, or run sm complete with a summary."
)
_COORDINATOR_RULES = (
    *(f"Bash(sm {command} *)" for command in ("spawn", "approve", "deny", "answer", "kill", "wait")),
    *(
        f"mcp__sm__{tool}"
        for tool in ("create_session", "answer_request", "control_session", "wait_for_sessions")
    ),
)
_BYPASS = ("--permission-mode", "bypassPermissions")
_PLAN = ("--permission-mode", "plan")


class ClaudeSection(ProviderSection):
    """Claude Code."""

    beside = MappingProxyType({"dialect": "dialect/claude.toml"})
    examples = MappingProxyType({"prices": ("claude-sonnet", ModelPrices(input=3, output=15))})

    default_command: ProgramOrName = ("claude",)
    """The program: its name, its absolute path, or a list of the program and its first arguments."""
    default_args: tuple[Text, ...] = ()
    """Options for every agent type in agent_configs."""
    prompt_via: Literal["argument", "file"] = "argument"
    """How claude gets the prompt. argument: on its command line, which `ps` shows to every user of this machine. file:
    in a file that only you can read."""
    env: dict[Variable, Text] = {}
    """Variables added to the environment of the agent."""
    check_new_versions: bool = True
    """When agents start or run a claude that was not checked, run `sm check claude` in the background, with the lowest
    priority. It spends no token."""
    resume: Literal["full", "summary", "ask"] = "full"
    """Handling of a restored conversation of 100,000 tokens or more whose last turn ended 70 minutes ago or earlier.
    full: claude goes on with all of it. summary: sm sends `/compact` first. ask: claude may ask at its terminal,
    depending on the account; the session waits for a person then."""
    sessions_may_message: bool = False
    """Let other claudes of the same user, also those that sm does not know, send messages to agents with claude's own
    tools (ListAgents and SendMessage). No rule of sm applies to these messages; each one that begins a turn is a
    warning in `sm events`. If false, claude refuses them."""
    briefing: AbsolutePath | None = None
    """Absolute path of a text file that replaces the built-in briefing, which every agent gets before its task. sm
    fills in {name} {id} {agent_type} {parent} {trust} {working_dir} {agent_types} {tools}."""
    dialect: AbsolutePath | None = None
    """Absolute path of a TOML file with words and facts of claude that count before those of sm, for a version that sm
    does not understand yet (docs/guide/claude.md), or null for dialect/claude.toml beside this file, if it is there."""
    # No default type is `spawnable`: Engineer and Explore bypass all permissions, and any agent could gain these with
    # one `sm spawn`. Only the operator may allow such an escalation.
    agent_configs: Annotated[dict[AgentType, AgentConfig], NOTHING] = {
        "Engineer": AgentConfig(model="sonnet", args=_BYPASS, description="changes and tests code"),
        "Architect": AgentConfig(model="opus", args=_PLAN, description="designs and plans, changes no files"),
        "Explore": AgentConfig(model="haiku", args=_BYPASS, description="searches and reads, quickly"),
        "general-purpose": AgentConfig(model="sonnet", description="any other task"),
        "Coordinator": AgentConfig(
            model="opus",
            description="leads a team: starts, approves, answers and kills agents without asking you",
            prompt=_COORDINATOR,
            auto_allow=_COORDINATOR_RULES,
        ),
    }
    """Agent types that run Claude Code, by name. Your types are added to these; `NAME: null` removes one of these."""
    presets: Annotated[dict[Name, ModelArgs], NOTHING] = {
        "quick-fix": ModelArgs(model="sonnet", args=_BYPASS),
        "deep-analysis": ModelArgs(model="opus", args=_PLAN),
    }
    """Settings that `sm spawn --preset NAME` adds, by name. Your presets are added to these; `NAME: null` removes one
    of these."""
    what: SummarizerSettings = SummarizerSettings()
    """How `sm what` writes the summary of a session."""
    prices: Annotated[dict[Model, ModelPrices], NOTHING] = {}
    """Prices that differ from the public ones, by a prefix of the model's full name."""

    def files(self) -> Iterator[tuple[str, str, Callable[[str], object]]]:
        if self.briefing is not None:
            yield "briefing", self.briefing, read_briefing


def read_briefing(path: str) -> str:
    """The text of `claude.briefing`. Raises ConfigError."""
    from sm.config.loading import read_text

    return read_text(path, BRIEFING_MAX_BYTES)


SECTION = ClaudeSection
