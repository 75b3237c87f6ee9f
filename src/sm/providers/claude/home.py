"""What claude keeps of its user: where, and how much of it is read here. Never a credential.

Source: CC 1 and 5, measured with 2.1.197.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from sm.errors import ExternalError

_MAX_BYTES = 64 * 1024 * 1024


def config_dir(environment: Mapping[str, str]) -> str:
    """The directory of claude's files; `.claude.json` is beside it unless CLAUDE_CONFIG_DIR is set."""
    return environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"


class ClaudeHome:
    """Where claude would look in this environment."""

    __slots__ = ("directory", "state")

    def __init__(self, environ: Mapping[str, str]) -> None:
        given = environ.get("CLAUDE_CONFIG_DIR")
        self.directory = config_dir(environ)
        self.state = f"{given or environ.get('HOME', '')}/.claude.json"

    @property
    def settings(self) -> str:
        return f"{self.directory}/settings.json"

    @property
    def credentials(self) -> str:
        """Only ever asked whether it is there."""
        return f"{self.directory}/.credentials.json"

    def running(self) -> list[int]:
        """The pids of the claudes that use this directory now."""
        from sm.linux.processes import identify

        try:
            names = os.listdir(f"{self.directory}/sessions")
        except OSError:
            return []
        found = []
        for name in names:
            stem, _, rest = name.partition(".")
            if not stem.isdigit() or rest != "json":
                continue
            process = identify(int(stem))
            if process is None:
                continue
            try:
                started = read_object(f"{self.directory}/sessions/{name}").get("procStart")
            except (OSError, ExternalError):
                continue  # it has just gone, or is no file of claude's
            # A claude that was killed leaves its file, and its pid goes to somebody else.
            if started is None or str(started) == process.started.rpartition("/")[2]:
                found.append(process.pid)
        return sorted(found)


def read_object(path: str) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, and ExternalError when it is none."""
    with open(path, "rb") as file:
        return object_in(file.read(_MAX_BYTES + 1), path)


def object_in(content: bytes, path: str) -> dict[str, Any]:
    """Raises ExternalError, which names the file."""
    if len(content) > _MAX_BYTES:
        raise ExternalError(f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ExternalError(
            f"{path} is not JSON", "start claude in a terminal: it offers to mend it"
        ) from None
    if not isinstance(value, dict):
        raise ExternalError(f"{path} holds no JSON object")
    return value


def trusted_by(state: Mapping[str, Any], directory: str) -> str | None:
    """The directory whose trust covers `directory` (absolute, without links): itself or one above; else None."""
    projects = state.get("projects")
    while isinstance(projects, dict):
        entry = projects.get(directory)
        if isinstance(entry, dict) and entry.get("hasTrustDialogAccepted") is True:
            return directory
        if directory == "/":
            return None
        directory = os.path.dirname(directory)
    return None
