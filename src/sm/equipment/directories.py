"""Reads the definitions of agent types in one directory, within bounds: agents can write such files.

Files are found by listing their directory, so no text of a caller becomes part of a path.
"""

import errno
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import lru_cache

from sm.config import DEFINITION_MAX_BYTES, Definition, is_agent_type, read_definition, settings_length
from sm.core.dataclass import dataclass
from sm.core.items import ItemKind, ProjectItem
from sm.core.text import folded
from sm.errors import ConfigError
from sm.linux.files import NotRegular, directory_below, read_file
from sm.providers.base import Provider

_log = logging.getLogger(__name__)

_SETTINGS_MAX = 64 * 1024
"""Characters of settings in one directory: parsing a million takes up to 20 s. claude itself reports descriptions of
this total length as too long."""
_FILES_MAX = 100
_ENTRIES_MAX = 2_000
_ODD_SHOWN = 3
_PARSED_MAX = 256
"""Entries of the parse cache, of at most 64 KiB each."""
_TOO_MUCH = (
    f"1:1: is ignored: the settings in this directory are longer than {_SETTINGS_MAX:,} characters in total"
)


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of definitions. `own`: of the operator, who may use links and set `spawnable`."""

    base: str
    below: tuple[str, ...]
    provider: str
    """The default provider for files that name none."""
    own: bool

    @property
    def path(self) -> str:
        return "/".join((self.base.rstrip("/"), *self.below))


def workspace_directories(path: str, providers: Mapping[str, Provider]) -> Iterator[Directory]:
    """The directories of definitions in a workspace, by precedence. The first provider is the default of `.sm`."""
    defined = {name: p.definitions for name, p in providers.items() if p.definitions is not None}
    for name in list(defined)[:1]:
        yield Directory(path, (".sm", "agents"), name, own=False)
    for name, definitions in defined.items():
        yield Directory(path, definitions.project_directory, name, own=False)


@dataclass(frozen=True, slots=True)
class Contents:
    identity: tuple[int, int] | None = None
    """Device and inode of the directory, or None if the directory could not be opened."""
    definitions: tuple[tuple[str, Definition | str], ...] = ()
    """Name of the agent type, and the definition or the mistakes in the file."""
    items: Mapping[str, ProjectItem] = field(default_factory=dict)
    """The files that need the operator's agreement, by agent type: those in the directory of a workspace."""
    warnings: tuple[str, ...] = ()


def definition_items(directory: Directory) -> Iterator[ProjectItem]:
    """The definition files of a workspace, without reading their settings. Blocks; never raises."""
    with suppress(OSError), directory_below(directory.base, directory.below) as descriptor:
        for name in _listed(directory, descriptor, []):
            content = _content(directory, descriptor, f"{name}.md")
            if isinstance(content, bytes):
                yield _item(directory, name, content)


def _item(directory: Directory, name: str, content: bytes) -> ProjectItem:
    return ProjectItem(ItemKind.AGENT_TYPE, name, f"{directory.path}/{name}.md", content)


class DefinitionFiles:
    """Reads all definitions in a directory. Caches parsed files, because some YAML takes seconds to parse."""

    def __init__(self, providers: tuple[str, ...]) -> None:
        self._providers = providers
        self._parsed = lru_cache(_PARSED_MAX)(_parsed)

    def read(self, directory: Directory) -> Contents:
        """The definitions in a directory, none if it does not exist. Blocks; never raises."""
        identity = None
        definitions: list[tuple[str, Definition | str]] = []
        items: dict[str, ProjectItem] = {}
        warnings: list[str] = []
        # Agents can change the directory of a workspace, so links below it are not followed.
        base, below = (directory.path, ()) if directory.own else (directory.base, directory.below)
        try:
            with directory_below(base, below, follow=directory.own) as descriptor:
                status = os.fstat(descriptor)
                identity = (status.st_dev, status.st_ino)
                definitions += self._definitions(directory, descriptor, items, warnings)
        except FileNotFoundError:
            pass
        except OSError as error:
            warnings.append(f"cannot read {directory.path}: {_trouble(error, directory)}")
        return Contents(identity, tuple(definitions), items, tuple(warnings))

    def _definitions(
        self, directory: Directory, descriptor: int, items: dict[str, ProjectItem], warnings: list[str]
    ) -> Iterator[tuple[str, Definition | str]]:
        remaining = _SETTINGS_MAX
        for name in _listed(directory, descriptor, warnings):
            content = _content(directory, descriptor, f"{name}.md")
            if content is None:
                continue
            if isinstance(content, str):
                yield name, content
                continue
            if not directory.own:
                items[name] = _item(directory, name, content)
            length = settings_length(content)
            if length > remaining:
                yield name, _TOO_MUCH
                continue
            remaining -= length
            yield name, self._parsed(content, name, self._providers)


def _listed(directory: Directory, descriptor: int, warnings: list[str]) -> list[str]:
    """The sorted names of the agent types in a directory, at most _FILES_MAX."""
    names: list[str] = []
    odd: list[str] = []
    with os.scandir(descriptor) as entries:
        for count, entry in enumerate(entries):
            if count == _ENTRIES_MAX:
                warnings.append(
                    f"{directory.path} contains more than {_ENTRIES_MAX:,} files: sm reads only some of them"
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
            f"{directory.path}: {shown}{more}: use letters, digits, dash and underscore in the name of an agent type"
        )
    if len(names) > _FILES_MAX:
        warnings.append(
            f"{directory.path} contains {len(names):,} definitions: sm reads only the first {_FILES_MAX}"
        )
    return sorted(names)[:_FILES_MAX]


def _content(directory: Directory, descriptor: int, name: str) -> bytes | str | None:
    """The content of a file (truncated), an error message, or None if the file was just removed."""
    try:
        # One byte over the limit, so that read_definition reports longer files.
        return read_file(name, DEFINITION_MAX_BYTES + 1, directory=descriptor, follow=directory.own).data
    except FileNotFoundError:
        return "1:1: the file is a link to a missing file" if directory.own else None
    except NotRegular:
        return "1:1: is not a regular file"
    except OSError as error:
        return f"1:1: cannot be read: {_trouble(error, directory)}"


def _parsed(content: bytes, name: str, providers: tuple[str, ...]) -> Definition | str:
    """The definition, or its mistakes. Never raises: a bad file must not prevent spawns of other types."""
    try:
        return read_definition(content, name, providers)
    except ConfigError as error:
        return error.message
    except Exception:  # noqa: BLE001  a defect in reading one file must not affect others
        _log.exception("could not read the definition of an agent type")
        return "1:1: cannot be read: internal error of sm (see sm daemon logs)"


def _trouble(error: OSError, directory: Directory) -> str:
    if not directory.own and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "links are not followed in the directory of a workspace"
    return (error.strerror or str(error)).lower()
