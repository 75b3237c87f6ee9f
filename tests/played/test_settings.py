"""Keys of the configuration that change how sm starts and ends agents. A script stands in for claude.

`tests/config/test_key_effects.py` names the test of each key of seed 003.
"""

from pathlib import Path

from tests.instance import Instance, until
from tests.integration.ended_agents import gone
from tests.integration.played_claude import BOX, Stage

CONFIG = """
default_trust: direct
tmux: {socket_name: test}
commands:
  Sh: {command: [sh, -c]}
"""
RECORDER = '#!/bin/sh\nprintf "%s\\n" "$@" > arguments.txt\nexec sleep 1000\n'
SHOW = "env > shown.tmp; mv shown.tmp shown.txt; exec sleep 1000"


def configured(more: str) -> Instance:
    return Instance(config=CONFIG + more)


def test_spawn_needs_a_working_directory_when_the_behavior_is_specify() -> None:
    with configured("sessions: {default_working_dir_behavior: specify}\n") as instance:
        error = instance.refused("spawn", "Sh", "exec sleep 1000", exit_code=2)
        assert "no working directory given (sessions.default_working_dir_behavior is specify)" in error
        assert "--working-dir" in error
        below = instance.work / "below"
        below.mkdir()
        parent = instance.spawn("Sh", "exec sleep 1000", "--working-dir", str(below))
        assert parent["working_dir"] == str(below)
        of_child = ("spawn", "Sh", "exec sleep 1000", "--parent", parent["session_id"])
        instance.refused(*of_child, exit_code=2)
        assert instance.spawn(*of_child[1:], "--working-dir", str(below))["working_dir"] == str(below)


def test_session_works_in_the_directory_of_its_caller_when_the_behavior_is_inherit() -> None:
    with configured("sessions: {default_working_dir_behavior: inherit}\n") as instance:
        parent = instance.spawn("Sh", "exec sleep 1000")
        assert parent["working_dir"] == str(instance.work)
        child = instance.spawn("Sh", "exec sleep 1000", "--parent", parent["session_id"], cwd=instance.home)
        assert child["working_dir"] == str(instance.work)


def test_names_follow_the_patterns_of_the_configuration() -> None:
    naming = (
        'sessions: {naming: {pattern: "{friendly_name}.{agent_type}", fallback: "{short_id}_{agent_type}"}}\n'
    )
    with configured(naming) as instance:
        session = instance.spawn("Sh", "exec sleep 1000", "--name", "Task1042")
        assert session["friendly_name"] == "task1042.sh"
        assert session["name"] == f"{session['session_id']}_sh"
        assert instance.spawn("Sh", "exec sleep 1000")["friendly_name"] is None


def test_agent_gets_the_variables_of_the_configured_list() -> None:
    with configured("sessions: {inherit_environment_vars: [PATH, TICKET]}\n") as instance:
        instance.spawn("Sh", SHOW, env={"TICKET": "1042", "SSH_AUTH_SOCK": "/tmp/agent", "OTHER": "x"})
        shown = instance.work / "shown.txt"
        until(shown.exists, "the agent wrote its environment")
        names = {line.partition("=")[0] for line in shown.read_text().splitlines()}
        assert "TICKET=1042" in shown.read_text().splitlines()
        assert not names & {"SSH_AUTH_SOCK", "OTHER"}


def recorded(instance: Instance, agent_type: str, *options: str) -> list[str]:
    """Spawn an agent, and return the first arguments of its program, until those that sm adds."""
    path = instance.work / "arguments.txt"
    path.unlink(missing_ok=True)
    instance.spawn(agent_type, "x", *options)
    lines = until(
        lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(), "it started"
    )
    words = lines.splitlines()
    return words[: words.index("--session-id")]


def test_command_line_of_claude_follows_the_configuration(tmp_path: Path) -> None:
    program = tmp_path / "stand-in"
    program.write_text(RECORDER)
    program.chmod(0o755)
    section = f"""
claude:
  default_command: [{program}, --verbose]
  default_args: [--effort, high]
  agent_configs:
    Reviewer: {{model: opus, args: [--permission-mode, plan]}}
  presets:
    quick-fix: {{model: haiku, args: [--permission-mode, acceptEdits]}}
"""
    common = ["--verbose", "--model"]
    with configured(section) as instance:
        of_type = [*common, "opus", "--effort", "high", "--permission-mode", "plan"]
        assert recorded(instance, "Reviewer") == of_type
        of_preset = [*common, "haiku", *of_type[3:], "--permission-mode", "acceptEdits"]
        assert recorded(instance, "Reviewer", "--preset", "quick-fix") == of_preset


def test_mode_of_the_configuration_decides_when_nothing_else_does() -> None:
    with configured("child_agents: {mode: manual}\n") as instance:
        session = instance.spawn("Sh", "exec sleep 1000")
        assert (session["mode"], session["mode_source"]) == ("manual", "child_agents.mode")


AUTO_KILL = """
child_agents:
  auto_complete: {completion_quiet_s: 0.1}
  cleanup: {auto_kill_on_complete: true, close_tmux_session: true}
daemon: {ignore_evidence: [screen, title]}
"""


def test_cleanup_applies_to_a_completion_that_sm_detects() -> None:
    with Stage(AUTO_KILL, BOX) as stage:
        agent = stage.agent()
        pid = stage.session(agent.id)["pid"]
        agent.send_event("UserPromptSubmit", prompt="go on", prompt_id="p1")
        agent.send_event("Stop", last_assistant_message="Done. All 26 tests pass.")
        until(lambda: gone(pid), "its process is ended")
        assert stage.ended(agent.id)["status"] == "completed"
        until((stage.state / "archives" / agent.id / "terminal.txt").exists, "its output is archived")
        terminals = ("list-sessions", "-F", "#{session_name}")
        until(lambda: f"claude-{agent.id}" not in stage.tmux(*terminals), "its terminal is closed")
