"""Reads the state that claude publishes for each of its processes. Pure.

Source: claude 2.1.197. Files of an unknown form are ignored.
"""

import json
from collections.abc import Mapping
from typing import Any

from sm.core.models import Process
from sm.core.observation import Activity, Observation, Source
from sm.core.text import folded
from sm.providers import values
from sm.providers.claude.dialect import current
from sm.providers.claude.home import config_dir, is_of
from sm.providers.claude.hooks import conversation_id


class ClaudeStateReader:
    def path(self, environment: Mapping[str, str], pid: int) -> str:
        return f"{config_dir(environment)}/sessions/{pid}.json"

    def state(self, content: bytes, process: Process) -> Observation | None:
        published = _published(content, process)
        return None if published is None else _observation(published)

    def conversation(self, content: bytes, process: Process) -> str | None:
        published = _published(content, process)
        if published is None or _observation(published) is None:
            return None
        return conversation_id(published.get("sessionId"))


def _published(content: bytes, process: Process) -> Mapping[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = current().renamed("state", value)
    # Compare the type too, because True == 1.
    if not isinstance(value, dict) or type(value.get("pid")) is not int or value["pid"] != process.pid:
        return None
    return value if is_of(value, process) else None


_REASONS = {
    Activity.IDLE: "claude is idle{detail}",
    Activity.BUSY: "claude is working",
    Activity.BLOCKED: "claude waits: {awaited}",
}


def _observation(published: Mapping[str, Any]) -> Observation | None:
    at, status = _updated_at(published), values.name(published.get("status"))
    meaning = current().table("state.statuses").get(status)
    if at is None or meaning is None:
        return None
    activity = Activity(meaning)
    awaited = folded(values.string(published.get("waitingFor")) or "an answer", 80)
    shell = ", with a shell in the background" if status in current().texts("state.with_shell") else ""
    return Observation(
        Source.STATE_FILE, activity, at, _REASONS[activity].format(awaited=awaited, detail=shell)
    )


def _updated_at(published: Mapping[str, Any]) -> float | None:
    """Start of the state in seconds since the epoch, or None if unknown."""
    at_ms = published.get("statusUpdatedAt")
    if isinstance(at_ms, bool) or not isinstance(at_ms, int | float):
        return None
    # Compare before dividing: an integer may exceed the range of float.
    return at_ms / 1000 if 0 < at_ms < 1e14 and values.is_time(at_ms / 1000) else None
