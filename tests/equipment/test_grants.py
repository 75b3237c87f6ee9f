"""Grants of MCP servers and skills to a session, and the identity in the environment of each server."""

import asyncio
import json
import os
import stat
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.core.models import IDENTITY, Capabilities, Session, Workspace
from sm.core.states import TrustLevel
from sm.equipment.agreements import Agreements
from sm.equipment.grants import Granter, Grants
from sm.equipment.mcp_servers import project_servers, server_items
from sm.equipment.skills import SkillSearch
from sm.errors import UsageError
from sm.policy.environment import DENIED_IN_SANDBOX
from sm.providers.claude.plan import ClaudeProvider
from sm.providers.claude.section import ClaudeSection
from sm.providers.command.provider import CommandProvider
from sm.sandboxes.home import ContainerHome
from tests import samples
from tests.instance import until
from tests.waits import NEVER_S

LIES = {"SM_TRUST_LEVEL": "direct", "SM_SESSION_ID": "00000000", "SM_OF_NOBODY": "x"}
LOADED = {
    "LD_PRELOAD": "/tmp/evil.so",
    "NODE_OPTIONS": "--require /tmp/x",
    "PYTHONPATH": "/tmp",
    "KEY": "kept",
}


class Team:
    """A home directory and a workspace with their MCP server files and skills."""

    def __init__(self, root: Path, *, defaults: Capabilities | None = None) -> None:
        self.home = root / "home"
        self.shop = root / "shop"
        self.home.mkdir()
        self.shop.mkdir()
        self.user_file = self.home / ".claude.json"
        self.shop_file = self.shop / ".mcp.json"
        self.provider = ClaudeProvider(ClaudeSection(), (), is_root=False)
        self.agreements_file = root / "agreements.json"
        self.agreements = Agreements(str(self.agreements_file))
        self.container_home = root / "container"
        container = ContainerHome(str(self.container_home))
        self.granter = Granter(
            lambda: defaults or Capabilities(),
            self.agreements,
            lambda session: container if session.effective_mode is TrustLevel.SANDBOXED else None,
        )

    def user(self, **servers: Any) -> None:
        self.user_file.write_text(json.dumps({"numStartups": 3, "mcpServers": servers}))

    def project(self, where: Path | None = None, *, agreed: bool = True, **servers: Any) -> None:
        file = (where or self.shop) / ".mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        if agreed:
            self.agree(file)

    def agree(self, file: Path | None = None) -> None:
        """Agree to the servers in a file as they are now."""
        path = str(file or self.shop_file)
        self.agreements.agree(server_items(path, project_servers(path)))

    def settle(self) -> None:
        """Wait until the files are older than one tick of the clock, so that they may be cached."""
        for file in (self.user_file, self.shop_file):
            os.utime(file, (1_700_000_000, 1_700_000_000))
        until(lambda: time.time_ns() - self.shop_file.stat().st_ctime_ns > 200_000_000, "the files are old")

    def skill(self, path: str) -> None:
        (self.shop.parent / path).mkdir(parents=True)

    def grants(
        self,
        session_id: str = "1a2b3c4d",
        *,
        where: Path | None = None,
        inside: bool = True,
        mode: TrustLevel = TrustLevel.DIRECT,
        strict: bool = False,
        **allowed: tuple[str, ...],
    ) -> Grants:
        session = in_dir(session_id, str(where or self.shop), mode, "shop" if inside else None)
        workspace = Workspace("shop", str(self.shop), samples.AT, None, Capabilities(**allowed), strict)
        return asyncio.run(
            self.granter.grants(
                session, workspace if inside else None, self.provider, {"HOME": str(self.home)}
            )
        )


def in_dir(session_id: str, directory: str, mode: TrustLevel, workspace: str | None) -> Session:
    session = samples.session(session_id)
    return replace(session, working_dir=directory, effective_mode=mode, workspace=workspace)


def identity(session_id: str = "1a2b3c4d", trust: str = "direct") -> Mapping[str, str]:
    values = (session_id, "", "shop", trust, "/s/sm.sock", f"/s/{session_id}.token")
    return dict(zip(IDENTITY, values, strict=True))


def stdio(label: str = "x", **environment: str) -> dict[str, Any]:
    return {"command": "python3", "args": [label], **({"env": environment} if environment else {})}


def written(grants: Grants, **more: str) -> dict[str, Any]:
    """The servers in the MCP file of the session."""
    text = grants.mcp_config({**identity(), "PATH": "/bin", "SECRET": "of the agent", **more})
    servers: dict[str, Any] = {} if text is None else json.loads(text)["mcpServers"]
    return servers


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setattr("sm.equipment.grants._TIME_S", NEVER_S)
    return Team(tmp_path)


