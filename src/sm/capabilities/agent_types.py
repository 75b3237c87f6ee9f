"""The agent types that a spawn can name: from the configuration, and from files in four directories."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from sm.capabilities.directories import Contents, DefinitionFiles, Directory
from sm.config import AgentConfig, Config, Definition, is_agent_type
from sm.core.models import Workspace
from sm.core.text import folded
from sm.errors import ConfigError, ExternalError, UnknownAgentType
from sm.paths import Places
from sm.providers.base import Provider

CONFIGURED = "config"
"""The origin of an agent type of config.yaml."""

_READ_WITHIN_S = 10.0
_BRIEFING_WITHIN_S = 2.0
_THREADS = 2


@dataclass(frozen=True, slots=True)
class AgentType:
    """Something that can be spawned, or was meant to be."""

    name: str
    provider: str
    origin: str
    """CONFIGURED, or the path of the file."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    problem: str | None = None
    """Why nothing can be started so: what is wrong in its file."""
    shadowed_by: str | None = None
    """The origin of another one of this name, which counts."""
    withheld: bool = False
    """Whether the workspace does not give it to its sessions."""
    warnings: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return self.problem is None and self.shadowed_by is None and not self.withheld


@dataclass(frozen=True, slots=True)
class Catalog:
    """All agent types that there are for a session of one workspace, the configured ones first."""

    workspace: Workspace | None
    types: tuple[AgentType, ...]
    warnings: tuple[str, ...] = ()
    """What else is wrong in the directories."""
    where: str = ""
    """Where types are configured, for hints."""
    unread: tuple[str, ...] = ()
    """That only configured types are here, in words for whoever starts one of them."""

    @property
    def usable(self) -> tuple[AgentType, ...]:
        return tuple(each for each in self.types if each.usable)

    def known(self, name: str) -> AgentType | None:
        """The type as it counts, whether anything may be started so or not."""
        return next((t for t in self.types if t.name == name and t.shadowed_by is None), None)

    def pick(self, name: str) -> AgentType:
        """The type to start something as. Raises UnknownAgentType, and ConfigError when its file is broken."""
        found = self.known(name)
        if found is None or found.withheld:
            raise UnknownAgentType(f"unknown agent type {folded(name, 64)}", self._hint(name, found))
        if found.problem is not None:
            lines = "\n".join(f"{found.origin}:{each}" for each in found.problem.splitlines())
            raise ConfigError(f"agent type {name} cannot be used:\n{lines}", "mend the file, or remove it")
        return found

    def unmatched(self, names: Sequence[str]) -> tuple[str, ...]:
        """A sentence for each of the names that no type has, with the nearest one."""
        told = []
        for name in names:
            if self.known(name) is None:
                near = _nearest(name, self.types)
                told.append(f"there is no agent type {name} now{f'; did you mean {near}?' if near else ''}")
        return tuple(told)

    def _hint(self, name: str, found: AgentType | None) -> str:
        if found is not None:
            if self.workspace is None:
                return "sessions without a workspace are not given it: default_capabilities.agents in config.yaml"
            slug = self.workspace.slug
            return (
                f"workspace {slug} does not give it to its sessions: sm workspace set {slug} --agents NAMES"
            )
        if near := _nearest(name, self.usable):
            return f"did you mean {near}?"
        if self.usable:
            known = folded(", ".join(sorted({each.name for each in self.usable})), 600)
            return f"known are: {known}; after a change of config.yaml: sm daemon restart"
        return f"add it under commands: in {self.where} (sm config --example), then: sm daemon restart"


def _nearest(name: str, types: Sequence[AgentType]) -> str | None:
    by_lower = {each.name.lower(): each.name for each in types}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def check_name(name: str) -> None:
    """Raises UnknownAgentType for what no agent type can be called: before any file is looked at."""
    if not is_agent_type(name):
        raise UnknownAgentType(
            f"unknown agent type {folded(name, 64)}",
            "its name is letters, digits, dash and underscore, at most 64; sm agents lists those that there are",
        )


