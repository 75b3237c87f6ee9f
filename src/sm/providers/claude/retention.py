"""Reads after how many days claude deletes transcripts. Measured with 2.1.197.

Each start of claude deletes the transcripts of its user that nobody has written to for `cleanupPeriodDays` days (1 or
more, by default 30). The later of these files wins: the user's settings, the project's, the project's local ones, and
those that an administrator manages.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sm.core.worktrees import is_within
from sm.errors import ExternalError
from sm.linux.files import read_file
from sm.paths import INSIDE_SCRATCH
from sm.providers.base import TranscriptRetention
from sm.providers.claude.container import read_object as read_contained
from sm.providers.claude.home import ClaudeHome, read_object
from sm.sandboxes.home import ContainerHome

KEY = "cleanupPeriodDays"
DEFAULT_DAYS = 30
_MANAGED = "/etc/claude-code/managed-settings.json"
_PROJECT_MAX_BYTES = 1024 * 1024


def retention(
    environment: Mapping[str, str],
    working_dir: str,
    home: ContainerHome | None = None,
    *,
    managed: str = _MANAGED,
) -> TranscriptRetention:
    """`home`: the home directory of the session's container; None: claude runs on this host."""
    found = TranscriptRetention(DEFAULT_DAYS)
    for path, settings in _settings(environment, working_dir, home, managed):
        days = settings.get(KEY)
        # claude refuses other values, and then deletes nothing while they are there.
        if isinstance(days, int) and not isinstance(days, bool) and days >= 1:
            found = TranscriptRetention(days, path)
    return found


def _settings(
    environment: Mapping[str, str], working_dir: str, home: ContainerHome | None, managed: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    own = ClaudeHome(environment).settings
    users: Mapping[str, Any] = {}
    with suppress(OSError, ExternalError):
        users = read_object(own)[0] if home is None else read_contained(home, own) or {}
    yield own, users
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
