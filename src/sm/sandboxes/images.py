"""The image of containers: what it can have, its facts, and its build."""

import asyncio
import os
import re
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sm import __version__
from sm.core.dataclass import dataclass
from sm.core.programs import image_agents
from sm.errors import SmError, UsageError

NODE = "node"
"""Brings npm; it has no choice of version."""
ARGUMENTS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "NPM_CONFIG_REGISTRY")
"""The variables of the caller's shell that a build gets, in capitals or not. The image keeps none of them."""
_AGENT = re.compile(r"([a-z]+)(?:@([A-Za-z0-9][A-Za-z0-9.+-]{0,63}))?")
_LINES_MAX = 2000


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """The wishes for a build. `agents`: names with versions, as from `agents_of`. `arguments`: as in ARGUMENTS."""

    agents: tuple[str, ...]
    no_cache: bool
    pull: bool
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BuildLine:
    """A line of a build. `is_step`: the line begins a step; otherwise it is output of the step before."""

    text: str
    is_step: bool


def agents_of(names: Iterable[str]) -> tuple[str, ...]:
    """The agents to install, in a fixed order, with their versions: `claude@2.1.197`, `node`. Raises UsageError."""
    found: dict[str, str] = {}
    recipes = image_agents()
    for name in names:
        match = _AGENT.fullmatch(name)
        if match is None or match[1] not in (*recipes, NODE) or (match[1] == NODE and match[2]):
            choices = (f"{agent}, {agent}@VERSION" for agent in recipes)
            raise UsageError(f"the image cannot have {name!r}", f"choose from {', '.join(choices)}, {NODE}")
        if found.setdefault(match[1], match[2] or "") != (match[2] or ""):
            raise UsageError(f"{match[1]} is given twice with different versions")
    tested = {name: recipe.tested for name, recipe in recipes.items()}
    versions = {name: version or tested.get(name, "") for name, version in found.items()}
    return tuple(
        f"{name}@{versions[name]}" if versions[name] else name
        for name in (*recipes, NODE)
        if name in versions
    )


def missing_program_hint(program: str) -> str:
    """The hint for an agent whose program the image does not have. `program`: its name or path."""
    name = os.path.basename(program)
    if name in (*image_agents(), NODE):
        return f"sm sandbox build --with {name}"
    return "sandbox.image names an image with other programs: sm config edit"


def arguments_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The build arguments in an environment. A name in capitals has precedence."""
    pairs = {name.upper(): value for name, value in environment.items() if not name.isupper()}
    pairs |= {name: value for name, value in environment.items() if name.isupper()}
    return {name: pairs[name] for name in ARGUMENTS if pairs.get(name)}


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image of the engine. `version` and `agents` are None for an image that `sm sandbox build` did not make."""

    id: str
    name: str
    version: str | None
    agents: tuple[str, ...] | None
    """Names, with a version where one was given: `claude@2.1.197`."""
    uid: int | None
    gid: int | None
    size_bytes: int
    created_at: str

    def version_of(self, program: str) -> str | None:
        """The version of the agent CLI `program` in the image, if its build named one."""
        named = [agent.partition("@") for agent in self.agents or ()]
        return next((version for name, _, version in named if name == program and version), None)

    def has(self, program: str) -> bool:
        """False if the image is known to be without the agent CLI `program`, the name of an agent."""
        return self.agents is None or any(agent.partition("@")[0] == program for agent in self.agents)

    def warnings(self) -> tuple[str, ...]:
        if self.version is None or self.version == __version__:
            return ()
        return (
            f"the image {self.name} is of sm {self.version}, this is sm {__version__}: "
            f"to build it again, type sm sandbox build",
        )


@dataclass(frozen=True, slots=True)
class UnusedImage:
    """An image of ours without a name and without a container. `size_bytes`: what its removal frees."""

    id: str
    size_bytes: int


class ImageBuild:
    """One build, which several callers may follow."""

    def __init__(self, request: BuildRequest) -> None:
        self.request = request
        self.image: ImageFacts | None = None
        self.error: SmError | None = None
        self._lines: deque[BuildLine] = deque(maxlen=_LINES_MAX)
        self._count = 0
        self._changed = asyncio.Event()

    @property
    def is_done(self) -> bool:
        return self.image is not None or self.error is not None

    def after(self, count: int) -> tuple[list[BuildLine], int]:
        """The lines after the first `count`, as far as they are kept, and the number of all lines so far."""
        new = self._count - max(0, count)
        return (list(self._lines)[-new:] if new > 0 else []), self._count

    async def wait(self, count: int, wait_s: float) -> None:
        """Wait until there are more than `count` lines or the build has ended, at most `wait_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self._count <= count and not self.is_done:
                    await self._changed.wait()

    def add(self, line: BuildLine) -> None:
        self._lines.append(line)
        self._count += 1
        self._wake()

    def end(self, result: ImageFacts | SmError) -> None:
        if isinstance(result, SmError):
            self.error = result
        else:
            self.image = result
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
