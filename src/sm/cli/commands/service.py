"""Installs and removes the systemd user service that runs the daemon."""

import os
import subprocess
import sys
from contextlib import suppress

import click

from sm.cli.call import Call, json_option
from sm.cli.group import CommandGroup
from sm.cli.instance import Instance
from sm.cli.stop_daemon import stop
from sm.core.lines import line
from sm.errors import ExternalError, NotPermitted

_UNIT = "sm.service"
_TEXT = """\
# Written by `sm service install`; `sm service remove` deletes it.
[Unit]
Description=sm, a session manager for coding agents

[Service]
Type=exec
ExecStart={command}
{environment}
# Stop only the daemon: the agents and the tmux server keep running.
KillMode=process
# An agent that the kernel ends for lack of memory is in the cgroup of this service. The other agents keep running.
OOMPolicy=continue
# Below the 200 of agents: systemd gives a user service 200 too.
OOMScoreAdjust=100
Restart=on-failure
# Exit code 7: another daemon runs, or the database or the configuration is invalid. A restart would not help.
RestartPreventExitStatus=7

[Install]
WantedBy=default.target
"""
_SYSTEMCTL_S = 90.0
_KEPT = ("PATH", "SM_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")

_SUGGESTIONS = {
    "enable": ("service install",),
    "start": (
        "service install",
        "daemon start",
    ),
    "disable": ("service remove",),
    "uninstall": ("service remove",),
    "stop": (
        "service remove",
        "daemon stop",
    ),
}


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS)
def command() -> None:
    """Run the daemon as a systemd user service.

    The service starts the daemon when you log in, and restarts it after a crash. Without the service, the first
    command that needs the daemon starts it.

    \b
    Examples:
      sm service install
    """


@command.command()
@json_option
def install(call: Call) -> None:
    """Install and start the service.

    The service starts the daemon at each login. To start it with the machine and to keep agents running after a
    logout, also run: loginctl enable-linger

    If systemd cannot be reached, sm only writes the unit file and prints the command that starts the service.

    The JSON is {"file", "started"}.

    \b
    Examples:
      sm service install
    """
    instance = _require_operator()
    path = _unit_path()
    _write(path, _unit(instance))
    started = _systemctl("daemon-reload") is None
    if started:
        stop(instance, everything=False)  # the service could not start a second daemon
        problem = _systemctl("enable", "--now", _UNIT)
        if problem is not None:
            raise ExternalError(
                f"systemctl cannot start {_UNIT}: {problem}", f"systemctl --user status {_UNIT}"
            )
    commands = f"systemctl --user daemon-reload && systemctl --user enable --now {_UNIT}"
    todo = "the service runs" if started else f"systemd cannot be reached; start the service with: {commands}"
    call.show_value({"file": path, "started": started}, lambda _: [f"wrote {line(path, 4096)}; {todo}"])


@command.command()
@json_option
def remove(call: Call) -> None:
    """Stop and remove the service.

    Agents keep running. The next command that needs the daemon starts it again.

    The JSON is {"file", "removed"}.

    \b
    Examples:
      sm service remove
    """
    _require_operator()
    path = _unit_path()
    removed = remove_unit()
    text = f"removed {line(path, 4096)}" if removed else "the service is not installed"
    call.show_value({"file": path, "removed": removed}, lambda _: [text])


def remove_unit() -> bool:
    """Stop and remove the service. Returns False if it is not installed."""
    path = _unit_path()
    if not os.path.lexists(path):
        return False
    _systemctl("disable", "--now", _UNIT)
    with suppress(FileNotFoundError):
        os.unlink(path)
    _systemctl("daemon-reload")
    return True


def unit_of(instance: Instance) -> str | None:
    """The unit file, if it runs the daemon of this instance."""
    path = _unit_path()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return None
    home = instance.environ.get("SM_HOME")
    is_own = f'"SM_HOME={home}"' in text if home else '"SM_HOME=' not in text
    return path if is_own else None


def _require_operator() -> Instance:
    instance = Instance(os.environ)
    if instance.session_id is not None:
        raise NotPermitted("only the operator may change the service")
    return instance


def _unit_path() -> str:
    """systemd.unit(5), User Unit Search Path."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    config = config if config.startswith("/") else os.path.expanduser("~/.config")
    return f"{config}/systemd/user/{_UNIT}"


def _unit(instance: Instance) -> str:
    """The unit for this instance. Its daemon has the PATH of the caller, and finds the same tmux."""
    program = os.path.abspath(sys.argv[0])
    argv = [program] if os.access(program, os.X_OK) else [sys.executable, "-m", "sm.cli"]
    variables = {name: value for name in _KEPT if (value := instance.environ.get(name))}
    return _TEXT.format(
        command=" ".join(_quoted(word.replace("$", "$$")) for word in (*argv, "daemon", "run")),
        environment="\n".join(f"Environment={_quoted(f'{n}={v}')}" for n, v in variables.items()),
    )


def _quoted(word: str) -> str:
    """Quote a word, as in systemd.syntax(7), Quoting, and systemd.unit(5), Specifiers."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = f"{path}.{os.getpid()}"
        with open(new, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise ExternalError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def _systemctl(*arguments: str) -> str | None:
    """Run systemctl for the user's systemd. Returns the reason for a failure, or None if it succeeded."""
    try:
        result = subprocess.run(
            ["systemctl", "--user", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"
