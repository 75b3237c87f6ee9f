"""`sm agents`: its request and its output."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.cli.peer import answer
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer


def agent(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "provider": "claude",
        "model": None,
        "description": None,
        "tools": None,
        "spawnable": False,
        "origin": "config",
        "problem": None,
        "shadowed_by": None,
        "warnings": [],
        **changes,
    }


FILE = "/srv/shop/.sm/agents/reviewer.md"
CATALOG = {
    "workspace": "shop",
    "agents": [
        agent("Engineer", model="sonnet", description="changes and tests code", spawnable=True),
        agent("Sh", provider="command"),
        agent(
            "reviewer",
            origin=FILE,
            description="reviews\n\x1b[31mred",
            warnings=["`permissionMode` has no effect"],
        ),
        agent("broken", origin="/x/broken.md", problem="2:8: one\n3:1: two"),
        agent("Sh", origin="/x/Sh.md", shadowed_by="config"),
    ],
    "warnings": ["/x: odd file.md"],
}


def test_agents_lists_each_type_with_its_origin_and_warnings(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer(CATALOG))
    done = run("agents")
    assert done.out == (
        "In workspace shop:\n"
        "Engineer | claude, sonnet, spawnable | config                           | changes and tests code\n"
        "Sh       | command                   | config\n"
        f"reviewer | claude                    | {FILE} | reviews [31mred\n"
        "broken   | claude                    | /x/broken.md                     | "
        "cannot be used: 2:8: one 3:1: two\n"
        "Sh       | claude                    | /x/Sh.md                         | "
        "not used: Sh from config takes precedence\n"
    )
    assert done.err == f"warning: /x: odd file.md\nwarning: {FILE}: `permissionMode` has no effect\n"
    assert json.loads(run("agents", "--json").out) == CATALOG


def test_agents_names_the_command_that_agrees_to_a_definition(run: Sm, peer: Peer) -> None:
    new = agent("odd", origin="/x/odd.md", agreement="new")
    peer.script("GET /v1/agents", answer({"workspace": "shop", "agents": [new], "warnings": []}))
    assert run("agents").out.endswith(
        "left out until the operator agrees to it (new): sm workspace agree shop\n"
    )


def test_agents_prints_in_no_workspace_when_directory_has_none(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer({"workspace": None, "agents": [], "warnings": []}))
    assert run("agents").out == "In no workspace: no agent types\n"


def test_agents_sends_workspace_directory_and_claude_config_directory(
    run: Sm, peer: Peer, home: Path
) -> None:
    peer.script("GET /v1/agents", answer(CATALOG))
    run("agents", "--workspace", "shop", environ={"CLAUDE_CONFIG_DIR": "/elsewhere"})
    assert parse_qs(peer.received[0].query) == {
        "workspace": ["shop"],
        "cwd": [os.getcwd()],
        "home": [str(home)],
        "claude_config_dir": ["/elsewhere"],
    }


def test_completion_offers_agent_types_that_can_be_spawned(run: Sm, peer: Peer) -> None:
    evil = agent("$(rm -rf)")
    peer.script("GET /v1/agents", answer({**CATALOG, "agents": [*CATALOG["agents"], evil]}))
    assert run.complete("sm spawn Eng") == ["plain,Engineer"]
    assert run.complete("sm spawn ") == ["plain,Engineer", "plain,Sh", "plain,reviewer"]


def test_completion_of_agent_types_is_empty_when_no_daemon_runs(run: Sm, home: Path) -> None:
    assert run.complete("sm spawn Eng") == []
    assert not (home / "state").exists()


def test_completion_of_agent_types_is_empty_when_daemon_is_older(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer({"error": {"code": "not_found", "message": "x", "hint": None}}, 404))
    assert run.complete("sm spawn Eng") == []
