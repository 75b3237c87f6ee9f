"""Which MCP servers and skills a session is given, and who each server is told that it serves."""

import asyncio
import json
import os
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.grants import DENIED_IN_SANDBOX, Granter, Grants
from sm.config import Claude
from sm.core.models import IDENTITY, Capabilities, Session, Workspace
from sm.core.states import TrustLevel
from sm.errors import UsageError
from sm.providers.claude import ClaudeProvider
from sm.providers.command import CommandProvider
from tests import samples
from tests.instance import until
from tests.load import scaled

LIES = {"SM_TRUST_LEVEL": "direct", "SM_SESSION_ID": "00000000", "SM_OF_NOBODY": "x"}
LOADED = {
    "LD_PRELOAD": "/tmp/evil.so",
    "NODE_OPTIONS": "--require /tmp/x",
    "PYTHONPATH": "/tmp",
    "KEY": "kept",
}


class Team:
    """A user's home and a workspace, in one directory, with the files that lie about in them."""

    def __init__(self, root: Path, *, defaults: Capabilities | None = None) -> None:
        self.home = root / "home"
        self.shop = root / "shop"
        self.home.mkdir()
        self.shop.mkdir()
        self.user_file = self.home / ".claude.json"
        self.shop_file = self.shop / ".mcp.json"
        self.provider = ClaudeProvider(Claude(), (), is_root=False)
        self.granter = Granter(defaults or Capabilities())

    def user(self, **servers: Any) -> None:
        self.user_file.write_text(json.dumps({"numStartups": 3, "mcpServers": servers}))

    def project(self, where: Path | None = None, **servers: Any) -> None:
        ((where or self.shop) / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def settle(self) -> None:
        """Until what was written lately is no more what may change again within the same tick of the clock."""
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
    made = samples.session(session_id)
    return replace(made, working_dir=directory, effective_mode=mode, workspace=workspace)


def identity(session_id: str = "1a2b3c4d", trust: str = "direct") -> Mapping[str, str]:
    values = (session_id, "", "shop", trust, "/s/sm.sock", f"/s/{session_id}.token")
    return dict(zip(IDENTITY, values, strict=True))


def stdio(label: str = "x", **environment: str) -> dict[str, Any]:
    return {"command": "python3", "args": [label], **({"env": environment} if environment else {})}


def written(grants: Grants, **more: str) -> dict[str, Any]:
    """The servers of the session's own file."""
    text = grants.mcp_config({**identity(), "PATH": "/bin", "SECRET": "of the agent", **more})
    servers: dict[str, Any] = {} if text is None else json.loads(text)["mcpServers"]
    return servers


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setattr("sm.capabilities.grants._TIME_S", scaled(10))
    return Team(tmp_path)


# ----------------------------------------------------------------------------------------------- who is told what


def test_servers_are_the_users_and_over_them_those_of_the_workspace(team: Team) -> None:
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


def test_a_file_cannot_say_who_the_session_is(team: Team) -> None:
    team.project(a=stdio(**LIES, **LOADED))
    (server,) = written(team.grants()).values()
    # The user of a direct session may load what he likes; nobody may say who it is.
    assert server["env"] == {**LOADED, **identity()}
    (server,) = written(team.grants(mode=TrustLevel.SANDBOXED), SM_TRUST_LEVEL="sandboxed").values()
    assert server["env"] == {"KEY": "kept", **identity(trust="sandboxed")}


@pytest.mark.parametrize(
    "name", [each.replace("*", "X") for each in DENIED_IN_SANDBOX] + ["LD_AUDIT", "PYTHONSTARTUP", "PERL5OPT"]
)
def test_no_server_in_a_sandbox_is_given_what_loads_other_code(team: Team, name: str) -> None:
    team.project(a=stdio(**{name: "x", "ENVIRONMENT": "test", "GITHUB_TOKEN": "t"}))
    (server,) = written(team.grants(mode=TrustLevel.SANDBOXED)).values()
    assert server["env"] == {"ENVIRONMENT": "test", "GITHUB_TOKEN": "t", **identity()}


def test_sessions_in_turn_get_their_own_identity_and_what_is_kept_stays_as_it_was(team: Team) -> None:
    team.user(u=stdio("user", **LIES))
    team.project(a=stdio("shop", **LIES))
    team.settle()
    before = team.shop_file.read_bytes(), team.user_file.read_bytes()
    first, second = team.grants("11111111"), team.grants("22222222")
    kept = json.dumps(dict(first.servers))
    for _ in range(3):
        for session_id, grants in (("11111111", first), ("22222222", second)):
            told = [s["env"] for s in written(grants, **identity(session_id)).values()]
            assert told == [identity(session_id)] * 2
    assert json.dumps(dict(team.grants().servers)) == kept
    assert first.servers["a"] == stdio("shop", **LIES)
    assert (team.shop_file.read_bytes(), team.user_file.read_bytes()) == before


def test_variables_in_a_file_are_left_to_the_agent(team: Team) -> None:
    team.project(a={"command": "${BIN:-run}", "args": ["${HOME}"], "env": {"TOKEN": "${TOKEN}"}})
    server = written(team.grants())["a"]
    assert (server["command"], server["args"], server["env"]["TOKEN"]) == (
        "${BIN:-run}",
        ["${HOME}"],
        "${TOKEN}",
    )


# ------------------------------------------------------------------------------------------------ when it is read


def test_changed_file_counts_for_the_next_session(team: Team) -> None:
    team.user()
    team.project(a=stdio("one"))
    assert written(team.grants())["a"]["args"] == ["one"]
    for change in ("two", "six") * 20:  # of the same size, and so soon that the file's time may be the same
        team.project(a=stdio(change))
        assert written(team.grants())["a"]["args"] == [change]
    team.project(a=stdio("two"))
    team.settle()
    assert written(team.grants())["a"]["args"] == ["two"]
    other = team.shop / "other"
    other.write_text(team.shop_file.read_text().replace("two", "six"))
    os.utime(other, ns=(team.shop_file.stat().st_atime_ns, team.shop_file.stat().st_mtime_ns))
    other.rename(team.shop_file)  # of the same time
    assert written(team.grants())["a"]["args"] == ["six"]
    team.settle()
    assert written(team.grants())["a"]["args"] == ["six"]
    with team.shop_file.open("r+") as same:  # the same file, of the same size and time
        same.write(team.shop_file.read_text().replace("six", "two"))
    os.utime(team.shop_file, (1_700_000_000, 1_700_000_000))
    assert written(team.grants())["a"]["args"] == ["two"]
    team.shop_file.unlink()
    assert written(team.grants()) == {}


def test_agents_that_take_no_servers_have_nothing_read(team: Team) -> None:
    team.shop_file.write_text("no JSON")
    os.mkfifo(team.user_file)
    command = CommandProvider({})
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, None)
    found = asyncio.run(team.granter.grants(session, None, command, {"HOME": str(team.home)}))
    assert found == Grants()


