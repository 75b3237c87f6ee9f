"""Reads the files that claude keeps for its user, but never credentials.

Measured with 2.1.197.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from sm.core.models import Process
from sm.errors import ExternalError
from sm.linux.files import read_file
from sm.linux.processes import identify

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


def trusted_by(state: Mapping[str, Any], directory: str) -> str | None:
    """The trusted directory that covers `directory` (absolute, without links): the same or a parent. Else None."""
    projects = state.get("projects")
    while isinstance(projects, dict):
        entry = projects.get(directory)
        if isinstance(entry, dict) and entry.get("hasTrustDialogAccepted") is True:
            return directory
        if directory == "/":
            return None
        directory = os.path.dirname(directory)
    return None
