"""Spawn with real programs, the real command, daemon and tmux."""

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sm.linux.process_limits import soft_limits
from tests.instance import Instance, until

SHOW = "env | sort > env.txt; umask > umask.txt; : > shown.txt; sleep 1000"


def test_spawn_runs_the_agent_in_its_own_tmux_session(instance: Instance) -> None:
    text = instance.sm("spawn", "Sh", "echo hello there; sleep 1000", "--name", "task1")
    session_id = instance.json("all")[0]["session_id"]
    assert text == f"Spawned sh-task1 ({session_id}) in tmux session command-{session_id}\n"
    session = instance.session(session_id)
    assert (session["status"], session["name"], session["friendly_name"]) == (
        "running",
        f"sh-{session_id}",
        "sh-task1",
    )
    assert session["created_by"] == "operator"
    assert session["parent_session_id"] is None
    window = ("display-message", "-p", "-t", f"=command-{session_id}:", "#{window_name}")
    assert instance.tmux(*window).strip() == "sh-task1"
    until(lambda: "hello there" in instance.output("sh-task1"), "its output is shown")
    assert f"command-{session_id}" in instance.tmux("list-sessions")
    pane_pid = instance.tmux("display-message", "-p", "-t", f"=command-{session_id}:", "#{pane_pid}")
    assert int(pane_pid) == session["pid"]  # the agent is the pane's process, without a shell around it


def test_agent_gets_only_allowed_environment_variables(instance: Instance) -> None:
    env = {
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
        "SECRET_OF_MY_SHELL": "x",
        "CLAUDECODE": "1",
        "TMUX": "/tmp/nowhere,1,1",
        "TERM": "screen-weird",
    }
    session_id = instance.spawn("Sh", SHOW, env=env)["session_id"]
    until((instance.work / "shown.txt").exists, "the agent wrote its environment")
    variables = dict(line.split("=", 1) for line in (instance.work / "env.txt").read_text().splitlines())
    assert variables.pop("PATH").split(":")[0] == str(instance.state / "bin")
    assert variables.pop("TERM") not in ("", "screen-weird")  # the terminal type of the pane
    assert {n: v for n, v in variables.items() if n.startswith("SM_")} == {
        "SM_SESSION_ID": session_id,
        "SM_PARENT_ID": "",
        "SM_WORKSPACE_ID": "",
        "SM_TRUST_LEVEL": "direct",
        "SM_SOCKET": str(instance.socket),
        "SM_TOKEN_FILE": str(instance.state / "launch" / f"{session_id}.token"),
    }
    rest = {n: v for n, v in variables.items() if not n.startswith("SM_")}
    rest.pop("PWD")  # set by sh
    rest.pop("_", None)
    os.umask(own_umask := os.umask(0))
    # The daemon's umask of 077 applies to its own files only.
    assert int((instance.work / "umask.txt").read_text(), 8) == own_umask
    assert rest == {
        "HOME": str(instance.home),
        "LANG": "C.UTF-8",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
    }


def test_agent_has_the_umask_and_soft_limits_of_its_shell_and_not_of_the_daemon() -> None:
    with Instance(forked=False) as instance:
        odd = 'umask 077; ulimit -S -n 256; ulimit -S -s 4096; exec "$@"'
        instance.run_daemon("sh", "-c", odd, "sh", sys.executable, "-m", "sm.daemon")
        shell = soft_limits()
        session = instance.spawn("Sh", "(umask 077; sm spawn Sleeper x); sleep 1000")
        session_id = session["session_id"]
        assert soft_limits(session["pid"]) == shell
        (child,) = until(lambda: instance.get(f"/v1/sessions/{session_id}/children"), "it has a child")
        assert (
            soft_limits(until(lambda: instance.session(child["session_id"])["pid"], "the child runs"))
            == shell
        )
        instance.sm("kill", session_id)
        instance.command = ("sh", "-c", 'umask 000; ulimit -S -n 300; exec "$@"', "sh", *instance.command)
        instance.sm("restore", session_id)
        assert soft_limits(instance.session(session_id)["pid"]) == shell
        assert soft_limits(instance.spawn("Sleeper", "x")["pid"]) == {**shell, "umask": 0, "nofile": 300}


