"""The real Claude Code with MCP servers and skills that sm gives it: who they say that the session is, and which."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import mcp_probe
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.test_claude_start import answered, then
from tests.load import scaled
from tests.scripted_api import ScriptedApi, conversation
from tests.scripted_api.script import tool
from tests.scripted_api.server import Request

SECRET = "of-a-server-7d1f"
LIES = {
    "SM_TRUST_LEVEL": "root",
    "SM_SESSION_ID": "00000000",
    "SM_PARENT_ID": "11111111",
    "SM_OF_NOBODY": "x",
}
AGENTS = """
    Prober: {args: ["--allowedTools", "mcp__probe__whoami,mcp__users__whoami,Skill"]}
"""
WAIT = tool("WaitForMcpServers")
"""What claude has in place of the tools of servers that are still starting; later it is an error, and harmless."""

api = scripted_api("module")
claude = claude_instance("function", more=AGENTS)


def server(claude: ClaudeInstance, label: str) -> dict[str, Any]:
    """One that says what it was started with, also in a file."""
    environment = {**LIES, "PROBE_SECRET": SECRET, "PROBE_LOG": str(claude.home / "probes")}
    return {"command": sys.executable, "args": [mcp_probe.__file__, label], "env": environment}


def workspace(claude: ClaudeInstance, slug: str, *options: str, **servers: Any) -> Path:
    directory = claude.home / slug
    directory.mkdir()
    (directory / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    claude.sm("workspace", "create", slug, "--working-dir", str(directory), *options)
    return directory


def users(claude: ClaudeInstance, **servers: Any) -> None:
    state = claude.home / ".claude" / ".claude.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "mcpServers": servers}))


def ask(prompt: str, *servers: str) -> str:
    return f"{prompt} {then(WAIT, *(tool(f'mcp__{name}__whoami') for name in servers), '[[text:over]]')}"


def told(api: ScriptedApi, prompt: str, count: int) -> list[dict[str, Any]]:
    """What the servers said whose tools this prompt had called, but for claude's own tool before them."""
    found = api.wait_for(
        lambda: next((said for one in api.turns(prompt) if len(said := _since(one, prompt)) > count), None),
        f"{count} servers answer: {prompt}",
    )
    assert [failed for failed, _ in found[1:]] == [False] * count, found
    return [json.loads(said) for _, said in found[1:]]


def _since(request: Request, prompt: str) -> list[tuple[bool, str]]:
    """The results of the tools that were called for this prompt."""
    messages = request.body["messages"]
    asked = max(at for at, message in enumerate(messages) if prompt in json.dumps(message))
    return conversation.results({**request.body, "messages": messages[asked:]})


def started(claude: ClaudeInstance) -> list[dict[str, Any]]:
    """Every probe that was ever started."""
    path = claude.home / "probes"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def identity(claude: ClaudeInstance, session_id: str, slug: str, parent: str = "") -> dict[str, str]:
    return {
        "SM_SESSION_ID": session_id,
        "SM_PARENT_ID": parent,
        "SM_WORKSPACE_ID": slug,
        "SM_TRUST_LEVEL": "direct",
        "SM_SOCKET": str(claude.socket),
        "SM_TOKEN_FILE": str(claude.state / "launch" / f"{session_id}.token"),
    }


def ours(said: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in said["environment"].items() if name.startswith("SM_")}


