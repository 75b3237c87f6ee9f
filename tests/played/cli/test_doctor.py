"""`sm doctor` on complete and incomplete machines."""

import json
import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from sm.cli.commands.doctor import tmux_version
from sm.errors import UsageError
from sm.providers.checks import CheckRecords
from tests.cli.conftest import Done
from tests.cli.peer import answer
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer
from tests.providers.test_checks import checked

# Entries of agent_configs that remove the shipped agent types.
NO_SHIPPED_TYPES = "Engineer: null, Architect: null, Explore: null, general-purpose: null, Coordinator: null"

HEALTH = {"pid": 1, "uptime_s": 1, "socket": "x", "sessions": 2}
NO_ENGINE = {
    "available": False,
    "problem": "no Docker engine runs: /x.sock does not exist",
    "hint": "start it",
}
SANDBOX = {"engine": NO_ENGINE, "image": None, "image_name": "sm-sandbox"}


NOT_CHECKED = (
    "warning  it is not checked whether sm and this claude understand each other  -> sm check claude"
)


def problems(done: Done) -> list[str]:
    """The lines that are not ok, without the one about a claude that nobody has checked."""
    lines = [line for line in done.out.splitlines() if not line.startswith("ok ")]
    return [line for line in lines if line != NOT_CHECKED]


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("tmux 3.3a", (3, 3)),
        ("tmux 2.9", (2, 9)),
        ("tmux next-3.5", (3, 5)),
        ("tmux 3.10", (3, 10)),
        ("tmux master", None),
        ("", None),
    ],
)
def test_tmux_version_is_parsed(output: str, version: tuple[int, int] | None) -> None:
    assert tmux_version(output) == version


def tool(machine: Sm, name: str, says: str = "", code: int = 0) -> None:
    """Install a program that prints a line, if it does not fail."""
    path = machine.instance.home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.touch(0o700)
    machine.tools.installed[str(path)] = lambda argv: (code, f"{says}\n" if says else "")


ACCEPTED: dict[str, object] = {"skipDangerousModePermissionPrompt": True}


def set_up_claude(home: Path, *, settings: dict[str, object] = ACCEPTED, **changes: object) -> None:
    """Write the files of claude after its first-time setup. The value None removes a key."""
    trusted = {"hasTrustDialogAccepted": True}
    projects = {"/": trusted, str(Path.cwd()): trusted}  # no parent's trust covers a repository
    state = {"hasCompletedOnboarding": True, "projects": projects} | changes
    stored = {name: value for name, value in state.items() if value is not None}
    (home / ".claude.json").write_text(json.dumps(stored))
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))


@pytest.fixture
def machine(run: Sm, home: Path) -> Sm:
    """A machine with played programs as its PATH."""
    tool(run, "tmux", "tmux 3.5a")
    tool(run, "sm", code=1)
    tool(run, "claude", "2.1.197 (Claude Code)")
    set_up_claude(home)
    (home / ".claude" / ".credentials.json").touch(0o000)
    (home / "config.yaml").write_text('claude: {env: {IS_SANDBOX: "1"}}\n')
    run.environ["PATH"] = str(home / "bin")
    return run


def test_doctor_finds_no_problem_on_a_complete_machine(machine: Sm, home: Path) -> None:
    (home / "rules.yaml").write_text('- {"agent_type": "Engineer", "allow": "Bash(npm test)"}\n')
    done = machine("doctor")
    assert problems(done) == []
    for part in (
        "Python 3",
        "Linux",
        "tmux 3.5a at ",
        "configuration: ",
        "rules.yaml (1 rule; see: sm agents)",
        "state directory",
        "socket path",
        "daemon",
        "claude 2.1.197 at ",
        "claude is set up",
        "claude has a login",
        f"claude trusts {os.getcwd()}",
    ):
        assert part in done.out
    assert not (home / "state").exists(), "doctor must not create the state directory"


