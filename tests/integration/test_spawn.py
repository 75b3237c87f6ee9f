"""Spawn with real programs, the real command, daemon and tmux."""

import http.client
import json
import os
import socket
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.instance import Instance, until
from tests.integration.ended_agents import gone

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
    until(lambda: "hello there" in instance.sm("output", "sh-task1"), "its output is shown")
    assert f"command-{session_id}" in instance.tmux("list-sessions")
    pane_pid = instance.tmux("display-message", "-p", "-t", f"=command-{session_id}:", "#{pane_pid}")
    assert int(pane_pid) == session["pid"]  # the agent is the pane's process, without a shell around it


def test_spawn_names_the_process_of_an_agent_that_reports_before_it_is_recorded(instance: Instance) -> None:
    instance.run_daemon(sys.executable, str(Path(__file__).with_name("late_start_daemon.py")))
    session = instance.spawn("Sh", "sm complete done; exec sleep 1000")
    assert session["status"] == "completed"
    assert session["pid"]
    assert not gone(session["pid"])


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


def test_configured_environment_cannot_override_sm_variables() -> None:
    with Instance(
        '  Liar: {command: [sh, -c], env: {SM_SESSION_ID: "ffffffff", SM_TRUST_LEVEL: "root", MINE: "yes"}}'
    ) as instance:
        session_id = instance.spawn("Liar", SHOW)["session_id"]
        until((instance.work / "shown.txt").exists, "the agent wrote its environment")
        lines = (instance.work / "env.txt").read_text().splitlines()
        assert f"SM_SESSION_ID={session_id}" in lines
        assert "SM_TRUST_LEVEL=direct" in lines
        assert "MINE=yes" in lines


def test_env_option_overrides_the_configuration_and_reaches_restored_agents_and_children() -> None:
    script = "env > $SM_SESSION_ID.tmp; mv $SM_SESSION_ID.tmp $SM_SESSION_ID.txt; sleep 1000"
    types = f"  Env: {{command: {json.dumps(['sh', '-c', script])}, prompt: file, env: {{MINE: config}}}}"
    with Instance(types) as instance:

        def seen(session_id: str) -> set[str]:
            path = instance.work / f"{session_id}.txt"
            until(path.exists, "the agent wrote its environment")
            lines = set(path.read_text().splitlines())
            path.unlink()
            return lines

        options = ["--env", "MINE=a=b", "--env", "FROM_SHELL", "--env", "EMPTY="]
        parent = instance.spawn("Env", *options, env={"FROM_SHELL": "here"})["session_id"]
        expected = {"MINE=a=b", "FROM_SHELL=here", "EMPTY="}
        assert expected <= seen(parent)
        instance.sm("kill", parent)
        instance.sm("restore", parent)
        assert expected <= seen(parent)
        child = instance.spawn("Env", "--parent", parent)["session_id"]
        assert {"MINE=config", "FROM_SHELL=here"} <= seen(child)
        for variable, problem in (
            ("SM_TRUST_LEVEL=root", "reserved"),
            ("1X=2", "not a valid variable name"),
            (f"X={'y' * 100_001}", "more than 100,000 bytes"),
        ):
            assert problem in instance.refused("spawn", "Env", "--env", variable, exit_code=2)


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


def test_prompt_is_read_from_standard_input(instance: Instance) -> None:
    instance.spawn("Sh", "-", stdin="echo $((6*7)) > answer.txt; sleep 1000\n")
    answer = instance.work / "answer.txt"
    until(lambda: answer.exists() and answer.read_text() == "42\n", "the prompt ran")


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


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["Reviwer", "x"], 2, "unknown agent type"),
        (["sleper", "x"], 2, "did you mean Sleeper?"),
        (["Sh", "x" * 10_001], 2, "10,001 characters, at most 10,000"),
        (["Sh", "a\x1b[201~b"], 2, "U+001B at position 2"),
        (["Sh", "x", "--working-dir", "/no/such/place"], 2, "does not exist"),
        (["Sh", "x", "--working-dir", "/etc/passwd"], 2, "is not a directory"),
        (["Sh", "x", "--name", "Not a name!"], 2, "invalid name"),
        (["Sh", "x", "--parent", "ffffffff"], 3, "no such session"),
        (["Sh", "x", "--trust", "root"], 2, "unknown trust level"),
        (["Sh", "x", "--model", "opus"], 2, "--model is not supported"),
        (["Sh", "x", "--preset", "fast"], 2, "--preset is not supported"),
        (["Sh", "x", "--mode", "fast"], 2, "--mode"),
    ],
)
def test_invalid_spawn_is_refused_and_leaves_no_session(
    instance: Instance, arguments: list[str], exit_code: int, problem: str
) -> None:
    assert problem in instance.refused("spawn", *arguments, exit_code=exit_code)
    assert instance.json("all") == []


