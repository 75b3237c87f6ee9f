"""`sm agents`: what it asks for, and how agent types are shown."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer
from tests.cli.test_commands import complete


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
FOUND = {
    "workspace": "shop",
    "agents": [
        agent("Engineer", model="sonnet", description="changes code, tests it", spawnable=True),
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


def test_agents_are_shown_with_where_they_stand(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer(FOUND))
    done = run("agents")
    assert done.out == (
        "In workspace shop:\n"
        "Engineer | claude, sonnet, spawnable | config                           | changes code, tests it\n"
        "Sh       | command                   | config\n"
        f"reviewer | claude                    | {FILE} | reviews [31mred\n"
        "broken   | claude                    | /x/broken.md                     | "
        "cannot be used: 2:8: one 3:1: two\n"
        "Sh       | claude                    | /x/Sh.md                         | "
        "does not count: Sh stands in config\n"
    )
    assert done.err == f"warning: /x: odd file.md\nwarning: {FILE}: `permissionMode` has no effect\n"
    assert json.loads(run("agents", "--json").out) == FOUND


def test_without_a_workspace_it_says_so(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer({"workspace": None, "agents": [], "warnings": []}))
    assert run("agents").out == "In no workspace: no agent types\n"


def test_agents_are_asked_for_where_the_command_runs(run: Sm, peer: Peer, home: Path) -> None:
    peer.script("GET /v1/agents", answer(FOUND))
    run("agents", "--workspace", "shop", environ={"CLAUDE_CONFIG_DIR": "/elsewhere"})
    assert parse_qs(peer.asked[0].query) == {
        "workspace": ["shop"],
        "cwd": [os.getcwd()],
        "home": [str(home)],
        "claude_config_dir": ["/elsewhere"],
    }


def test_completion_offers_agent_types_that_can_be_spawned(run: Sm, peer: Peer) -> None:
    evil = agent("$(rm -rf)")
    peer.script("GET /v1/agents", answer({**FOUND, "agents": [*FOUND["agents"], evil]}))
    assert complete(run, "sm spawn Eng") == ["plain,Engineer"]
    assert complete(run, "sm spawn ") == ["plain,Engineer", "plain,Sh", "plain,reviewer"]


def test_completion_of_agent_types_is_silent_without_a_daemon(run: Sm, home: Path) -> None:
    assert complete(run, "sm spawn Eng") == []
    assert not (home / "state").exists()


def test_completion_of_agent_types_is_silent_when_the_daemon_is_an_older_one(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/agents", answer({"error": {"code": "not_found", "message": "x", "hint": None}}, 404))
    assert complete(run, "sm spawn Eng") == []
