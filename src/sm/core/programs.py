"""The facts of agent CLIs and of engines of containers that other rooms need: files, variables, words.

Each package of the registry has them in its module `program`.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from sm import registry
from sm.core.dataclass import dataclass

OWN_SERVER = "sm"
"""The name of the MCP server that sm gives to its agents.

The agent CLI names its tools `mcp__sm__create_session` and the like.
"""


@dataclass(frozen=True, slots=True)
class McpLaunch:
    """The way in which an MCP client starts `sm mcp`."""

    command: Sequence[str]
    variables: Sequence[str]
    """The variables that the process reads, for clients that give their servers only variables that they know."""
    starts_s: int
    """The time limit for the start."""
    call_s: int
    """The time limit for a call of a tool."""


@dataclass(frozen=True, slots=True)
class McpClient:
    """The configuration of the server `sm` in an MCP client. `place`: the file that it belongs to."""

    place: str
    config: Callable[[McpLaunch], Mapping[str, object] | str]
    """Returns the text with a line break at its end, or the value that is written as JSON."""


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """An agent CLI that `sm sandbox build` can install from npm."""

    package: str
    """The package of npm, whose packages for each platform hold the program."""
    file: str
    """The program in that package, as a pattern of the shell."""
    tested: str = ""
    """The version that an image gets unless another one is named, or empty for the newest."""


class RuleKind(StrEnum):
    """The comparison of the pattern of a permission rule with an argument of a tool."""

    COMMAND = "command"
    """A command line of a shell."""
    PATH = "path"
    SEARCH = "search"
    """The directory of a search. Without one, the search begins in the working directory."""
    URL = "url"


@dataclass(frozen=True, slots=True)
class RuledTool:
    """A tool whose uses rules with a pattern can tell apart."""

    kind: RuleKind
    argument: str
    """The argument that a pattern is compared with."""
    names: str | None = None
    """The argument of a search that names files below its directory, or leads out of it."""
    unruled: str | None = None
    """An argument with which no rule allows a use."""
    remark: str | None = None
    """An argument that only describes the use to a person, in words of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgram:
    """The facts of one agent CLI, by which its provider and its program in images are named."""

    name: str
    location_variables: tuple[str, ...] = ()
    """Variables that locate the files of its user."""
    inherited_variables: tuple[str, ...] = ()
    """Variables that a session gets from the caller's environment by default."""
    container_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that a person's shell and its login get in a container."""
    reserved_variables: frozenset[str] = frozenset()
    """Variables that a container never gets from the caller, because `sm` sets them."""
    home_secrets: tuple[str, ...] = ()
    """Files and directories with credentials, below the home directory of its user."""
    executed_files: tuple[str, ...] = ()
    """Files of a project from which it runs programs or takes permissions on this machine."""
    login: tuple[str, ...] = ()
    """The command that logs in, or empty if it has no login in a container."""
    image: ImageRecipe | None = None
    """None if images do not have it."""
    ruled_tools: Mapping[str, RuledTool] = field(default_factory=dict)
    """Its tools for which a permission rule can have a pattern, by name."""
    question_tools: frozenset[str] = frozenset()
    """Its tools that ask a person, which no rule allows: a question needs an answer, and a yes does not answer it."""
    plan_tools: frozenset[str] = frozenset()
    """Its tools that ask for approval of a plan."""
    bypass_modes: frozenset[str] = frozenset()
    """Its permission modes in which it asks for no permissions, as it shows them."""
    mcp_client: McpClient | None = None
    """None if it is no MCP client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProgram:
    """The facts of one kind of engine."""

    name: str
    """Its name in the registry."""
    title: str
    """Its name for people."""
    url_pattern: str
    """A regular expression for the values of `sandbox.engine` that name such an engine."""
    variable_prefix: str
    """The beginning of the variables that locate it, which the daemon inherits."""
    host_name: str
    """The name of this machine in a container with `host_access`."""
    cgroup_prefix: str
    """The text before the id of a container in the name of its cgroup."""
    sockets: tuple[str, ...] = ()
    """The names of its sockets, which no container may see."""
    data: tuple[str, ...] = ()
    """Its directories on this machine, which no container may see."""
    home_secrets: tuple[str, ...] = ()
    """As in `AgentProgram`."""


def agent_programs() -> tuple[AgentProgram, ...]:
    """The agent CLIs of the registry, in its order, without providers that start any program."""
    return _programs(tuple(registry.PROVIDERS.values()))


@functools.cache
def _programs(packages: tuple[str, ...]) -> tuple[AgentProgram, ...]:
    parts = (registry.part(package, "program") for package in packages)
    return tuple(part.PROGRAM for part in parts if part is not None)


def ruled_tools() -> dict[str, RuledTool]:
    """The tools of all agent CLIs for which a permission rule can have a pattern, by name."""
    return {name: tool for known in agent_programs() for name, tool in known.ruled_tools.items()}


def free_arguments(tool: str) -> str:
    """The arguments that an exact rule for a use of the tool leaves open, in words. Empty for a command."""
    ruled = ruled_tools().get(tool)
    if ruled is None:
        return "any arguments"
    return "" if ruled.kind is RuleKind.COMMAND else "any other arguments"


def is_question(tool: str) -> bool:
    """Return whether a tool asks a person."""
    return any(tool in known.question_tools for known in agent_programs())


def is_plan(tool: str | None) -> bool:
    """Return whether a tool asks for approval of a plan."""
    return any(tool in known.plan_tools for known in agent_programs())


def is_bypass(mode: str | None) -> bool:
    """Return whether an agent in this permission mode asks for no permissions."""
    return any(mode in known.bypass_modes for known in agent_programs())


def image_agents() -> dict[str, ImageRecipe]:
    """The agent CLIs that an image can have, by name."""
    return {known.name: known.image for known in agent_programs() if known.image is not None}


def login_commands() -> dict[str, tuple[str, ...]]:
    """The command by which each agent CLI logs in, by its name."""
    return {known.name: known.login for known in agent_programs() if known.login}


def location_variables() -> tuple[str, ...]:
    """Environment variables that locate the user files of agent CLIs."""
    return ("HOME", *(name for program in agent_programs() for name in program.location_variables))


def engine_programs() -> tuple[EngineProgram, ...]:
    """The engines of the registry, in its order."""
    return tuple(registry.load(f"{package}.program").PROGRAM for package in registry.ENGINES.values())


def engine_of(url: str | None) -> EngineProgram:
    """The engine that `sandbox.engine` names. Any other value means the first one of the registry."""
    engines = engine_programs()
    named = (engine for engine in engines if url is not None and re.fullmatch(engine.url_pattern, url))
    return next(named, engines[0])
