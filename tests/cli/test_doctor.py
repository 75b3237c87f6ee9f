"""`sm doctor` on machines where something is missing."""

import json
from pathlib import Path

import pytest

from sm.cli.doctor import tmux_version
from tests.cli.conftest import Done, Sm
from tests.cli.peer import Peer, answer

HEALTH = {"pid": 1, "uptime_s": 1, "socket": "x", "sessions": 2}


def problems(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if not line.startswith("ok ")]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("tmux 3.3a", (3, 3)),
        ("tmux 2.9", (2, 9)),
        ("tmux next-3.5", (3, 5)),
        ("tmux 3.10", (3, 10)),
        ("tmux master", None),
        ("", None),
    ],
)
def test_the_version_of_tmux_is_read(said: str, version: tuple[int, int] | None) -> None:
    assert tmux_version(said) == version


def tool(home: Path, name: str, script: str) -> None:
    path = home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


@pytest.fixture
def machine(run: Sm, home: Path) -> Sm:
    """A machine whose PATH holds only what a test puts there."""
    tool(home, "tmux", "echo tmux 3.3a")
    tool(home, "sm", "exit 1")
    run.environ["PATH"] = str(home / "bin")
    return run


def test_a_machine_with_everything_has_no_problem(machine: Sm, home: Path) -> None:
    done = machine("doctor")
    assert problems(done) == []
    for part in (
        "Python 3",
        "Linux",
        "tmux 3.3a at ",
        "configuration: ",
        "state directory",
        "socket path",
        "daemon",
    ):
        assert part in done.out
    assert not (home / "state").exists(), "it starts nothing"


@pytest.mark.parametrize(
    ("script", "problem"),
    [("echo tmux 3.1c", "tmux 3.1c is too old, 3.2 is needed"), (None, "tmux is not installed")],
)
def test_a_missing_tmux_comes_with_what_to_type(
    machine: Sm, home: Path, script: str | None, problem: str
) -> None:
    (home / "bin" / "tmux").unlink() if script is None else tool(home, "tmux", script)
    tool(home, "apt-get", "exit 1")
    (line,) = problems(machine("doctor", code=9))
    assert line.startswith(f"problem  {problem}  -> ")
    assert line.endswith("apt-get install tmux")


def test_an_open_state_directory_and_a_long_socket_path_are_problems(machine: Sm, state: Path) -> None:
    state.chmod(0o755)
    done = machine("doctor", code=9, environ={"SM_SOCKET": "/" + "x" * 110})
    found = problems(done)
    assert f"state directory {state} has mode 0755, not 0700  -> chmod 700 {state}" in found[0]
    assert "111 of at most 104 bytes  -> set SM_HOME" in found[1]


def test_a_wrong_configuration_is_a_problem(machine: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("nonsense: 1\n")
    (line,) = problems(machine("doctor", code=9))
    assert "nonsense" in line


def test_a_stopped_daemon_and_a_missing_path_are_told_and_needed_by_nobody(
    machine: Sm, home: Path, state: Path
) -> None:
    (state / "stopped").touch()
    (home / "bin" / "sm").unlink()
    found = problems(machine("doctor"))
    assert "the daemon was stopped  -> sm daemon start" in found[0]
    assert "sm is not on your PATH  -> export PATH=" in found[1]


def test_a_daemon_of_another_version_is_a_problem(machine: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer(HEALTH | {"version": "0.0.1"}))
    (line,) = problems(machine("doctor", code=9))
    assert "the daemon is version 0.0.1" in line
    assert line.endswith("-> sm daemon restart")


def test_a_daemon_of_another_protocol_is_a_problem(machine: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}, protocol="2"))
    assert "-> sm daemon restart" in problems(machine("doctor", code=9))[0]


def test_the_json_has_every_check(machine: Sm, home: Path) -> None:
    (home / "bin" / "tmux").unlink()
    done = json.loads(machine("doctor", "--json", code=9).out)
    assert done["ok"] is False
    assert [check["what"] for check in done["checks"] if not check["ok"]] == ["tmux is not installed"]
    assert {"ok", "what", "todo", "needed"} == set(done["checks"][0])
