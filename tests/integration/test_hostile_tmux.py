"""A user's own tmux server with a hostile tmux.conf: sm works, and the user's settings do not change."""

import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from tests.instance import Instance, until

# Without socket_name sm uses the default tmux server, here in a directory of the test.
CONFIG = """
default_trust: direct
commands:
  Sh: {command: [sh, -c]}
  Sleeper: {command: [sleep, "1000"], prompt: file}
  Single: {command: [./single]}
  Reader: {command: [sh, -c, 'while read -r line; do echo "heard $line"; done'], prompt: tty}
"""
HOSTILE = """
set -g base-index 1
setw -g pane-base-index 1
set -g default-shell {home}/fish
set -g default-command "echo used >> {home}/default-command-was-used; exec sleep 1"
set -g destroy-unattached on
setw -g remain-on-exit off
set -g mouse on
set -g status off
set -g history-limit 5
set -g renumber-windows on
set -g detach-on-destroy off
set -g prefix C-a
setw -g automatic-rename on
setw -g allow-rename on
setw -g aggressive-resize on
setw -g mode-keys vi
set -g set-titles on
set -g update-environment "PATH HOME"
set -g default-terminal screen
set -g word-separators "#"
setw -g monitor-silence 1
{hooks}
"""
HOOKS = {
    "plain": "",
    "renaming sessions": """
set-hook -g after-new-session 'rename-session "hijacked-#{session_id}"'
set-hook -g session-created 'rename-session -t "=no such session:" complains'
""",
    "renaming and splitting windows": """
set-hook -g after-new-window 'rename-window hijacked ; split-window -d "sleep 1000"'
set-hook -g window-linked 'rename-window linked'
set-hook -g after-set-option 'set -g @hooked yes'
""",
}