def test_doctor_says_whether_the_contracts_of_claude_hold(machine: Sm, home: Path, state: Path) -> None:
    assert NOT_CHECKED in machine("doctor").out.splitlines()
    record = checked(home / "bin" / "claude")
    records = CheckRecords(str(state / "checks"))
    records.save("claude", record)
    (line,) = problems(machine("doctor"))
    broken = "warning  claude 1.2.3: 1 of 2 contracts did not hold on 2026-11-29: plan"
    assert line == f"{broken}  -> see what was found: sm check claude"
    records.save("claude", replace(record, outcomes=record.outcomes[1:]))
    shown = machine("doctor").out
    assert "ok       claude 1.2.3: all of 1 contract held on 2026-11-29\n" in shown
    (home / "bin" / "claude").write_text("an update")
    assert NOT_CHECKED in machine("doctor").out.splitlines()


@pytest.mark.parametrize(
    ("says", "problem"),
    [("tmux 3.1c", "tmux 3.1c is too old, sm needs tmux 3.2 or newer"), (None, "tmux is not installed")],
)
def test_doctor_names_the_install_command_when_tmux_is_missing_or_old(
    machine: Sm, home: Path, says: str | None, problem: str
) -> None:
    (home / "bin" / "tmux").unlink() if says is None else tool(machine, "tmux", says)
    tool(machine, "apt-get", code=1)
    (line,) = problems(machine("doctor", code=9))
    assert line.startswith(f"problem  {problem}  -> ")
    assert line.endswith("apt-get install tmux")


@pytest.mark.parametrize(
    ("version", "warns"), [("3.2a", True), ("3.3a", True), ("3.4", False), ("3.10", False)]
)
def test_doctor_warns_of_a_tmux_that_crashes_when_somebody_pastes_into_a_dead_pane(
    machine: Sm, home: Path, version: str, warns: bool
) -> None:
    tool(machine, "tmux", f"tmux {version}")
    lines = [line for line in machine("doctor").out.splitlines() if "crashes with all sessions" in line]
    assert [line.startswith(f"warning  tmux {version} ") for line in lines] == [True] * warns


