"""The configuration of the server `sm` for MCP clients, for `sm mcp --print-config`."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from sm.paths import InstancePaths
from sm.wire import MCP_CALL_MAX_S

_VARIABLES = ("SM_HOME", "SM_SESSION_ID", "SM_SOCKET", "SM_TOKEN_FILE")
"""The variables that the pump reads, for clients that give their servers only variables that they know."""
_STARTS_S = 90
"""Longer than the pump waits for a daemon that is away."""


def _claude(command: list[str]) -> str:
    # Without alwaysLoad claude shows the model only the names of the tools.
    return _json({"mcpServers": {"sm": {**_server(command), "alwaysLoad": True}}})


def _codex(command: list[str]) -> str:
    # JSON texts and lists of texts are TOML too, but for characters that JSON escapes as surrogates.
    members: Mapping[str, object] = {
        "command": command[0],
        "args": command[1:],
        "env_vars": [*_VARIABLES],
        "startup_timeout_sec": _STARTS_S,
        "tool_timeout_sec": MCP_CALL_MAX_S,
    }
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in members.items())
    return "[mcp_servers.sm]\n" + "".join(lines)


def _gemini(command: list[str]) -> str:
    return _json({"mcpServers": {"sm": {**_server(command), "timeout": 1000 * MCP_CALL_MAX_S}}})


def _opencode(command: list[str]) -> str:
    server = {"type": "local", "command": command, "enabled": True, "timeout": 1000 * MCP_CALL_MAX_S}
    return _json({"mcp": {"sm": server}})


def _plain(command: list[str]) -> str:
    return _json({"mcpServers": {"sm": _server(command)}})


def _server(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


CLIENTS: Mapping[str, tuple[str, Callable[[list[str]], str]]] = {
    "claude": (".mcp.json in the project, or ~/.claude.json for all projects", _claude),
    "codex": ("~/.codex/config.toml", _codex),
    "gemini": ("~/.gemini/settings.json", _gemini),
    "opencode": ("~/.config/opencode/opencode.json", _opencode),
    "json": ("the configuration of the client", _plain),
}
"""For each client the file that the configuration belongs to, and the function that formats it."""


def place(client: str) -> str:
    return f"add to {CLIENTS[client][0]}:"


def config(client: str, paths: InstancePaths, *, operator: bool) -> str:
    """The configuration as text, with a line break at its end."""
    command = [_program(paths), "mcp", *(["--operator"] if operator else [])]
    return CLIENTS[client][1](command)


def _program(paths: InstancePaths) -> str:
    """The absolute path of `sm`. That of the instance stays valid when the installation moves."""
    own = f"{paths.bin}/sm"
    return own if os.path.exists(own) else os.path.abspath(sys.argv[0])
