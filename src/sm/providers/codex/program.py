"""The facts of codex that other rooms need. Standard library alone: commands and containers load this module."""

import json
from collections.abc import Mapping

from sm.core.programs import AgentProgram, ImageRecipe, McpClient, McpLaunch


def _mcp_config(launch: McpLaunch) -> str:
    # JSON texts and lists of texts are TOML too, but for characters that JSON escapes as surrogates.
    members: Mapping[str, object] = {
        "command": launch.command[0],
        "args": launch.command[1:],
        "env_vars": launch.variables,
        "startup_timeout_sec": launch.starts_s,
        "tool_timeout_sec": launch.call_s,
    }
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in members.items())
    return "[mcp_servers.sm]\n" + "".join(lines)


PROGRAM = AgentProgram(
    name="codex",
    inherited_variables=("OPENAI_API_KEY",),
    home_secrets=(".codex",),
    login=("codex", "login"),
    image=ImageRecipe("@openai/codex", "package/vendor/*/bin/codex"),
    mcp_client=McpClient("~/.codex/config.toml", _mcp_config),
)
