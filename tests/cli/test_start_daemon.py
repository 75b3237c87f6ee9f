"""How a command starts the daemon: with scripted programs in the daemon's place."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sm import errors
from sm.cli.start_daemon import environment, launch
from sm.paths import Places
from tests.load import until

pytestmark = pytest.mark.processes

Program = Callable[[str], None]


@pytest.fixture
def places(home: Path) -> Places:
    return Places(f"{home}/config.yaml", f"{home}/state")


@pytest.fixture
def program(home: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Put a shell script where the interpreter is that runs the daemon."""

    def put(script: str) -> None:
        path = home / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


READY = """echo '{"ready": true}' >&3"""


def refusing(code: str, message: str, hint: str | None = None) -> str:
    return f"echo '{json.dumps({'error': {'code': code, 'message': message, 'hint': hint}})}' >&3"


def test_launch_returns_when_the_daemon_says_that_it_is_ready(
    places: Places, program: Program, home: Path
) -> None:
    program(f'echo "$@" >{home}/argv; {READY}')
    launch(places, os.environ)
    assert (home / "argv").read_text() == "-m sm.daemon --ready-fd 3\n"


def test_the_daemon_is_cut_off_from_who_starts_it(places: Places, program: Program, home: Path) -> None:
    leaked = os.open(home, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    look = [
        "ls -l /proc/$$/fd | tail -n +2 | sed 's/.* \\([0-9]* ->\\)/\\1/'",
        "pwd",
        "cat /proc/$$/stat",
        "grep -E 'Sig(Blk|Ign)' /proc/$$/status",
        "env",
    ]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        secret = {
            "SECRET": "x",
            "PATH": os.environ["PATH"],
            "LC_TIME": "C",
            "DOCKER_HOST": "d",
            "SM_HOME": "/x",
        }
        program(f"( {'; echo ===; '.join(look)} ) >{home}/seen 2>&1; {READY}")
        launch(places, secret)
    finally:
        signal.signal(signal.SIGHUP, before)
        os.close(leaked)
    fds, cwd, stat, signals, environ = (home / "seen").read_text().split("===\n")
    opened = dict(line.split(" -> ") for line in fds.splitlines() if " -> " in line)
    assert opened["0"] == "/dev/null"
    assert str(home) not in opened.values(), "a lock of the caller's shell lives on in the daemon"
    assert cwd == "/\n"
    pid, *_ = stat.split()
    fields = stat.rpartition(")")[2].split()
    session, tty = fields[3], fields[4]
    assert session not in (str(os.getsid(0)), pid), (
        "its own session, and not its leader: never a terminal again"
    )
    assert tty == "0"
    assert [line.split()[1] for line in signals.splitlines()] == ["0" * 16, "0" * 16]
    names = {line.partition("=")[0] for line in environ.splitlines()} - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names == {"PATH", "LC_TIME", "DOCKER_HOST", "SM_HOME"}


def test_only_what_the_design_names_is_passed_on() -> None:
    named = "HOME USER LOGNAME SHELL PATH LANG LC_ALL TZ SM_HOME XDG_STATE_HOME TMUX_TMPDIR DOCKER_HOST HTTPS_PROXY"
    named += " NO_PROXY"
    others = "SM_SESSION_ID SM_SOCKET ANTHROPIC_API_KEY PYTHONPATH LD_PRELOAD TMUX SSH_AUTH_SOCK TERM"
    kept = environment(dict.fromkeys(f"{named} {others}".split(), "x"))
    assert set(kept) == set(named.split())


def test_the_daemons_reason_is_told_in_full(places: Places, program: Program) -> None:
    program(
        refusing(
            "config", "config.yaml has 2 errors:\\n3:1 unknown key a\\n4:1 unknown key b", "sm config --check"
        )
    )
    with pytest.raises(errors.ConfigError) as raised:
        launch(places, os.environ)
    assert raised.value.message.splitlines()[1:] == ["3:1 unknown key a", "4:1 unknown key b"]
    assert raised.value.hint == "sm config --check"


def test_a_daemon_that_dies_without_a_word_leaves_its_last_ones(places: Places, program: Program) -> None:
    program("echo old >&2; exec 3>&-")
    with pytest.raises(errors.DaemonUnavailable):
        launch(places, os.environ)
    program("seq 100 >&2; echo boom >&2; exit 3")
    with pytest.raises(errors.DaemonUnavailable) as raised:
        launch(places, os.environ)
    lines = raised.value.message.splitlines()
    assert lines[0] == "the daemon ended while it was starting:"
    assert lines[-1] == "boom"
    assert "old" not in lines
    assert len(lines) == 21
    assert Path(places.log, "daemon.err").stat().st_mode & 0o777 == 0o600
    assert Path(places.state).stat().st_mode & 0o777 == 0o700


def test_an_interpreter_that_is_gone_is_told(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(errors.DaemonUnavailable, match="No such file"):
        launch(places, os.environ)


@pytest.mark.parametrize("said", ["echo nonsense >&3", "echo 5 >&3", "echo {} >&3"])
def test_a_daemon_that_says_something_else_is_not_ready(places: Places, program: Program, said: str) -> None:
    program(said)
    with pytest.raises(errors.DaemonUnavailable):
        launch(places, os.environ)


def test_a_daemon_that_never_says_anything_is_given_up(
    places: Places, program: Program, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.cli.start_daemon.START_S", 0.2)
    program(f"echo $$ >{home}/pid; exec sleep 60")
    with pytest.raises(errors.DaemonUnavailable, match="not ready within"):
        launch(places, os.environ)
    pid = until(lambda: (home / "pid").read_text().strip(), "the program is there")
    os.kill(int(pid), signal.SIGKILL)


def test_a_state_directory_that_cannot_be_made_is_told(home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(errors.DaemonUnavailable, match=f"{home}/file"):
        launch(Places(f"{home}/config.yaml", f"{home}/file/state"), os.environ)


def test_a_lock_that_is_let_go_is_waited_for(places: Places, program: Program, home: Path) -> None:
    program(
        f"if [ -e {home}/second ]; then {READY}; else touch {home}/second; {refusing('already_running', 'x')}; fi"
    )
    launch(places, os.environ)


def test_a_lock_that_is_never_let_go_is_told(
    places: Places, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.cli.start_daemon.START_S", 3.0)
    program(refusing("already_running", "a daemon runs already"))
    with pytest.raises(errors.DaemonUnavailable, match="holds the lock"):
        launch(places, os.environ)