# ------------------------------------------------------------------------------------------------ identity


def test_servers_of_the_workspace_override_servers_of_the_user(team: Team) -> None:
    team.user(files=stdio("user"), web=stdio("user"))
    team.project(web=stdio("shop"), shop={"type": "http", "url": "https://shop.example/mcp"})
    servers = written(team.grants())
    assert {name: server.get("args") for name, server in servers.items()} == {
        "files": ["user"],
        "web": ["shop"],
        "shop": None,
    }
    assert servers["shop"] == {"type": "http", "url": "https://shop.example/mcp"}
    assert servers["files"] == {"command": "python3", "args": ["user"], "env": identity()}


def test_server_env_cannot_override_the_identity_of_the_session(team: Team) -> None:
    team.project(a=stdio(**LIES, **LOADED))
    (server,) = written(team.grants()).values()
    # A direct session keeps code-loading variables, but its identity cannot be changed.
    assert server["env"] == {**LOADED, **identity()}
    (server,) = written(team.grants(mode=TrustLevel.SANDBOXED), SM_TRUST_LEVEL="sandboxed").values()
    assert server["env"] == {"KEY": "kept", **identity(trust="sandboxed")}


@pytest.mark.parametrize(
    "name", [name.replace("*", "X") for name in DENIED_IN_SANDBOX] + ["LD_AUDIT", "PYTHONSTARTUP", "PERL5OPT"]
)
def test_server_env_drops_code_loading_variables_when_session_is_sandboxed(team: Team, name: str) -> None:
    team.project(a=stdio(**{name: "x", "ENVIRONMENT": "test", "GITHUB_TOKEN": "t"}))
    (server,) = written(team.grants(mode=TrustLevel.SANDBOXED)).values()
    assert server["env"] == {"ENVIRONMENT": "test", "GITHUB_TOKEN": "t", **identity()}


def test_sessions_get_their_own_identity_from_cached_servers(team: Team) -> None:
    team.user(u=stdio("user", **LIES))
    team.project(a=stdio("shop", **LIES))
    team.settle()
    before = team.shop_file.read_bytes(), team.user_file.read_bytes()
    first, second = team.grants("11111111"), team.grants("22222222")
    cached = json.dumps(dict(first.servers))
    for _ in range(3):
        for session_id, grants in (("11111111", first), ("22222222", second)):
            environments = [s["env"] for s in written(grants, **identity(session_id)).values()]
            assert environments == [identity(session_id)] * 2
    assert json.dumps(dict(team.grants().servers)) == cached
    assert first.servers["a"] == stdio("shop", **LIES)
    assert (team.shop_file.read_bytes(), team.user_file.read_bytes()) == before


def test_variables_in_server_settings_are_not_expanded(team: Team) -> None:
    team.project(a={"command": "${BIN:-run}", "args": ["${HOME}"], "env": {"TOKEN": "${TOKEN}"}})
    server = written(team.grants())["a"]
    assert (server["command"], server["args"], server["env"]["TOKEN"]) == (
        "${BIN:-run}",
        ["${HOME}"],
        "${TOKEN}",
    )


# --------------------------------------------------------------------------------------------------- reads


def test_changed_server_file_applies_to_the_next_session(team: Team) -> None:
    team.user()
    team.project(a=stdio("one"))
    assert written(team.grants())["a"]["args"] == ["one"]
    for change in ("two", "six") * 20:  # same size, and possibly the same mtime
        team.project(a=stdio(change))
        assert written(team.grants())["a"]["args"] == [change]
    team.project(a=stdio("two"))
    team.settle()
    assert written(team.grants())["a"]["args"] == ["two"]
    other = team.shop / "other"
    other.write_text(team.shop_file.read_text().replace("two", "six"))
    os.utime(other, ns=(team.shop_file.stat().st_atime_ns, team.shop_file.stat().st_mtime_ns))
    other.rename(team.shop_file)  # same mtime
    team.agree()
    assert written(team.grants())["a"]["args"] == ["six"]
    team.settle()
    assert written(team.grants())["a"]["args"] == ["six"]
    with team.shop_file.open("r+") as file:  # same inode, size and mtime
        file.write(team.shop_file.read_text().replace("six", "two"))
    os.utime(team.shop_file, (1_700_000_000, 1_700_000_000))
    team.agree()
    assert written(team.grants())["a"]["args"] == ["two"]
    team.shop_file.unlink()
    assert written(team.grants()) == {}