class AgentTypes:
    """Finds agent types.

    Agents can write the files, and the agents of one team must not hold up another team: the files are read in threads
    of their own, within a bounded time, each directory once at a time for all callers. A spawn of a configured type
    waits for them only briefly.
    """

    def __init__(self, config: Config, places: Places, providers: Mapping[str, Provider]) -> None:
        self._config = config
        self._places = places
        self._providers = providers
        self._definitions = {
            name: each.definitions for name, each in providers.items() if each.definitions is not None
        }
        self._files = DefinitionFiles(tuple(self._definitions))
        self._running: dict[Directory, asyncio.Future[Contents]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "sm-definitions")

    async def found(
        self, workspace: Workspace | None, environment: Mapping[str, str], *, wanted: str | None = None
    ) -> Catalog:
        """Those for a session of this workspace (None: of none) that inherits this environment.

        `wanted` is the one that is to be started: if that is configured, no file can change what it is, and it waits
        but a moment for the others that it may be told of. Raises ExternalError when a file system does not answer.
        """
        configured = {each.name: each for each in self._configured()}
        kind = configured.get(wanted or "")
        if kind is not None and kind.provider not in self._definitions:
            return self._catalog(workspace, {})
        within_s = _READ_WITHIN_S if kind is None else _BRIEFING_WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                directories = dict.fromkeys(self._directories(workspace, environment))
                contents = await asyncio.gather(*(self._contents(each) for each in directories))
                found = dict(zip(directories, contents, strict=True))
        except TimeoutError:
            trouble = f"do not answer within {within_s:g} s"
            if kind is None:
                raise ExternalError(f"the directories of agent definitions {trouble}", "sm doctor") from None
            told = f"the agent types that files define are not told to it: their directories {trouble}"
            return replace(self._catalog(workspace, {}), unread=(told,))
        return self._catalog(workspace, found)

    def _catalog(self, workspace: Workspace | None, found: Mapping[Directory, Contents]) -> Catalog:
        warnings: list[str] = []
        types = {each.name.lower(): each for each in self._configured()}
        shadowed: list[AgentType] = []
        seen: set[tuple[int, int]] = set()
        for directory, contents in found.items():
            if contents.identity in seen:  # the operator's may lie in a workspace
                continue
            if contents.identity is not None:
                seen.add(contents.identity)
            warnings += contents.warnings
            for each in (self._type(name, directory, said) for name, said in contents.definitions):
                first = types.setdefault(each.name.lower(), each)
                if first is not each:
                    shadowed.append(replace(each, shadowed_by=first.origin))
        given = self._given(workspace)
        return Catalog(
            workspace,
            tuple(
                replace(t, withheld=given is not None and t.name not in given)
                for t in (*types.values(), *shadowed)
            ),
            tuple(warnings),
            self._places.config,
        )

    def _configured(self) -> Iterator[AgentType]:
        for provider in self._providers.values():
            for name in provider.agent_types:
                yield AgentType(name, provider.name, CONFIGURED, provider.configured(name) or AgentConfig())

    def _given(self, workspace: Workspace | None) -> tuple[str, ...] | None:
        """The types that sessions there are given; None: all."""
        if workspace is not None:
            return workspace.capabilities.agents
        agents = self._config.default_capabilities.agents
        return None if agents == "all" else agents

    # Files

    async def _contents(self, directory: Directory) -> Contents:
        """What is there now. Whoever asks while it is read shares the next read with all who do, since this one may
        have passed what has just changed; who gives up waiting leaves one behind, and not one each.
        """
        before = self._running.get(directory)
        if before is not None:
            await asyncio.wait([before])
        now = self._running.get(directory)
        if now is None:
            now = asyncio.get_running_loop().run_in_executor(self._threads, self._files.read, directory)
            self._running[directory] = now
            now.add_done_callback(lambda _: self._running.pop(directory, None))
        return await asyncio.shield(now)

    def _directories(
        self, workspace: Workspace | None, environment: Mapping[str, str]
    ) -> Iterator[Directory]:
        """By precedence. The first provider gets the files in directories of `sm` itself that name no provider."""
        first = next(iter(self._definitions), None)
        if first is None:
            return
        if workspace is not None:
            yield Directory(workspace.directory, (".sm", "agents"), first, own=False)
            for name, definitions in self._definitions.items():
                yield Directory(workspace.directory, definitions.project_directory, name, own=False)
        yield Directory(self._places.home, ("agents",), first, own=True)
        for name, definitions in self._definitions.items():
            directory = definitions.user_directory(environment)
            if directory is not None:
                yield Directory(directory, (), name, own=True)

    def _type(self, name: str, directory: Directory, said: Definition | str) -> AgentType:
        """The agent type of one file. `said`: its definition, or the mistake in it."""
        path = f"{directory.path}/{name}.md"
        if isinstance(said, str):
            return AgentType(name, directory.provider, path, problem=said)
        provider = said.provider or directory.provider
        agent, warnings = self._definitions[provider].applied(said)
        if agent.spawnable and not directory.own:
            agent = agent.model_copy(update={"spawnable": False})
            warnings += ("`spawnable` has no effect in the directory of a workspace, where agents can write",)
        return AgentType(name, provider, path, agent, warnings=(*said.warnings, *warnings))