def test_servers_are_those_of_the_home_that_the_agent_has(team: Team, tmp_path: Path) -> None:
    team.user(u=stdio("of HOME"))
    other = tmp_path / "other"
    other.mkdir()
    (other / ".claude.json").write_text(json.dumps({"mcpServers": {"u": stdio("of CLAUDE_CONFIG_DIR")}}))
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, None)
    environment = {"HOME": str(team.home), "CLAUDE_CONFIG_DIR": str(other)}
    found = asyncio.run(team.granter.grants(session, None, team.provider, environment))
    assert found.servers["u"]["args"] == ["of CLAUDE_CONFIG_DIR"]


def test_users_servers_for_one_project_are_given_there(team: Team) -> None:
    (team.shop / ".git").mkdir()
    below = team.shop / "src"
    below.mkdir()
    projects = {
        str(team.shop): {"mcpServers": {"u": stdio("here")}},
        str(below): {"mcpServers": {"v": stdio()}},
    }
    everywhere = {"u": stdio("everywhere"), "w": stdio()}
    team.user_file.write_text(json.dumps({"mcpServers": everywhere, "projects": projects}))
    servers = written(team.grants(where=below))  # claude keeps them for the repository (measured)
    assert {name: server["args"] for name, server in servers.items()} == {"u": ["here"], "w": ["x"]}