def test_server_files_are_not_read_when_provider_has_no_servers(team: Team) -> None:
    team.shop_file.write_text("no JSON")
    os.mkfifo(team.user_file)
    command = CommandProvider({})
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, None)
    grants = asyncio.run(team.granter.grants(session, None, command, {"HOME": str(team.home)}))
    assert grants == Grants()


def test_user_servers_come_from_the_config_directory_of_the_agent(team: Team, tmp_path: Path) -> None:
    team.user(u=stdio("of HOME"))
    other = tmp_path / "other"
    other.mkdir()
    (other / ".claude.json").write_text(json.dumps({"mcpServers": {"u": stdio("of CLAUDE_CONFIG_DIR")}}))
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, None)
    environment = {"HOME": str(team.home), "CLAUDE_CONFIG_DIR": str(other)}
    grants = asyncio.run(team.granter.grants(session, None, team.provider, environment))
    assert grants.servers["u"]["args"] == ["of CLAUDE_CONFIG_DIR"]


def test_user_servers_of_a_project_apply_in_its_subdirectories(team: Team) -> None:
    (team.shop / ".git").mkdir()
    src = team.shop / "src"
    src.mkdir()
    projects = {
        str(team.shop): {"mcpServers": {"u": stdio("here")}},
        str(src): {"mcpServers": {"v": stdio()}},
    }
    everywhere = {"u": stdio("everywhere"), "w": stdio()}
    team.user_file.write_text(json.dumps({"mcpServers": everywhere, "projects": projects}))
    servers = written(team.grants(where=src))  # claude stores them under the repository (measured)
    assert {name: server["args"] for name, server in servers.items()} == {"u": ["here"], "w": ["x"]}


def git(where: Path, *arguments: str) -> None:
    author = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", *author, *arguments], cwd=where, check=True, capture_output=True)


@pytest.mark.parametrize("place", ["shop/.sm/worktrees/w", "beside"])
@pytest.mark.processes
def test_user_servers_and_commands_of_a_project_apply_in_its_worktrees(team: Team, place: str) -> None:
    git(team.shop, "init")
    git(team.shop, "commit", "--allow-empty", "-m", "first")
    tree = team.shop.parent / place
    git(team.shop, "worktree", "add", str(tree))
    projects = {
        str(team.shop): {"mcpServers": {"u": stdio("repository")}},
        str(tree): {"mcpServers": {"v": stdio()}},
    }
    team.user_file.write_text(json.dumps({"projects": projects}))
    assert written(team.grants(where=tree)).keys() == {"u"}  # measured
    # A worktree also has the commands of its repository (measured).
    team.skill("shop/.claude/commands")
    (team.shop / ".claude/commands/fix.md").write_text("Fix it.")
    assert team.grants(where=tree, skills=()).granted.skills_off == ("fix",)


@pytest.mark.parametrize(
    "content",
    [
        "gitdir: SHOP/.git",
        "gitdir: SHOP/.git/worktrees/w",
        "gitdir: forged",
        "gitdir: ",
        "gitdir: a\0b",
        "gitdir: " + "x" * 100_000,
        "not a gitdir line",
    ],
)
@pytest.mark.processes
def test_forged_worktree_does_not_get_the_servers_of_the_repository(team: Team, content: str) -> None:
    git(team.shop, "init")
    git(team.shop, "commit", "--allow-empty", "-m", "first")
    git(team.shop, "worktree", "add", str(team.home / "w"))
    other = team.shop.parent / "other"
    (other / "forged").mkdir(parents=True)
    (other / ".git").write_text(content.replace("SHOP", str(team.shop)))
    (other / "forged/commondir").write_text(f"{team.shop}/.git\n")
    (other / "forged/gitdir").write_text(f"{other}/.git\n")
    projects = {
        str(team.shop): {"mcpServers": {"secret": stdio()}},
        str(other): {"mcpServers": {"own": stdio()}},
    }
    team.user_file.write_text(json.dumps({"projects": projects}))
    assert written(team.grants(where=other)).keys() == {"own"}  # as claude does (measured)


