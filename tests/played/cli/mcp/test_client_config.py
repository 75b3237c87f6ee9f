"""`sm mcp --print-config`, read back with a parser of each format."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sm.cli.mcp.client_config import CLIENTS
from tests.played.cli.command import Sm


def printed(run: Sm, client: str, *options: str) -> Any:
    done = run("mcp", "--print-config", client, *options)
    assert done.err.startswith("add to ")
    return tomllib.loads(done.out) if client == "codex" else json.loads(done.out)


def test_claude_loads_the_tools_at_once(run: Sm, state: Path) -> None:
    server = printed(run, "claude")["mcpServers"]["sm"]
    assert server.pop("command").startswith("/")
    assert server == {"args": ["mcp"], "alwaysLoad": True}


def test_print_config_without_a_client_prints_plain_json(run: Sm, state: Path) -> None:
    done = run("mcp", "--print-config")
    assert done.err == "add to the configuration of the client:\n"
    assert json.loads(done.out) == printed(run, "json")
    assert (
        run("mcp", "--print-config", "--operator").out
        == run("mcp", "--print-config", "json", "--operator").out
    )


def test_codex_passes_the_variables_and_waits_for_calls(run: Sm, state: Path) -> None:
    server = printed(run, "codex")["mcp_servers"]["sm"]
    assert server.pop("command").startswith("/")
    assert server.pop("startup_timeout_sec") > 60
    assert server == {
        "args": ["mcp"],
        "env_vars": ["SM_HOME", "SM_SESSION_ID", "SM_SOCKET", "SM_TOKEN_FILE"],
        "tool_timeout_sec": 3600,
    }


def test_gemini_and_opencode_wait_for_calls(run: Sm, state: Path) -> None:
    assert printed(run, "gemini")["mcpServers"]["sm"]["timeout"] == 3_600_000
    server = printed(run, "opencode")["mcp"]["sm"]
    assert server["command"][1:] == ["mcp"]
    assert (server["type"], server["timeout"]) == ("local", 3_600_000)


def test_plain_json_has_only_the_command(run: Sm, state: Path) -> None:
    server = printed(run, "json", "--operator")["mcpServers"]["sm"]
    assert set(server) == {"command", "args"}
    assert server["args"] == ["mcp", "--operator"]


@pytest.mark.parametrize("client", CLIENTS)
def test_config_names_the_command_of_the_instance(run: Sm, state: Path, client: str) -> None:
    odd = state / 'a "b" \\ ü 🚀'
    odd.mkdir()
    run.environ["SM_HOME"] = str(odd)
    command = odd / "state" / "bin" / "sm"
    command.parent.mkdir(parents=True)
    command.touch()
    assert os.path.samefile(_command(printed(run, client)), command)


def _command(config: Any) -> str:
    (server,) = (servers["sm"] for servers in config.values())
    command = server["command"]
    return str(command[0] if isinstance(command, list) else command)
