"""Keys of the configuration that change how sm starts and ends agents. A program stands in for claude.

`tests/config/test_key_effects.py` names the test of each key of seed 003.
"""

from tests.archived import Archived
from tests.sim.stage import BOX, Instance, Stage, stand_in, until

CONFIG = """
default_trust: direct
commands:
  Sh: {command: [sh, -c]}
"""


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
        env = {"TICKET": "1042", "SSH_AUTH_SOCK": "/tmp/agent", "OTHER": "x"}
        session = instance.spawn("Sh", "exec sleep 1000", env=env)
        environ = instance.world.programs.running[session["session_id"]].environ
        assert environ["TICKET"] == "1042"
        assert not environ.keys() & {"SSH_AUTH_SOCK", "OTHER"}


def arguments(instance: Instance, agent_type: str, *options: str) -> list[str]:
    """Spawn an agent, and return the first arguments of its program, until those that sm adds."""
    session = instance.spawn(agent_type, "x", *options)
    words = list(instance.world.programs.running[session["session_id"]].argv[1:])
    return words[: words.index("--session-id")]


def test_command_line_of_claude_follows_the_configuration() -> None:
    section = """
claude:
  default_command: [/usr/bin/stand-in, --verbose]
  default_args: [--effort, high]
  agent_configs:
    Reviewer: {model: opus, args: [--permission-mode, plan]}
  presets:
    quick-fix: {model: haiku, args: [--permission-mode, acceptEdits]}
"""
    common = ["--verbose", "--model"]
    with configured(section) as instance:
        instance.world.programs.installed["stand-in"] = stand_in
        of_type = [*common, "opus", "--effort", "high", "--permission-mode", "plan"]
        assert arguments(instance, "Reviewer") == of_type
        of_preset = [*common, "haiku", *of_type[3:], "--permission-mode", "acceptEdits"]
        assert arguments(instance, "Reviewer", "--preset", "quick-fix") == of_preset


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
        until(lambda: not stage.lives(pid), "its process is ended")
        assert stage.ended(agent.id)["status"] == "completed"
        until(Archived(stage.state / "archives" / agent.id).exists, "its output is archived")
        until(lambda: not stage.has_terminal(f"claude-{agent.id}"), "its terminal is closed")