def test_invalid_servers_of_another_project_are_ignored(team: Team) -> None:
    bad = {
        "command": "x",
        "env": {"PORT": 8080},
    }  # claude skips this server silently (measured)
    projects: dict[str, Any] = {
        str(team.home): {"mcpServers": {"bad": bad}},
        "/": {"mcpServers": []},
        "/x": 1,
        str(team.shop): {"mcpServers": {"good": stdio()}},
    }
    team.user_file.write_text(json.dumps({"projects": projects}))
    assert team.grants().servers.keys() == {"good"}
    projects[str(team.shop)] = {"mcpServers": {"bad": bad}}
    team.user_file.write_text(json.dumps({"projects": projects}))
    with pytest.raises(UsageError, match="'bad' must have an object of strings as env"):
        team.grants()


def test_byte_order_mark_in_server_file_is_skipped(team: Team) -> None:
    team.user_file.write_text("\ufeff" + json.dumps({"mcpServers": {"u": stdio()}}))
    team.shop_file.write_text("\ufeff" + json.dumps({"mcpServers": {"a": stdio()}}))
    team.agree()
    assert team.grants().servers.keys() == {"u", "a"}  # claude reads both (measured)


def test_linked_server_file_above_the_workspace_only_switches_its_servers_off(team: Team) -> None:
    parent_file = team.shop.parent / ".mcp.json"
    dotfiles = team.home / "dotfiles.json"
    dotfiles.write_text('{"mcpServers": {"dots": {"command": 1}}}')
    parent_file.symlink_to(dotfiles)
    grants = team.grants()
    assert (grants.servers, grants.granted.mcps_off) == ({}, ("dots",))
    src = team.shop / "src"
    src.mkdir()
    (src / ".mcp.json").symlink_to(dotfiles)
    with pytest.raises(UsageError, match="is a link that agents can change"):
        team.grants(where=src)


def test_memory_for_cached_server_files_is_bounded(team: Team) -> None:
    servers = {"mcpServers": {f"s{number}": {"command": "x"} for number in range(2_000)}}
    directory = team.shop
    for _ in range(12):
        (directory / ".mcp.json").write_text(json.dumps(servers | {"padding": "x" * 900_000}))
        directory = directory / "d"
        directory.mkdir()
    team.user_file.write_text(json.dumps({"padding": [[]] * 300_000}))
    until(lambda: time.time_ns() - team.user_file.stat().st_ctime_ns > 200_000_000, "the files are old")
    tracemalloc.start()
    try:
        team.grants(where=directory)
        assert tracemalloc.get_traced_memory()[0] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------- filters


def test_server_filter_grants_only_the_named_servers(team: Team) -> None:
    team.user(files=stdio(), mail=stdio())
    team.project(web=stdio(), shell=stdio())
    grants = team.grants(mcps=("files", "web", "wep"))
    assert grants.servers.keys() == {"files", "web"}
    assert grants.warnings == ("there is no MCP server wep; did you mean web?",)
    # Without the filter claude would load `mail`, and ask the user about `shell`.
    assert grants.granted.strict_mcps
    assert set(grants.granted.mcps_off) == {"web", "shell"}
    nothing = team.grants(mcps=())
    assert (nothing.servers, nothing.granted.strict_mcps, nothing.mcp_config(identity())) == ({}, True, None)


def test_agent_keeps_other_servers_when_there_is_no_filter(team: Team) -> None:
    grants = team.grants()
    assert grants == Grants()
    team.project(web=stdio())
    grants = team.grants()
    assert (grants.granted.strict_mcps, grants.granted.mcps_off) == (
        False,
        ("web",),
    )  # granted by sm, so that claude does not ask about the server
    assert team.grants(strict=True).granted.strict_mcps
    assert team.grants(strict=True).servers.keys() == {"web"}


def test_session_without_workspace_gets_user_servers_by_default_capabilities(tmp_path: Path) -> None:
    team = Team(tmp_path, defaults=Capabilities(mcps=("files",)))
    team.user(files=stdio(), mail=stdio())
    team.project(web=stdio())
    grants = team.grants(inside=False, where=team.shop)
    assert grants.servers.keys() == {"files"}
    assert (grants.granted.strict_mcps, grants.granted.mcps_off) == (True, ("web",))
    unfiltered = Team(tmp_path / "shop")
    unfiltered.user(files=stdio())
    unfiltered.project(web=stdio())
    grants = unfiltered.grants(inside=False)
    # Servers of a project are left to claude and its approval dialog.
    assert grants.servers.keys() == {"files"}
    assert (grants.granted.strict_mcps, grants.granted.mcps_off) == (False, ())


def test_session_gets_no_servers_when_its_workspace_is_unknown(team: Team) -> None:
    team.user(files=stdio())
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, "gone")
    grants = asyncio.run(team.granter.grants(session, None, team.provider, {"HOME": str(team.home)}))
    assert (grants.servers, grants.granted.strict_mcps, grants.granted.skills) == ({}, True, False)


