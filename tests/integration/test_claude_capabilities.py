"""The real Claude Code with the MCP servers and skills that sm grants, and the identity these servers get."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sm.providers.claude.check.scripted_api.script import tool
from tests import mcp_probe
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.test_claude_start import request_with_results, then
from tests.scripted_api import Request, ScriptedApi, conversation

SECRET = "of-a-server-7d1f"
LIES = {"SM_TRUST_LEVEL": "root", "SM_SESSION_ID": "00000000", "SM_PARENT_ID": "11111111", "SM_UNKNOWN": "x"}
AGENTS = """
    Prober: {args: ["--allowedTools", "mcp__probe__whoami,mcp__users__whoami,Skill"]}
"""
WAIT = tool("WaitForMcpServers")
"""A tool that claude offers only while MCP servers start. A later call is a harmless error."""

api = scripted_api("module")
claude = claude_instance("function", more=AGENTS)


def server(claude: ClaudeInstance, label: str) -> dict[str, Any]:
    """An MCP server that reports its command line and environment, also to a log file."""
    program = claude.shared / "mcp_probe.py"
    shutil.copy(mcp_probe.__file__, program)
    environment = {**LIES, "PROBE_SECRET": SECRET, "PROBE_LOG": str(claude.shared / "probes")}
    return {"command": claude.python, "args": [str(program), label], "env": environment}


def workspace(claude: ClaudeInstance, slug: str, *options: str, agreed: bool = True, **servers: Any) -> Path:
    directory = claude.home / slug
    directory.mkdir()
    write_servers(directory, **servers)
    claude.workspace(slug, directory, *options)
    if agreed:
        claude.sm("workspace", "agree", slug, "--yes")
    return directory


def write_servers(directory: Path, **servers: Any) -> None:
    (directory / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def write_user_servers(claude: ClaudeInstance, **servers: Any) -> None:
    state = claude.home / ".claude" / ".claude.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "mcpServers": servers}))


def ask(prompt: str, *servers: str) -> str:
    return f"{prompt} {then(WAIT, *(tool(f'mcp__{name}__whoami') for name in servers), '[[text:over]]')}"


def server_answers(api: ScriptedApi, prompt: str, count: int) -> list[dict[str, Any]]:
    """Wait for the answers of `count` servers to this prompt, without the result of claude's wait tool."""
    results = api.wait_for(
        lambda: next((r for t in api.turns(prompt) if len(r := _results_since(t, prompt)) > count), None),
        f"{count} servers answer: {prompt}",
    )
    assert [failed for failed, _ in results[1:]] == [False] * count, results
    return [json.loads(text) for _, text in results[1:]]


def _results_since(request: Request, prompt: str) -> list[tuple[bool, str]]:
    """Results of the tools that were called for this prompt."""
    messages = request.body["messages"]
    first = max(at for at, message in enumerate(messages) if prompt in json.dumps(message))
    return conversation.results({**request.body, "messages": messages[first:]})


def started_probes(claude: ClaudeInstance) -> list[dict[str, Any]]:
    """Every probe server that was started."""
    path = claude.shared / "probes"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sm_variables(answer: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in answer["environment"].items() if name.startswith("SM_")}


def test_mcp_servers_get_the_identity_of_their_session(claude: ClaudeInstance, api: ScriptedApi) -> None:
    write_user_servers(claude, users=server(claude, "user"), probe=server(claude, "hidden"))
    directories = {slug: workspace(claude, slug, probe=server(claude, slug)) for slug in ("red", "blue")}
    # The servers of neither file are approved: without sm, claude would ask about each and start none.
    sessions = {
        slug: claude.spawn("Prober", ask(f"Who is {slug}?", "probe", "users"), "--workspace", slug)[
            "session_id"
        ]
        for slug in directories
    }
    for slug, session_id in sessions.items():
        probe, user = server_answers(api, f"Who is {slug}?", 2)
        assert (probe["label"], user["label"]) == (slug, "user")
        assert sm_variables(probe) == sm_variables(user) == claude.identity(session_id, slug)
        assert probe["environment"]["PROBE_SECRET"] == SECRET
        claude.idle(session_id)

    red = sessions["red"]
    file = claude.launch_dir_of("red") / f"{red}.mcp.json"
    assert stat.filemode(file.stat().st_mode) == "-rw-------"
    assert SECRET in file.read_text()
    shown = b"".join(_command_lines())
    seen = f"/run/sm/launch/{file.name}" if claude.container else str(file)
    assert seen.encode() in shown and SECRET.encode() not in shown
    for path in (claude.state / "log").iterdir():
        assert SECRET not in path.read_text()

    # A child, and the restored session after the file changed.
    child = claude.spawn("Prober", ask("Whose child?", "probe"), "--parent", red)["session_id"]
    (answer,) = server_answers(api, "Whose child?", 1)
    assert sm_variables(answer) == claude.identity(child, "red", parent=red)
    claude.sm("kill", red, "--tree")
    write_servers(directories["red"], probe=server(claude, "again"))
    claude.sm("workspace", "agree", "red", "--yes")
    claude.sm("restore", red)
    claude.idle(red)
    claude.prompt(red, ask("Who is it now?", "probe"))
    (answer,) = server_answers(api, "Who is it now?", 1)
    assert (answer["label"], sm_variables(answer)) == ("again", claude.identity(red, "red"))
    fork = claude.json("fork", red)["session_id"]
    claude.idle(fork)
    claude.prompt(fork, ask("Who is the fork?", "probe"))
    (answer,) = server_answers(api, "Who is the fork?", 1)
    assert sm_variables(answer) == claude.identity(fork, "red")

    # The file has only the servers of now, and exists only as long as the session.
    (directories["red"] / ".mcp.json").unlink()
    write_user_servers(claude)
    claude.sm("kill", red)
    claude.sm("restore", red)
    claude.idle(red)
    assert set(json.loads(file.read_text())["mcpServers"]) == {"sm"}
    blue = claude.launch_dir_of("blue") / f"{sessions['blue']}.mcp.json"
    claude.sm("kill", sessions["blue"])
    claude.sm("rm", sessions["blue"])
    until(lambda: not blue.exists(), "the file is removed with its session")