def test_servers_of_each_session_are_told_who_it_is(claude: ClaudeInstance, api: ScriptedApi) -> None:
    users(claude, users=server(claude, "user"), probe=server(claude, "hidden"))
    directories = {slug: workspace(claude, slug, probe=server(claude, slug)) for slug in ("red", "blue")}
    # Nobody has approved the servers of either file: claude would ask about each, and nothing would ever start.
    sessions = {
        slug: claude.spawn("Prober", ask(f"Who is {slug}?", "probe", "users"), "--workspace", slug)[
            "session_id"
        ]
        for slug in directories
    }
    for slug, session_id in sessions.items():
        probe, user = told(api, f"Who is {slug}?", 2)
        assert (probe["label"], user["label"]) == (slug, "user")
        assert ours(probe) == ours(user) == identity(claude, session_id, slug)
        assert probe["environment"]["PROBE_SECRET"] == SECRET
        claude.idle(session_id)

    red = sessions["red"]
    file = claude.state / "launch" / f"{red}.mcp.json"
    assert stat.filemode(file.stat().st_mode) == "-rw-------"
    assert SECRET in file.read_text()
    shown = b"".join(_command_lines())
    assert str(file).encode() in shown and SECRET.encode() not in shown
    for path in (claude.state / "log").iterdir():
        assert SECRET not in path.read_text()

    # A child of it, and the same session in a new process, when the file says something else.
    child = claude.spawn("Prober", ask("Whose child?", "probe"), "--parent", red)["session_id"]
    (said,) = told(api, "Whose child?", 1)
    assert ours(said) == identity(claude, child, "red", parent=red)
    claude.sm("kill", red, "--tree")
    (directories["red"] / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"probe": server(claude, "again")}})
    )
    claude.sm("restore", red)
    claude.idle(red)
    claude.prompt(red, ask("Who is it now?", "probe"))
    (said,) = told(api, "Who is it now?", 1)
    assert (said["label"], ours(said)) == ("again", identity(claude, red, "red"))
    fork = claude.json("fork", red)["session_id"]
    claude.idle(fork)
    claude.prompt(fork, ask("Who is the fork?", "probe"))
    (said,) = told(api, "Who is the fork?", 1)
    assert ours(said) == identity(claude, fork, "red")

    # Without servers there is no file; and it goes with the session.
    (directories["red"] / ".mcp.json").unlink()
    users(claude)
    claude.sm("kill", red)
    claude.sm("restore", red)
    claude.idle(red)
    assert not file.exists()
    blue = claude.state / "launch" / f"{sessions['blue']}.mcp.json"
    claude.sm("kill", sessions["blue"])
    claude.sm("rm", sessions["blue"])
    until(lambda: not blue.exists(), "the file is gone with its session")


def _command_lines() -> Iterator[bytes]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue


def test_only_named_servers_run_and_nobody_is_asked(claude: ClaudeInstance, api: ScriptedApi) -> None:
    users(claude, users=server(claude, "user"), mail=server(claude, "mail"))
    directory = workspace(
        claude, "shop", "--mcps", "users", probe=server(claude, "shop"), other=server(claude, "other")
    )
    # Somebody has approved all servers of this project: the filter counts all the same.
    (directory / ".claude").mkdir()
    (directory / ".claude" / "settings.local.json").write_text('{"enableAllProjectMcpServers": true}')
    session_id = claude.spawn("Prober", ask("Only one?", "users", "probe"), "--workspace", "shop")[
        "session_id"
    ]
    said = answered(api, "Only one?", 3).results[1:]
    assert [failed for failed, _ in said] == [False, True]
    assert ours(json.loads(said[0][1])) == identity(claude, session_id, "shop")
    claude.idle(session_id)
    assert {each["label"] for each in started(claude)} == {"user"}
    claude.sm("workspace", "set", "shop", "--mcps", "none")
    session_id = claude.spawn("Prober", "None at all?", "--workspace", "shop")["session_id"]
    claude.idle(session_id)
    assert len(started(claude)) == 1
    assert not (claude.state / "launch" / f"{session_id}.mcp.json").exists()


def test_users_servers_for_a_repository_are_told_who_the_session_in_a_worktree_is(
    claude: ClaudeInstance, api: ScriptedApi
) -> None:
    repository, tree = claude.home / "shop", claude.home / "shop" / ".sm" / "worktrees" / "w"
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    for command in (("init", str(repository)), ("-C", str(repository), "commit", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *who, *command], check=True, capture_output=True, timeout=scaled(60))
    add = ["git", "-C", str(repository), "worktree", "add", str(tree)]
    subprocess.run(add, check=True, capture_output=True, timeout=scaled(60))
    state = claude.home / ".claude" / ".claude.json"
    kept = json.loads(state.read_text())
    kept["projects"][str(repository)] = {"mcpServers": {"probe": server(claude, "local")}}
    # claude leaves this one of another project out, and so does sm.
    kept["projects"]["/elsewhere"] = {"mcpServers": {"bad": {"command": "x", "env": {"PORT": 8080}}}}
    state.write_text(json.dumps(kept))
    session_id = claude.spawn("Prober", ask("Who is in the tree?", "probe"), "--working-dir", str(tree))[
        "session_id"
    ]
    (said,) = told(api, "Who is in the tree?", 1)
    assert (said["label"], ours(said)) == ("local", identity(claude, session_id, ""))