def git(where: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True, timeout=scaled(60))


@pytest.mark.parametrize("place", ["shop/.sm/worktrees/w", "beside"])
@pytest.mark.processes
def test_users_servers_for_a_project_are_given_in_its_worktrees(team: Team, place: str) -> None:
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
    # A worktree has the commands of its repository, too (measured).
    team.skill("shop/.claude/commands")
    (team.shop / ".claude/commands/fix.md").write_text("Fix it.")
    assert team.grants(where=tree, skills=()).given.skills_off == ("fix",)


@pytest.mark.parametrize(
    "said",
    [
        "gitdir: SHOP/.git",
        "gitdir: SHOP/.git/worktrees/w",
        "gitdir: forged",
        "gitdir: ",
        "gitdir: a\0b",
        "gitdir: " + "x" * 100_000,
        "no word of it",
    ],
)
@pytest.mark.processes
def test_directory_that_says_it_is_a_worktree_is_believed_when_the_repository_says_so(
    team: Team, said: str
) -> None:
    git(team.shop, "init")
    git(team.shop, "commit", "--allow-empty", "-m", "first")
    git(team.shop, "worktree", "add", str(team.home / "w"))
    other = team.shop.parent / "other"
    (other / "forged").mkdir(parents=True)
    (other / ".git").write_text(said.replace("SHOP", str(team.shop)))
    (other / "forged/commondir").write_text(f"{team.shop}/.git\n")
    (other / "forged/gitdir").write_text(f"{other}/.git\n")
    projects = {
        str(team.shop): {"mcpServers": {"secret": stdio()}},
        str(other): {"mcpServers": {"own": stdio()}},
    }
    team.user_file.write_text(json.dumps({"projects": projects}))
    assert written(team.grants(where=other)).keys() == {"own"}  # as claude does (measured)


def test_what_is_wrong_with_servers_of_another_project_is_of_no_account(team: Team) -> None:
    bad = {
        "command": "x",
        "env": {"PORT": 8080},
    }  # claude leaves such a server out, and says nothing (measured)
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
    with pytest.raises(UsageError, match="'bad' whose env"):
        team.grants()


def test_byte_order_mark_is_none_of_the_json(team: Team) -> None:
    team.user_file.write_text("\ufeff" + json.dumps({"mcpServers": {"u": stdio()}}))
    team.shop_file.write_text("\ufeff" + json.dumps({"mcpServers": {"a": stdio()}}))
    assert team.grants().servers.keys() == {"u", "a"}  # claude reads both (measured)


def test_file_above_the_workspace_may_be_a_link_and_is_read_for_its_names_only(team: Team) -> None:
    above = team.shop.parent / ".mcp.json"
    dotfiles = team.home / "dotfiles.json"
    dotfiles.write_text('{"mcpServers": {"dots": {"command": 1}}}')
    above.symlink_to(dotfiles)
    found = team.grants()
    assert (found.servers, found.given.mcps_off) == ({}, ("dots",))
    below = team.shop / "src"
    below.mkdir()
    (below / ".mcp.json").symlink_to(dotfiles)
    with pytest.raises(UsageError, match="is a link, and agents can write there"):
        team.grants(where=below)


def test_what_is_kept_of_files_is_bounded_by_their_bytes(team: Team) -> None:
    servers = {"mcpServers": {f"s{number}": {"command": "x"} for number in range(2_000)}}
    at = team.shop
    for _ in range(12):
        (at / ".mcp.json").write_text(json.dumps(servers | {"padding": "x" * 900_000}))
        at = at / "d"
        at.mkdir()
    team.user_file.write_text(json.dumps({"padding": [[]] * 300_000}))
    until(lambda: time.time_ns() - team.user_file.stat().st_ctime_ns > 200_000_000, "the files are old")
    tracemalloc.start()
    try:
        team.grants(where=at)
        assert tracemalloc.get_traced_memory()[0] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------ what is let through