def _command_lines() -> Iterator[bytes]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue


def test_mcp_server_of_a_repository_starts_only_after_the_operator_agrees(
    claude: ClaudeInstance, api: ScriptedApi
) -> None:
    write_user_servers(claude, users=server(claude, "user"))
    directory = workspace(claude, "shop", agreed=False, probe=server(claude, "shop"))

    def spawn(name: str) -> list[str]:
        """Spawn an agent and let it end a turn; return its warnings."""
        spawned = claude.spawn("Prober", ask(name, "users"), "--workspace", "shop")
        server_answers(api, name, 1)
        claude.idle(spawned["session_id"])
        warnings: list[str] = spawned["warnings"]
        return warnings

    def started() -> list[str]:
        return [probe["label"] for probe in started_probes(claude)]

    # The user's server shows that claude starts servers. Claude asks nothing about the other one.
    assert "probe (new) (sm workspace agree shop)" in spawn("Before?")[0]
    assert started() == ["user"]
    claude.sm("workspace", "agree", "shop", "--yes")
    assert spawn("Agreed?") == []
    assert sorted(started()) == ["shop", "user", "user"]
    # An agent that may edit files changes the program.
    write_servers(directory, probe=server(claude, "evil"))
    assert "probe (changed) (sm workspace agree shop)" in spawn("Changed?")[0]
    assert sorted(started()) == ["shop", "user", "user", "user"]


def test_only_granted_mcp_servers_start_without_a_question(claude: ClaudeInstance, api: ScriptedApi) -> None:
    write_user_servers(claude, users=server(claude, "user"), mail=server(claude, "mail"))
    directory = workspace(
        claude, "shop", "--mcps", "users", probe=server(claude, "shop"), other=server(claude, "other")
    )
    # The workspace filter applies even when all servers of this project are approved.
    (directory / ".claude").mkdir()
    (directory / ".claude" / "settings.local.json").write_text('{"enableAllProjectMcpServers": true}')
    session_id = claude.spawn("Prober", ask("Only one?", "users", "probe"), "--workspace", "shop")[
        "session_id"
    ]
    results = request_with_results(api, "Only one?", 3).results[1:]
    assert [failed for failed, _ in results] == [False, True]
    assert sm_variables(json.loads(results[0][1])) == claude.identity(session_id, "shop")
    claude.idle(session_id)
    assert {probe["label"] for probe in started_probes(claude)} == {"user"}
    claude.sm("workspace", "set", "shop", "--mcps", "none")
    session_id = claude.spawn("Prober", "None at all?", "--workspace", "shop")["session_id"]
    claude.idle(session_id)
    assert len(started_probes(claude)) == 1
    file = claude.launch_dir_of("shop") / f"{session_id}.mcp.json"
    assert set(json.loads(file.read_text())["mcpServers"]) == {"sm"}