def test_doctor_names_a_current_directory_that_somebody_deleted(
    machine: Sm, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = UsageError("the current directory no longer exists", "cd")
    monkeypatch.setattr("sm.cli.commands.doctor.current_directory", Mock(side_effect=gone))
    done = machine("doctor")
    assert "the current directory no longer exists" in problems(done)[0]
    assert "claude is set up" in done.out


def test_doctor_reports_state_directory_mode_and_long_socket_path(machine: Sm, state: Path) -> None:
    state.chmod(0o755)
    done = machine("doctor", code=9, environ={"SM_SOCKET": "/" + "x" * 110})
    lines = problems(done)
    assert f"state directory {state} has mode 0755, not 0700  -> chmod 700 {state}" in lines[0]
    assert "111 of at most 104 bytes  -> set SM_HOME" in lines[1]


def test_doctor_reports_a_read_only_database(machine: Sm, state: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("not for root, who may write every file")
    (state / "sm.db").touch(0o400)
    (line,) = problems(machine("doctor", code=9))
    assert line.endswith(f"{state}/sm.db is read-only  -> chmod u+w {state}/sm.db")


def test_doctor_reports_config_errors(machine: Sm, home: Path) -> None:
    (home / "config.yaml").write_text("nonsense: 1\n")
    (line,) = problems(machine("doctor", code=9))
    assert "nonsense" in line


def test_doctor_exits_0_when_daemon_is_stopped_and_sm_is_not_on_path(
    machine: Sm, home: Path, state: Path
) -> None:
    (state / "stopped").touch()
    (home / "bin" / "sm").unlink()
    lines = problems(machine("doctor"))
    assert "daemon: stopped  -> sm daemon start" in lines[0]
    assert "sm is not on your PATH  -> export PATH=" in lines[1]


def test_doctor_reports_daemon_of_another_version(machine: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer(HEALTH | {"version": "0.0.1"}))
    (line,) = problems(machine("doctor", code=9))
    assert "the daemon is version 0.0.1" in line
    assert line.endswith("-> sm daemon restart")


def test_doctor_reports_daemon_of_another_protocol(machine: Sm, peer: Peer) -> None:
    peer.script("GET /v1/health", answer({}, protocol="2"))
    assert "-> sm daemon restart" in problems(machine("doctor", code=9))[0]


def test_doctor_json_contains_every_check(machine: Sm, home: Path) -> None:
    (home / "bin" / "tmux").unlink()
    done = json.loads(machine("doctor", "--json", code=9).out)
    assert done["ok"] is False
    assert [check["what"] for check in done["checks"] if not check["ok"] and check["needed"]] == [
        "tmux is not installed"
    ]
    assert {"ok", "what", "todo", "needed"} == set(done["checks"][0])


# ------------------------------------------------------------------------------------------------------- claude


def test_doctor_exits_0_with_install_command_when_claude_is_missing(machine: Sm, home: Path) -> None:
    (home / "bin" / "claude").unlink()
    (line,) = problems(machine("doctor"))
    assert line == (
        "warning  claude is not installed: there is no claude on your PATH, so direct agents of type Engineer, "
        "Architect, Explore, general-purpose, Coordinator cannot start  "
        "-> npm install -g --prefix ~/.local @anthropic-ai/claude-code, then run claude once in a terminal and log in"
    )


def test_doctor_skips_claude_when_no_agent_type_uses_claude(machine: Sm, home: Path) -> None:
    (home / "bin" / "claude").unlink()
    (home / "config.yaml").write_text(f"claude: {{agent_configs: {{{NO_SHIPPED_TYPES}}}}}\n")
    done = machine("doctor")
    assert problems(done) == []
    assert "claude" not in done.out


@pytest.mark.parametrize(
    ("says", "code", "expected", "fine"),
    [
        ("2.1.330", 0, "claude 2.1.330 at {}", True),
        ("2.0.99", 0, "claude 2.0.99 at {} is too old, sm needs 2.1 or newer  -> claude update", False),
        ("hello", 0, "{} --version prints no version", False),
        ("", 1, "{} --version prints no version", False),
    ],
)
def test_doctor_checks_the_version_of_claude(
    machine: Sm, home: Path, says: str, code: int, expected: str, fine: bool
) -> None:
    tool(machine, "claude", says, code)
    done = machine("doctor")
    assert expected.format(home / "bin" / "claude") in done.out
    assert bool(problems(done)) is not fine


def test_doctor_does_not_run_a_launcher_for_the_claude_version(machine: Sm, home: Path) -> None:
    tool(machine, "npx")
    (home / "config.yaml").write_text('claude: {default_command: [npx, claude], env: {IS_SANDBOX: "1"}}\n')
    assert "sm does not check its version" in machine("doctor").out
    assert str(home / "bin" / "npx") not in [call[0] for call in machine.tools.calls]


def test_doctor_reports_when_claude_was_not_set_up(machine: Sm, home: Path) -> None:
    set_up_claude(home, hasCompletedOnboarding=None)
    (line, *_) = problems(machine("doctor"))
    assert "claude has not finished its first-time setup  -> run claude once in a terminal" in line
    (home / ".claude.json").write_text("{")
    assert "is not JSON" in problems(machine("doctor"))[0]
    (home / ".claude.json").unlink()
    (line,) = problems(machine("doctor"))
    assert "claude has never been started" in line


@pytest.mark.parametrize(
    ("configured", "inherited", "missing"),
    [
        ("claude: {env: {CLAUDE_CONFIG_DIR: /none/agents}}", True, "/none/agents/.claude.json"),
        ("claude: {env: {HOME: /none/agents}}", False, "/none/agents/.claude.json"),
        ("", True, "/none/cfg/.claude.json"),
        ("sessions: {inherit_environment_vars: [PATH]}", True, ""),
    ],
)
def test_doctor_reads_the_claude_directory_that_agents_use(
    machine: Sm, home: Path, configured: str, inherited: bool, missing: str
) -> None:
    (home / "config.yaml").write_text(configured)
    done = machine("doctor", environ={"CLAUDE_CONFIG_DIR": "/none/cfg"} if inherited else {})
    if missing:
        assert f"{missing} does not exist" in done.out
    else:
        assert f"claude is set up ({home}/.claude.json)" in done.out


def test_doctor_reports_untrusted_directory(machine: Sm, home: Path) -> None:
    set_up_claude(home, projects={str(home): {"hasTrustDialogAccepted": True}})
    (line,) = problems(machine("doctor"))
    assert line.endswith(
        f"claude does not trust {os.getcwd()}: agents there would wait at its trust dialog  -> sm trust {os.getcwd()}"
    )


@pytest.mark.parametrize(
    ("environ", "settings", "approved", "expected", "fine"),
    [
        ({}, {}, [], "sm found no login of claude", False),
        ({"ANTHROPIC_API_KEY": "k" * 30}, {}, ["k" * 20], "claude logs in with ANTHROPIC_API_KEY", True),
        (
            {"ANTHROPIC_API_KEY": "k" * 30}, {}, [],
            "claude has not been allowed to use ANTHROPIC_API_KEY", False,
        ),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t"}, {}, [],
            "claude has no login: sm does not pass ANTHROPIC_AUTH_TOKEN to agents", False,
        ),
        ({}, {"apiKeyHelper": "x"}, [], "claude logs in with apiKeyHelper", True),
        ({}, {"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}, [], "claude logs in with ANTHROPIC_AUTH_TOKEN", True),
    ],
)  # fmt: skip
def test_doctor_reports_login_of_claude_without_printing_credentials(
    machine: Sm, home: Path, environ: dict[str, str], settings: dict[str, object], approved: list[str],
    expected: str, fine: bool,
) -> None:  # fmt: skip
    (home / ".claude" / ".credentials.json").unlink()
    set_up_claude(home, settings=ACCEPTED | settings, customApiKeyResponses={"approved": approved})
    done = machine("doctor", environ=environ)
    assert expected in done.out
    assert bool(problems(done)) is not fine
    assert "kkkk" not in done.out


def test_doctor_reports_when_bypassing_permissions_was_not_accepted(machine: Sm, home: Path) -> None:
    set_up_claude(home, settings={})
    (line,) = problems(machine("doctor"))
    assert (
        "claude has not been allowed to bypass permissions: Engineer, Explore would wait for an answer"
        in line
    )
    set_up_claude(home, settings={}, bypassPermissionsModeAccepted=True)
    assert problems(machine("doctor")) == []


@pytest.mark.parametrize(
    ("user", "project", "local", "names"),
    [
        (True, None, None, "{home}/.claude/settings.json"),
        (None, True, None, "{project}/.claude/settings.json"),
        (None, None, True, "{project}/.claude/settings.local.json"),
        (True, True, False, None),
        (True, False, None, None),
        (False, None, None, None),
    ],
)
def test_doctor_names_the_file_that_turns_off_all_hooks_of_claude(
    machine: Sm, home: Path, monkeypatch: pytest.MonkeyPatch,
    user: bool | None, project: bool | None, local: bool | None, names: str | None,
) -> None:  # fmt: skip
    directory = home / "shop"
    (directory / ".claude").mkdir(parents=True)
    monkeypatch.chdir(directory)

    def settings(value: bool | None) -> dict[str, object]:
        return {} if value is None else {"disableAllHooks": value}

    set_up_claude(home, settings=ACCEPTED | settings(user))
    (directory / ".claude" / "settings.json").write_text(json.dumps(settings(project)))
    (directory / ".claude" / "settings.local.json").write_text(json.dumps(settings(local)))
    found = problems(machine("doctor"))
    if names is None:
        assert found == []
    else:
        path = names.format(home=home, project=directory)
        assert f"hooks are turned off in {path} (disableAllHooks): sm cannot answer permissions" in found[0]
        assert found[0].endswith(f"-> remove disableAllHooks from {path}")


def test_doctor_reports_bypassing_permissions_as_root(machine: Sm, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only for root")
    (home / "config.yaml").unlink()
    (line,) = problems(machine("doctor"))
    assert (
        "claude refuses to bypass permissions as root: direct agents of type Engineer, Explore cannot start"
        in line
    )


def test_doctor_reports_forbidden_option_of_claude(machine: Sm, home: Path) -> None:
    (home / "config.yaml").write_text(
        f"claude: {{agent_configs: {{{NO_SHIPPED_TYPES}, A: {{args: [--print]}}}}}}\n"
    )
    (line,) = problems(machine("doctor"))
    assert "A: claude's option --print cannot be used with sm" in line
