"""`sm doctor` on machines where something is missing."""

import json
import os
from pathlib import Path

import pytest

from sm.cli.commands.doctor import tmux_version
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


ACCEPTED: dict[str, object] = {"skipDangerousModePermissionPrompt": True}


def of_claude(home: Path, *, settings: dict[str, object] = ACCEPTED, **changes: object) -> None:
    """What claude keeps of a person who uses it; a value None leaves the key out."""
    state = {"hasCompletedOnboarding": True, "projects": {"/": {"hasTrustDialogAccepted": True}}} | changes
    kept = {name: value for name, value in state.items() if value is not None}
    (home / ".claude.json").write_text(json.dumps(kept))
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))


@pytest.fixture
def machine(run: Sm, home: Path) -> Sm:
    """A machine whose PATH holds only what a test puts there."""
    tool(home, "tmux", "echo tmux 3.3a")
    tool(home, "sm", "exit 1")
    tool(home, "claude", '[ "$*" = --version ] && echo "2.1.197 (Claude Code)"')
    of_claude(home)
    (home / ".claude" / ".credentials.json").touch(0o000)
    (home / "config.yaml").write_text('claude: {env: {IS_SANDBOX: "1"}}\n')
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
        "claude 2.1.197 at ",
        "claude has been set up",
        "claude has a login",
        f"claude trusts {os.getcwd()}",
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


# ------------------------------------------------------------------------------------------------------- claude


def test_machine_without_claude_is_told_what_to_type_and_works(machine: Sm, home: Path) -> None:
    (home / "bin" / "claude").unlink()
    (line,) = problems(machine("doctor"))
    assert line == (
        "problem  claude is not on your PATH: no agent of type Engineer, Architect, Explore, general-purpose "
        "can start  -> npm install -g @anthropic-ai/claude-code"
    )


def test_claude_is_nobodys_concern_where_no_agent_type_is_one(machine: Sm, home: Path) -> None:
    (home / "bin" / "claude").unlink()
    (home / "config.yaml").write_text("claude: {agent_configs: {}}\n")
    done = machine("doctor")
    assert problems(done) == []
    assert "claude" not in done.out


@pytest.mark.parametrize(
    ("script", "said", "fine"),
    [
        ("echo 2.1.330", "claude 2.1.330 at {}, not the version that sm was measured with (2.1.197)", True),
        ("echo 2.0.99", "claude 2.0.99 at {} is too old, 2.1 is needed", False),
        ("echo hello", "{} --version names no version", False),
        ("exit 1", "{} --version names no version", False),
    ],
)
def test_the_version_of_claude_is_told(machine: Sm, home: Path, script: str, said: str, fine: bool) -> None:
    tool(home, "claude", script)
    done = machine("doctor")
    assert said.format(home / "bin" / "claude") in done.out
    assert bool(problems(done)) is not fine


def test_another_program_is_not_run(machine: Sm, home: Path) -> None:
    tool(home, "npx", 'touch "$HOME/was-run"')
    (home / "config.yaml").write_text('claude: {default_command: [npx, claude], env: {IS_SANDBOX: "1"}}\n')
    assert "whose version is not asked" in machine("doctor").out
    assert not (home / "was-run").exists()


def test_what_claude_asks_at_its_first_start_is_told(machine: Sm, home: Path) -> None:
    of_claude(home, hasCompletedOnboarding=None)
    assert "claude would ask what it asks at its first start  -> claude" in problems(machine("doctor"))[0]
    (home / ".claude.json").write_text("{")
    assert "is not JSON" in problems(machine("doctor"))[0]
    (home / ".claude.json").unlink()
    (line,) = problems(machine("doctor"))
    assert "claude has never been started here" in line


@pytest.mark.parametrize(
    ("configured", "inherited", "missing"),
    [
        ("claude: {env: {CLAUDE_CONFIG_DIR: /none/agents}}", True, "/none/agents/.claude.json"),
        ("claude: {env: {HOME: /none/agents}}", False, "/none/agents/.claude.json"),
        ("", True, "/none/cfg/.claude.json"),
        ("sessions: {inherit_environment_vars: [PATH]}", True, ""),
    ],
)
def test_what_the_claudes_of_agents_look_at_is_looked_at(
    machine: Sm, home: Path, configured: str, inherited: bool, missing: str
) -> None:
    (home / "config.yaml").write_text(configured)
    done = machine("doctor", environ={"CLAUDE_CONFIG_DIR": "/none/cfg"} if inherited else {})
    if missing:
        assert f"there is no {missing}" in done.out
    else:
        assert f"claude has been set up ({home}/.claude.json)" in done.out


def test_directory_that_nobody_trusted_is_told(machine: Sm, home: Path) -> None:
    of_claude(home, projects={"/srv": {"hasTrustDialogAccepted": True}})
    (line,) = problems(machine("doctor"))
    assert line.endswith(f"claude would ask whether to trust {os.getcwd()}  -> sm trust {os.getcwd()}")


@pytest.mark.parametrize(
    ("environ", "settings", "approved", "said", "fine"),
    [
        ({}, {}, [], "claude has no login that sm knows of", False),
        ({"ANTHROPIC_API_KEY": "k" * 30}, {}, ["k" * 20], "claude logs in with ANTHROPIC_API_KEY", True),
        (
            {"ANTHROPIC_API_KEY": "k" * 30}, {}, [],
            "claude would ask whether it may use ANTHROPIC_API_KEY", False,
        ),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t"}, {}, [],
            "claude has no login: ANTHROPIC_AUTH_TOKEN is not handed to agents", False,
        ),
        ({}, {"apiKeyHelper": "x"}, [], "claude logs in with apiKeyHelper", True),
        ({}, {"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}, [], "claude logs in with ANTHROPIC_AUTH_TOKEN", True),
    ],
)  # fmt: skip
def test_login_of_claude_is_looked_for_and_never_read(
    machine: Sm, home: Path, environ: dict[str, str], settings: dict[str, object], approved: list[str],
    said: str, fine: bool,
) -> None:  # fmt: skip
    (home / ".claude" / ".credentials.json").unlink()
    of_claude(home, settings=ACCEPTED | settings, customApiKeyResponses={"approved": approved})
    done = machine("doctor", environ=environ)
    assert said in done.out
    assert bool(problems(done)) is not fine
    assert "kkkk" not in done.out


def test_agents_that_bypass_permissions_are_held_up_unless_that_was_accepted(machine: Sm, home: Path) -> None:
    of_claude(home, settings={})
    (line,) = problems(machine("doctor"))
    assert "claude would ask Engineer, Explore to accept bypassing permissions" in line
    of_claude(home, settings={}, bypassPermissionsModeAccepted=True)
    assert problems(machine("doctor")) == []


def test_bypassing_as_root_is_a_problem(machine: Sm, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only for root")
    (home / "config.yaml").unlink()
    (line,) = problems(machine("doctor"))
    assert "claude refuses to bypass permissions as root, so that Engineer, Explore cannot start" in line


def test_option_that_claude_must_not_get_is_a_problem(machine: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("claude: {agent_configs: {A: {args: [--print]}}}\n")
    (line,) = problems(machine("doctor"))
    assert "A: claude's option --print cannot be used here" in line
