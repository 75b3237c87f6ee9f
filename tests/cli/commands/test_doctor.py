"""`sm doctor` with an `sm mcp` that it starts as a process."""

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sm import __version__
from tests.cli.conftest import Sm
from tests.cli.mcp.client import ROUTE, response
from tests.cli.peer import Peer, ReceivedRequest, answer, error
from tests.played.cli.test_doctor import HEALTH, problems, set_up_claude

NO_ENGINE = {
    "available": False,
    "problem": "no Docker engine runs: /x.sock does not exist",
    "hint": "start it",
}
SANDBOX = {"engine": NO_ENGINE, "image": None, "image_name": "sm-sandbox"}


def tool(home: Path, name: str, script: str) -> None:
    path = home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


@pytest.fixture
def machine(run: Sm, home: Path) -> Sm:
    """A machine with scripts as its PATH."""
    tool(home, "tmux", "echo tmux 3.5a")
    tool(home, "sm", "exit 1")
    tool(home, "claude", '[ "$*" = --version ] && echo "2.1.197 (Claude Code)"')
    set_up_claude(home)
    (home / ".claude" / ".credentials.json").touch(0o000)
    (home / "config.yaml").write_text('claude: {env: {IS_SANDBOX: "1"}}\n')
    run.environ["PATH"] = str(home / "bin")
    return run


def test_doctor_reports_items_that_need_an_agreement(machine: Sm, peer: Peer) -> None:
    item = {
        "id": "1",
        "kind": "mcp_server",
        "name": "files",
        "state": "changed",
        "file": "/p/.mcp.json",
        "content": "",
    }
    shown = {"slug": "shop", "items": [item, item | {"state": "agreed"}], "warnings": ["no answer"]}
    peer.script("GET /v1/health", answer(HEALTH | {"version": __version__}))
    peer.script("GET /v1/sandbox", answer(SANDBOX))
    peer.script(ROUTE, answer_tools)
    peer.script("GET /v1/workspaces", answer([{"slug": "shop"}]))
    peer.script("GET /v1/workspaces/shop", answer(shown))
    peer.script("GET /v1/telegram", answer({"configured": False}))
    peer.script("GET /v1/archives", answer({"bytes": None, "max_mb": None, "keep_days": None, "held": 0}))
    files = {"unused": 1, "unused_bytes": 12_000, "unused_hours": 24, "unused_max_mb": 200}
    peer.script("GET /v1/files", answer(files))
    assert problems(machine("doctor")) == [
        "warning  sandboxes: no Docker engine runs: /x.sock does not exist  -> start it",
        "warning  workspace shop: no answer",
        "warning  workspace shop: left out until you agree: MCP server files (changed)  -> sm workspace agree shop",
    ]


def answer_tools(received: ReceivedRequest) -> bytes:
    """The daemon's answers to the messages that doctor sends over `sm mcp`."""
    message = received.json
    results = {
        "initialize": {"protocolVersion": "2025-11-25"},
        "tools/list": {"tools": [{"name": "x"}, {"name": "y"}]},
    }
    return answer(response(message, results[message["method"]]))


def test_doctor_starts_sm_mcp_and_reports_its_time(machine: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer(HEALTH | {"version": __version__}))
    peer.script("GET /v1/sandbox", answer(SANDBOX))
    peer.script("GET /v1/workspaces", answer([]))
    peer.script(ROUTE, answer_tools)
    assert re.search(
        r"ok +MCP: sm mcp answered after \d+ ms, with 2 tools\n", machine("doctor", code=None).out
    )


