"""Agent types, from files and the configuration, through the real command, daemon and tmux.

A script that keeps its arguments stands in for claude: what it is started with is what is asked about.
"""

import os
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from sm.errors import UsageError
from tests.instance import Instance, until

CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
limits: {{spawn_interval_s: 0}}
commands:
  Sh: {{command: [sh, -c]}}
claude:
  default_command: {claude}
  env: {{IS_SANDBOX: "1"}}
  agent_configs:
    Plain: {{}}
    Planner: {{args: ["--permission-mode", "plan"]}}
    Editor: {{args: ["--permission-mode", "acceptEdits"]}}
    Bypass: {{args: ["--dangerously-skip-permissions"]}}
    Trusted: {{args: ["--permission-mode", "bypassPermissions"], spawnable: true}}
"""
CLAUDE = """#!/bin/sh
printf '%s\\0' "$@" > "$HOME/argv-$SM_SESSION_ID.new"
mv "$HOME/argv-$SM_SESSION_ID.new" "$HOME/argv-$SM_SESSION_ID"
exec sleep 1000
"""
REVIEWER = """---
description: reviews changes
model: opus
tools: Read, Bash
spawnable: true
---
Only review.
"""


class Team(Instance):
    """One workspace, `shop`, whose directory defines agent types."""

    def __init__(self) -> None:
        super().__init__(config=CONFIG.format(claude="/nowhere"))
        claude = self.home / "claude"
        claude.write_text(CLAUDE)
        claude.chmod(0o755)
        self.config.write_text(CONFIG.format(claude=claude))
        self.shop = self.home / "shop"
        self.agents = self.shop / ".sm" / "agents"
        self.agents.mkdir(parents=True)

    def argv(self, session_id: str) -> list[str]:
        path = self.home / f"argv-{session_id}"
        until(path.exists, "it has been started")
        return path.read_text().split("\0")[:-1]

    def option(self, session_id: str, name: str) -> str | None:
        argv = self.argv(session_id)
        return argv[argv.index(name) + 1] if name in argv else None

    def told(self, session_id: str) -> str:
        return str(self.option(session_id, "--append-system-prompt"))

    def found(self, *arguments: str, **options: Any) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.json("agents", *arguments, **options)["agents"]}


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    made = Team()
    made.sm("workspace", "create", "shop", "--working-dir", str(made.shop))
    yield made
    made.end()


def acting(session: dict[str, Any]) -> dict[str, str]:
    return {"SM_SESSION_ID": session["session_id"]}


def define(directory: Path, name: str, text: str = REVIEWER) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.md"
    path.write_text(text)
    return path


def test_definition_in_the_workspace_is_an_agent_type_there_and_nowhere_else(team: Team) -> None:
    path = define(team.agents, "reviewer")
    assert "reviewer" not in team.found(cwd=team.work)
    assert "reviewer" not in team.found("--workspace", "-", cwd=team.shop)
    for found in (team.found("--workspace", "shop", cwd=team.work), team.found(cwd=team.shop)):
        assert found["reviewer"]["origin"] == str(path)
        assert found["reviewer"]["model"] == "opus"
        assert not found["reviewer"]["spawnable"]
        assert found["Trusted"]["spawnable"]
    shown = team.run("agents", cwd=team.shop)
    assert shown.stdout.startswith("In workspace shop:\n")
    assert "`spawnable` has no effect" in shown.stderr
    assert "unknown agent type" in team.refused("spawn", "reviewer", "x", exit_code=2, cwd=team.work)

    session = team.spawn("reviewer", "look", cwd=team.shop)
    assert (session["agent_type"], session["provider"], session["model"]) == ("reviewer", "claude", "opus")
    assert team.option(session["session_id"], "--tools") == "Read,Bash"
    assert team.told(session["session_id"]).endswith("\n\nOnly review.")
    assert "reviewer (reviews changes)" in team.told(session["session_id"])


def test_changed_definition_is_that_of_the_next_agent_and_of_a_restored_one(team: Team) -> None:
    path = define(team.agents, "changing")
    session_id = team.spawn("changing", cwd=team.shop)["session_id"]
    assert team.told(session_id).endswith("Only review.")
    path.write_text(
        REVIEWER.replace("Only review.", "Only write.").replace("tools: Read, Bash", "tools: Bash")
    )
    other = team.spawn("changing", cwd=team.shop)["session_id"]
    assert team.told(other).endswith("Only write.")
    team.sm("kill", session_id)
    (team.home / f"argv-{session_id}").unlink()
    restored = team.json("restore", session_id)
    assert restored["agent_type"] == "changing"
    assert team.told(session_id).endswith("Only write.")
    assert team.option(session_id, "--tools") == "Read,Bash"  # its options are those that it was started with
    path.unlink()
    team.sm("kill", session_id)
    (team.home / f"argv-{session_id}").unlink()
    assert team.json("restore", session_id)["agent_type"] == "changing"
    assert "Only" not in team.told(session_id)
    warned = [each["message"] for each in team.events(session_id) if each["type"] == "warning"]
    assert "agent type changing is there no more: nothing of its prompt is told again" in warned[-1]


@pytest.mark.parametrize(
    "settings", ["name: 0x" + "f" * 8000, r'description: "\ud800"', r'disallowedTools: ["Bash(\ud800)"]']
)
def test_definition_that_nothing_can_show_breaks_only_itself(team: Team, settings: str) -> None:
    path = define(team.agents, "broken", f"---\n{settings}\n---\n")
    try:
        assert team.found(cwd=team.shop)["broken"]["problem"]
        team.refused("spawn", "broken", "x", exit_code=2, cwd=team.shop)
        session_id = team.spawn("Plain", cwd=team.shop)["session_id"]
        team.argv(session_id)
        team.sm("kill", session_id)
        team.sm("restore", session_id)
        team.sm("fork", session_id)
    finally:
        path.unlink()


@pytest.mark.parametrize("model", ["--dangerously-skip-permissions", "-x", "a b", "", "a\ud800", "ä"])
def test_model_that_is_no_name_is_refused_before_any_agent_hears_of_it(team: Team, model: str) -> None:
    body = {"agent_type": "Plain", "model": model, "current_dir": str(team.work)}
    with pytest.raises(UsageError):
        Client(str(team.socket)).post("/v1/sessions", body)
    if model.isprintable():
        told = team.refused("spawn", "Plain", "hello", f"--model={model}", exit_code=2)
        assert "is no name of a model" in told


def test_broken_definition_is_told_and_holds_up_nobody(team: Team) -> None:
    path = define(team.agents, "broken", "---\nmodel: -x\n---\n")
    os.mkfifo(team.agents / "pipe.md")
    (team.home / "secret.md").write_text(REVIEWER.replace("reviews changes", "SECRET"))
    (team.agents / "leak.md").symlink_to(team.home / "secret.md")
    try:
        shown = team.sm("agents", "--workspace", "shop")
        assert "cannot be used: 2:8: model: is no name of a model" in shown
        assert "cannot be used: 1:1: is not a file" in shown
        assert "SECRET" not in team.sm("agents", "--workspace", "shop", "--json")
        told = team.refused("spawn", "broken", "x", exit_code=2, cwd=team.shop)
        assert f"{path}:2:8: model: is no name of a model" in told
        for name in ("pipe", "leak"):
            team.refused("spawn", name, "x", exit_code=2, cwd=team.shop)
        session = team.spawn("Planner", cwd=team.shop)
        assert "broken" not in team.told(session["session_id"])
    finally:
        for name in ("broken", "pipe", "leak"):
            (team.agents / f"{name}.md").unlink()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a" * 65, "..", "/etc/passwd"])
def test_agent_type_is_no_path(team: Team, name: str) -> None:
    assert "unknown agent type" in team.refused("spawn", "--", name, "x", exit_code=2, cwd=team.shop)


def test_configured_types_and_the_operators_own_come_as_they_should(team: Team) -> None:
    define(team.agents, "Planner")
    define(team.agents, "both")
    mine = define(team.home / "agents", "both")
    claudes = define(team.home / ".claude" / "agents", "helper")
    elsewhere = define(team.home / "elsewhere" / "agents", "other")
    shown = team.json("agents", cwd=team.shop)["agents"]
    shadowed = {(each["name"], each["shadowed_by"]) for each in shown if each["shadowed_by"]}
    assert shadowed == {("Planner", "config"), ("both", str(team.agents / "both.md"))}
    (team.agents / "both.md").unlink()
    (team.agents / "Planner.md").unlink()
    found = team.found(cwd=team.shop)
    assert (found["both"]["origin"], found["both"]["spawnable"]) == (str(mine), True)
    assert found["helper"]["origin"] == str(claudes)
    there = {"CLAUDE_CONFIG_DIR": str(elsewhere.parent.parent)}
    assert "other" in team.found(env=there)
    assert "helper" not in team.found(env=there)
    # A session's own is that of its environment, whatever the shell of a command in it says.
    parent = team.spawn("Planner", cwd=team.shop, env=there)
    assert "other" in team.found(env=acting(parent))
    assert team.spawn("other", env=acting(parent))["agent_type"] == "other"
    team.refused("spawn", "helper", "x", exit_code=2, env=acting(parent))


def test_workspace_says_which_types_its_sessions_are_given(team: Team) -> None:
    define(team.agents, "reviewer")
    parent = team.spawn("Planner", cwd=team.shop)
    team.sm("workspace", "set", "shop", "--agents", "reviewer,Sh")
    try:
        assert (
            set(team.found("--workspace", "shop"))
            == set(team.found(env=acting(parent)))
            == {"reviewer", "Sh"}
        )
        for env in ({}, acting(parent)):
            told = team.refused("spawn", "Editor", "x", exit_code=2, cwd=team.shop, env=env)
            assert "unknown agent type Editor" in told
            assert "sm workspace set shop --agents" in told
        assert "not given to sessions of workspace shop" in team.run("agents", "--workspace", "shop").stderr
        child = team.spawn("reviewer", env=acting(parent))
        assert "TYPE: Sh, reviewer (reviews changes)." in team.told(child["session_id"])
        assert "Editor" in team.found(cwd=team.work)
    finally:
        team.sm("workspace", "set", "shop", "--agents", "all")


def test_example_of_a_team_works_when_it_is_typed_in_its_order(team: Team) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    setting, _, rest = readme.partition("$ sm workspace set shop ")[2].partition("#")[0].partition("\n")
    file = readme.partition(".sm/agents/reviewer.md <<'END'\n")[2].partition("END\n")[0]
    assert setting and rest and file.startswith("---\n")
    team.sm("workspace", "set", "shop", *shlex.split(setting))
    path = define(team.agents, "reviewer", file)
    try:
        team.spawn("reviewer", "Review the last commit", cwd=team.shop)
    finally:
        team.sm("workspace", "set", "shop", "--mcps", "all", "--agents", "all")
        path.unlink()


def test_definitions_of_one_team_hold_up_no_other(team: Team) -> None:
    """They took 60 s of the processor each time, in threads that all needed."""
    flood = team.home / "flood"
    settings = f"---\nx: [{'a,' * 4000}]\n---\n"
    paths = [
        define(flood / place / "agents", f"agent{n:03}", settings)
        for place in (".sm", ".claude")
        for n in range(100)
    ]
    team.sm("workspace", "create", "flood", "--working-dir", str(flood))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            for path in paths:
                path.touch()
            asked = [pool.submit(team.json, "agents", "--workspace", "flood") for _ in range(8)]
            team.spawn("Plain", "--workspace", "shop")  # within the limit of a command
            for each in asked:
                found = each.result()["agents"]
                assert sum(not t["problem"] for t in found if t["origin"].startswith(str(flood))) == 16
    team.sm("workspace", "delete", "flood")


def test_name_that_no_agent_type_has_is_told(team: Team) -> None:
    path = define(team.agents, "reviewer")
    own = define(team.home / ".claude" / "agents", "mine")
    try:
        names = "Editor,reviewer,mine,Editr,Revewer"
        changed = team.json("workspace", "set", "shop", "--agents", names)
        expected = [
            "there is no agent type Editr now; did you mean Editor?",
            "there is no agent type Revewer now; did you mean reviewer?",
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
        own.unlink()


def test_session_sees_what_it_may_spawn_and_no_other_workspace(team: Team) -> None:
    define(team.agents, "broken", "x")
    define(team.agents, "Editor")
    parent = team.spawn("Planner", cwd=team.shop)
    stranger = team.spawn("Planner", cwd=team.work)
    seen = team.json("agents", env=acting(parent))
    assert "broken" not in {each["name"] for each in seen["agents"]}
    assert not [each for each in seen["agents"] if each["problem"] or each["shadowed_by"]]
    team.refused("agents", "--workspace", "shop", exit_code=3, env=acting(stranger))
    assert team.json("agents", env=acting(stranger))["workspace"] is None
    (team.agents / "broken.md").unlink()
    (team.agents / "Editor.md").unlink()


@pytest.mark.parametrize("query", [{"cwd": "/a\0b"}, {"cwd": "relative"}, {"cwd": "/" + "a" * 5000}])
def test_directory_that_is_none_is_refused(team: Team, query: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Client(str(team.socket)).get("/v1/agents", query)


@pytest.mark.parametrize("path", ["/a\0b", "relative", "/" + "a" * 5000, "/proc/self/mem", "//"])
def test_home_that_is_none_holds_no_definitions(team: Team, path: str) -> None:
    for name in ("home", "claude_config_dir"):
        found = Client(str(team.socket)).get("/v1/agents", {name: path})
        assert {"Planner", "Sh"} <= {each["name"] for each in found["agents"]}


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
        ("Bypass", "Plain", None),
        ("Planner", "Trusted", "bypassPermissions"),
        ("Sh", "Bypass", None),
    ],
)
def test_child_has_the_permission_mode_of_its_parent_at_most(
    team: Team, parent: str, child: str, mode: str | None
) -> None:
    above = team.spawn(parent, "sleep 1000")
    made = team.spawn(child, env=acting(above))
    assert made["parent_session_id"] == above["session_id"]
    assert team.option(made["session_id"], "--permission-mode") == mode
    capped = parent in ("Planner", "Plain") and child in ("Editor", "Bypass")
    capped |= (parent, child) in {("Editor", "Bypass"), ("Planner", "Plain")}
    assert len(made["warnings"]) == capped
    if capped:
        assert made["warnings"][0].startswith(f"permission mode {mode}, not ")
        assert "--dangerously-skip-permissions" not in team.argv(made["session_id"])
    # Nor has a child of that child, or a fork, more; and a restored one has what it had.
    if parent == "Editor" and child == "Bypass":
        below = team.spawn("Bypass", env=acting(made))
        assert team.option(below["session_id"], "--permission-mode") == mode
        team.sm("kill", made["session_id"])
        (team.home / f"argv-{made['session_id']}").unlink()
        team.sm("restore", made["session_id"])
        assert team.option(made["session_id"], "--permission-mode") == mode


def test_operator_may_do_anything(team: Team) -> None:
    above = team.spawn("Planner")
    made = team.spawn("Bypass", "--parent", above["session_id"])
    assert made["warnings"] == []
    assert "--dangerously-skip-permissions" in team.argv(made["session_id"])


def test_fork_by_a_session_is_capped_and_one_by_the_operator_is_not(team: Team) -> None:
    above = team.spawn("Editor")
    made = team.spawn("Bypass", "--parent", above["session_id"])
    forked = team.json("fork", made["session_id"], env=acting(above))
    assert forked["parent_session_id"] == above["session_id"]
    assert team.option(forked["session_id"], "--permission-mode") == "acceptEdits"
    assert "--dangerously-skip-permissions" not in team.argv(forked["session_id"])
    assert len(forked["warnings"]) == 1
    by_operator = team.json("fork", made["session_id"])
    assert "--dangerously-skip-permissions" in team.argv(by_operator["session_id"])


def test_agents_cannot_make_a_type_spawnable_where_they_can_write(team: Team) -> None:
    define(team.agents, "riser", "---\nspawnable: true\npermissionMode: bypassPermissions\n---\n")
    above = team.spawn("Planner", cwd=team.shop)
    made = team.spawn("riser", env=acting(above))
    assert team.option(made["session_id"], "--permission-mode") == "plan"
    (team.agents / "riser.md").unlink()
