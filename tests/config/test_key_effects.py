"""The test of the effect of each key in the configuration of seed 003. The other tests here only parse keys."""

import ast
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[1]
SPECIFIED = """
claude:
  default_command: "claude"
  default_args: ["--bypass-permissions"]
  agent_configs: {Engineer: {model: "sonnet", args: ["--bypass-permissions"]}}
  presets: {quick-fix: {model: "sonnet", args: ["--bypass-permissions", "--compact"]}}
child_agents:
  mode: "auto"
  auto_complete:
    enabled: true
    idle_timeout: 600
    detect_completion_phrases: true
    completion_patterns: ["complete", "done", "finished", "all tests pass"]
    require_parent_approval: true
  cleanup:
    auto_kill_on_complete: false
    auto_archive_transcript: true
    archive_path: "/tmp/claude-sessions/archives"
    close_tmux_session: false
  notifications:
    notify_parent_on_complete: true
    notify_parent_on_error: true
    notify_parent_on_idle: true
    notify_parent_on_checkpoint: false
  progress:
    enable_token_tracking: true
    enable_tool_tracking: true
    snapshot_interval: 30
sessions:
  default_working_dir_behavior: "inherit"
  inherit_environment_vars: ["SSH_AUTH_SOCK", "PATH"]
  naming:
    pattern: "{agent_type}-{friendly_name}"
    fallback: "{agent_type}-{short_id}"
"""
"""The configuration of seed 003, with every key of the specification."""

COMMAND_LINE = "played/test_settings.py::test_command_line_of_claude_follows_the_configuration"
COMPLETIONS = "capabilities/completion/test_completions.py::"
CLEANUP = "played/test_cleanup.py::"
PARENT = "state/test_notices.py::test_parent_is_told_of_"
USAGE = "monitor/test_usage.py::test_disabled_tracking_still_reads_the_transcript"
EFFECTS = {
    "claude.default_command": COMMAND_LINE,
    "claude.default_args": COMMAND_LINE,
    "claude.agent_configs.Engineer.model": COMMAND_LINE,
    "claude.agent_configs.Engineer.args": COMMAND_LINE,
    "claude.presets.quick-fix.model": COMMAND_LINE,
    "claude.presets.quick-fix.args": COMMAND_LINE,
    "child_agents.mode": "played/test_settings.py::test_mode_of_the_configuration_decides_when_nothing_else_does",
    "child_agents.auto_complete.enabled": (
        f"{COMPLETIONS}test_disabled_detection_reports_only_that_the_session_is_idle"
    ),
    "child_agents.auto_complete.idle_timeout": (
        f"{COMPLETIONS}test_idle_timeout_is_the_time_until_the_report"
    ),
    "child_agents.auto_complete.detect_completion_phrases": (
        f"{COMPLETIONS}test_messages_are_read_only_if_completion_phrases_are_detected"
    ),
    "child_agents.auto_complete.completion_patterns": (
        f"{COMPLETIONS}test_completion_pattern_completes_a_session_that_used_tools"
    ),
    "child_agents.auto_complete.require_parent_approval": (
        f"{COMPLETIONS}test_required_approval_makes_a_proposal_in_mode_auto"
    ),
    "child_agents.cleanup.auto_kill_on_complete": (
        "integration/test_cleanup.py::test_completed_session_is_killed_with_its_descendants_when_configured"
    ),
    "child_agents.cleanup.auto_archive_transcript": (
        f"{CLEANUP}test_output_is_not_archived_when_archiving_is_off"
    ),
    "child_agents.cleanup.archive_path": (f"{CLEANUP}test_output_is_archived_in_the_configured_directory"),
    "child_agents.cleanup.close_tmux_session": (
        f"{CLEANUP}test_terminal_is_closed_after_archiving_when_configured"
    ),
    "child_agents.notifications.notify_parent_on_complete": f"{PARENT}a_change_unless_its_setting_is_off",
    "child_agents.notifications.notify_parent_on_error": f"{PARENT}a_change_unless_its_setting_is_off",
    "child_agents.notifications.notify_parent_on_idle": f"{PARENT}a_change_unless_its_setting_is_off",
    "child_agents.notifications.notify_parent_on_checkpoint": (
        f"{PARENT}checkpoints_only_if_the_setting_is_on"
    ),
    "child_agents.progress.enable_token_tracking": USAGE,
    "child_agents.progress.enable_tool_tracking": USAGE,
    "child_agents.progress.snapshot_interval": (
        "integration/test_progress_views.py::"
        "test_change_that_the_system_does_not_report_is_found_after_the_snapshot_interval"
    ),
    "sessions.default_working_dir_behavior": (
        "played/test_settings.py::test_spawn_needs_a_working_directory_when_the_behavior_is_specify"
    ),
    "sessions.inherit_environment_vars": (
        "played/test_settings.py::test_agent_gets_the_variables_of_the_configured_list"
    ),
    "sessions.naming.pattern": (
        "played/test_settings.py::test_names_follow_the_patterns_of_the_configuration"
    ),
    "sessions.naming.fallback": (
        "played/test_settings.py::test_names_follow_the_patterns_of_the_configuration"
    ),
}
"""The test that fails if a key has no effect."""


def keys(section: object, prefix: str = "") -> list[str]:
    if not isinstance(section, dict):
        return [prefix]
    return [key for name, value in section.items() for key in keys(value, f"{prefix}.{name}".lstrip("."))]


def test_every_key_of_the_specification_has_a_test_of_its_effect() -> None:
    assert sorted(EFFECTS) == sorted(keys(yaml.safe_load(SPECIFIED)))


@pytest.mark.parametrize("test", sorted(set(EFFECTS.values())))
def test_test_of_an_effect_exists(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}
