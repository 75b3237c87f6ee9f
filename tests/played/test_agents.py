"""Agent types from files and from the configuration. A program that writes a conversation stands in for claude."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from sm.errors import UsageError
from sm.providers.claude.permissions import shown_mode
from tests.sim.programs import Running
from tests.sim.stage import Instance, stand_in

CONFIG = """
default_trust: direct
limits: {spawn_interval_s: 0}
commands:
  Sh: {command: [sh, -c]}
claude:
  default_command: /usr/bin/stand-in
  env: {IS_SANDBOX: "1"}
  agent_configs:
    Plain: {}
    Planner: {args: ["--permission-mode", "plan"]}
    Editor: {args: ["--permission-mode", "acceptEdits"]}
    Bypass: {args: ["--dangerously-skip-permissions"]}
    Trusted: {args: ["--permission-mode", "bypassPermissions"], spawnable: true}
"""
REVIEWER = """---
description: reviews changes
model: opus
tools: Read, Bash
spawnable: true
---
Only review.
"""


async def claude(program: Running) -> None:
    """Write a conversation, as claude has one: sm copies and resumes none that is gone."""
    argv = program.argv
    if "--session-id" in argv:
        conversation = argv[argv.index("--session-id") + 1]
        place = re.sub("[^A-Za-z0-9]", "-", program.process.cwd)
        path = Path(program.environ["HOME"]) / ".claude" / "projects" / place / f"{conversation}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        line = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "x"}}
        path.write_text(f"{json.dumps(line)}\n")
    await stand_in(program)


class Team(Instance):
    """One workspace, `shop`, whose directory defines agent types."""

    def __init__(self) -> None:
        super().__init__(config=CONFIG)
        self.world.programs.installed["stand-in"] = claude
        self.shop = self.home / "shop"
        self.agents = self.shop / ".sm" / "agents"
        self.agents.mkdir(parents=True)

    def argv(self, session_id: str) -> list[str]:
        """The arguments of the process that runs now."""
        self.settle()
        return list(self.world.programs.running[session_id].argv[1:])

    def option(self, session_id: str, name: str) -> str | None:
        argv = self.argv(session_id)
        return argv[argv.index(name) + 1] if name in argv else None

    def system_prompt(self, session_id: str) -> str:
        return str(self.option(session_id, "--append-system-prompt"))

    def define(self, name: str, text: str = REVIEWER) -> Path:
        """Write a definition of the workspace, and agree to it."""
        path = write_definition(self.agents, name, text)
        self.agree()
        return path

    def agree(self) -> None:
        self.sm("workspace", "agree", "shop", "--yes")

    def agent_types(self, *arguments: str, **options: Any) -> dict[str, dict[str, Any]]:
        return {agent["name"]: agent for agent in self.json("agents", *arguments, **options)["agents"]}


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    shared_team = Team()
    shared_team.sm("workspace", "create", "shop", "--working-dir", str(shared_team.shop))
    yield shared_team
    shared_team.end()


def session_env(session: dict[str, Any]) -> dict[str, str]:
    return {"SM_SESSION_ID": session["session_id"]}


def write_definition(directory: Path, name: str, text: str = REVIEWER) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.md"
    path.write_text(text)
    return path


def test_definition_in_a_workspace_is_an_agent_type_only_in_that_workspace(team: Team) -> None:
    path = team.define("reviewer")
    assert "reviewer" not in team.agent_types(cwd=team.work)
    assert "reviewer" not in team.agent_types("--workspace", "-", cwd=team.shop)
    for types in (team.agent_types("--workspace", "shop", cwd=team.work), team.agent_types(cwd=team.shop)):
        assert types["reviewer"]["origin"] == str(path)
        assert types["reviewer"]["model"] == "opus"
        assert not types["reviewer"]["spawnable"]
        assert types["Trusted"]["spawnable"]
    listing = team.run("agents", cwd=team.shop)
    assert listing.stdout.startswith("In workspace shop:\n")
    assert "`spawnable` has no effect" in listing.stderr
    assert "unknown agent type" in team.refused("spawn", "reviewer", "x", exit_code=2, cwd=team.work)
    outside = team.work / "project"
    file = write_definition(outside / ".claude" / "agents", "auditor")
    (outside / "src").mkdir()
    assert (
        f"{file} is used only by agents of a workspace in {outside}: sm workspace create SLUG"
        in team.refused("spawn", "auditor", "x", exit_code=2, cwd=outside / "src")
    )

    session = team.spawn("reviewer", "look", cwd=team.shop)
    assert (session["agent_type"], session["provider"], session["model"]) == ("reviewer", "claude", "opus")
    assert team.option(session["session_id"], "--tools") == "Read,Bash"
    assert team.system_prompt(session["session_id"]).endswith("\n\nOnly review.")
    assert "reviewer (reviews changes)" in team.system_prompt(session["session_id"])


def test_spawn_refuses_a_definition_until_the_operator_agrees(team: Team) -> None:
    path = write_definition(team.agents, "fresh")
    try:
        error = team.refused("spawn", "fresh", "x", exit_code=5, cwd=team.shop)
        assert f"agent type fresh is left out until the operator agrees to {path} (new)" in error
        assert "hint: sm workspace agree shop" in error
        assert "left out until the operator agrees to it (new)" in team.sm("agents", "--workspace", "shop")
        assert "left out until you agree: agent type fresh" in str(
            team.json("workspace", "set", "shop", "--skills", "all")["warnings"]
        )
        team.agree()
        session = team.spawn("fresh", cwd=team.shop)
        # A changed definition is neither started nor given to a restored agent.
        path.write_text(REVIEWER.replace("Only review.", "Evil."))
        assert "(changed)" in team.refused("spawn", "fresh", "x", exit_code=5, cwd=team.shop)
        team.sm("kill", session["session_id"])
        team.sm("restore", session["session_id"])
        assert "Evil" not in team.system_prompt(session["session_id"])
    finally:
        path.unlink()


def test_new_and_restored_agents_use_the_changed_definition(team: Team) -> None:
    path = team.define("changing")
    session_id = team.spawn("changing", cwd=team.shop)["session_id"]
    assert team.system_prompt(session_id).endswith("Only review.")
    path.write_text(
        REVIEWER.replace("Only review.", "Only write.").replace("tools: Read, Bash", "tools: Bash")
    )
    team.agree()
    other = team.spawn("changing", cwd=team.shop)["session_id"]
    assert team.system_prompt(other).endswith("Only write.")
    team.sm("kill", session_id)
    restored = team.json("restore", session_id)
    assert restored["agent_type"] == "changing"
    assert team.system_prompt(session_id).endswith("Only write.")
    assert team.option(session_id, "--tools") == "Read,Bash"  # options stay as at the first start
    path.unlink()
    team.sm("kill", session_id)
    assert team.json("restore", session_id)["agent_type"] == "changing"
    prompt = team.system_prompt(session_id)
    assert "Only write." not in prompt and "Only review." not in prompt
    warnings = [event["message"] for event in team.events(session_id) if event["type"] == "warning"]
    assert (
        "agent type changing no longer exists: the agent resumes without the prompt of that type"
        in warnings[-1]
    )


@pytest.mark.parametrize(
    "settings", ["name: 0x" + "f" * 8000, r'description: "\ud800"', r'disallowedTools: ["Bash(\ud800)"]']
)
def test_unprintable_definition_is_a_problem_of_that_agent_type_only(team: Team, settings: str) -> None:
    path = team.define("broken", f"---\n{settings}\n---\n")
    try:
        assert team.agent_types(cwd=team.shop)["broken"]["problem"]
        team.refused("spawn", "broken", "x", exit_code=2, cwd=team.shop)
        session_id = team.spawn("Plain", cwd=team.shop)["session_id"]
        team.argv(session_id)
        team.sm("kill", session_id)
        team.sm("restore", session_id)
        team.sm("fork", session_id)
    finally:
        path.unlink()


@pytest.mark.parametrize("model", ["--dangerously-skip-permissions", "-x", "a b", "", "a\ud800", "ä"])
def test_spawn_is_refused_when_the_model_name_is_invalid(team: Team, model: str) -> None:
    body = {"agent_type": "Plain", "model": model, "current_dir": str(team.work)}
    with pytest.raises(UsageError):
        Client(str(team.socket)).post("/v1/sessions", body)
    if model.isprintable():
        error = team.refused("spawn", "Plain", "hello", f"--model={model}", exit_code=2)
        assert "invalid value for --model" in error


def test_agents_reports_a_broken_definition_and_other_types_still_start(team: Team) -> None:
    path = team.define("broken", "---\nmodel: -x\n---\n")
    os.mkfifo(team.agents / "pipe.md")
    (team.home / "secret.md").write_text(REVIEWER.replace("reviews changes", "SECRET"))
    (team.agents / "leak.md").symlink_to(team.home / "secret.md")
    try:
        listing = team.sm("agents", "--workspace", "shop")
        assert "cannot be used: 2:8: model: is not a valid model name" in listing
        assert "cannot be used: 1:1: is not a regular file" in listing
        assert "SECRET" not in team.sm("agents", "--workspace", "shop", "--json")
        error = team.refused("spawn", "broken", "x", exit_code=2, cwd=team.shop)
        assert f"{path}:2:8: model: is not a valid model name" in error
        for name in ("pipe", "leak"):
            team.refused("spawn", name, "x", exit_code=2, cwd=team.shop)
        session = team.spawn("Planner", cwd=team.shop)
        assert "broken" not in team.system_prompt(session["session_id"])
    finally:
        for name in ("broken", "pipe", "leak"):
            (team.agents / f"{name}.md").unlink()


def test_spawn_hints_at_the_agent_type_when_the_first_argument_is_a_prompt(team: Team) -> None:
    error = team.refused("spawn", "Fix the login page", exit_code=2, cwd=team.shop)
    assert error.endswith("sm spawn AGENT_TYPE PROMPT; list agent types: sm agents\n")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a" * 65, "..", "/etc/passwd"])
def test_spawn_is_refused_when_the_agent_type_is_a_path(team: Team, name: str) -> None:
    assert "invalid agent type" in team.refused("spawn", "--", name, "x", exit_code=2, cwd=team.shop)


def test_agent_types_shadow_each_other_in_order_of_origin(team: Team) -> None:
    team.define("Planner")
    team.define("both")
    own_path = write_definition(team.home / "agents", "both")
    claude_path = write_definition(team.home / ".claude" / "agents", "helper")
    elsewhere = write_definition(team.home / "elsewhere" / "agents", "other")
    listed = team.json("agents", cwd=team.shop)["agents"]
    shadowed = {(agent["name"], agent["shadowed_by"]) for agent in listed if agent["shadowed_by"]}
    assert shadowed == {("Planner", "config"), ("both", str(team.agents / "both.md"))}
    (team.agents / "both.md").unlink()
    (team.agents / "Planner.md").unlink()
    agent_types = team.agent_types(cwd=team.shop)
    assert (agent_types["both"]["origin"], agent_types["both"]["spawnable"]) == (str(own_path), True)
    assert agent_types["helper"]["origin"] == str(claude_path)
    other_home = {"CLAUDE_CONFIG_DIR": str(elsewhere.parent.parent)}
    assert "other" in team.agent_types(env=other_home)
    assert "helper" not in team.agent_types(env=other_home)
    # A session's environment decides which home is read, not the environment of a command in it.
    parent = team.spawn("Planner", cwd=team.shop, env=other_home)
    assert "other" in team.agent_types(env=session_env(parent))
    assert team.spawn("other", env=session_env(parent))["agent_type"] == "other"
    team.refused("spawn", "helper", "x", exit_code=2, env=session_env(parent))


def test_workspace_setting_limits_the_agent_types_of_its_sessions(team: Team) -> None:
    team.define("reviewer")
    parent = team.spawn("Planner", cwd=team.shop)
    team.sm("workspace", "set", "shop", "--agents", "reviewer,Sh")
    try:
        assert (
            set(team.agent_types("--workspace", "shop"))
            == set(team.agent_types(env=session_env(parent)))
            == {"reviewer", "Sh"}
        )
        for env in ({}, session_env(parent)):
            error = team.refused("spawn", "Editor", "x", exit_code=2, cwd=team.shop, env=env)
            assert "unknown agent type Editor" in error
            assert "sm workspace set shop --agents" in error
        assert "not given to sessions of workspace shop" in team.run("agents", "--workspace", "shop").stderr
        child = team.spawn("reviewer", env=session_env(parent))
        assert "TYPE: Sh, reviewer (reviews changes)." in team.system_prompt(child["session_id"])
        assert "Editor" in team.agent_types(cwd=team.work)
    finally:
        team.sm("workspace", "set", "shop", "--agents", "all")


def test_workspace_warns_when_an_agent_type_name_is_unknown(team: Team) -> None:
    path = team.define("reviewer")
    own_path = write_definition(team.home / ".claude" / "agents", "mine")
    try:
        names = "Editor,reviewer,mine,Editr,Revewer"
        changed = team.json("workspace", "set", "shop", "--agents", names)
        expected = [
            "agent type Editr does not exist; did you mean Editor?",
            "agent type Revewer does not exist; did you mean reviewer?",
        ]
        assert changed["warnings"] == expected
        assert changed["capabilities"]["agents"] == names.split(",")
        assert team.json("workspace", "set", "shop", "--mcps", "all")["warnings"] == []
        made = team.json("workspace", "create", "typo", "--working-dir", str(team.work), "--agents", "Editr")
        assert made["warnings"] == expected[:1]
    finally:
        team.sm("workspace", "set", "shop", "--agents", "all")
        team.run("workspace", "delete", "typo")
        path.unlink()
        own_path.unlink()


def test_agents_shows_a_session_only_the_types_it_may_spawn(team: Team) -> None:
    team.define("broken", "x")
    team.define("Editor")
    parent = team.spawn("Planner", cwd=team.shop)
    stranger = team.spawn("Planner", cwd=team.work)
    agents = team.json("agents", env=session_env(parent))["agents"]
    assert "broken" not in {agent["name"] for agent in agents}
    assert not [agent for agent in agents if agent["problem"] or agent["shadowed_by"]]
    team.refused("agents", "--workspace", "shop", exit_code=3, env=session_env(stranger))
    assert team.json("agents", env=session_env(stranger))["workspace"] is None
    (team.agents / "broken.md").unlink()
    (team.agents / "Editor.md").unlink()


@pytest.mark.parametrize("query", [{"cwd": "/a\0b"}, {"cwd": "relative"}, {"cwd": "/" + "a" * 5000}])
def test_agents_route_refuses_an_invalid_directory(team: Team, query: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Client(str(team.socket)).get("/v1/agents", query)


@pytest.mark.parametrize("path", ["/a\0b", "relative", "/" + "a" * 5000, "/proc/self/mem", "//"])
def test_agents_route_ignores_an_invalid_home(team: Team, path: str) -> None:
    for name in ("home", "claude_config_dir"):
        answer = Client(str(team.socket)).get("/v1/agents", {name: path})
        assert {"Planner", "Sh"} <= {agent["name"] for agent in answer["agents"]}


# --------------------------------------------------------------------------------------------------- permission mode


@pytest.mark.parametrize(
    ("parent", "child", "mode"),
    [
        ("Planner", "Editor", "plan"),
        ("Planner", "Bypass", "plan"),
        ("Editor", "Bypass", "acceptEdits"),
        ("Editor", "Planner", "plan"),
        ("Bypass", "Editor", "acceptEdits"),
        ("Planner", "Plain", "plan"),
        ("Editor", "Plain", "acceptEdits"),
        ("Plain", "Plain", "default"),
        ("Plain", "Editor", "default"),
        ("Bypass", "Plain", "default"),
        ("Planner", "Trusted", "bypassPermissions"),
        ("Sh", "Bypass", None),
    ],
)
def test_child_permission_mode_is_capped_by_its_parent(
    team: Team, parent: str, child: str, mode: str | None
) -> None:
    parent_session = team.spawn(parent, "sleep 1000")
    child_session = team.spawn(child, env=session_env(parent_session))
    assert child_session["parent_session_id"] == parent_session["session_id"]
    assert team.option(child_session["session_id"], "--permission-mode") == mode
    capped = parent in ("Planner", "Plain") and child in ("Editor", "Bypass")
    capped |= (parent, child) in {("Editor", "Bypass"), ("Planner", "Plain")}
    assert len(child_session["warnings"]) == capped
    if capped:
        assert child_session["warnings"][0].startswith(f"permission mode {shown_mode(mode or '')}, not ")
        assert "--dangerously-skip-permissions" not in team.argv(child_session["session_id"])
    # A grandchild gets no more, and a restored child keeps its mode.
    if parent == "Editor" and child == "Bypass":
        grandchild = team.spawn("Bypass", env=session_env(child_session))
        assert team.option(grandchild["session_id"], "--permission-mode") == mode
        team.sm("kill", child_session["session_id"])
        team.sm("restore", child_session["session_id"])
        assert team.option(child_session["session_id"], "--permission-mode") == mode


def test_operator_can_spawn_a_child_with_a_higher_permission_mode(team: Team) -> None:
    parent = team.spawn("Planner")
    child = team.spawn("Bypass", "--parent", parent["session_id"])
    assert child["warnings"] == []
    assert "--dangerously-skip-permissions" in team.argv(child["session_id"])


def test_fork_permission_mode_is_capped_for_a_session_but_not_for_the_operator(team: Team) -> None:
    parent = team.spawn("Editor")
    child = team.spawn("Bypass", "--parent", parent["session_id"])
    forked = team.json("fork", child["session_id"], env=session_env(parent))
    assert forked["parent_session_id"] == parent["session_id"]
    assert team.option(forked["session_id"], "--permission-mode") == "acceptEdits"
    assert "--dangerously-skip-permissions" not in team.argv(forked["session_id"])
    assert len(forked["warnings"]) == 1
    by_operator = team.json("fork", child["session_id"])
    assert "--dangerously-skip-permissions" in team.argv(by_operator["session_id"])


def test_spawnable_in_a_workspace_definition_does_not_lift_the_permission_cap(team: Team) -> None:
    team.define("riser", "---\nspawnable: true\npermissionMode: bypassPermissions\n---\n")
    parent = team.spawn("Planner", cwd=team.shop)
    child = team.spawn("riser", env=session_env(parent))
    assert team.option(child["session_id"], "--permission-mode") == "plan"
    (team.agents / "riser.md").unlink()
