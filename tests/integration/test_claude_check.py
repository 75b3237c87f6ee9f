"""`sm check claude` with the real Claude Code."""

import json
import os
import subprocess
from typing import Any

import pytest

from sm.linux.processes import environments
from sm.providers import make_check
from tests import claude_cli
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import Instance, until
from tests.scripted_api import ScriptedApi

api = scripted_api("module")
NAMES = [contract.name for contract in make_check("claude").contracts]
WRAPPER = """\
#!/bin/sh
case $1 in --version) echo 9.9.9;; *) {};; esac
"""


def leftovers(instance: Instance) -> list[str]:
    """The processes and the tmux sockets of checks that ran with this instance's environment."""
    mark = f"TMUX_TMPDIR={instance.tmux_dir}".encode()
    processes = [str(environ) for environ in environments() if mark in environ and b"sm-check-" in environ]
    return processes + [str(path) for path in instance.tmux_dir.glob("tmux-*/sm-check-*")]


def outcomes(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {outcome["name"]: outcome for outcome in json.loads(result.stdout)["outcomes"]}


def test_all_contracts_hold_and_doctor_says_so(instance: Instance) -> None:
    env = {"PATH": f"{claude_cli.directory_on_path(instance.home)}:{instance.env['PATH']}"}
    assert "sm check claude" in instance.run("doctor", env=env).stdout
    result = instance.run("check", "claude", "--json", env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(outcomes(result)) == NAMES
    assert (
        f"claude {claude_cli.version()}: all of {len(NAMES)} contracts held on "
        in instance.run("doctor", env=env).stdout
    )


def test_program_that_does_not_start_breaks_contracts_with_its_words(instance: Instance) -> None:
    program = instance.home / "claude"
    program.write_text(WRAPPER.format("echo 'the disk is upside down' >&2; exit 3"))
    program.chmod(0o755)
    result = instance.run("check", "claude", "--program", str(program), "--contract", "start", "--json")
    assert result.returncode == 9
    start = outcomes(result)["start"]
    assert not start["holds"]
    assert "upside down" in start["evidence"]
    assert not leftovers(instance)


def test_program_that_hangs_is_ended(instance: Instance) -> None:
    program = instance.home / "claude"
    program.write_text(WRAPPER.format("exec sleep 1000"))
    program.chmod(0o755)
    result = instance.run("check", "claude", "--program", str(program), "--contract", "start")
    assert result.returncode == 9
    assert "broken  start: " in result.stdout
    assert "0 of 1 contract hold (" in result.stdout
    assert not leftovers(instance)


def test_program_that_is_too_old_is_not_checked(instance: Instance) -> None:
    program = instance.home / "claude"
    program.write_text("#!/bin/sh\necho 2.0.14\n")
    program.chmod(0o755)
    result = instance.run("check", "claude", "--program", str(program))
    told = f"sm: claude 2.0.14 at {program} is too old: sm needs 2.1 or newer"
    assert (result.returncode, result.stderr.partition("\n")[0]) == (9, told)
    assert not leftovers(instance)


@pytest.mark.claude_core
def test_chosen_contracts_of_the_program_that_a_script_starts_hold_and_nothing_is_left(
    instance: Instance,
) -> None:
    program = instance.home / "claude"
    program.write_text(f'#!/bin/sh\nexec {claude_cli.binary()} "$@"\n')
    program.chmod(0o755)
    chosen = ("--contract", "start", "--contract", "permission")
    result = instance.run("check", "claude", "--program", str(program), *chosen, "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    checked = json.loads(result.stdout)
    assert list(outcomes(result)) == ["start", "permission"]
    assert not (instance.state / "checks").exists()  # only a whole check is kept
    assert checked["program"]["path"] == os.path.realpath(claude_cli.binary())
    assert checked["program"]["version"] == claude_cli.version()
    assert checked["processor_s"] > 0
    assert checked["memory_bytes"] > 50_000_000
    assert not leftovers(instance)


def test_claude_of_an_agent_is_checked_in_the_background(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as claudes:
        claudes.config.write_text(
            claudes.config.read_text().replace("check_new_versions: false", "check_new_versions: true")
        )
        session_id = claudes.spawn("Plain", "hello [[text:hello]]")["session_id"]
        claudes.idle(session_id)
        told = f"claude {claude_cli.version()}: checked on "
        facts = until(
            lambda: [fact for fact in claudes.why(session_id)["facts"] if fact.startswith(told)],
            "it is checked",
        )
        assert "not hold" not in facts[0], facts
        assert "not checked" not in claudes.sm("status")


def test_check_is_for_the_operator(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper")["session_id"]
    result = instance.run("check", "claude", env=instance.as_session(session_id))
    assert (result.returncode, result.stderr.partition("\n")[0]) == (
        5,
        "sm: only the operator may check a program",
    )
