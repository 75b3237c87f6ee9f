"""The configuration of the server `sm` for MCP clients, for `sm mcp --print-config`."""

import json
import os
import sys
from collections.abc import Mapping

from sm.core.programs import McpClient, McpLaunch, agent_programs
from sm.paths import InstancePaths
from sm.wire import MCP_CALL_MAX_S

_VARIABLES = ("SM_HOME", "SM_SESSION_ID", "SM_SOCKET", "SM_TOKEN_FILE")
"""The variables that the pump reads."""
_STARTS_S = 90
"""Longer than the pump waits for a daemon that is away."""


def _gemini(launch: McpLaunch) -> Mapping[str, object]:
    return {"mcpServers": {"sm": {**_server(launch), "timeout": 1000 * launch.call_s}}}


def _opencode(launch: McpLaunch) -> Mapping[str, object]:
    server = {"type": "local", "command": launch.command, "enabled": True, "timeout": 1000 * launch.call_s}
    return {"mcp": {"sm": server}}


def _plain(launch: McpLaunch) -> Mapping[str, object]:
    return {"mcpServers": {"sm": _server(launch)}}


def _server(launch: McpLaunch) -> dict[str, object]:
    return {"command": launch.command[0], "args": launch.command[1:]}


CLIENTS: Mapping[str, McpClient] = {
    **{known.name: known.mcp_client for known in agent_programs() if known.mcp_client is not None},
    "gemini": McpClient("~/.gemini/settings.json", _gemini),
    "opencode": McpClient("~/.config/opencode/opencode.json", _opencode),
    "json": McpClient("the configuration of the client", _plain),
}
"""Agent CLIs of the registry, and clients that have no package."""


def place(client: str) -> str:
    return f"add to {CLIENTS[client].place}:"


def config(client: str, paths: InstancePaths, *, operator: bool) -> str:
    """The configuration as text, with a line break at its end."""
    command = [_program(paths), "mcp", *(["--operator"] if operator else [])]
    value = CLIENTS[client].config(McpLaunch(command, _VARIABLES, _STARTS_S, MCP_CALL_MAX_S))
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _program(paths: InstancePaths) -> str:
    """The absolute path of `sm`. That of the instance stays valid when the installation moves."""
    own = f"{paths.bin}/sm"
    return own if os.path.exists(own) else os.path.abspath(sys.argv[0])
