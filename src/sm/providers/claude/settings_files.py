"""Reads the settings files of claude that apply to an agent, and whether they let the hooks of sm run.

Measured with 2.1.197 and 2.1.332. The later of these files wins: the user's settings, the project's, the project's
local ones, and those that an administrator manages.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sm.core.dataclass import dataclass
from sm.errors import ExternalError
from sm.linux.files import read_file
from sm.paths import INSIDE_SCRATCH, is_within
from sm.providers.claude.container import read_object as read_contained
from sm.providers.claude.home import ClaudeHome, read_object
from sm.sandboxes.home import ContainerHome

MANAGED = "/etc/claude-code/managed-settings.json"
_PROJECT_MAX_BYTES = 1024 * 1024
_OFF = "disableAllHooks"
_MANAGED_ONLY = "allowManagedHooksOnly"
"""Counts in the settings that an administrator manages only."""


@dataclass(frozen=True, slots=True)
class HooksOff:
    """The setting that turns off the hooks of sm."""

    path: str
    key: str


def settings_files(
    environment: Mapping[str, str], working_dir: str, home: ContainerHome | None, managed: str = MANAGED
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The readable settings files with their paths, the strongest last.

    `home`: the home directory of the agent's container, or None if claude runs on this host. The project's files may
    belong to an agent, so links are not followed.
    """
    own = ClaudeHome(environment).settings
    users: Mapping[str, Any] = {}
    with suppress(OSError, ExternalError):
        users = read_object(own)[0] if home is None else read_contained(home, own) or {}
    yield own, users
    # A directory inside the scratch directory exists in the container only.
    paths = [] if home is not None and is_within(working_dir, INSIDE_SCRATCH) else _project_files(working_dir)
    for path in (*paths, *(() if home is not None else (managed,))):
        try:
            value = json.loads(read_file(path, _PROJECT_MAX_BYTES).data)
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield path, value


def _project_files(working_dir: str) -> list[str]:
    base = f"{working_dir.rstrip('/')}/.claude/settings"
    return [f"{base}.json", f"{base}.local.json"]


def hooks_off(
    environment: Mapping[str, str],
    working_dir: str,
    home: ContainerHome | None = None,
    *,
    managed: str = MANAGED,
) -> HooksOff | None:
    """Return the setting that turns off the hooks of sm, or None if they run. Arguments: as for `settings_files`."""
    off = None
    for path, settings in settings_files(environment, working_dir, home, managed):
        value = settings.get(_OFF)
        if isinstance(value, bool):
            off = HooksOff(path, _OFF) if value else None
        if path == managed and settings.get(_MANAGED_ONLY) is True:
            off = HooksOff(path, _MANAGED_ONLY)
    return off