def test_only_the_named_servers_are_given_and_then_no_others_are_used(team: Team) -> None:
    team.user(files=stdio(), mail=stdio())
    team.project(web=stdio(), shell=stdio())
    found = team.grants(mcps=("files", "web", "wep"))
    assert found.servers.keys() == {"files", "web"}
    assert found.warnings == ("there is no MCP server wep; did you mean web?",)
    # claude would load `mail` by itself, and ask a person about `shell`.
    assert found.given.strict_mcps
    assert set(found.given.mcps_off) == {"web", "shell"}
    nothing = team.grants(mcps=())
    assert (nothing.servers, nothing.given.strict_mcps, nothing.mcp_config(identity())) == ({}, True, None)


def test_without_a_filter_the_agent_keeps_what_else_it_finds(team: Team) -> None:
    found = team.grants()
    assert found == Grants()
    team.project(web=stdio())
    found = team.grants()
    assert (found.given.strict_mcps, found.given.mcps_off) == (
        False,
        ("web",),
    )  # given, so that nobody is asked
    assert team.grants(strict=True).given.strict_mcps
    assert team.grants(strict=True).servers.keys() == {"web"}


def test_session_without_a_workspace_has_the_users_servers_by_the_configuration(tmp_path: Path) -> None:
    team = Team(tmp_path, defaults=Capabilities(mcps=("files",)))
    team.user(files=stdio(), mail=stdio())
    team.project(web=stdio())
    found = team.grants(inside=False, where=team.shop)
    assert found.servers.keys() == {"files"}
    assert (found.given.strict_mcps, found.given.mcps_off) == (True, ("web",))
    every = Team(tmp_path / "shop")
    every.user(files=stdio())
    every.project(web=stdio())
    found = every.grants(inside=False)
    # What a project brings along is between claude and whoever approves it.
    assert found.servers.keys() == {"files"}
    assert (found.given.strict_mcps, found.given.mcps_off) == (False, ())


def test_session_of_a_workspace_that_cannot_be_read_is_given_nothing(team: Team) -> None:
    team.user(files=stdio())
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, "gone")
    found = asyncio.run(team.granter.grants(session, None, team.provider, {"HOME": str(team.home)}))
    assert (found.servers, found.given.strict_mcps, found.given.skills) == ({}, True, False)


def test_files_between_the_workspace_and_the_working_directory_ask_nobody(team: Team) -> None:
    below = team.shop / "src"
    below.mkdir()
    team.project(web=stdio())
    team.project(below, lint=stdio(), web=stdio("another"))
    found = team.grants(where=below)
    assert (found.servers["web"]["args"], set(found.given.mcps_off)) == (["x"], {"web", "lint"})
    (warning,) = found.warnings
    assert warning.startswith(f"not used from {below}/.mcp.json: lint (")


