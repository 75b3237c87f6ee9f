"""Reads the files that claude keeps for its user, but never credentials.

Measured with 2.1.197 and 2.1.332.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sm.core.models import Process
from sm.errors import ExternalError
from sm.linux.files import read_file
from sm.linux.processes import identify
from sm.linux.repositories import UnreadableRepository, repository_at

_MAX_BYTES = 64 * 1024 * 1024


def config_dir(environment: Mapping[str, str]) -> str:
    """The directory of claude's files. Without CLAUDE_CONFIG_DIR, `.claude.json` is in the directory above."""
    return environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"


class ClaudeHome:
    """The paths of claude's files in this environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.directory = config_dir(environment)
        self.state = f"{environment.get('CLAUDE_CONFIG_DIR') or environment.get('HOME', '')}/.claude.json"
        self.settings = f"{self.directory}/settings.json"
        self.credentials = f"{self.directory}/.credentials.json"
        """Never open this file; only check that it exists."""

    def running_pids(self) -> list[int]:
        """The pids of the running claudes that use this directory."""
        pids = []
        try:
            names = os.listdir(f"{self.directory}/sessions")
        except OSError:
            return []
        for name in names:
            stem, _, rest = name.partition(".")
            process = identify(int(stem)) if stem.isdigit() and rest == "json" else None
            try:
                if process and is_of(read_object(f"{self.directory}/sessions/{name}")[0], process):
                    pids.append(process.pid)
            except (OSError, ExternalError):
                continue  # just removed, or not a file of claude
        return sorted(pids)


def is_of(published: Mapping[str, Any], process: Process) -> bool:
    """Return whether this process published the state. A killed claude leaves its file, and its pid may be reused."""
    started = published.get("procStart")
    return not isinstance(started, str | int) or str(started) == process.started.rpartition("/")[2]


def read_object(path: str) -> tuple[dict[str, Any], os.stat_result]:
    """The JSON object in a file, and the file's status before the read. Raises OSError, and ExternalError."""
    content = read_file(path, _MAX_BYTES, follow=True)
    if content.cut:
        raise ExternalError(f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(content.data)
    except (ValueError, RecursionError):
        raise ExternalError(
            f"{path} is not JSON", "start claude in a terminal and let it repair the file"
        ) from None
    if not isinstance(value, dict):
        raise ExternalError(f"{path} does not contain a JSON object")
    return value, content.status


def trusted_by(state: Mapping[str, Any], directory: str, *, per_repository: bool = True) -> str | None:
    """Return the trusted directory that covers `directory` (absolute, without links). Returns None without one.

    Its own entry or that of a parent counts. `per_repository`: no entry above its git repository counts, but that of
    the repository of a linked worktree (see `program_version`).
    """
    projects = state.get("projects")
    if not isinstance(projects, dict):
        return None
    for place in _covering(directory) if per_repository else _parents(directory):
        entry = projects.get(place)
        if isinstance(entry, dict) and entry.get("hasTrustDialogAccepted") is True:
            return place
    return None


def _parents(directory: str) -> Iterator[str]:
    """Yield a directory and all directories above it."""
    yield directory
    while directory != "/":
        directory = os.path.dirname(directory)
        yield directory


def _covering(directory: str) -> Iterator[str]:
    """Yield the directories whose entry covers `directory` for a claude that asks for each repository."""
    for place in _parents(directory):
        yield place
        if os.path.lexists(f"{place}/.git"):
            with suppress(UnreadableRepository, OSError):
                repository = repository_at(place)
                if repository is not None and repository.is_linked:
                    yield repository.common.removesuffix("/.git") or "/"
            return
