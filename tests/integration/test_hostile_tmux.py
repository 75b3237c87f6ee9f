"""On a person's own tmux server, whatever their tmux.conf says: everything works, and nothing of theirs is changed."""

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
from tests.load import scaled

# With socket_name left out it is the default server; only that it lies in a directory of the test is ours.
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
    """An instance on a default server whose person has configured it like this."""
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
    """All that is global in a tmux server."""
    shown = []
    for what in (
        ["show-options", "-g"],
        ["show-options", "-gw"],
        ["show-options", "-s"],
        ["show-hooks", "-g"],
    ):
        command = ["tmux", "-L", server, *what]
        ended = subprocess.run(
            command, env=instance.env, capture_output=True, text=True, timeout=scaled(20), check=True
        )
        shown.append([line for line in ended.stdout.splitlines() if "@hooked" not in line])
    return shown


def at_a_terminal(instance: Instance, argv: list[str]) -> tuple[int, int]:
    """A person who types `argv`: the pid of what runs, and our side of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvpe(argv[0], argv, instance.env)
    return pid, terminal


def shows(terminal: int, text: str) -> bool:
    """Read on until `text` was drawn."""
    seen = ""
    while select.select([terminal], [], [], 20)[0]:
        try:
            seen += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        if text in seen:
            return True
    raise AssertionError(f"{text!r} was not drawn, but {seen!r}")


def spawned(instance: Instance, *arguments: str) -> dict[str, Any]:
    session = instance.spawn(*arguments)
    assert session["status"] in ("running", "completed", "error"), session
    return session


def test_agents_run_and_are_read(hostile: Instance) -> None:
    session_id = spawned(hostile, "Sh", "seq 1000; echo the last; exec sleep 1000", "--name", "talks")[
        "session_id"
    ]
    until(lambda: "the last" in hostile.sm("output", session_id), "its output is there")
    lines = hostile.sm("output", "sh-talks", "--lines", "900").splitlines()
    assert lines == [str(n) for n in range(102, 1001)] + [
        "the last"
    ]  # the history is not the person's 5 lines
    assert hostile.session(session_id)["status"] == "running"


def test_a_program_without_arguments_needs_no_shell_of_the_person(hostile: Instance) -> None:
    program = hostile.work / "single"
    program.write_text("#!/bin/sh\necho alone > single.out\nexec sleep 1000\n")
    program.chmod(0o755)
    spawned(hostile, "Single")
    until((hostile.work / "single.out").exists, "it runs")
    assert not (hostile.home / "default-shell-was-used").exists()
    assert not (hostile.home / "default-command-was-used").exists()


def test_a_prompt_is_typed(hostile: Instance) -> None:
    session_id = spawned(hostile, "Reader", "a line # with 'quotes' ; and more")["session_id"]
    until(
        lambda: "heard a line # with 'quotes' ; and more" in hostile.sm("output", session_id), "it was typed"
    )


def test_every_exit_is_told_right_and_its_output_kept(hostile: Instance) -> None:
    for code in (0, 7):
        # It waits until its words were seen: what is written right before the end tmux itself may lose.
        script = f"echo last words; while [ ! -e go.{code} ]; do sleep 0.05; done; exit {code}"
        session_id = spawned(hostile, "Sh", script)["session_id"]
        until(lambda: "last words" in hostile.sm("output", session_id), "its words are seen")  # noqa: B023 - called here
        (hostile.work / f"go.{code}").touch()
        ended = hostile.ended(session_id)
        (hostile.work / f"go.{code}").unlink()
        assert (ended["status"], ended["exit_code"]) == ("error" if code else "completed", code)
        assert "last words" in ended["last_output"]
    session = spawned(hostile, "Sleeper")
    os.kill(session["pid"], signal.SIGKILL)
    assert hostile.ended(session["session_id"])["exit_signal"] == signal.SIGKILL


def test_a_person_attaches_types_and_goes_and_the_agent_stays(hostile: Instance) -> None:
    session = spawned(hostile, "Sh", 'while read -r line; do echo "heard $line"; done')
    path = f"/v1/sessions/{session['session_id']}/attach"
    pid, terminal = at_a_terminal(hostile, Client(str(hostile.socket)).get(path)["argv"])
    try:
        os.write(terminal, b"a person\r")
        assert shows(terminal, "heard a person")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert hostile.session(session["session_id"])["status"] == "running"
    until(lambda: "heard a person" in hostile.sm("output", session["session_id"]), "it is there still")


def test_a_kill_ends_the_agent_only(hostile: Instance) -> None:
    first, second = spawned(hostile, "Sleeper"), spawned(hostile, "Sleeper")
    hostile.sm("kill", first["session_id"])
    assert hostile.session(first["session_id"])["status"] == "killed"
    assert not Path(f"/proc/{first['pid']}").exists()
    assert hostile.session(second["session_id"])["status"] == "running"


def test_a_daemon_that_comes_back_finds_every_terminal(hostile: Instance) -> None:
    session = spawned(hostile, "Sleeper")
    before = [(s["session_id"], s["status"], s["pid"]) for s in hostile.json("all")]
    hostile.kill_daemon()
    assert [(s["session_id"], s["status"], s["pid"]) for s in hostile.json("all")] == before
    os.kill(session["pid"], signal.SIGUSR1)
    assert hostile.ended(session["session_id"])["exit_signal"] == signal.SIGUSR1


def test_nothing_of_the_person_is_changed(hostile: Instance) -> None:
    spawned(hostile, "Sleeper")
    # What this tmux.conf makes of a server that sm has never seen.
    untouched = [
        "tmux",
        "-L",
        "untouched",
        "new-session",
        "-d",
        "sleep",  # a shell of this tmux.conf may end at once, and its server with it
        "1000",
        ";",
        "set-option",
        "destroy-unattached",
        "off",
    ]
    subprocess.run(untouched, env=hostile.env, check=True, timeout=scaled(20))
    try:
        assert settings(hostile, "default") == settings(hostile, "untouched")
    finally:
        subprocess.run(
            ["tmux", "-L", "untouched", "kill-server"], env=hostile.env, check=True, timeout=scaled(20)
        )


def test_a_session_of_the_person_lives_beside_ours_and_survives_a_stop_with_all(hostile: Instance) -> None:
    spawned(hostile, "Sleeper")
    script = "echo $$ > mine; echo my own; exec sleep 1000"
    argv = ["tmux", "-L", "default", "new-session", "-s", "mine", "-c", str(hostile.work), "sh", "-c", script]
    pid, terminal = at_a_terminal(hostile, argv)
    try:
        assert shows(terminal, "my own")
        mine = int((hostile.work / "mine").read_text())
        hostile.sm("daemon", "stop", "--all")
        os.kill(mine, 0)
        hostile.sm("daemon", "start")
        assert "running" not in {s["status"] for s in hostile.json("all")}
        assert spawned(hostile, "Sleeper")["status"] == "running"
        os.kill(mine, 0)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