@pytest.fixture(scope="module", params=[*HOOKS])
def hostile(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """An instance on a default tmux server with this configuration."""
    instance = Instance(config=CONFIG)
    instance.socket_name = "default"
    shell = instance.home / "fish"
    shell.write_text(f"#!/bin/sh\necho used >> {instance.home}/default-shell-was-used\nsleep 1\n")
    shell.chmod(0o755)
    text = HOSTILE.format(home=instance.home, hooks=HOOKS[request.param])
    (instance.home / ".tmux.conf").write_text(text)
    try:
        yield instance
    finally:
        instance.end()


def settings(instance: Instance, server: str) -> list[list[str]]:
    """All global options and hooks of a tmux server."""
    shown = []
    for arguments in (
        ["show-options", "-g"],
        ["show-options", "-gw"],
        ["show-options", "-s"],
        ["show-hooks", "-g"],
    ):
        command = ["tmux", "-L", server, *arguments]
        ended = subprocess.run(command, env=instance.env, capture_output=True, text=True, check=True)
        shown.append([line for line in ended.stdout.splitlines() if "@hooked" not in line])
    return shown


def run_on_terminal(instance: Instance, argv: list[str]) -> tuple[int, int]:
    """Run `argv` on a new terminal; return its pid and the other side of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvpe(argv[0], argv, instance.env)
    return pid, terminal


def wait_shown(terminal: int, text: str) -> bool:
    """Read the terminal until it shows `text`."""
    output = ""
    while select.select([terminal], [], [])[0]:
        try:
            output += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        if text in output:
            return True
    raise AssertionError(f"{text!r} was not drawn, but {output!r}")


def spawn(instance: Instance, *arguments: str) -> dict[str, Any]:
    session = instance.spawn(*arguments)
    assert session["status"] in ("running", "completed", "error"), session
    return session


def test_agent_runs_and_its_output_is_complete(hostile: Instance) -> None:
    session_id = spawn(hostile, "Sh", "seq 1000; echo the last; exec sleep 1000", "--name", "talks")[
        "session_id"
    ]
    until(lambda: "the last" in hostile.output(session_id), "its output")
    lines = hostile.sm("output", "sh-talks", "--lines", "900").splitlines()
    assert lines == [*map(str, range(102, 1001)), "the last"]  # not limited to the user's 5 lines
    assert hostile.session(session_id)["status"] == "running"


def test_program_without_arguments_runs_without_the_users_shell(hostile: Instance) -> None:
    program = hostile.work / "single"
    program.write_text("#!/bin/sh\necho alone > single.out\nexec sleep 1000\n")
    program.chmod(0o755)
    spawn(hostile, "Single")
    until((hostile.work / "single.out").exists, "the program runs")
    assert not (hostile.home / "default-shell-was-used").exists()
    assert not (hostile.home / "default-command-was-used").exists()


def test_prompt_is_typed_unchanged(hostile: Instance) -> None:
    session_id = spawn(hostile, "Reader", "a line # with 'quotes' ; and more")["session_id"]
    until(lambda: "heard a line # with 'quotes' ; and more" in hostile.output(session_id), "the prompt")


def test_exit_codes_signals_and_last_output_are_right(hostile: Instance) -> None:
    for code in (0, 7):
        # The script ends only after its output was seen: tmux may lose output written just before the end.
        script = f"echo last words; while [ ! -e go.{code} ]; do sleep 0.05; done; exit {code}"
        session_id = spawn(hostile, "Sh", script)["session_id"]
        until(lambda: "last words" in hostile.output(session_id), "its output")  # noqa: B023 - called in this iteration
        (hostile.work / f"go.{code}").touch()
        ended = hostile.ended(session_id)
        (hostile.work / f"go.{code}").unlink()
        assert (ended["status"], ended["exit_code"]) == ("error" if code else "completed", code)
        assert "last words" in ended["last_output"]
    session = spawn(hostile, "Sleeper")
    os.kill(session["pid"], signal.SIGKILL)
    assert hostile.ended(session["session_id"])["exit_signal"] == signal.SIGKILL


def test_agent_keeps_running_after_a_person_attaches_types_and_detaches(hostile: Instance) -> None:
    session = spawn(hostile, "Sh", 'while read -r line; do echo "heard $line"; done')
    path = f"/v1/sessions/{session['session_id']}/attach"
    pid, terminal = run_on_terminal(hostile, Client(str(hostile.socket)).get(path)["argv"])
    try:
        os.write(terminal, b"a person\r")
        assert wait_shown(terminal, "heard a person")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert hostile.session(session["session_id"])["status"] == "running"
    until(lambda: "heard a person" in hostile.output(session["session_id"]), "the output is still there")


def test_kill_ends_only_that_agent(hostile: Instance) -> None:
    first, second = spawn(hostile, "Sleeper"), spawn(hostile, "Sleeper")
    hostile.sm("kill", first["session_id"])
    assert hostile.session(first["session_id"])["status"] == "killed"
    assert not Path(f"/proc/{first['pid']}").exists()
    assert hostile.session(second["session_id"])["status"] == "running"


def test_restarted_daemon_finds_every_terminal(hostile: Instance) -> None:
    session = spawn(hostile, "Sleeper")
    before = [(s["session_id"], s["status"], s["pid"]) for s in hostile.json("all")]
    hostile.kill_daemon()
    assert [(s["session_id"], s["status"], s["pid"]) for s in hostile.json("all")] == before
    os.kill(session["pid"], signal.SIGUSR1)
    assert hostile.ended(session["session_id"])["exit_signal"] == signal.SIGUSR1


def test_global_tmux_settings_of_the_user_do_not_change(hostile: Instance) -> None:
    spawn(hostile, "Sleeper")
    # A server with the same tmux.conf that sm never used.
    untouched = [
        "tmux",
        "-L",
        "untouched",
        "new-session",
        "-d",
        "sleep",  # the shell of this tmux.conf may exit, and its server with it
        "1000",
        ";",
        "set-option",
        "destroy-unattached",
        "off",
    ]
    subprocess.run(untouched, env=hostile.env, check=True)
    try:
        assert settings(hostile, "default") == settings(hostile, "untouched")
    finally:
        subprocess.run(["tmux", "-L", "untouched", "kill-server"], env=hostile.env, check=True)


def test_tmux_session_of_the_user_survives_daemon_stop_all(hostile: Instance) -> None:
    spawn(hostile, "Sleeper")
    script = "echo $$ > mine; echo my own; exec sleep 1000"
    argv = ["tmux", "-L", "default", "new-session", "-s", "mine", "-c", str(hostile.work), "sh", "-c", script]
    pid, terminal = run_on_terminal(hostile, argv)
    try:
        assert wait_shown(terminal, "my own")
        pid_of_user = int((hostile.work / "mine").read_text())
        hostile.sm("daemon", "stop", "--all")
        os.kill(pid_of_user, 0)
        hostile.sm("daemon", "start")
        assert "running" not in {s["status"] for s in hostile.json("all")}
        assert spawn(hostile, "Sleeper")["status"] == "running"
        os.kill(pid_of_user, 0)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
