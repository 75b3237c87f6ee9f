"""Finds agent types in the configuration and in definition files of four directories."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from difflib import get_close_matches

from sm.config import AgentConfig, Config, Definition, is_agent_type
from sm.core.dataclass import dataclass
from sm.core.items import ItemState
from sm.core.models import Workspace
from sm.core.text import folded
from sm.equipment.agreements import Agreements
from sm.equipment.directories import Contents, DefinitionFiles, Directory, workspace_directories
from sm.errors import ConfigError, ExternalError, NotPermitted, UnknownAgentType
from sm.operations.agent_operations import LIST_AGENT_TYPES
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.paths import InstancePaths
from sm.providers.base import Definitions, Provider

CONFIGURED = "config"
"""The origin of agent types in config.yaml."""

_READ_WITHIN_S = 10.0
_BRIEFING_WITHIN_S = 2.0
_THREADS = 2


@dataclass(frozen=True, slots=True)
class AgentType:
    """An agent type, usable or not."""

    name: str
    provider: str
    origin: str
    """CONFIGURED, or the path of the definition file."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    problem: str | None = None
    """The mistakes in the definition file, which make the type unusable."""
    shadowed_by: str | None = None
    """The origin of the type with this name that takes precedence."""
    withheld: bool = False
    """The workspace does not offer this type to its sessions."""
    agreement: ItemState = ItemState.AGREED
    """The operator's agreement to the definition file. The settings of a type without an agreement are not used."""
    warnings: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        agreed = self.agreement is ItemState.AGREED
        return agreed and self.problem is None and self.shadowed_by is None and not self.withheld


@dataclass(frozen=True, slots=True)
class Catalog:
    """All agent types for the sessions of one workspace, configured types first."""

    workspace: Workspace | None
    types: tuple[AgentType, ...]
    warnings: tuple[str, ...] = ()
    """Other mistakes in the directories."""
    where: str = ""
    """The path of the configuration file, for hints."""
    caller_warnings: tuple[str, ...] = ()
    """Warnings for the caller of a spawn: definition files that were not read in time, or that are left out."""

    @property
    def usable(self) -> tuple[AgentType, ...]:
        return tuple(t for t in self.types if t.usable)

    def find(self, name: str) -> AgentType | None:
        """The type that takes precedence for this name, even if it is not usable."""
        return next((t for t in self.types if t.name == name and t.shadowed_by is None), None)

    def pick(self, name: str) -> AgentType:
        """The usable type of this name, in any case: no two types differ in case only.

        Raises UnknownAgentType, ConfigError for a broken definition file, and NotPermitted for one without an
        agreement.
        """
        agent_type = self.find(name) or next(
            (t for t in self.types if t.name.lower() == name.lower() and t.shadowed_by is None), None
        )
        if agent_type is None or agent_type.withheld:
            raise UnknownAgentType(f"unknown agent type {folded(name, 64)}", self._hint(name, agent_type))
        if agent_type.agreement is not ItemState.AGREED and self.workspace is not None:
            raise NotPermitted(
                f"agent type {name} is left out until the operator agrees to {folded(agent_type.origin, 400)} "
                f"({agent_type.agreement})",
                f"sm workspace agree {self.workspace.slug}",
            )
        if agent_type.problem is not None:
            lines = "\n".join(f"{agent_type.origin}:{line}" for line in agent_type.problem.splitlines())
            raise ConfigError(f"agent type {name} cannot be used:\n{lines}", "fix the file or remove it")
        return agent_type

    def unknown_name_warnings(self, names: Sequence[str]) -> tuple[str, ...]:
        """A warning for each name without a type, with the most similar name."""
        warnings = []
        for name in names:
            if self.find(name) is None:
                near = _nearest(name, self.types)
                warnings.append(
                    f"agent type {name} does not exist{f'; did you mean {near}?' if near else ''}"
                )
        return tuple(warnings)

    def _hint(self, name: str, agent_type: AgentType | None) -> str:
        if agent_type is not None:
            if self.workspace is None:
                return f"to allow {name} without a workspace, set default_capabilities.agents in config.yaml"
            slug = self.workspace.slug
            return f"to allow {name} in workspace {slug}: sm workspace set {slug} --agents NAMES"
        if near := _nearest(name, self.usable):
            return f"did you mean {near}?"
        if self.usable:
            known = folded(", ".join(sorted({usable.name for usable in self.usable})), 600)
            return f"known agent types: {known}; after a change of config.yaml: sm config --check"
        return f"add one under commands: in {self.where} (see sm config --example)"


