"""Finds the skills that an agent CLI has beyond those that its session may use.

Agents can write to the directories of skills, so the search is bounded.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

from sm.core.text import folded
from sm.equipment.mcp_servers import NAME_SHOWN
from sm.errors import UsageError
from sm.linux.files import directory_below
from sm.providers.base import CapabilitySources
from sm.sandboxes.home import ContainerHome

_ENTRIES_MAX = 2_000  # total for all skill directories
_DEPTH_MAX = 8


def skills_off_of(
    allowed: Sequence[str] | None, sources: CapabilitySources, search: "SkillSearch"
) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """The skills to turn off, whether the bundled skills of the agent CLI stay, and warnings."""
    if allowed is None:
        return (), True, ()
    skills = dict.fromkeys(name for directory in sources.skills for name in search.skills(directory))
    skills |= dict.fromkeys(name for directory in sources.commands for name in search.commands(directory))
    missing = [name for name in allowed if name not in skills]
    warnings = tuple(
        f"there is no skill {folded(name, NAME_SHOWN)} here; if it is built into the agent, all built-in skills "
        "stay usable"
        for name in missing
    )
    return tuple(name for name in skills if name not in allowed), bool(missing), warnings


class SkillSearch:
    """Lists the skills in directories that agents can write to. Raises UsageError over a limit."""

    def __init__(
        self, writable: Sequence[str], until_s: float, *, contained: bool, home: ContainerHome | None = None
    ) -> None:
        """`writable`: directories that agents can write to, which must not hold links to outside.

        `until_s`: deadline by time.monotonic(). `contained`: the agents do not see the rest of this host, and must not
        learn its names through links. `home`: of their container; the search refuses links in it, because they lead
        elsewhere on this host.
        """
        self._writable = writable
        self._contained = contained
        self._home = home
        self._until_s = until_s
        self._left = _ENTRIES_MAX

    def skills(self, directory: str) -> Iterator[str]:
        if (inside := self._parts_in_home(directory)) is not None:
            yield from (name for name, _ in self._entries_in_home(inside, directory))
            return
        yield from self._names(self._top(directory), directory)

    def commands(self, directory: str) -> Iterator[str]:
        """The names of commands: `sub/x.md` is `sub:x`, `sub/SKILL.md` is `sub`.

        Follows links, except loops, as claude does (measured). Links out of the container lead nowhere there.
        """
        if (inside := self._parts_in_home(directory)) is not None:
            yield from self._commands_in_home(inside, (), directory)
            return
        waiting: list[tuple[str, tuple[str, ...], frozenset[tuple[int, int]]]]
        waiting = [(self._top(directory), (), frozenset())]
        while waiting:
            path, prefix, above = waiting.pop()
            try:
                info = os.stat(path)
            except OSError:
                continue
            if (info.st_dev, info.st_ino) in above:
                continue
            if len(prefix) > _DEPTH_MAX:
                raise _over_limit_error(directory, f"more than {_DEPTH_MAX} directory levels")
            below = above | {(info.st_dev, info.st_ino)}
            for name in self._names(path, directory):
                if (inner := self._directory(f"{path}/{name}")) is not None:
                    waiting.append((inner, (*prefix, name), below))
                    continue
                yield from _names_of_command(name, prefix, directory)

    def _parts_in_home(self, directory: str) -> tuple[str, ...] | None:
        """The parts of a path below the container's home directory; None for another path."""
        path = None if self._home is None else self._home.host_path(directory)
        return (
            None
            if self._home is None or path is None
            else PurePath(path).relative_to(self._home.directory).parts
        )

    def _commands_in_home(
        self, parts: tuple[str, ...], prefix: tuple[str, ...], directory: str
    ) -> Iterator[str]:
        if len(prefix) > _DEPTH_MAX:
            raise _over_limit_error(directory, f"more than {_DEPTH_MAX} directory levels")
        for name, is_directory in self._entries_in_home((*parts, *prefix), directory):
            if is_directory:
                yield from self._commands_in_home(parts, (*prefix, name), directory)
            else:
                yield from _names_of_command(name, prefix, directory)

    def _entries_in_home(self, parts: tuple[str, ...], directory: str) -> list[tuple[str, bool]]:
        """The names in a directory of the container's home, and whether each is a directory."""
        assert self._home is not None
        found = []
        try:
            with (
                directory_below(self._home.directory, parts) as descriptor,
                os.scandir(descriptor) as entries,
            ):
                for entry in entries:
                    self._count(directory)
                    if entry.is_symlink():
                        raise _link_error(directory)
                    found.append((entry.name, entry.is_dir(follow_symlinks=False)))
        except FileNotFoundError:
            return []
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise _link_error(directory) from None
        return sorted(found)

    def _count(self, directory: str) -> None:
        """Count an entry. Raises UsageError over the limit, and TimeoutError."""
        self._left -= 1
        if self._left < 0:
            raise _over_limit_error(directory, f"more than {_ENTRIES_MAX} entries")
        if time.monotonic() > self._until_s:
            raise TimeoutError

    def _top(self, directory: str) -> str:
        real = os.path.realpath(directory)
        if (
            is_inside(directory, self._writable)
            and not is_inside(real, self._writable)
            and os.path.exists(real)
        ):
            raise UsageError(
                f"cannot list the skills in {folded(directory, 400)}: "
                "agents can change this path, and it is a link that leads out of the project",
                "replace the link with a directory, or allow all skills for the session",
            )
        return real

    def _directory(self, path: str) -> str | None:
        """The directory that agents see at `path`, or None for no directory."""
        if not os.path.isdir(path):
            return None
        if not self._contained or not is_inside(path, self._writable):
            return path
        real = os.path.realpath(path)
        return real if is_inside(real, self._writable) else None

    def _names(self, path: str, directory: str) -> list[str]:
        names = []
        try:
            with self._opened(path) as place, os.scandir(place) as entries:
                for entry in entries:
                    self._count(directory)
                    names.append(entry.name)
        except TimeoutError:
            raise
        except OSError:
            return []
        return sorted(names)

    @contextmanager
    def _opened(self, path: str) -> Iterator[str | int]:
        """The directory for `os.scandir`. An agent may put a link in its place at any time, which is not followed."""
        above = next((place for place in self._writable if is_inside(path, (place,))), None)
        if not self._contained or above is None:
            yield path
            return
        parts = [part for part in path[len(above) :].split("/") if part]
        with directory_below(above, parts) as descriptor:
            yield descriptor


def _names_of_command(name: str, prefix: tuple[str, ...], directory: str) -> Iterator[str]:
    """The skills that a file makes: of its directory, of itself, or none."""
    if name.lower() == "skill.md":
        yield ":".join(prefix or (os.path.basename(directory),))
    if name.endswith(".md"):
        yield ":".join((*prefix, name[:-3]))


def _link_error(directory: str) -> UsageError:
    return UsageError(
        f"cannot list the skills in {folded(directory, 400)} of the container: a part of it is a link",
        "replace the link with a directory, or allow all skills for the session",
    )


def _over_limit_error(directory: str, bound: str) -> UsageError:
    return UsageError(
        f"cannot list the skills in {folded(directory, 400)}: {bound}",
        "remove files that do not belong there, or allow all skills for the session",
    )


def is_inside(path: str, directories: Sequence[str]) -> bool:
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)