def test_repository_mcp_servers_get_the_identity_of_a_worktree_session(
    claude: ClaudeInstance, api: ScriptedApi
) -> None:
    repository, tree = claude.home / "shop", claude.home / "shop" / ".sm" / "worktrees" / "w"
    author = ("-c", "user.name=x", "-c", "user.email=x@x")
    for command in (("init", str(repository)), ("-C", str(repository), "commit", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *author, *command], check=True, capture_output=True)
    add = ["git", "-C", str(repository), "worktree", "add", str(tree)]
    subprocess.run(add, check=True, capture_output=True)
    state = claude.home / ".claude" / ".claude.json"
    claude_state = json.loads(state.read_text())
    claude_state["projects"][str(repository)] = {
        "hasTrustDialogAccepted": True,  # of a directory above counts for no git repository in claude 2.1.332
        "mcpServers": {"probe": server(claude, "local")},
    }
    # claude ignores this server of another project, and so does sm.
    claude_state["projects"]["/elsewhere"] = {"mcpServers": {"bad": {"command": "x", "env": {"PORT": 8080}}}}
    state.write_text(json.dumps(claude_state))
    where: tuple[str, ...] = ("--working-dir", str(tree))
    if claude.container:  # a container shows the directory of a workspace only
        claude.workspace("shop", repository)
        where = (*where, "--workspace", "shop")
    session_id = claude.spawn("Prober", ask("Who is in the tree?", "probe"), *where)["session_id"]
    (answer,) = server_answers(api, "Who is in the tree?", 1)
    slug = "shop" if claude.container else ""
    assert (answer["label"], sm_variables(answer)) == ("local", claude.identity(session_id, slug))


def test_spawn_and_restore_are_refused_when_the_mcp_file_is_broken(claude: ClaudeInstance) -> None:
    directory = workspace(claude, "shop")
    file = directory / ".mcp.json"
    file.write_text("{")
    error = claude.refused("spawn", "Prober", "x", "--workspace", "shop", exit_code=2)
    assert f"in {file}: invalid JSON" in error
    assert claude.json("all") == []
    claude.spawn("Sh", "sleep 1000", "--workspace", "shop")  # a command takes no servers
    file.write_text('{"mcpServers": {}}')
    claude.sm("workspace", "set", "shop", "--mcps", "files")
    spawned = claude.spawn("Prober", "Hello", "--workspace", "shop")
    assert spawned["warnings"] == ["there is no MCP server files"]
    claude.idle(spawned["session_id"])
    claude.sm("kill", spawned["session_id"])
    claude.sm("restore", spawned["session_id"])
    warnings = [e["message"] for e in claude.events(spawned["session_id"]) if e["type"] == "warning"]
    assert [w.endswith("there is no MCP server files") for w in warnings] == [True, True]
    claude.idle(spawned["session_id"])
    claude.sm("kill", spawned["session_id"])
    file.write_text("[]")
    assert "the file must contain a JSON object" in claude.refused(
        "restore", spawned["session_id"], exit_code=2
    )


def test_claude_can_use_only_granted_skills(claude: ClaudeInstance, api: ScriptedApi) -> None:
    directory = workspace(claude, "shop", "--skills", "review")
    users_home = claude.home_of("shop")
    for home, name in ((directory, "review"), (directory, "deploy"), (users_home, "mine")):
        skill = home / ".claude" / "skills" / name / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: {name}\ndescription: to {name}\n---\nHOW TO {name}\n")
    # claude also finds skills here.
    commands, linked = directory / ".claude" / "commands", claude.home / "linked"
    for path in (commands / "evil" / "SKILL.md", linked / "far.md", linked / "sub" / "skill.md"):
        path.parent.mkdir(parents=True)
        path.write_text(f"---\ndescription: to {path.parent.name}-{path.stem}\n---\nHOW TO\n")
    (commands / "lnk").symlink_to(linked)
    if claude.container:
        claude.container.give(users_home)

    def start(name: str) -> str:
        prompt = f"Use {name} {tool('Skill', skill=name)}"
        session_id: str = claude.spawn("Prober", prompt, "--workspace", "shop")["session_id"]
        return session_id

    start("review")
    api.wait_for(lambda: api.turns("HOW TO review"), "the skill is read")
    listed = json.dumps(api.turns("Use review")[0].body["messages"])
    assert ["to review" in listed, "to deploy" in listed, "to mine" in listed] == [True, False, False]
    assert ["to evil-" in listed, "to linked-far" in listed, "to sub-" in listed] == [False] * 3
    off, unknown = "disabled for model invocation", "Unknown skill"
    behind_link = unknown if claude.container else off  # a container does not show the target
    for name, reason in (
        ("deploy", off),
        ("mine", off),
        ("evil", off),
        ("lnk:far", behind_link),
        ("lnk:sub", behind_link),
        ("simplify", unknown),
    ):  # the last is built into claude
        start(name)
        ((failed, result),) = request_with_results(api, f"Use {name}", 1).results
        assert failed and reason in result, (name, result)
    claude.sm("workspace", "set", "shop", "--skills", "none")
    session_id = start("nothing")
    ((failed, result),) = request_with_results(api, "Use nothing", 1).results
    assert failed and "No such tool available" in result
    claude.idle(session_id)
    # Commands that a person types, and claude's own, still work.
    claude.prompt(session_id, "/review ")
    until(
        lambda: 'Skill "review" is disabled' in claude.screen(session_id, "-S", "-"), "the skill is refused"
    )
    claude.prompt(session_id, "/compact ")
    until(
        lambda: "Unknown command" not in claude.screen(session_id, "-S", "-"), "/compact is a known command"
    )
