"""Agent types, as the sections of providers and definition files set them."""

from typing import TYPE_CHECKING, Self

from pydantic import Field

from sm.config.capability_keys import keys_of_capabilities
from sm.config.fields import AllowRules, DenyRules, Lifecycle, Model, Price, Text, Tool
from sm.section import Section

if TYPE_CHECKING:

    class AgentKeysOfCapabilities(Section):
        """The keys of agent types that capabilities add."""

else:
    AgentKeysOfCapabilities = keys_of_capabilities("AGENT")


class ModelArgs(Section):
    """Settings that `sm spawn --preset NAME` adds to those of the agent type."""

    model: Model | None = None
    """The model, as for claude --model, or null to set no model here."""
    args: tuple[Text, ...] = ()
    """Options for claude. If an option is given twice, the last one applies."""


class AgentKeys(ModelArgs):
    """The keys of the kernel in `AgentConfig`."""

    spawnable: bool = False
    """Let sessions start this agent type with its own permission mode, even if their own mode allows less."""

    description: Text | None = None
    """The purpose of this agent type, in a few words. Agents see it when they choose a type to spawn."""
    prompt: Text | None = None
    """Text added at the end of the briefing."""
    tools: tuple[Tool, ...] | None = None
    """The built-in tools of claude that this agent type may use, or null for all. An agent without Bash cannot
    report to sm."""
    lifecycle: Lifecycle | None = None
    """The mode of its sessions, as in child_agents.mode, or null for that of the workspace."""
    mcp: bool = True
    """Give this agent type the MCP server of sm, with the tools of docs/mcp.md."""
    auto_allow: AllowRules = ()
    """Rules for permissions that are granted without a question: Tool or Tool(PATTERN), such as Bash(npm test *),
    Edit(src/*), WebFetch(https://example.org/*). `*` matches any text; mcp__SERVER__* matches every tool of a server.
    A Bash pattern with `*` never matches a command with unquoted ; & | < > ( ) $ ` or a line break."""
    auto_deny: DenyRules = ()
    """Rules for permissions that are refused without a question. They override auto_allow. Bash(rm *) also matches
    inside commands joined by ; && | and the like. Rules apply only to permissions that claude asks for: with
    bypassPermissions it asks for none. Rules do not replace a sandbox."""


class AgentConfig(AgentKeysOfCapabilities, AgentKeys):
    """An agent type that runs Claude Code."""

    @classmethod
    def of_command(cls, command: Section) -> Self:
        """Take the settings that a command shares with agent types."""
        shared = ("lifecycle", *AgentKeysOfCapabilities.model_fields)
        return cls(**{name: getattr(command, name) for name in shared})


class SummarizerSettings(Section):
    enabled: bool = False
    """Ask a model for the summary. This uses tokens of your account."""
    model: Model = "haiku"
    """The model that writes the summary."""
    timeout_s: int = Field(default=60, ge=1, le=600)
    """Maximum time in seconds for the answer of the model."""


class ModelPrices(Section):
    """Prices in US dollars per million tokens."""

    input: Price
    """US dollars per million input tokens."""
    output: Price
    """US dollars per million output tokens."""
    cache_read: Price | None = None
    """US dollars per million tokens read from the cache, or null for a tenth of input."""
    cache_write: Price | None = None
    """US dollars per million tokens written to the cache, or null for 1.25 times input."""