def _nearest(name: str, types: Sequence[AgentType]) -> str | None:
    by_lower = {known.name.lower(): known.name for known in types}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def check_name(name: str) -> None:
    """Raises UnknownAgentType for an invalid name, before any file is read."""
    if not is_agent_type(name):
        if " " in name:
            hint = Hint(
                "give the agent type before the prompt: ",
                Use(SPAWN, "AGENT_TYPE", "PROMPT"),
                "; list agent types: ",
                Use(LIST_AGENT_TYPES),
            )
        else:
            hint = Hint(
                "use letters, digits, dash and underscore, at most 64 characters; list agent types: ",
                Use(LIST_AGENT_TYPES),
            )
        raise UnknownAgentType(f"invalid agent type {folded(name, 64)!r}", hint)


class AgentTypes:
    """Finds agent types.

    Agents can write the files and must not block other teams. A separate thread pool reads them with a timeout, and
    callers share one read per directory. A spawn of a configured type waits only _BRIEFING_WITHIN_S for the files.
    """

    def __init__(
        self,
        config: Config,
        paths: InstancePaths,
        providers: Mapping[str, Provider],
        agreements: Agreements,
    ) -> None:
        self._agreements = agreements
        self._config = config
        self._paths = paths
        self._providers = providers
        self._files = DefinitionFiles(tuple(self._definitions))
        self._running: dict[Directory, asyncio.Future[Contents]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "sm-definitions")

    @property
    def _definitions(self) -> Mapping[str, Definitions]:
        found = ((name, provider.definitions) for name, provider in self._providers.items())
        return {name: definitions for name, definitions in found if definitions is not None}

    async def catalog(
        self, workspace: Workspace | None, environment: Mapping[str, str], *, wanted: str | None = None
    ) -> Catalog:
        """The agent types for a session in `workspace` that inherits `environment`.

        `wanted`: the type to start. Files cannot change a configured type; they only extend the list in its briefing,
        so the timeout is short. Raises ExternalError when a file system does not answer.
        """
        configured = {t.name.lower(): t for t in self._configured()}
        kind = configured.get((wanted or "").lower())
        if kind is not None and kind.provider not in self._definitions:
            return self._build_catalog(workspace, {}, {})
        within_s = _READ_WITHIN_S if kind is None else _BRIEFING_WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                directories = dict.fromkeys(self._directories(workspace, environment))
                contents = await asyncio.gather(*(self._contents(directory) for directory in directories))
                by_directory = dict(zip(directories, contents, strict=True))
                items = [item for content in contents for item in content.items.values()]
                states = await asyncio.to_thread(self._agreements.states, items)
        except TimeoutError:
            trouble = f"did not respond within {within_s:g} s"
            if kind is None:
                raise ExternalError(f"the directories of agent definitions {trouble}", "sm doctor") from None
            warning = (
                f"the agent does not know the agent types that files define: their directories {trouble}"
            )
            return replace(self._build_catalog(workspace, {}, {}), caller_warnings=(warning,))
        agreements = {item.file: state for item, state in zip(items, states, strict=True)}
        catalog = self._build_catalog(workspace, by_directory, agreements)
        return replace(catalog, caller_warnings=tuple(_left_out_warnings(catalog, wanted)))

    def _build_catalog(
        self,
        workspace: Workspace | None,
        by_directory: Mapping[Directory, Contents],
        agreements: Mapping[str, ItemState],
    ) -> Catalog:
        warnings: list[str] = []
        types = {t.name.lower(): t for t in self._configured()}
        shadowed: list[AgentType] = []
        found: list[AgentType] = []
        seen: set[tuple[int, int]] = set()
        for directory, contents in by_directory.items():
            if contents.identity in seen:  # the operator's directory may be inside a workspace
                continue
            if contents.identity is not None:
                seen.add(contents.identity)
            warnings += contents.warnings
            for name, definition in contents.definitions:
                found.append(self._type(name, directory, definition, agreements))
        # A file without an agreement takes precedence over nothing.
        for agent_type in sorted(found, key=lambda t: t.agreement is not ItemState.AGREED):
            first = types.setdefault(agent_type.name.lower(), agent_type)
            if first is not agent_type:
                shadowed.append(replace(agent_type, shadowed_by=first.origin))
        offered = self._offered_names(workspace)
        return Catalog(
            workspace,
            tuple(
                replace(t, withheld=offered is not None and t.name not in offered)
                for t in (*types.values(), *shadowed)
            ),
            tuple(warnings),
            self._paths.config,
        )

    def _configured(self) -> Iterator[AgentType]:
        for provider in self._providers.values():
            for name in provider.agent_types:
                yield AgentType(name, provider.name, CONFIGURED, provider.agent_config(name) or AgentConfig())

    def _offered_names(self, workspace: Workspace | None) -> tuple[str, ...] | None:
        """The names of the types that sessions there may use, or None for all."""
        if workspace is not None:
            return workspace.capabilities.agents
        agents = self._config.default_capabilities.agents
        return None if agents == "all" else agents

    # Files

    async def _contents(self, directory: Directory) -> Contents:
        """The current contents of a directory.

        A read in progress may already have passed a recent change, so all callers that arrive meanwhile share the next
        read. A cancelled caller leaves the shared read running.
        """
        current = self._running.get(directory)
        if current is not None:
            await asyncio.wait([current])
        read = self._running.get(directory)
        if read is None:
            read = asyncio.get_running_loop().run_in_executor(self._threads, self._files.read, directory)
            self._running[directory] = read
            read.add_done_callback(lambda _: self._running.pop(directory, None))
        return await asyncio.shield(read)

    def _directories(
        self, workspace: Workspace | None, environment: Mapping[str, str]
    ) -> Iterator[Directory]:
        """The directories by precedence. In the directories of `sm`, the first provider is the default."""
        first = next(iter(self._definitions), None)
        if first is None:
            return
        if workspace is not None:
            yield from workspace_directories(workspace.directory, self._providers)
        yield Directory(self._paths.home, ("agents",), first, own=True)
        for name, definitions in self._definitions.items():
            directory = definitions.user_directory(environment)
            if directory is not None:
                yield Directory(directory, (), name, own=True)

    def _type(
        self,
        name: str,
        directory: Directory,
        definition: Definition | str,
        agreements: Mapping[str, ItemState],
    ) -> AgentType:
        """The agent type of one file. `definition` is a str if the file has mistakes."""
        path = f"{directory.path}/{name}.md"
        agreement = agreements.get(path, ItemState.AGREED)
        if agreement is not ItemState.AGREED:
            return AgentType(name, directory.provider, path, agreement=agreement)
        if isinstance(definition, str):
            return AgentType(name, directory.provider, path, problem=definition)
        provider = definition.provider or directory.provider
        agent, warnings = self._definitions[provider].apply(definition)
        if agent.spawnable and not directory.own:
            agent = agent.model_copy(update={"spawnable": False})
            warnings += ("`spawnable` has no effect in the directory of a workspace, where agents can write",)
        return AgentType(name, provider, path, agent, warnings=(*definition.warnings, *warnings))


def _left_out_warnings(catalog: Catalog, wanted: str | None) -> Iterator[str]:
    """Warn if another definition is used in place of one without an agreement."""
    for agent_type in catalog.types:
        is_wanted = wanted is not None and agent_type.name.lower() == wanted.lower()
        if is_wanted and agent_type.agreement is not ItemState.AGREED and catalog.workspace is not None:
            yield (
                f"{folded(agent_type.origin, 400)} is left out until the operator agrees to it "
                f"({agent_type.agreement}; sm workspace agree {catalog.workspace.slug})"
            )
