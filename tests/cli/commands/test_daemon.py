"""The real `sm` with the real daemon and real tmux on a private server."""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.client.http import Client
from tests.cli.conftest import Sm
from tests.cli.live import health, spawn, status
from tests.instance import until

# The prompt of an agent is the script that the agent runs.
CONFIG = """
default_trust: direct
tmux: {{socket_name: {socket}}}
commands:
  Sh: {{command: [sh, -c], prompt: argv}}
  Cat: {{command: [cat]}}
"""


@pytest.fixture
def live(run: Sm, home: Path) -> Iterator[Sm]:
    """An instance without a daemon: the first command starts the daemon."""
    socket = f"sm-t-{secrets.token_hex(4)}"
    (home / "config.yaml").write_text(CONFIG.format(socket=socket))
    yield run
    run("daemon", "stop", "--all", code=None)
    subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)
    (Path(f"/tmp/tmux-{os.geteuid()}") / socket).unlink(missing_ok=True)


def output(home: Path, session: str) -> str:
    """The last lines of the terminal of a session, without starting a command."""
    client = Client(str(home / "state/run/sm.sock"))
    return "\n".join(client.get(f"/v1/sessions/{session}/output")["lines"])


def alive(pid: int) -> bool:
    """Return true when the process runs. A zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_first_command_starts_the_daemon_for_later_commands(live: Sm) -> None:
    assert live("daemon", "status", code=7).out == ""
    assert live("all").out == ""
    first = health(live)
    assert live("children").out == ""
    assert health(live)["pid"] == first["pid"]
    assert os.getsid(first["pid"]) != os.getsid(0)
    assert live("daemon", "start").out == f"the daemon is already running, pid {first['pid']}\n"


def test_first_command_prints_config_errors_when_daemon_cannot_start(live: Sm, home: Path) -> None:
    with (home / "config.yaml").open("a") as file:
        file.write("nonsense: 1\nmore_nonsense: 2\n")
    done = live("all", code=2)
    assert "nonsense" in done.err
    assert "more_nonsense" in done.err
    assert live("config", "--check", code=2).err


def test_uninstall_ends_agents_and_removes_state_and_service(live: Sm, home: Path) -> None:
    ended, session = spawn(live, "true"), spawn(live, "sleep 60")
    live("wait", ended, "--until", "ended")
    live("service", "install")
    pid, agent = health(live)["pid"], json.loads(live("status", session, "--json").out)["pid"]
    (home / ".bashrc").write_text('eval "$(sm completion bash)"\n')
    (home / "rules.yaml").write_text("# none\n")
    done = json.loads(live("uninstall", "--kill-agents", "--yes", "--json").out)
    unit = home / ".config/systemd/user/sm.service"
    assert done["removed"] == [str(home / "state"), str(unit)]
    kept = {entry["path"]: entry["command"] for entry in done["kept"]}
    assert kept[str(home / "config.yaml")] == f"rm {home}/config.yaml"
    assert kept[str(home / "rules.yaml")] == f"rm {home}/rules.yaml"
    assert "sm completion" in kept[str(home / ".bashrc")]
    assert not (home / "state").exists() and not unit.exists()
    assert (home / "config.yaml").exists()
    until(lambda: not alive(pid) and not alive(agent), "the daemon and the agent are gone")
    socket = (home / "config.yaml").read_text().partition("socket_name: ")[2].partition("}")[0]
    left = subprocess.run(["tmux", "-L", socket, "ls"], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    assert live("uninstall", "--yes").out == "nothing to remove\n"


def test_child_is_shown_below_its_parent_and_its_parent_is_notified(live: Sm, home: Path) -> None:
    parent = spawn(live, "sm spawn Sh 'sm complete Done' --name child; sm events --follow --since 0")
    until(lambda: "completed: Child" in output(home, parent), "the parent is notified")
    tree = live("children", "--recursive").out.splitlines()
    assert tree[0].startswith(f"sh-{parent} ({parent})")
    assert tree[1].startswith("  └─ sh-child (")
    assert '- "Done"' in live("events", parent).out


def test_daemon_run_stays_in_the_foreground_until_sigterm(live: Sm, home: Path) -> None:
    with live.start("daemon", "run") as process:
        until((home / "state/run/sm.sock").exists, "a daemon serves")
        assert health(live)["pid"] == process.pid
        assert "already running" in live("daemon", "start").out
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


def test_attach_connects_the_terminal_to_the_agent(live: Sm, home: Path) -> None:
    session = json.loads(live("spawn", "Cat", "--json").out)["session_id"]
    argv = live.argv("attach", session)
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, argv, live.environ | {"TERM": "xterm"})
    try:
        os.write(terminal, b"typed by a person\n")
        until(
            lambda: output(home, session).count("typed by a person") == 2,
            "the text is typed and echoed",
        )
    finally:
        os.write(terminal, b"\x02d")
        while True:  # until tmux detaches and closes the other end of the terminal
            try:
                if not os.read(terminal, 65536):
                    break
            except OSError:
                break
        os.close(terminal)
        _, ended = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    assert status(live, session) == "running"


def test_attach_is_refused_inside_tmux_of_another_server(live: Sm) -> None:
    session = json.loads(live("spawn", "Cat", "--json").out)["session_id"]
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        nested = live.environ | {"TERM": "xterm", "TMUX": "/tmp/elsewhere/default,1,0"}
        os.execve(sys.executable, live.argv("attach", session), nested)
    output = b""
    while True:
        try:
            output += os.read(terminal, 65536)
        except OSError:
            break
    os.close(terminal)
    _, ended = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(ended) == 2
    assert b"a different tmux server" in output
    assert b"env -u TMUX tmux" in output
    assert b"nest the terminals (to come back: C-b C-b d)" in output
    assert b"detach first" not in output


def test_attach_inside_tmux_names_the_keys_that_come_back(live: Sm, home: Path) -> None:
    session = json.loads(live("spawn", "Cat", "--json").out)["session_id"]
    socket = (home / "config.yaml").read_text().partition("socket_name: ")[2].partition("}")[0]

    def tmux(*arguments: str) -> str:
        argv = ["tmux", "-L", socket, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=live.environ).stdout

    def when_client_shows(name: str) -> None:
        """Let `tmux wait-for` end when a client has moved to the session."""
        condition = f"#{{==:#{{client_session}},{name}}}"
        tmux("set-hook", "-g", "client-session-changed", f"if-shell -F '{condition}' 'wait-for -S {name}'")

    tmux("set-option", "-g", "prefix", "C-a")
    when_client_shows(f"command-{session}")
    variables = [f"{name}={value}" for name, value in live.environ.items()]
    inside = shlex.join(["env", *variables, *live.argv("attach", session)])
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        argv = ["tmux", "-L", socket, "new-session", "-s", "person", f"{inside}; exec sleep 1000"]
        os.execvpe("tmux", argv, live.environ | {"TERM": "xterm"})
    try:
        tmux("wait-for", f"command-{session}")
        when_client_shows("person")
        assert "to come back, press C-a L" in tmux("capture-pane", "-p", "-t", "=person:")
        os.write(terminal, b"\x01L")
        tmux("wait-for", "person")
    finally:
        tmux("kill-session", "-t", "=person")
        os.close(terminal)
        os.waitpid(pid, 0)
    assert status(live, session) == "running"
