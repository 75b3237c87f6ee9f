"""`sm provider` with kept programs that stand in for claude."""

import os
from pathlib import Path

from sm.providers.checks import CheckRecord, CheckRecords, Outcome, identify
from tests.instance import Instance, until

PROGRAM = """\
#!/bin/sh
case $1 in --version) echo {}; exit;; --help) exit;; esac
exec sleep 1000
"""


def keep(instance: Instance, version: str, *, holds: bool = True) -> Path:
    """Make a kept version with the outcome of its check."""
    package = instance.state / "programs" / "claude" / version / "node_modules"
    program = package / "@anthropic-ai" / "claude-code" / "bin" / "claude"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(version))
    program.chmod(0o755)
    (package / ".bin").mkdir()
    (package / ".bin" / "claude").symlink_to(program)
    outcome = Outcome("plan", "A plan is carried out.", holds, "seen", 1.0)
    record = CheckRecord(identify(str(program)), "2026-11-29T09:00:00+00:00", 1.0, (outcome,))
    CheckRecords(str(instance.state / "checks")).save("claude", record)
    return program


def test_new_agents_start_the_version_in_use(instance: Instance) -> None:
    program = keep(instance, "2.1.331")
    assert instance.sm("provider", "use", "claude", "2.1.331") == "New agents use claude 2.1.331\n"
    session = instance.spawn("general-purpose", "--skip-checks")
    environ = Path(f"/proc/{session['pid']}/environ")
    until(lambda: b"DISABLE_AUTOUPDATER=1" in environ.read_bytes().split(b"\0"), "the launcher starts it")
    used = [entry for entry in instance.json("provider", "ls") if entry["used"]]
    assert [(entry["version"], entry["kept"], entry["broken"]) for entry in used] == [("2.1.331", True, [])]
    assert "checked on 2026-11-29: all contracts hold" in instance.sm("provider", "ls")
    shown = instance.run("doctor").stdout
    assert f"claude 2.1.331 at {instance.state}/bin/claude" in shown
    assert "claude 2.1.331: all of 1 contract held on 2026-11-29" in shown
    assert str(program) in (instance.state / "bin" / "claude").read_text()


def test_version_with_a_broken_contract_is_used_only_by_order(instance: Instance) -> None:
    keep(instance, "2.1.332", holds=False)
    error = instance.refused("provider", "use", "claude", "2.1.332", exit_code=9)
    assert "claude 2.1.332 breaks plan: new agents go on with their version" in error
    assert not (instance.state / "bin" / "claude").exists()
    assert instance.json("provider", "use", "claude", "2.1.332", "--anyway") == {
        "name": "claude",
        "version": "2.1.332",
        "broken": ["plan"],
    }
    error = instance.refused("provider", "rm", "claude", "2.1.332", exit_code=2)
    assert "hint: sm provider use claude installed" in error
    assert "PATH" in instance.sm("provider", "use", "claude", "installed")
    assert instance.sm("provider", "rm", "claude", "2.1.332") == "Removed claude 2.1.332\n"
    assert os.listdir(instance.state / "programs" / "claude") == []


def test_configured_program_goes_before_a_kept_version(instance: Instance) -> None:
    keep(instance, "2.1.331")
    instance.config.write_text(instance.config.read_text() + "claude: {default_command: /opt/claude}\n")
    error = instance.refused("provider", "use", "claude", "2.1.331", exit_code=4)
    assert "hint: remove claude.default_command: sm config edit" in error


def test_sessions_may_not_choose_a_version(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper")["session_id"]
    for command in (("use", "claude", "2.1.331"), ("update", "claude"), ("rm", "claude", "2.1.331")):
        error = instance.refused("provider", *command, exit_code=5, env=instance.as_session(session_id))
        assert "only the operator may choose" in error
