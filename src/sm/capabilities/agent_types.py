"""The agent types that a spawn finds: those of the configuration, and those that files in four directories define.

A file is found by listing its directory and comparing names: nothing that a caller says becomes a part of a path.
"""

import asyncio
import errno
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from sm.config import AgentConfig, Config, Definition, is_agent_type, read_definition, settings_length
from sm.core.models import Workspace
from sm.core.text import folded
from sm.errors import ConfigError, ExternalError, UnknownAgentType
from sm.paths import Places

CONFIGURED = "config"
"""The origin of an agent type of config.yaml."""

_log = logging.getLogger(__name__)

_MAX_BYTES = 64 * 1024
_SETTINGS_MAX = 64 * 1024
"""Characters of settings in one directory: YAML takes up to 20 s for a million, and agents can write such files. With
more text in them than this claude itself calls the descriptions too long."""
_FILES_MAX = 100
_ENTRIES_MAX = 2_000
_ODD_SHOWN = 3
_READ_WITHIN_S = 10.0
_BRIEFING_WITHIN_S = 2.0
_THREADS = 2
_SETTLED_NS = 1_000_000_000
_DIRECTORIES_MAX = 64
_CLAUDE = "claude"
_TOO_MUCH = (
    f"1:1: is not read: with it the settings in this directory are longer than {_SETTINGS_MAX:,} characters"
)


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
        by_lower = {each.name.lower(): each.name for each in self.types}
        told = []
        for name in names:
            if self.known(name) is None:
                near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
                guess = f"; did you mean {by_lower[near[0]]}?" if near else ""
                told.append(f"there is no agent type {name} now{guess}")
        return tuple(told)

    def _hint(self, name: str, found: AgentType | None) -> str:
        if found is not None:
            if self.workspace is None:
                return "sessions without a workspace are not given it: default_capabilities.agents in config.yaml"
            slug = self.workspace.slug
            return (
                f"workspace {slug} does not give it to its sessions: sm workspace set {slug} --agents NAMES"
            )
        by_lower = {each.name.lower(): each.name for each in self.usable}
        near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
        if near:
            return f"did you mean {by_lower[near[0]]}?"
        if by_lower:
            known = folded(", ".join(sorted(by_lower.values())), 600)
            return f"known are: {known}; after a change of config.yaml: sm daemon restart"
        return f"add it under commands: in {self.where} (sm config --example), then: sm daemon restart"


def check_name(name: str) -> None:
    """Raises UnknownAgentType for what no agent type can be called: before any file is looked at."""
    if not is_agent_type(name):
        raise UnknownAgentType(
            f"unknown agent type {folded(name, 64)}",
            "its name is letters, digits, dash and underscore, at most 64; sm agents lists those that there are",
        )


@dataclass(frozen=True, slots=True)
class _Directory:
    """Where definitions lie. `own`: it is the operator's, who may link and say what is spawnable."""

    base: str
    below: tuple[str, ...]
    own: bool

    @property
    def path(self) -> str:
        return "/".join((self.base.rstrip("/"), *self.below))