def test_secrets_and_prompts_are_in_no_command_line_log_or_readable_file(instance: Instance) -> None:
    session = instance.spawn("Sleeper", "the secret prompt", env={"SSH_AUTH_SOCK": "the-secret-value"})
    lines = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                lines.append(Path(f"/proc/{name}/cmdline").read_bytes())
            except OSError:
                continue
    assert not [line for line in lines if b"the-secret-value" in line or b"the secret prompt" in line]
    for path in [instance.state, *instance.state.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path
    log = (instance.state / "log" / "daemon.log").read_text()
    assert "the secret prompt" not in log
    assert "the-secret-value" not in log
    assert session["status"] == "running"


@pytest.mark.parametrize("kind", ["argv", "file", "tty"])
def test_prompt_reaches_the_program_as_configured(kind: str) -> None:
    script = {
        "argv": 'printf %s "$1" > got.txt; sleep 1000',
        "file": 'cat "$SM_PROMPT_FILE" > got.txt; sleep 1000',
        "tty": 'IFS= read -r line; printf %s "$line" > got.txt; sleep 1000',
    }[kind]
    with Instance(f"  P: {{command: {json.dumps(['sh', '-c', script, 'p'])}, prompt: {kind}}}") as instance:
        prompt = "Fix #1042; $HOME `id` \"q\" 'r' %s ~ ünï 👩‍💻"
        instance.spawn("P", prompt)
        got = instance.work / "got.txt"
        until(lambda: got.exists() and got.read_text() == prompt, "the prompt arrived unchanged")


def test_child_inherits_the_environment_and_directory_of_its_parent(instance: Instance) -> None:
    (instance.work / "below").mkdir()
    script = "cd below; SSH_AUTH_SOCK=other sm spawn Sh 'env > child.txt; sleep 1000' --json > spawned.json; sleep 1000"
    parent = instance.spawn("Sh", script, env={"SSH_AUTH_SOCK": "parents"})
    spawned = instance.work / "below" / "spawned.json"
    until(lambda: spawned.exists() and spawned.read_text().endswith("}\n"), "the child was spawned")
    child = json.loads(spawned.read_text())
    assert child["parent_session_id"] == parent["session_id"]
    assert child["created_by"] == f"session:{parent['session_id']}"
    assert child["working_dir"] == str(instance.work)
    seen = instance.work / "child.txt"
    until(lambda: seen.exists() and "SM_PARENT_ID" in seen.read_text(), "the child ran")
    assert f"SM_PARENT_ID={parent['session_id']}\n" in seen.read_text()
    assert "SSH_AUTH_SOCK=parents\n" in seen.read_text()
    listed = instance.json("children", parent["session_id"])
    assert [s["session_id"] for s in listed] == [child["session_id"]]
    tree = instance.json("children", "--recursive")
    assert [c["session_id"] for c in tree[0]["children"]] == [child["session_id"]]


@pytest.mark.parametrize("defect", ["missing", "not executable", "bad interpreter", "a directory"])
def test_spawn_fails_when_the_program_cannot_be_executed(defect: str) -> None:
    with Instance("  Broken: {command: [./agent.sh]}") as instance:
        program = instance.work / "agent.sh"
        if defect == "not executable":
            program.write_text("#!/bin/sh\nsleep 1000\n")
        if defect == "bad interpreter":
            program.write_text("#!/no/such/interpreter\n")
            program.chmod(0o755)
        if defect == "a directory":
            program.mkdir()
        error = instance.refused("spawn", "Broken", "x", exit_code=9)
        assert "./agent.sh" in error
        (session,) = instance.json("all")
        assert session["status"] == "error"
        assert session["exit_code"] is None
        assert [e["type"] for e in instance.events()] == ["spawned", "error"]


def test_50_simultaneous_spawns_start_50_agents(instance: Instance) -> None:
    instance.sm("status")
    with ThreadPoolExecutor(10) as pool:
        spawned = list(pool.map(lambda n: instance.spawn("Sleeper", str(n), "--name", f"n{n}"), range(50)))
    assert len({s["session_id"] for s in spawned}) == 50
    listed = instance.json("all")
    assert [s["status"] for s in listed] == ["running"] * 50
    panes = instance.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
    assert {s["pid"] for s in listed} <= {int(p) for p in panes}