def test_session_is_not_started_with_a_broken_file(claude: ClaudeInstance) -> None:
    directory = workspace(claude, "shop")
    file = directory / ".mcp.json"
    file.write_text("{")
    said = claude.refused("spawn", "Prober", "x", "--workspace", "shop", exit_code=2)
    assert f"{file} cannot be used: it is no JSON" in said
    assert claude.json("all") == []
    claude.spawn("Sh", "sleep 1000", "--workspace", "shop")  # a command takes no servers
    file.write_text('{"mcpServers": {}}')
    claude.sm("workspace", "set", "shop", "--mcps", "files")
    spawned = claude.spawn("Prober", "Hello", "--workspace", "shop")
    assert spawned["warnings"] == ["there is no MCP server files"]
    claude.idle(spawned["session_id"])
    claude.sm("kill", spawned["session_id"])
    claude.sm("restore", spawned["session_id"])
    told = [e["message"] for e in claude.events(spawned["session_id"]) if e["type"] == "warning"]
    assert [each.endswith("there is no MCP server files") for each in told] == [True, True]
    claude.idle(spawned["session_id"])
    claude.sm("kill", spawned["session_id"])
    file.write_text("[]")
    assert "holds no JSON object" in claude.refused("restore", spawned["session_id"], exit_code=2)


def test_only_named_skills_can_be_used(claude: ClaudeInstance, api: ScriptedApi) -> None:
    directory = workspace(claude, "shop", "--skills", "review")
    for home, name in ((directory, "review"), (directory, "deploy"), (claude.home, "mine")):
        skill = home / ".claude" / "skills" / name / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: {name}\ndescription: to {name}\n---\nHOW TO {name}\n")
    # Where claude finds some, too.
    commands, linked = directory / ".claude" / "commands", claude.home / "linked"
    for path in (commands / "evil" / "SKILL.md", linked / "far.md", linked / "sub" / "skill.md"):
        path.parent.mkdir(parents=True)
        path.write_text(f"---\ndescription: to {path.parent.name}-{path.stem}\n---\nHOW TO\n")
    (commands / "lnk").symlink_to(linked)

    def start(name: str) -> str:
        prompt = f"Use {name} {tool('Skill', skill=name)}"
        session_id: str = claude.spawn("Prober", prompt, "--workspace", "shop")["session_id"]
        return session_id

    start("review")
    api.wait_for(lambda: api.turns("HOW TO review"), "the skill is read")
    listed = json.dumps(api.turns("Use review")[0].body["messages"])
    assert ["to review" in listed, "to deploy" in listed, "to mine" in listed] == [True, False, False]
    assert ["to evil-" in listed, "to linked-far" in listed, "to sub-" in listed] == [False] * 3
    off = "disabled for model invocation"
    for name, why in (
        ("deploy", off),
        ("mine", off),
        ("evil", off),
        ("lnk:far", off),
        ("lnk:sub", off),
        ("simplify", "Unknown skill"),
    ):  # claude brings the last along
        start(name)
        ((failed, said),) = answered(api, f"Use {name}", 1).results
        assert failed and why in said, (name, said)
    claude.sm("workspace", "set", "shop", "--skills", "none")
    session_id = start("nothing")
    ((failed, said),) = answered(api, "Use nothing", 1).results
    assert failed and "No such tool available" in said
    claude.idle(session_id)
    # What a person types, and what claude itself knows, is still there.
    claude.prompt(session_id, "/review ")
    until(lambda: 'Skill "review" is disabled' in _screen(claude, session_id), "the skill is refused")
    claude.prompt(session_id, "/compact ")
    until(lambda: "Unknown command" not in _screen(claude, session_id), "/compact is none of them")


def _screen(claude: ClaudeInstance, session_id: str) -> str:
    return claude.tmux("capture-pane", "-p", "-S", "-", "-t", f"=claude-{session_id}:")