@dataclass(frozen=True, slots=True)
class _File:
    """What a file said when it looked so."""

    stamp: tuple[int, ...]
    said: Definition | str
    """Its definition, or what is wrong with it."""
    length: int = 0
    """Characters of its settings."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """What one directory defines."""

    identity: tuple[int, int] | None = None
    """Of the directory itself, whatever path it was found by; None: it could not be opened."""
    types: tuple[AgentType, ...] = ()
    warnings: tuple[str, ...] = ()


class AgentTypes:
    """Finds agent types. The files are read again only when they have changed.

    Agents can write them, and of one team must not hold up another: they are read in threads of their own, in a
    bounded time, each directory once at a time for all who ask, and for a configured type nobody waits long.
    """

    def __init__(self, config: Config, places: Places) -> None:
        self._config = config
        self._places = places
        self._read: dict[_Directory, Mapping[str, _File]] = {}
        self._running: dict[_Directory, asyncio.Future[_Contents]] = {}
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
        if kind is not None and kind.provider != _CLAUDE:
            return self._catalog(workspace, ())
        within_s = _READ_WITHIN_S if kind is None else _BRIEFING_WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                directories = dict.fromkeys(self._directories(workspace, environment))
                contents = await asyncio.gather(*(self._contents(each) for each in directories))
        except TimeoutError:
            trouble = f"do not answer within {within_s:g} s"
            if kind is None:
                raise ExternalError(f"the directories of agent definitions {trouble}", "sm doctor") from None
            told = f"the agent types that files define are not told to it: their directories {trouble}"
            return replace(self._catalog(workspace, ()), unread=(told,))
        return self._catalog(workspace, contents)

    def _catalog(self, workspace: Workspace | None, contents: Sequence[_Contents]) -> Catalog:
        warnings: list[str] = []
        types = {each.name.lower(): each for each in self._configured()}
        shadowed: list[AgentType] = []
        seen: set[tuple[int, int]] = set()
        for directory in contents:
            if directory.identity in seen:  # the operator's may lie in a workspace
                continue
            if directory.identity is not None:
                seen.add(directory.identity)
            warnings += directory.warnings
            for each in directory.types:
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
        claude = self._config.claude.agent_configs
        for name in self._config.claude_agents:
            yield AgentType(name, _CLAUDE, CONFIGURED, claude[name])
        for name in self._config.commands:
            yield AgentType(name, "command", CONFIGURED)

    def _given(self, workspace: Workspace | None) -> tuple[str, ...] | None:
        """The types that sessions there are given; None: all."""
        if workspace is not None:
            return workspace.capabilities.agents
        agents = self._config.default_capabilities.agents
        return None if agents == "all" else agents

    # Files

    async def _contents(self, directory: _Directory) -> _Contents:
        """What is there now. Whoever asks while it is read shares the next read with all who do, since this one may
        have passed what has just changed; who gives up waiting leaves one behind, and not one each.
        """
        before = self._running.get(directory)
        if before is not None:
            await asyncio.wait([before])
        now = self._running.get(directory)
        if now is None:
            now = asyncio.get_running_loop().run_in_executor(self._threads, self._defined, directory)
            self._running[directory] = now
            now.add_done_callback(lambda _: self._running.pop(directory, None))
        return await asyncio.shield(now)

    def _defined(self, directory: _Directory) -> _Contents:
        """As it is read in a thread; raises nothing."""
        warnings: list[str] = []
        try:
            descriptor = _opened(directory)
        except FileNotFoundError:
            self._read.pop(directory, None)
            return _Contents()
        except OSError as error:
            return _Contents(warnings=(f"{directory.path} cannot be read: {_trouble(error, directory)}",))
        types: list[AgentType] = []
        identity = None
        try:
            status = os.fstat(descriptor)
            identity = (status.st_dev, status.st_ino)
            types += self._defined_in(directory, descriptor, warnings)
        except OSError as error:
            warnings.append(f"{directory.path} cannot be read: {_trouble(error, directory)}")
        finally:
            os.close(descriptor)
        return _Contents(identity, tuple(types), tuple(warnings))

    def _directories(
        self, workspace: Workspace | None, environment: Mapping[str, str]
    ) -> Iterator[_Directory]:
        """By precedence."""
        if workspace is not None:
            yield _Directory(workspace.directory, (".sm", "agents"), own=False)
            yield _Directory(workspace.directory, (".claude", "agents"), own=False)
        yield _Directory(self._places.home, ("agents",), own=True)
        given = {**environment, **self._config.claude.env}
        of_claude = given.get("CLAUDE_CONFIG_DIR") or f"{given.get('HOME', '')}/.claude"
        if of_claude.startswith("/") and "\0" not in of_claude:
            yield _Directory(of_claude, ("agents",), own=True)

    def _defined_in(self, directory: _Directory, descriptor: int, warnings: list[str]) -> Iterator[AgentType]:
        before, now = self._read.get(directory, {}), {}
        left = _SETTINGS_MAX
        for name in _listed(directory, descriptor, warnings):
            file = _read(directory, descriptor, f"{name}.md", before.get(name), left)
            if file is None:
                continue  # it has just gone
            now[name] = file
            left -= file.length
            yield _type(name, directory, file.said)
        self._read.pop(directory, None)
        self._read[directory] = {name: file for name, file in now.items() if _is_settled(file)}
        for oldest in list(self._read)[:-_DIRECTORIES_MAX]:
            self._read.pop(oldest, None)


def _type(name: str, directory: _Directory, said: Definition | str) -> AgentType:
    path = f"{directory.path}/{name}.md"
    if isinstance(said, str):
        return AgentType(name, _CLAUDE, path, problem=said)
    agent, warnings = said.agent, said.warnings
    if agent.spawnable and not directory.own:
        agent = agent.model_copy(update={"spawnable": False})
        warnings += ("`spawnable` has no effect in the directory of a workspace, where agents can write",)
    if agent.tools is not None and "Bash" not in agent.tools:
        warnings += ("without Bash in `tools` it cannot report: sm complete, sm ask",)
    return AgentType(name, _CLAUDE, path, agent, warnings=warnings)


def _opened(directory: _Directory) -> int:
    """A descriptor of the directory. Below a workspace's, which agents can change, no link is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    if directory.own:
        return os.open(directory.path, flags)
    descriptor = os.open(directory.base, flags | os.O_NOFOLLOW)
    for part in directory.below:
        try:
            deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def _listed(directory: _Directory, descriptor: int, warnings: list[str]) -> list[str]:
    """The names of agent types that files there are named for, sorted; never more than _FILES_MAX."""
    names: list[str] = []
    odd: list[str] = []
    with os.scandir(descriptor) as entries:
        for count, entry in enumerate(entries):
            if count == _ENTRIES_MAX:
                warnings.append(
                    f"{directory.path} holds more than {_ENTRIES_MAX:,} files: not all are looked at"
                )
                break
            stem, dot, rest = entry.name.rpartition(".")
            if not stem or dot + rest != ".md":
                continue
            (names if is_agent_type(stem) else odd).append(stem)
    if odd:
        shown = ", ".join(f"{folded(stem, 40)}.md" for stem in sorted(odd)[:_ODD_SHOWN])
        more = f" and {len(odd) - _ODD_SHOWN:,} more" if len(odd) > _ODD_SHOWN else ""
        warnings.append(
            f"{directory.path}: {shown}{more}: an agent type is named with letters, digits, dash and underscore"
        )
    if len(names) > _FILES_MAX:
        warnings.append(f"{directory.path} holds {len(names):,} definitions: the first {_FILES_MAX} count")
    return sorted(names)[:_FILES_MAX]


