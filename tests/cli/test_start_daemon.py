"""Start of the daemon by a command, with a scripted program as the daemon."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sm import errors
from sm.cli.start_daemon import environment, launch
from sm.paths import InstancePaths
from tests.waits import until

pytestmark = pytest.mark.processes

Program = Callable[[str], None]


@pytest.fixture
def paths(home: Path) -> InstancePaths:
    return InstancePaths(f"{home}/config.yaml", f"{home}/state")


@pytest.fixture
def program(home: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Replace the interpreter that runs the daemon with a shell script."""

    def put(script: str) -> None:
        path = home / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


READY = """echo '{"ready": true}' >&3"""


def refusing(code: str, message: str, hint: str | None = None) -> str:
    return f"echo '{json.dumps({'error': {'code': code, 'message': message, 'hint': hint}})}' >&3"


def test_launch_returns_when_the_daemon_is_ready(paths: InstancePaths, program: Program, home: Path) -> None:
    program(f'echo "$@" >{home}/argv; {READY}')
    launch(paths, os.environ)
    assert (home / "argv").read_text() == "-m sm.daemon --ready-fd 3\n"


def test_launched_daemon_is_detached_from_its_caller(
    paths: InstancePaths, program: Program, home: Path
) -> None:
    leaked = os.open(home, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    commands = [
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
        program(f"( {'; echo ===; '.join(commands)} ) >{home}/seen 2>&1; {READY}")
        launch(paths, secret)
    finally:
        signal.signal(signal.SIGHUP, before)
        os.close(leaked)
    fds, cwd, stat, signals, environ = (home / "seen").read_text().split("===\n")
    opened = dict(line.split(" -> ") for line in fds.splitlines() if " -> " in line)
    assert opened["0"] == "/dev/null"
    assert str(home) not in opened.values(), "the daemon inherited a descriptor of its caller"
    assert cwd == "/\n"
    pid, *_ = stat.split()
    fields = stat.rpartition(")")[2].split()
    session, tty = fields[3], fields[4]
    assert session not in (str(os.getsid(0)), pid), (
        "a process that does not lead its session can never get a terminal"
    )
    assert tty == "0"
    assert [line.split()[1] for line in signals.splitlines()] == ["0" * 16, "0" * 16]
    names = {line.partition("=")[0] for line in environ.splitlines()} - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names == {"PATH", "LC_TIME", "DOCKER_HOST", "SM_HOME"}


LAUNCH = f"""
import os, resource, sys
sys.path[:0] = {sys.path!r}
from sm.cli.start_daemon import launch
from sm.paths import InstancePaths
resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
sys.executable, home = sys.argv[1:]
launch(InstancePaths(home + "/config.yaml", home + "/state"), os.environ)
"""


def test_launch_starts_the_daemon_when_the_limit_of_open_files_is_low(program: Program, home: Path) -> None:
    program(READY)
    command = [sys.orig_argv[0], "-c", LAUNCH, sys.executable, str(home)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_environment_passes_only_documented_variables_to_the_daemon() -> None:
    named = "HOME USER LOGNAME SHELL PATH LANG LC_ALL TZ SM_HOME XDG_STATE_HOME TMUX_TMPDIR DOCKER_HOST HTTPS_PROXY"
    named += " NO_PROXY"
    others = "SM_SESSION_ID SM_SOCKET ANTHROPIC_API_KEY PYTHONPATH LD_PRELOAD TMUX SSH_AUTH_SOCK TERM"
    kept = environment(dict.fromkeys(f"{named} {others}".split(), "x"))
    assert set(kept) == set(named.split())


def test_launch_raises_the_full_error_of_the_daemon(paths: InstancePaths, program: Program) -> None:
    program(
        refusing(
            "config", "config.yaml has 2 errors:\\n3:1 unknown key a\\n4:1 unknown key b", "sm config --check"
        )
    )
    with pytest.raises(errors.ConfigError) as raised:
        launch(paths, os.environ)
    assert raised.value.message.splitlines()[1:] == ["3:1 unknown key a", "4:1 unknown key b"]
    assert raised.value.hint == "sm config --check"


def test_launch_error_contains_last_stderr_lines_when_daemon_dies(
    paths: InstancePaths, program: Program
) -> None:
    program("echo old >&2; exec 3>&-")
    with pytest.raises(errors.DaemonUnavailable):
        launch(paths, os.environ)
    program("seq 100 >&2; echo boom >&2; exit 3")
    with pytest.raises(errors.DaemonUnavailable) as raised:
        launch(paths, os.environ)
    lines = raised.value.message.splitlines()
    assert lines[0] == "the daemon exited during its start:"
    assert lines[-1] == "boom"
    assert "old" not in lines
    assert len(lines) == 21
    assert Path(paths.log, "daemon.err").stat().st_mode & 0o777 == 0o600
    assert Path(paths.state).stat().st_mode & 0o777 == 0o700


def test_launch_fails_when_interpreter_is_missing(
    paths: InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(errors.DaemonUnavailable, match="No such file"):
        launch(paths, os.environ)


@pytest.mark.parametrize("script", ["echo nonsense >&3", "echo 5 >&3", "echo {} >&3"])
def test_launch_fails_when_readiness_message_is_invalid(
    paths: InstancePaths, program: Program, script: str
) -> None:
    program(script)
    with pytest.raises(errors.DaemonUnavailable):
        launch(paths, os.environ)


def test_launch_times_out_when_daemon_is_never_ready(
    paths: InstancePaths, program: Program, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.cli.start_daemon.START_S", 0.2)
    program(f"echo $$ >{home}/pid; exec sleep 60")
    with pytest.raises(errors.DaemonUnavailable, match="not ready within"):
        launch(paths, os.environ)
    pid = until(lambda: (home / "pid").read_text().strip(), "the program is started")
    os.kill(int(pid), signal.SIGKILL)


def test_launch_fails_when_state_directory_cannot_be_created(home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(errors.DaemonUnavailable, match=f"{home}/file"):
        launch(InstancePaths(f"{home}/config.yaml", f"{home}/file/state"), os.environ)


def test_launch_retries_when_lock_is_released(paths: InstancePaths, program: Program, home: Path) -> None:
    program(
        f"if [ -e {home}/second ]; then {READY}; else touch {home}/second; {refusing('already_running', 'x')}; fi"
    )
    launch(paths, os.environ)


def test_launch_fails_when_lock_is_never_released(
    paths: InstancePaths, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.cli.start_daemon.START_S", 3.0)
    program(refusing("already_running", "a daemon runs already"))
    with pytest.raises(errors.DaemonUnavailable, match="holds the lock"):
        launch(paths, os.environ)
