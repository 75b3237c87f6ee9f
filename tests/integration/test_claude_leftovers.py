"""Processes of the real Claude Code that outlive it: background shells, and children of its MCP servers."""

import json
import os
import secrets
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sm.core.models import Process
from sm.linux.processes import command_line, identify, other_pids, read_stat
from sm.linux.session_cgroups import probe
from tests import mcp_probe
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.integration.leavers import leave_tree_file
from tests.integration.test_claude_capabilities import write_user_servers
from tests.integration.test_leftovers import orphans
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

api = scripted_api("module")
claudes = claude_instance("module")


@pytest.fixture(autouse=True)
def _on_this_host(claudes: ClaudeInstance) -> None:
    if claudes.container:
        pytest.skip("the processes of containers are tested in test_sandbox_leftovers")
    found = probe("00000000")
    if found.cgroups is None:
        pytest.skip(f"no cgroup can be made here: {found.reason}")
    found.cgroups.close()


def background(seconds: int) -> str:
    return tool("Bash", command=f"sleep {seconds}", description="a server", run_in_background=True)


def background_shell(seconds: int) -> list[Process]:
    """The live processes of the background shell that runs `sleep SECONDS`: the command, and the shell."""

    def look() -> list[Process]:
        argv = ("sleep", str(seconds))
        sleeps = [pid for pid in other_pids() if command_line(pid) == argv]
        shells = [stat.parent for stat in map(read_stat, sleeps) if stat is not None]
        return [process for process in map(identify, (*sleeps, *shells)) if process is not None]

    return until(look, f"claude runs sleep {seconds} in the background")


def server_that_forks(out: Path) -> dict[str, Any]:
    """An MCP server whose child left the process tree and dropped its environment, and wrote its pid to `out`."""
    words = ["env", "-i", f"PATH={os.environ['PATH']}", sys.executable, leave_tree_file, "daemon", str(out)]
    script = f"{shlex.join(words)}; exec {shlex.join([sys.executable, mcp_probe.__file__, 'forker'])}"
    return {"command": "/bin/sh", "args": ["-c", script]}


def child_of_server(out: Path) -> Process:
    """The process that left the tree of an MCP server."""
    pid = until(lambda: int(out.read_text() or 0), "the child of the server writes its pid")
    return until(lambda: identify(pid), "the child of the server")


def is_gone(process: Process) -> bool:
    return identify(process.pid) != process


def test_killed_claude_leaves_its_background_shell_and_the_child_of_its_server(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    seconds, child = secrets.randbelow(10**6) + 10**6, claudes.home / "child-1"
    write_user_servers(claudes, forker=server_that_forks(child))
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, f"serve-1 {background(seconds)}[[then]][[text:it runs]]")
    left = [*background_shell(seconds), child_of_server(child)]
    claudes.idle(session_id)
    os.kill(claudes.session(session_id)["pid"], signal.SIGKILL)
    claudes.ended(session_id)

    found = {o["pid"]: o for o in orphans(claudes) if o["session_id"] == session_id}
    assert {process.pid for process in left} <= found.keys()
    assert all(o["age_s"] >= 0 and o["memory_bytes"] > 0 and o["command"] for o in found.values())
    (listed,) = [s for s in claudes.json("ls", "-a") if s["session_id"] == session_id]
    assert {orphan["pid"] for orphan in listed["orphan_processes"]} == found.keys()
    shown_status, shown_list = claudes.sm("status"), claudes.sm("ls", "-a")
    for process in left:
        assert f"pid {process.pid} of " in shown_status
        assert f"pid {process.pid} of " in shown_list
    assert f"Orphans:      {len(found)}" in shown_status

    ended = json.loads(claudes.sm("kill", "--orphans", "--json"))
    assert {process.pid for process in left} <= {o["pid"] for o in ended["ended"]}
    assert ended["left"] == []
    assert all(map(is_gone, left))
    assert "Orphans:      0\n" in claudes.sm("status")


def test_kill_ends_the_background_shell_of_claude(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    seconds, child = secrets.randbelow(10**6) + 10**6, claudes.home / "child-2"
    write_user_servers(claudes, forker=server_that_forks(child))
    session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, f"serve-2 {background(seconds)}[[then]][[text:it runs]]")
    left = [*background_shell(seconds), child_of_server(child)]
    assert claudes.sm("kill", session_id).startswith("Killed")
    assert all(map(is_gone, left))
    assert orphans(claudes) == []
