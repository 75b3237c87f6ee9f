"""Lists everything in a trusted directory that claude executes or applies without a question. Measured with 2.1.197.

Agents can write these files, so every read is bounded.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from sm.linux.files import read_file, read_or_empty

_PROGRAMS = (
    "apiKeyHelper", "statusLine", "subagentStatusLine", "fileSuggestion", "awsAuthRefresh", "awsCredentialExport",
    "gcpAuthRefresh", "otelHeadersHelper", "proxyAuthHelper", "policyHelper",
)  # fmt: skip
_SETTINGS_MAX = 1024 * 1024
_FILE_MAX = 64 * 1024
_FILES_MAX = 500
_FSMONITOR = re.compile(rb"^\s*fsmonitor\s*=\s*(?!(?:true|false)\s*$)(\S.*)$", re.MULTILINE | re.IGNORECASE)
# Settings of skills, commands and agents, and the mark of a command in their text.
_ACTIVE = re.compile(rb"^(?:hooks|mcpServers|allowed-tools|permissionMode)\s*:|!`", re.MULTILINE)


def project_effects(directory: str) -> Iterator[str]:
    """One line for each effect of the directory's files. The texts of the files are not escaped."""
    for name in ("settings.json", "settings.local.json"):
        yield from _in_file(f"{directory}/.claude/{name}", _settings)
    yield from _in_file(f"{directory}/.mcp.json", _servers)
    yield from _in_file(f"{directory}/.claude/scheduled_tasks.json", _tasks)
    for kind in ("skills", "commands", "agents"):
        yield from _definitions(f"{directory}/.claude/{kind}")
    for match in _FSMONITOR.finditer(read_or_empty(f"{directory}/.git/config", _FILE_MAX)):
        yield f"{directory}/.git/config: git runs {match[1].decode('utf-8', 'replace')}"


def _in_file(path: str, effects: Any) -> Iterator[str]:
    try:
        content = read_file(path, _SETTINGS_MAX, follow=True)
        value = orjson.loads(content.data)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, orjson.JSONDecodeError) as error:
        yield f"{path}: cannot be read ({error})"
        return
    if isinstance(value, dict):
        for effect in effects(value):
            yield f"{path}: {effect}"


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    hooks, permissions = _object(settings, "hooks"), _object(settings, "permissions")
    for event, entries in hooks.items():
        yield f"runs at {event}: {'; '.join(_commands(entries))}"
    for name in _PROGRAMS:
        if settings.get(name):
            yield f"{name} runs {'; '.join(_commands(settings[name]))}"
    if variables := _object(settings, "env"):
        yield f"sets {', '.join(f'{name}={value}' for name, value in variables.items())}"
    for name, what in (
        ("allow", "allows without a question"),
        ("additionalDirectories", "adds the directories"),
    ):
        if isinstance(permissions.get(name), list) and permissions[name]:
            yield f"{what} {', '.join(map(str, permissions[name]))}"
    if permissions.get("defaultMode"):
        yield f"sets the permission mode {permissions['defaultMode']}"
    if settings.get("enableAllProjectMcpServers") or settings.get("enabledMcpjsonServers"):
        yield "approves MCP servers of the project"
    if settings.get("enabledPlugins"):
        yield f"loads plugins: {', '.join(_object(settings, 'enabledPlugins'))}"
    if settings.get("disableAllHooks"):
        yield "turns off all hooks, so sm cannot answer permissions"


def _servers(value: Mapping[str, Any]) -> Iterator[str]:
    for name, server in _object(value, "mcpServers").items():
        yield f"MCP server {name}: {orjson.dumps(server).decode()}"


def _tasks(value: Mapping[str, Any]) -> Iterator[str]:
    tasks = value.get("tasks")
    for task in tasks if isinstance(tasks, list) else ():
        yield f"sends at fixed times: {task.get('prompt') if isinstance(task, dict) else task}"


def _definitions(directory: str) -> Iterator[str]:
    """Name the skills, commands or agents that bring commands, hooks, servers or permissions of their own."""
    left = _FILES_MAX
    for place, _, names in os.walk(directory):
        for name in sorted(names):
            left -= 1
            if left < 0:
                yield f"{directory}: more than {_FILES_MAX} files"
                return
            path = f"{place}/{name}"
            if name.endswith(".md") and _ACTIVE.search(read_or_empty(path, _FILE_MAX)):
                yield f"{path}: brings commands or permissions of its own"


def _commands(value: Any, depth: int = 8) -> Iterator[str]:
    """Every text below `value`, apart from the types of hooks."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth:
        inner = [part for key, part in value.items() if key != "type"] if isinstance(value, dict) else value
        for part in inner:
            yield from _commands(part, depth - 1)


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