def test_server_files_below_the_workspace_are_switched_off_with_a_warning(team: Team) -> None:
    src = team.shop / "src"
    src.mkdir()
    team.project(web=stdio())
    team.project(src, lint=stdio(), web=stdio("another"))
    grants = team.grants(where=src)
    assert (grants.servers["web"]["args"], set(grants.granted.mcps_off)) == (["x"], {"web", "lint"})
    (warning,) = grants.warnings
    assert warning.startswith(f"MCP servers not used from {src}/.mcp.json: lint (")


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        ("python3", True),
        ("./server", True),
        ("SHOP/bin/server", True),
        ("SHOP/../home/server", False),
        ("/opt/server", False),
        ("~/server", False),
        ("${HOME}/server", False),
    ],
)
def test_server_is_dropped_in_sandbox_when_its_program_is_on_the_host(
    team: Team, program: str, *, kept: bool
) -> None:
    team.project(a={"command": program.replace("SHOP", str(team.shop))}, b={"type": "sse", "url": "http://b"})
    assert team.grants().servers.keys() == {"a", "b"}
    grants = team.grants(mode=TrustLevel.SANDBOXED)
    assert grants.servers.keys() == ({"a", "b"} if kept else {"b"})
    assert grants.granted.strict_mcps
    assert ["MCP server a is left out" in warning for warning in grants.warnings] == ([] if kept else [True])


@pytest.mark.parametrize("program", ["/opt/server", "./server", "~/server", "$HOME/server"])
def test_user_server_with_the_path_of_a_program_is_dropped_in_sandbox(team: Team, program: str) -> None:
    team.user(a={"command": program}, b={"type": "http", "url": "https://b"}, c=stdio())
    assert team.grants(mode=TrustLevel.SANDBOXED).servers.keys() == {"b", "c"}
    team.project(a=stdio())
    assert team.grants(mode=TrustLevel.SANDBOXED).servers.keys() == {"a", "b", "c"}


# ------------------------------------------------------------------------------------------- invalid files

BROKEN = {
    "": "invalid JSON",
    "{ no": "invalid JSON",
    "\ufeff": "invalid JSON",
    "[]": "the file must contain a JSON object",
    "null": "the file must contain a JSON object",
    '{"mcpServers": []}': "mcpServers must be an object",
    '{"mcpServers": {"a": "x"}}': "'a' must be an object",
    '{"mcpServers": {"a": {}}}': "'a' has no command",
    '{"mcpServers": {"a": {"command": ""}}}': "'a' has no command",
    '{"mcpServers": {"a": {"command": ["x"]}}}': "'a' has no command",
    '{"mcpServers": {"a": {"command": "x", "args": "y"}}}': "'a' must have a list of strings as args",
    '{"mcpServers": {"a": {"command": "x", "args": [1]}}}': "'a' must have a list of strings as args",
    '{"mcpServers": {"a": {"command": "x", "env": []}}}': "'a' must have an object of strings as env",
    '{"mcpServers": {"a": {"command": "x", "env": {"N": 1}}}}': "'a' must have an object of strings as env",
    '{"mcpServers": {"a": {"type": "http", "url": 1}}}': "'a' must have a string as url",
    '{"mcpServers": {"a": {"type": "http", "url": "x", "command": 1}}}': "'a' must have a string as command",
    '{"mcpServers": {"\\u001b[31m": 1}}': "'[31m' must be an object",
    '{"mcpServers": {"a": {"command": "x", "more": '
    + "[" * 900
    + "]" * 900
    + "}}}": "'a' is nested too deeply",
    "[" * 5000: "invalid JSON",
    '{"mcpServers": {"a": {"command": "\\ud800"}}}': "invalid JSON",
}


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("users", [False, True])
def test_broken_server_file_is_refused_with_its_reason(team: Team, content: str, *, users: bool) -> None:
    file = team.user_file if users else team.shop_file
    file.write_text(content)
    with pytest.raises(UsageError) as refused:
        team.grants()
    assert f"cannot read the MCP servers in {file}: " in refused.value.message
    assert BROKEN[content] in refused.value.message
    assert refused.value.exit_code == 2
    file.write_text('{"unknown": {"a": 1}}')
    assert team.grants().servers == {}