def test_friendly_name_is_lower_case_prefixed_once_and_unique_among_live_sessions(instance: Instance) -> None:
    first = instance.spawn("Sleeper", "x", "--name", "Sleeper-Task1")
    assert first["friendly_name"] == "sleeper-task1"
    assert "name sleeper-task1 is already used" in instance.refused(
        "spawn", "Sleeper", "x", "--name", "task1", exit_code=2
    )
    instance.sm("kill", "sleeper-task1", "--force")
    again = instance.spawn("Sleeper", "x", "--name", "task1")
    assert instance.session("sleeper-task1")["session_id"] == again["session_id"]


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


def test_program_that_exits_immediately_has_an_exit_code_and_last_output(instance: Instance) -> None:
    for code, status in ((0, "completed"), (7, "error")):
        spawned = instance.run("spawn", "Sh", f"echo last words; exit {code}", "--json")
        assert spawned.returncode == 0
        session = instance.ended(json.loads(spawned.stdout)["session_id"])
        assert (session["status"], session["exit_code"], session["exit_signal"]) == (status, code, None)
        assert "last words" in session["last_output"]
        types = [e["type"] for e in instance.events(session["session_id"])]
        assert types == ["spawned", "started", status]
    shown = instance.run("status", session["session_id"]).stdout
    assert "7" in shown
    assert "last words" in shown


def test_spawn_warns_and_runs_directly_when_sandboxed_is_only_the_default(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text().replace("default_trust: direct", ""))
    spawned = instance.run(
        "spawn", "Sh", "sm spawn Sh 'sleep 1000' --trust sandboxed > out.txt 2>&1; sleep 1000", "--json"
    )
    session = json.loads(spawned.stdout)
    assert (session["trust_level"], session["effective_mode"]) == ("sandboxed", "direct")
    assert "no sandbox" in spawned.stderr
    assert "warning" in [e["type"] for e in instance.events()]
    refusal = instance.work / "out.txt"
    until(lambda: refusal.exists() and refusal.read_text(), "the answer to the agent's own request")
    assert "no Docker engine runs" in refusal.read_text()
    assert len(instance.json("all")) == 1


def test_idempotency_key_makes_one_session(instance: Instance) -> None:
    instance.sm("status")

    def post(body: dict[str, object], key: str) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("sm")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(instance.socket))
        text = json.dumps(body)
        connection.request("POST", "/v1/sessions", text, {"SM-Protocol": "1", "Idempotency-Key": key})
        answer = connection.getresponse()
        value = json.loads(answer.read())
        connection.close()
        return answer.status, value

    body: dict[str, object] = {
        "agent_type": "Sleeper",
        "cwd": str(instance.work),
        "environment": {"PATH": "/bin:/usr/bin"},
    }
    status, first = post(body, "k1")
    assert status == 200
    assert post(body, "k1")[1]["session_id"] == first["session_id"]
    assert post(body, "k2")[1]["session_id"] != first["session_id"]
    status, refusal = post({**body, "prompt": "other"}, "k1")
    assert (status, refusal["error"]["code"]) == (400, "usage")  # type: ignore[index]  # the error's shape
    assert len(instance.json("all")) == 2


def test_50_simultaneous_spawns_start_50_agents(instance: Instance) -> None:
    instance.sm("status")
    with ThreadPoolExecutor(10) as pool:
        spawned = list(pool.map(lambda n: instance.spawn("Sleeper", str(n), "--name", f"n{n}"), range(50)))
    assert len({s["session_id"] for s in spawned}) == 50
    listed = instance.json("all")
    assert [s["status"] for s in listed] == ["running"] * 50
    panes = instance.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
    assert {s["pid"] for s in listed} <= {int(p) for p in panes}


def test_spawn_refuses_a_name_and_a_directory_that_are_not_utf_8(instance: Instance) -> None:
    bad = os.fsdecode(b"caf\xe9")
    directory = os.fsencode(instance.work) + b"/caf\xe9"
    os.mkdir(directory)
    before = instance.json("all")
    for option, value in (("--name", bad), ("--working-dir", os.fsdecode(directory))):
        error = instance.refused("spawn", "Sleeper", option, value, exit_code=2)
        assert "caf\\xe9 is not valid UTF-8" in error
        assert option.removeprefix("--").replace("-", " ") in error
    assert instance.json("all") == before