@pytest.mark.parametrize(
    ("refused", "shown"),
    [
        (error("not_permitted", "MCP is switched off", 403), "ok       MCP: MCP is switched off\n"),
        (
            error("bug", "internal error 1", 500, "sm daemon logs"),
            "warning  MCP: sm mcp: internal error 1  -> sm daemon",
        ),
    ],
)
def test_doctor_reports_why_there_are_no_tools(machine: Sm, peer: Peer, refused: bytes, shown: str) -> None:
    peer.script("GET /v1/health", answer(HEALTH | {"version": __version__}))
    peer.script("GET /v1/sandbox", answer(SANDBOX))
    peer.script("GET /v1/workspaces", answer([]))
    peer.script(ROUTE, refused)
    assert shown in machine("doctor", code=None).out


def test_doctor_reports_a_problem_of_the_daemon_once(machine: Sm, peer: Peer) -> None:
    telegram: dict[str, object] = {"configured": True, "bot": None, "trouble": "the bot is gone"}
    telegram |= {"owners": [], "chats": [], "groups": [], "clock_ahead_s": None}
    peer.script("GET /v1/health", answer(HEALTH | {"version": __version__}))
    peer.script("GET /v1/telegram", answer(telegram))
    trouble = ["the bot is gone", "agents in container shop cannot reach sm"]
    peer.script("GET /v1/status", answer({"trouble": trouble}))
    said = machine("doctor", code=None).out
    assert said.count("the bot is gone") == 1
    assert "warning  the daemon reports: agents in container shop cannot reach sm\n" in said


@contextmanager
def started_by(shell: str) -> Iterator[int]:
    """The pid of a process that a shell has started after these commands."""
    words = ["sh", "-c", f'{shell}; echo ready; exec "$@"', "sh", "sleep", "1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def limit_lines(machine: Sm, peer: Peer, daemon: int, server: int | None) -> list[str]:
    """The warnings of doctor about the limits of a daemon and a tmux server."""
    peer.script("GET /v1/health", answer(HEALTH | {"version": __version__, "pid": daemon}))
    peer.script("GET /v1/status", answer({"terminal_server": server}))
    return [line for line in machine("doctor", code=None).out.splitlines() if "this shell has" in line]


def test_doctor_names_the_command_that_raises_the_limits_of_a_tmux_server(machine: Sm, peer: Peer) -> None:
    most, sudo = resource.getrlimit(resource.RLIMIT_NOFILE)[1], "" if os.geteuid() == 0 else "sudo "
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with started_by(f"ulimit -n 300; ulimit -f 1024; renice {nice + 1} -p $$ >/dev/null") as server:
        (found,) = limit_lines(machine, peer, os.getpid(), server)
    assert found == (
        f"warning  the tmux server (pid {server}) gives agents less than this shell has: at most 524,288 bytes "
        f"in a file in place of no limit; at most 300 open files in place of {most:,}; "
        f"niceness {nice + 1} in place of {nice}  -> {sudo}prlimit --pid {server} "
        f"--fsize=:unlimited --nofile=:{most} && {sudo}renice {nice} -p {server}"
    )


def test_doctor_names_the_command_that_raises_the_limits_of_the_daemon(machine: Sm, peer: Peer) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with started_by("ulimit -n 300") as daemon:
        (found,) = limit_lines(machine, peer, daemon, None)
    assert found == (
        f"warning  the daemon (pid {daemon}) gives a tmux server less than this shell has: at most 300 open files "
        f"in place of {most:,}  -> sm daemon restart"
    )


def test_doctor_does_not_warn_of_soft_limits(machine: Sm, peer: Peer) -> None:
    with started_by("ulimit -S -n 300; ulimit -S -f 1024") as server:
        assert limit_lines(machine, peer, os.getpid(), server) == []


def test_doctor_does_not_warn_of_higher_hard_limits_and_of_a_lower_niceness(
    machine: Sm, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = machine.argv
    low = (str(shutil.which("nice")), "-n", "1", "/bin/sh", "-c", 'ulimit -n 300; exec "$@"', "sh")
    monkeypatch.setattr(machine, "argv", lambda *arguments: [*low, *argv(*arguments)])
    assert limit_lines(machine, peer, os.getpid(), os.getpid()) == []