def test_server_file_is_refused_when_not_a_regular_file(team: Team, tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(UsageError) as refused:
            team.grants()
        return refused.value.message

    os.mkfifo(team.shop_file)  # a blocking read would never return
    assert "not a regular file" in refusal()
    team.shop_file.unlink()
    team.shop_file.mkdir()
    assert "not a regular file" in refusal()
    team.shop_file.rmdir()
    (tmp_path / "elsewhere.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    team.shop_file.symlink_to(tmp_path / "elsewhere.json")
    assert "is a link that agents can change" in refusal()
    team.shop_file.unlink()
    team.shop_file.symlink_to("/dev/zero")
    assert "is a link" in refusal()
    team.shop_file.unlink()
    team.user_file.symlink_to(tmp_path / "elsewhere.json")  # the file of the user may be a link
    assert team.grants().servers.keys() == {"a"}


def test_server_file_is_refused_when_too_large(team: Team) -> None:
    with team.shop_file.open("wb") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(UsageError, match="the file is larger than 1024 KiB"):
        team.grants()


def test_half_written_user_file_is_read_again(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.user_file.write_text('{"mcpServers": {"a": {"comm')
    monkeypatch.setattr("sm.equipment.mcp_servers.time.sleep", lambda _: team.user(a=stdio()))
    assert team.grants().servers.keys() == {"a"}


# ------------------------------------------------------------------------------------------------ skills


def test_skill_filter_switches_other_skills_off(team: Team) -> None:
    for path in (
        "home/.claude/skills/mine",
        "home/.claude/skills/review",
        "shop/.claude/skills/deploy",
        ".claude/skills/above",
        "shop/.claude/commands/db",
    ):
        team.skill(path)
    (team.shop / ".claude/commands/fix.md").write_text("Fix it.")
    (team.shop / ".claude/commands/db/drop.md").write_text("Drop it.")
    assert team.grants().granted == Grants().granted
    given = team.grants(skills=("review", "fix")).granted
    assert (given.skills, given.own_skills) == (True, False)
    assert set(given.skills_off) == {"mine", "deploy", "above", "db:drop"}
    none = team.grants(skills=()).granted
    assert (none.skills, none.own_skills) == (False, False)
    assert set(none.skills_off) == {"mine", "deploy", "above", "db:drop", "review", "fix"}


def test_skill_filter_of_a_container_reads_the_home_of_the_container(team: Team) -> None:
    for path in (
        "home/.claude/skills/of-the-host",
        "container/.claude/skills/mine",
        "shop/.claude/skills/deploy",
    ):
        team.skill(path)
    commands = team.container_home / ".claude/commands"
    (commands / "db").mkdir(parents=True)
    (commands / "db/drop.md").write_text("Drop it.")
    given = team.grants(mode=TrustLevel.SANDBOXED, skills=("deploy",)).granted
    assert set(given.skills_off) == {"mine", "db:drop"}


@pytest.mark.parametrize("link", [".claude", ".claude/skills", ".claude/commands", ".claude/commands/db"])
def test_skill_filter_of_a_container_is_refused_for_a_link(team: Team, link: str) -> None:
    # Inside it may lead to other skills than here.
    path = team.container_home / link
    path.parent.mkdir(parents=True)
    path.symlink_to("/home/sandbox/elsewhere")
    assert team.grants(mode=TrustLevel.SANDBOXED).granted.skills_off == ()
    with pytest.raises(UsageError, match="a part of it is a link"):
        team.grants(mode=TrustLevel.SANDBOXED, skills=("review",))


def test_unknown_skill_is_allowed_with_a_warning(team: Team) -> None:
    team.skill("shop/.claude/skills/deploy")
    grants = team.grants(skills=("simplify",))
    assert (grants.granted.own_skills, grants.granted.skills_off) == (True, ("deploy",))
    assert "there is no skill simplify here" in grants.warnings[0]


def test_skill_filter_is_refused_when_too_many_skills_must_be_switched_off(team: Team) -> None:
    for number in range(200):
        team.skill(f"shop/.claude/skills/{number:0200}")
    with pytest.raises(UsageError, match="too many skills to deny to the session"):
        team.grants(skills=("none-of-them",))


def test_skills_are_found_in_the_same_places_as_by_claude(team: Team) -> None:
    commands = team.shop / ".claude/commands"
    for path in (
        "evil/SKILL.md",
        "low/skill.md",
        "a/b/Skill.md",
        "SKILL.md/in.md",
        "a.b/c.d.md",
        ".dot.md",
        "sp ace.md",
    ):
        (commands / path).parent.mkdir(parents=True, exist_ok=True)
        (commands / path).write_text("x")
    linked = team.home / "linked"
    (linked / "sub").mkdir(parents=True)
    (linked / "one.md").write_text("x")
    (linked / "sub/SKILL.md").write_text("x")
    (commands / "lnk").symlink_to(linked)
    (commands / "loop").symlink_to(commands)
    (commands / "self").symlink_to("self")
    (commands / "file.md").symlink_to(linked / "one.md")
    off = set(team.grants(skills=()).granted.skills_off)
    # Measured: `SKILL.md` makes a skill of its directory, and links are followed.
    assert off >= {
        "evil",
        "low",
        "a:b",
        "SKILL.md:in",
        "a.b:c.d",
        ".dot",
        "sp ace",
        "lnk:one",
        "lnk:sub",
        "file",
    }
    assert not any(name.startswith("loop") for name in off)
    (commands / "SKILL.md/in.md").unlink()
    (commands / "SKILL.md").rmdir()
    (commands / "SKILL.md").write_text("x")
    assert "commands" in team.grants(skills=()).granted.skills_off
    assert "a:b" not in team.grants(skills=("a:b",)).granted.skills_off


@pytest.mark.parametrize("top", [".claude", ".claude/skills", ".claude/commands"])
def test_skill_filter_is_refused_when_a_link_leads_out_of_the_project(team: Team, top: str) -> None:
    elsewhere = team.home / "elsewhere"
    (elsewhere / "commands").mkdir(parents=True)
    (elsewhere / "secret.md").write_text("x")
    link = team.shop / top
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    assert team.grants().granted == Grants().granted
    with pytest.raises(UsageError, match="it is a link that leads out of the project"):
        team.grants(skills=("review",))
    link.unlink()
    inside = team.shop / "tools"
    inside.mkdir()
    (inside / "skills").mkdir()
    (inside / "skills/mine").mkdir()
    link.symlink_to(inside)
    assert team.grants(skills=("review",)).granted.skills
    link.unlink()
    parent_link = team.shop.parent / top  # outside of the project, as with dotfiles
    parent_link.parent.mkdir(exist_ok=True)
    parent_link.symlink_to(elsewhere)
    assert team.grants(skills=("review",)).granted.skills


def test_sandboxed_session_learns_no_names_of_this_host_through_links(team: Team) -> None:
    elsewhere = team.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.md").write_text("x")
    commands = team.shop / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "out").symlink_to(elsewhere)
    (commands / "back").symlink_to(team.shop / ".claude/tools")
    (team.shop / ".claude/tools").mkdir()
    (team.shop / ".claude/tools/own.md").write_text("x")
    names = team.grants(skills=("review",), mode=TrustLevel.SANDBOXED).granted.skills_off
    assert "back:own" in names
    assert not any("secret" in name for name in names)
    assert "out:secret" in team.grants(skills=("review",)).granted.skills_off


def test_link_that_an_agent_makes_during_the_search_is_not_followed(team: Team) -> None:
    elsewhere = team.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.md").write_text("x")
    commands = team.shop / ".claude/commands"
    (commands / "in").mkdir(parents=True)
    (commands / "in/own.md").write_text("x")
    search = SkillSearch((str(team.shop),), time.monotonic() + 60, contained=True)
    found = search.commands(str(commands))
    (commands / "a.md").write_text("x")
    assert next(found) == "a"  # "in" waits
    (commands / "in").rename(commands / "kept")
    (commands / "in").symlink_to(elsewhere)
    assert [*found] == []


def test_skill_directories_are_read_within_limits(team: Team) -> None:
    commands = team.shop / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "root").symlink_to("/")
    with pytest.raises(UsageError, match=r"cannot list the skills in .*commands: more than"):
        team.grants(skills=("review",))
    (commands / "root").unlink()
    deep = commands / "/".join("12345678")
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("x")
    assert team.grants(skills=("review",)).granted.skills_off == ("1:2:3:4:5:6:7:8:x",)
    (deep / "9").mkdir()
    with pytest.raises(UsageError, match="more than 8 directory levels"):
        team.grants(skills=("review",))
    (deep / "9").rmdir()
    for number in range(2_000):
        (deep / str(number)).touch()
    with pytest.raises(UsageError, match="more than 2000 entries"):
        team.grants(skills=("review",))


def test_hanging_skill_directory_times_out_without_blocking_other_work(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.skill("shop/.claude/commands")
    hangs, answers = threading.Event(), threading.Event()
    scandir = os.scandir

    def hanging(path: Any) -> Any:
        hangs.set()
        assert answers.wait()
        return scandir(path)

    monkeypatch.setattr("sm.equipment.grants.os.scandir", hanging)
    monkeypatch.setattr("sm.equipment.grants._TIME_S", 0.3)
    workspace = Workspace("shop", str(team.shop), samples.AT, None, Capabilities(skills=()))
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, "shop")

    async def start_many() -> list[Any]:
        starts = [
            asyncio.create_task(
                team.granter.grants(session, workspace, team.provider, {"HOME": str(team.home)})
            )
            for _ in range(40)
        ]
        assert await asyncio.to_thread(hangs.wait), "threads of other work are free"
        return await asyncio.gather(*starts, return_exceptions=True)

    try:
        refused = asyncio.run(start_many())
    finally:
        answers.set()
    assert {type(error) for error in refused} == {UsageError}
    assert "did not respond within 0.3 s" in refused[0].message


# ---------------------------------------------------------------------------------------------- agreements


def test_server_of_the_workspace_is_left_out_until_the_operator_agrees(team: Team) -> None:
    team.user(mail=stdio("user"), web=stdio("user"))
    team.project(agreed=False, probe=stdio("shop"), web=stdio("shop"))
    before = team.grants()
    # The user's own server takes the place of one that is left out, and claude must not ask about the others.
    assert {name: server["args"] for name, server in written(before).items()} == {
        "mail": ["user"],
        "web": ["user"],
    }
    assert before.granted.mcps_off == ("probe", "web")
    assert before.warnings == (
        f"MCP servers of {team.shop_file} are left out until the operator agrees to them: probe (new), web (new) "
        "(sm workspace agree shop)",
    )
    team.agree()
    after = team.grants()
    assert {name: server["args"] for name, server in written(after).items()} == {
        "mail": ["user"],
        "web": ["shop"],
        "probe": ["shop"],
    }
    assert after.warnings == ()


@pytest.mark.parametrize(
    "change",
    [
        {"command": "sh"},
        {"args": ["y"]},
        {"env": {"LD_PRELOAD": "x.so"}},
        {"cwd": "/tmp"},
        {"type": "http", "url": "https://x.example", "headersHelper": "sh x"},
    ],
)
def test_agreed_server_is_left_out_when_any_of_its_settings_changes(
    team: Team, change: dict[str, Any]
) -> None:
    team.project(a=stdio(), b=stdio())
    team.project(agreed=False, a=stdio() | change, b=stdio())
    grants = team.grants()
    assert list(grants.servers) == ["b"]
    assert "a (changed) (sm workspace agree shop)" in grants.warnings[0]
    team.project(agreed=False, b=stdio(), a=stdio())
    assert list(team.grants().servers) == ["b", "a"]


def test_agreement_applies_to_one_file_only(team: Team) -> None:
    elsewhere = team.shop.parent / "other"
    elsewhere.mkdir()
    team.project(elsewhere, a=stdio())
    team.project(agreed=False, a=stdio())
    assert team.grants().servers == {}


def test_server_outside_of_the_filter_causes_no_agreement_warning(team: Team) -> None:
    team.project(agreed=False, a=stdio(), b=stdio())
    assert "b (new)" not in str(team.grants(mcps=("a",)).warnings)
    assert team.grants(mcps=()).warnings == ()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 2, "agreed": {}}', '{"version": 1, "agreed": {"x": 1}}']
)
def test_nothing_is_agreed_when_the_file_of_agreements_is_damaged(team: Team, content: str) -> None:
    team.project(a=stdio())
    team.agreements_file.write_text(content)
    assert team.grants().servers == {}
    team.agree()
    assert list(team.grants().servers) == ["a"]


def test_file_of_agreements_is_private_and_links_in_its_place_are_not_followed(team: Team) -> None:
    team.project(a=stdio())
    file, other = team.agreements_file, team.shop / "agreements.json"
    assert stat.filemode(file.stat().st_mode) == "-rw-------"
    file.rename(other)
    file.symlink_to(other)
    assert team.grants().servers == {}
    before = other.read_text()
    Path(f"{file}.new").symlink_to(other)
    team.agree()
    assert list(team.grants().servers) == ["a"]
    assert not file.is_symlink()
    assert other.read_text() == before


def test_file_of_agreements_keeps_a_limited_number_of_the_newest(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.equipment.agreements._AGREED_MAX", 2)
    team.project(a=stdio())
    team.project(agreed=False, a=stdio(), b=stdio("b"))
    path = str(team.shop_file)
    team.agreements.agree(server_items(path, {"b": stdio("b")}))
    team.agreements.agree(server_items(path, {"c": stdio("c")}))
    assert list(team.grants().servers) == ["b"]