@pytest.mark.parametrize(
    ("program", "stays"),
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
def test_program_of_the_host_is_left_out_in_a_sandbox(team: Team, program: str, *, stays: bool) -> None:
    team.project(a={"command": program.replace("SHOP", str(team.shop))}, b={"type": "sse", "url": "http://b"})
    assert team.grants().servers.keys() == {"a", "b"}
    found = team.grants(mode=TrustLevel.SANDBOXED)
    assert found.servers.keys() == ({"a", "b"} if stays else {"b"})
    assert found.given.strict_mcps is not stays
    assert ["MCP server a is left out" in warning for warning in found.warnings] == ([] if stays else [True])


def test_users_own_programs_are_left_out_in_a_sandbox(team: Team) -> None:
    team.user(a=stdio(), b={"type": "http", "url": "https://b"})
    assert team.grants(mode=TrustLevel.SANDBOXED).servers.keys() == {"b"}
    team.project(a=stdio())
    assert team.grants(mode=TrustLevel.SANDBOXED).servers.keys() == {"a", "b"}


# ------------------------------------------------------------------------------------------------ what cannot be used

BROKEN = {
    "": "is no JSON",
    "{ no": "is no JSON",
    "\ufeff": "is no JSON",
    "[]": "holds no JSON object",
    "null": "holds no JSON object",
    '{"mcpServers": []}': "mcpServers that are no object",
    '{"mcpServers": {"a": "x"}}': "'a' that is no object",
    '{"mcpServers": {"a": {}}}': "'a' without a command",
    '{"mcpServers": {"a": {"command": ""}}}': "'a' without a command",
    '{"mcpServers": {"a": {"command": ["x"]}}}': "'a' without a command",
    '{"mcpServers": {"a": {"command": "x", "args": "y"}}}': "'a' whose args",
    '{"mcpServers": {"a": {"command": "x", "args": [1]}}}': "'a' whose args",
    '{"mcpServers": {"a": {"command": "x", "env": []}}}': "'a' whose env",
    '{"mcpServers": {"a": {"command": "x", "env": {"N": 1}}}}': "'a' whose env",
    '{"mcpServers": {"a": {"type": "http", "url": 1}}}': "'a' whose url",
    '{"mcpServers": {"a": {"type": "http", "url": "x", "command": 1}}}': "'a' whose command",
    '{"mcpServers": {"\\u001b[31m": 1}}': "'[31m' that is no object",
    '{"mcpServers": {"a": {"command": "x", "more": '
    + "[" * 900
    + "]" * 900
    + "}}}": "'a' that is nested too deep",
    "[" * 5000: "is no JSON",
    '{"mcpServers": {"a": {"command": "\\ud800"}}}': "is no JSON",
}


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("users", [False, True])
def test_broken_file_stops_the_start_and_says_why(team: Team, content: str, *, users: bool) -> None:
    file = team.user_file if users else team.shop_file
    file.write_text(content)
    with pytest.raises(UsageError) as refused:
        team.grants()
    assert f"the MCP servers of {file} cannot be used: it " in refused.value.message
    assert BROKEN[content] in refused.value.message
    assert refused.value.exit_code == 2
    file.write_text('{"unknown": {"a": 1}}')
    assert team.grants().servers == {}


def test_what_is_no_regular_file_is_refused_at_once(team: Team, tmp_path: Path) -> None:
    def why() -> str:
        with pytest.raises(UsageError) as refused:
            team.grants()
        return refused.value.message

    os.mkfifo(team.shop_file)  # which would keep a reader for ever
    assert "is no regular file" in why()
    team.shop_file.unlink()
    team.shop_file.mkdir()
    assert "is no regular file" in why()
    team.shop_file.rmdir()
    (tmp_path / "elsewhere.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    team.shop_file.symlink_to(tmp_path / "elsewhere.json")
    assert "is a link, and agents can write there" in why()
    team.shop_file.unlink()
    team.shop_file.symlink_to("/dev/zero")
    assert "is a link" in why()
    team.shop_file.unlink()
    team.user_file.symlink_to(tmp_path / "elsewhere.json")  # the user's own may well be one
    assert team.grants().servers.keys() == {"a"}


def test_file_of_any_size_is_not_read_to_its_end(team: Team) -> None:
    with team.shop_file.open("wb") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(UsageError, match="is larger than 1024 KiB"):
        team.grants()


def test_file_that_claude_is_writing_is_read_again(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.user_file.write_text('{"mcpServers": {"a": {"comm')
    monkeypatch.setattr("sm.capabilities.mcp.time.sleep", lambda _: team.user(a=stdio()))
    assert team.grants().servers.keys() == {"a"}


# ------------------------------------------------------------------------------------------------ skills


def test_skills_that_are_not_named_are_off(team: Team) -> None:
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
    assert team.grants().given == Grants().given
    given = team.grants(skills=("review", "fix")).given
    assert (given.skills, given.own_skills) == (True, False)
    assert set(given.skills_off) == {"mine", "deploy", "above", "db:drop"}
    none = team.grants(skills=()).given
    assert (none.skills, none.own_skills) == (False, False)
    assert set(none.skills_off) == {"mine", "deploy", "above", "db:drop", "review", "fix"}


def test_skill_that_is_not_there_may_be_one_of_claudes_own(team: Team) -> None:
    team.skill("shop/.claude/skills/deploy")
    found = team.grants(skills=("simplify",))
    assert (found.given.own_skills, found.given.skills_off) == (True, ("deploy",))
    assert "there is no skill simplify here" in found.warnings[0]


def test_more_skills_than_fit_on_a_command_line_are_refused(team: Team) -> None:
    for number in range(200):
        team.skill(f"shop/.claude/skills/{number:0200}")
    with pytest.raises(UsageError, match="too many skills around"):
        team.grants(skills=("none-of-them",))


def test_skills_are_found_where_claude_finds_them(team: Team) -> None:
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
    off = set(team.grants(skills=()).given.skills_off)
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
    assert "commands" in team.grants(skills=()).given.skills_off
    assert "a:b" not in team.grants(skills=("a:b",)).given.skills_off


@pytest.mark.parametrize("top", [".claude", ".claude/skills", ".claude/commands"])
def test_link_out_of_a_project_is_not_followed_for_skills(team: Team, top: str) -> None:
    elsewhere = team.home / "elsewhere"
    (elsewhere / "commands").mkdir(parents=True)
    (elsewhere / "secret.md").write_text("x")
    link = team.shop / top
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    assert team.grants().given == Grants().given
    with pytest.raises(UsageError, match="leads out of the project, and agents can write there"):
        team.grants(skills=("review",))
    link.unlink()
    inside = team.shop / "tools"
    inside.mkdir()
    (inside / "skills").mkdir()
    (inside / "skills/mine").mkdir()
    link.symlink_to(inside)
    assert team.grants(skills=("review",)).given.skills
    link.unlink()
    above = team.shop.parent / top  # nobody's project: a user's dotfiles, perhaps
    above.parent.mkdir(exist_ok=True)
    above.symlink_to(elsewhere)
    assert team.grants(skills=("review",)).given.skills


def test_directories_of_skills_are_read_within_bounds(team: Team) -> None:
    commands = team.shop / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "root").symlink_to("/")
    with pytest.raises(UsageError, match=r"commands cannot be told: .* more than"):
        team.grants(skills=("review",))
    (commands / "root").unlink()
    deep = commands / "/".join("12345678")
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("x")
    assert team.grants(skills=("review",)).given.skills_off == ("1:2:3:4:5:6:7:8:x",)
    (deep / "9").mkdir()
    with pytest.raises(UsageError, match="more than 8 directories deep"):
        team.grants(skills=("review",))
    (deep / "9").rmdir()
    for number in range(2_000):
        (deep / str(number)).touch()
    with pytest.raises(UsageError, match="more than 2000 entries"):
        team.grants(skills=("review",))


def test_directory_that_does_not_answer_holds_up_nobody_else(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.skill("shop/.claude/commands")
    hangs, answers = threading.Event(), threading.Event()
    scandir = os.scandir

    def hanging(path: Any) -> Any:
        hangs.set()
        assert answers.wait(scaled())
        return scandir(path)

    monkeypatch.setattr("sm.capabilities.grants.os.scandir", hanging)
    monkeypatch.setattr("sm.capabilities.grants._TIME_S", 0.3)
    workspace = Workspace("shop", str(team.shop), samples.AT, None, Capabilities(skills=()))
    session = in_dir("1a2b3c4d", str(team.shop), TrustLevel.DIRECT, "shop")

    async def many() -> list[Any]:
        starts = [
            asyncio.create_task(
                team.granter.grants(session, workspace, team.provider, {"HOME": str(team.home)})
            )
            for _ in range(40)
        ]
        async with asyncio.timeout(scaled()):
            assert await asyncio.to_thread(hangs.wait, scaled()), "threads of others run at once"
            return await asyncio.gather(*starts, return_exceptions=True)

    try:
        refused = asyncio.run(many())
    finally:
        answers.set()
    assert {type(each) for each in refused} == {UsageError}
    assert "did not answer within 0.3 s" in refused[0].message