def _read(directory: _Directory, descriptor: int, name: str, before: _File | None, left: int) -> _File | None:
    """What the file says, as `before` when it has not changed; None when it is not there.

    `left`: how many characters its settings may have. Not blocking: a named pipe in its place must not hold the daemon.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        file = os.open(name, flags if directory.own else flags | os.O_NOFOLLOW, dir_fd=descriptor)
    except FileNotFoundError:
        return _File((), "1:1: is a link to a file that is not there") if directory.own else None
    except OSError as error:
        return _File((), f"1:1: cannot be read: {_trouble(error, directory)}")
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return _File((), "1:1: is not a file")
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if before is not None and before.stamp == stamp and before.length <= left:
            return before
        with open(file, "rb", closefd=False) as opened:
            content = opened.read(_MAX_BYTES + 1)
        return _parsed(stamp, content, name.removesuffix(".md"), left)
    except OSError as error:
        return _File((), f"1:1: cannot be read: {_trouble(error, directory)}")
    finally:
        os.close(file)


def _parsed(stamp: tuple[int, ...], content: bytes, name: str, left: int) -> _File:
    """What is in it; raises nothing: whatever an agent writes there spoils one agent type and no spawn."""
    length = 0
    try:
        length = settings_length(content)
        return (
            _File(stamp, read_definition(content, name), length) if length <= left else _File((), _TOO_MUCH)
        )
    except ConfigError as error:
        return _File(stamp, error.message, length)
    except Exception:  # noqa: BLE001  an edge: what was not thought of in reading it
        _log.exception("a definition could not be read")
        return _File(stamp, "1:1: cannot be understood: an error of sm (sm daemon logs)", length)


def _is_settled(file: _File) -> bool:
    """Whether another change would give it another stamp: within the tick of a clock it would not."""
    return bool(file.stamp) and time.time_ns() - max(file.stamp[2], file.stamp[3]) > _SETTLED_NS


def _trouble(error: OSError, directory: _Directory) -> str:
    if not directory.own and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "links are not followed in the directory of a workspace"
    return (error.strerror or str(error)).lower()
