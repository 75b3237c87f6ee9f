"""Configuration: accepted and refused files, warnings, and the example file."""

import os
import stat
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sm.capabilities.completion.settings import CompletionKeys
from sm.config import (
    AgentConfig,
    Command,
    Config,
    LoadedConfig,
    ModelArgs,
    ModelPrices,
    example,
    load,
    sandbox_settings,
)
from sm.config.example import descriptions
from sm.config.loading import MAX_BYTES, MISTAKES_MAX
from sm.core.states import TrustLevel
from sm.errors import ConfigError, UsageError
from sm.providers.claude.section import BRIEFING_MAX_BYTES, ClaudeSection, read_briefing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def loaded(path: Path, text: str) -> LoadedConfig:
    path.write_text(text)
    return load(str(path))


def mistakes(path: Path, text: str) -> list[str]:
    """The lines of the error, without the leading path."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    lines = caught.value.message.splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


# ---------------------------------------------------------------------------------------------------- accepted


def test_shipped_defaults_are_as_documented() -> None:
    config = Config()
    assert config.default_trust is TrustLevel.SANDBOXED
    assert config.tmux.model_dump() == {
        "socket_name": None,
        "history_limit": 50000,
        "width": 200,
        "height": 50,
    }
    assert config.commands == {}
    assert config.child_agents.model_dump() == {
        "mode": "auto",
        "auto_complete": {
            "enabled": True,
            "detect_completion_phrases": True,
            "completion_patterns": (),
            "completion_quiet_s": 10,
            "idle_timeout": 600,
            "remind_after_s": (),
            "require_parent_approval": False,
        },
        "on_parent_end": "adopt",
        "cleanup": {
            "auto_kill_on_complete": False,
            "auto_archive_transcript": True,
            "archive_path": None,
            "close_tmux_session": False,
            "reap_completed_after": None,
            "keep_terminals": {"last": 50, "hours": 24},
        },
        "notifications": {
            "notify_parent_on_complete": True,
            "notify_parent_on_error": True,
            "notify_parent_on_idle": True,
            "notify_parent_on_checkpoint": False,
        },
        "progress": {"enable_token_tracking": True, "enable_tool_tracking": True, "snapshot_interval": 30},
        "allow_args": False,
    }
    assert config.notify.model_dump() == {
        "turn_ended": True,
        "command": None,
        "webhooks": (),
        "digest_at": None,
    }
    assert config.sessions.default_working_dir_behavior == "inherit"
    assert config.sessions.inherit_environment_vars == (
        "SSH_AUTH_SOCK",
        "PATH",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CONFIG_DIR",
        "OPENAI_API_KEY",
        "HTTPS_PROXY",
        "NO_PROXY",
    )
    assert config.sessions.naming.pattern == "{agent_type}-{friendly_name}"
    assert config.sessions.naming.fallback == "{agent_type}-{short_id}"
    assert config.daemon.log_level == "info"


def test_default_agent_types_and_presets_use_existing_claude_options() -> None:
    claude = Config().section(ClaudeSection)
    assert claude.default_command == ("claude",)
    assert claude.default_args == ()
    assert (claude.prompt_via, claude.env, claude.briefing) == ("argument", {}, None)
    bypass, plan = ("--permission-mode", "bypassPermissions"), ("--permission-mode", "plan")
    assert {name: (agent.model, agent.args) for name, agent in claude.agent_configs.items()} == {
        "Engineer": ("sonnet", bypass),
        "Architect": ("opus", plan),
        "Explore": ("haiku", bypass),
        "general-purpose": ("sonnet", ()),
        "Coordinator": ("opus", ()),
    }
    assert {name: (preset.model, preset.args) for name, preset in claude.presets.items()} == {
        "quick-fix": ("sonnet", bypass),
        "deep-analysis": ("opus", plan),
    }
    assert claude.what.model_dump() == {"enabled": False, "model": "haiku", "timeout_s": 60}
    assert claude.prices == {}


def test_config_loads_the_configuration_of_the_specification(path: Path) -> None:
    claude = loaded(
        path,
        """
claude:
  default_command: "claude"
  default_args:
    - "--bypass-permissions"
  agent_configs:
    Engineer: {model: "sonnet", args: ["--bypass-permissions"]}
    general-purpose: {model: "sonnet", args: []}
  presets:
    quick-fix: {model: "sonnet", args: ["--bypass-permissions", "--compact"]}
child_agents:
  progress: {enable_token_tracking: true, enable_tool_tracking: true, snapshot_interval: 30}
""",
    ).config.section(ClaudeSection)
    assert claude.default_command == ("claude",)
    assert claude.default_args == ("--bypass-permissions",)
    assert list(claude.agent_configs) == [
        "Engineer",
        "Architect",
        "Explore",
        "general-purpose",
        "Coordinator",
    ]
    assert claude.agent_configs["Engineer"].args == ("--bypass-permissions",)
    assert claude.presets == ClaudeSection().presets | {
        "quick-fix": ModelArgs(model="sonnet", args=("--bypass-permissions", "--compact"))
    }


def test_map_merges_with_the_default_entries_key_by_key(path: Path) -> None:
    claude = loaded(
        path,
        """
claude:
  agent_configs:
    engineer: {auto_allow: [Read]}
    Explore: null
    Mine: {model: opus}
    Empty:
  presets: {quick-fix: , new: {model: haiku}}
""",
    ).config.section(ClaudeSection)
    default = ClaudeSection()
    assert claude.agent_configs == {
        "engineer": default.agent_configs["Engineer"].model_copy(update={"auto_allow": ("Read",)}),
        "Architect": default.agent_configs["Architect"],
        "general-purpose": default.agent_configs["general-purpose"],
        "Coordinator": default.agent_configs["Coordinator"],
        "Mine": AgentConfig(model="opus"),
        "Empty": AgentConfig(),
    }
    assert claude.presets == {
        "deep-analysis": default.presets["deep-analysis"],
        "new": ModelArgs(model="haiku"),
    }


@pytest.mark.parametrize("nothing", ["", "{}", "null"])
def test_map_without_entries_keeps_the_default_entries(path: Path, nothing: str) -> None:
    claude = loaded(path, f"claude:\n  agent_configs: {nothing}\n").config.section(ClaudeSection)
    assert claude == ClaudeSection()


def test_mistake_in_an_entry_that_overrides_a_default_has_its_own_place(path: Path) -> None:
    assert mistakes(path, "claude: {agent_configs: {explore: {model: 5}, Engineer: 7}}") == [
        "1:43: claude.agent_configs.explore.model: must be text, not 5: put it in quotes",
        "1:57: claude.agent_configs.Engineer: must be a mapping of keys to values, `key: value`",
    ]


def test_config_reads_every_key_of_claude(path: Path) -> None:
    briefing = path.parent / "briefing.md"
    briefing.write_text("Hello {name}")
    config = loaded(
        path,
        f"""
claude:
  default_command: [/opt/claude, --verbose]
  default_args: [--effort, high]
  prompt_via: file
  env: {{IS_SANDBOX: "1"}}
  briefing: {briefing}
  agent_configs:
    Tester: {{model: claude-opus-4-8, args: [--plan], description: tests, prompt: "Be strict.",
      auto_allow: [Read, "Bash(npm test *)", mcp__git__*], auto_deny: ["Bash(rm *)", AskUserQuestion]}}
    Other:
  presets: {{fast: {{model: haiku}}, none: }}
  what: {{enabled: true, model: sonnet, timeout_s: 5}}
  prices: {{claude-opus: {{input: 1, output: 2.5, cache_read: 0, cache_write: 0.5}}, x: {{input: 0, output: 0}}}}
child_agents: {{progress: {{enable_token_tracking: false, enable_tool_tracking: false, snapshot_interval: 5}}}}
""",
    ).config
    assert config.section(ClaudeSection) == ClaudeSection(
        default_command=("/opt/claude", "--verbose"),
        default_args=("--effort", "high"),
        prompt_via="file",
        env={"IS_SANDBOX": "1"},
        briefing=str(briefing),
        agent_configs=ClaudeSection().agent_configs
        | {
            "Tester": AgentConfig(
                model="claude-opus-4-8",
                args=("--plan",),
                description="tests",
                prompt="Be strict.",
                auto_allow=("Read", "Bash(npm test *)", "mcp__git__*"),
                auto_deny=("Bash(rm *)", "AskUserQuestion"),
            ),
            "Other": AgentConfig(),
        },
        presets=ClaudeSection().presets | {"fast": ModelArgs(model="haiku"), "none": ModelArgs()},
        what=ClaudeSection().what.model_copy(update={"enabled": True, "model": "sonnet", "timeout_s": 5}),
        prices={
            "claude-opus": ModelPrices(input=1, output=2.5, cache_read=0, cache_write=0.5),
            "x": ModelPrices(input=0, output=0),
        },
    )
    assert config.child_agents.progress.model_dump() == {
        "enable_token_tracking": False,
        "enable_tool_tracking": False,
        "snapshot_interval": 5,
    }


@pytest.mark.parametrize("program", ["claude", "/opt/with blank/claude", "[claude]"])
def test_default_command_accepts_a_program_without_a_list(path: Path, program: str) -> None:
    config = loaded(path, f"claude: {{default_command: {program}}}").config
    assert config.section(ClaudeSection).default_command == (program.strip("[]"),)


def test_command_replaces_the_default_agent_type_of_the_same_name(path: Path) -> None:
    config = loaded(path, "commands: {engineer: {command: [x]}}").config
    assert config.agent_types_of(config.section(ClaudeSection)) == (
        "Architect",
        "Explore",
        "general-purpose",
        "Coordinator",
    )
    assert Config().agent_types_of(ClaudeSection()) == (
        "Engineer",
        "Architect",
        "Explore",
        "general-purpose",
        "Coordinator",
    )


# ---------------------------------------------------------------------------------------------------- briefing


def test_config_error_names_line_of_briefing_when_file_is_missing(path: Path) -> None:
    missing = path.parent / "none.md"
    [mistake] = mistakes(path, f"claude:\n  briefing: {missing}\n")
    assert mistake == f"2:13: claude.briefing: cannot read {missing}: no such file or directory"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x" * BRIEFING_MAX_BYTES, None),
        ("fünf {name}".encode(), None),
        (b"x" * (BRIEFING_MAX_BYTES + 1), "is larger than 32 KiB"),
        (b"caf\xe9", "contains invalid UTF-8"),
        (b"a\0", "contains a NUL character"),
    ],
)
def test_read_briefing_accepts_only_text_within_the_size_limit(
    path: Path, content: bytes, problem: str | None
) -> None:
    path.write_bytes(content)
    if problem is None:
        assert read_briefing(str(path)) == content.decode()
    else:
        with pytest.raises(ConfigError, match=problem):
            read_briefing(str(path))


def test_read_briefing_refuses_named_pipe_and_directory(path: Path) -> None:
    os.mkfifo(path)
    for refused in (path, path.parent):
        with pytest.raises(ConfigError, match="is not a regular file"):
            read_briefing(str(refused))


def test_config_uses_defaults_when_file_is_missing(path: Path) -> None:
    assert load(str(path)) == LoadedConfig(Config())
    assert load(str(path.parent / "no" / "such" / "folder")) == LoadedConfig(Config())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# nothing\n",
        "---\n",
        "null\n",
        "{}\n",
        "\ufeff# a byte order mark\n",
        "tmux:\ncommands:\nsessions:\n  naming:\ndaemon:\nchild_agents:\nclaude:\n",
        "claude:\n  what:\n  prices:\n",
        "child_agents:\n  cleanup:\n  notifications:\nnotify:\n",
    ],
)
def test_config_uses_defaults_when_file_or_sections_are_empty(path: Path, text: str) -> None:
    assert loaded(path, text) == LoadedConfig(Config())


def merged(defaults: Any, given: Any) -> Any:
    """`given`, completed with the defaults of missing keys."""
    if not isinstance(defaults, dict) or not isinstance(given, dict):
        return given
    return defaults | {key: merged(defaults.get(key), value) for key, value in given.items()}


def test_config_reads_every_key(path: Path) -> None:
    text = """
default_trust: direct
tmux: {socket_name: mine, history_limit: 10, width: 80, height: 24}
commands:
  Reviewer:
    command: ["python3", "review.py", "", "two\\nlines", "ünï"]
    prompt: file
    input: tty
    env: {REVIEW_DEPTH: "2", EMPTY: ""}
  b2_-x: {command: [./run], lifecycle: manual, restart: on-failure, restart_max: 2, budget: "usd=5,minutes=90"}
budgets: {default: usd=3, daily_usd: 50.5, soft_percent: 70, grace_s: 5.5, on_limit: kill}
child_agents:
  mode: supervised
  auto_complete:
    enabled: false
    detect_completion_phrases: false
    completion_patterns: ["all green", "(shipped|merged) it"]
    completion_quiet_s: 0.5
    idle_timeout: 60
    remind_after_s: [180, 900]
    require_parent_approval: true
  on_parent_end: abandon
  cleanup:
    auto_kill_on_complete: true
    auto_archive_transcript: false
    archive_path: /srv/archive
    close_tmux_session: true
  notifications:
    notify_parent_on_complete: false
    notify_parent_on_error: false
    notify_parent_on_idle: false
    notify_parent_on_checkpoint: true
  allow_args: true
sessions:
  default_working_dir_behavior: specify
  inherit_environment_vars: []
  naming: {pattern: "x.{friendly_name}", fallback: "{short_id}_{agent_type}"}
notify:
  command: [notify-send, "sm: ünï"]
  webhooks:
    - {url: "https://hooks.example/x?y=1", secret_file: /etc/key, events: [error, request]}
    - {url: "http://127.0.0.1:9/x"}
daemon: {log_level: debug}
limits:
  {max_children: 0, spawn_interval_s: 0.5, max_depth: 1, max_per_workspace: 7, messages_per_minute: 8,
   operator_messages_per_minute: 2, reports_per_minute: 9}
default_capabilities: {mcps: [files, "browser.x"], skills: ["db:drop"], agents: all}
"""
    config = loaded(path, text).config
    given = yaml.safe_load(text)
    given["commands"]["Reviewer"] |= {"lifecycle": None, "restart": "never", "restart_max": 3, "budget": None}
    given["commands"]["b2_-x"] |= {
        "budget": "usd=5,minutes=90",
        "prompt": "argv",
        "input": "inbox",
        "env": {},
    }
    endings = ["completed", "error", "abandoned", "killed", "request", "budget", "message", "program"]
    given["notify"]["webhooks"][1] |= {"secret_file": None, "events": endings}
    defaults = Config().model_dump(mode="json", exclude={"claude"})
    assert config.model_dump(mode="json", exclude={"claude"}) == merged(defaults, given)
    assert given["commands"]["Reviewer"]["command"][3:] == ["two\nlines", "ünï"]
    assert isinstance(config.commands["Reviewer"].command, tuple)


@pytest.mark.parametrize(
    ("level", "names"),
    [(TrustLevel.DIRECT, "direct trusted full vault"), (TrustLevel.SANDBOXED, "sandboxed untrusted")],
)
def test_config_accepts_older_names_of_trust_levels(path: Path, level: TrustLevel, names: str) -> None:
    for name in names.split():
        assert loaded(path, f"default_trust: {name}\n").config.default_trust is level


def test_config_is_immutable() -> None:
    with pytest.raises(ValidationError):
        Config().default_trust = TrustLevel.DIRECT  # type: ignore[misc]  # the assignment must fail


# ------------------------------------------------------------------------------------------ keys without effect


DOCUMENTED = """
claude:
  default_command: "claude"
  agent_configs: {Engineer: {model: "sonnet", args: ["--x"]}}
  presets: {quick-fix: {model: "sonnet"}}
child_agents:
  mode: "auto"
  auto_complete: {enabled: true, idle_timeout: 600, completion_patterns: ["done"]}
  cleanup: {auto_kill_on_complete: false}
  notifications: {notify_parent_on_idle: true}
  progress: {snapshot_interval: 30}
  on_parent_end: adopt
commands:
  Reviewer: {command: ["python3", "review.py"], prompt: argv, input: inbox, env: {REVIEW_DEPTH: "2"}}
  Other: {command: ["x"], input: tty}
limits: {max_children: 10, spawn_interval_s: 1.0, max_depth: 4, max_per_workspace: 50}
notify: {command: [x], webhooks: [{url: "http://127.0.0.1:9/x", events: [completed, error]}]}
telegram: {token_file: null, owner_ids: [1], base_url: null, topics: none}
sandbox: {image: x, memory: 4g}
default_capabilities: {mcps: [x], skills: all, agents: all}
"""


def test_documented_config_loads_without_a_warning(path: Path) -> None:
    answer = loaded(path, DOCUMENTED)
    assert answer.warnings == ()
    completion = answer.config.child_agents.with_keys(CompletionKeys).auto_complete
    assert completion.completion_patterns == ("done",)
    assert answer.config.commands["Reviewer"].env == {"REVIEW_DEPTH": "2"}
    assert answer.config.commands["Other"].input == "tty"
    assert answer.config.notify.command == ("x",)


def test_config_warns_when_env_sets_a_variable_that_sm_sets(path: Path) -> None:
    answer = loaded(path, "commands: {A: {command: [x], env: {SM_TRUST_LEVEL: direct, SM_OTHER: x}}}")
    assert answer.warnings == ("`commands.A.env.SM_TRUST_LEVEL` has no effect: sm sets it itself",)
    answer = loaded(path, "claude: {env: {SM_SESSION_ID: x}}")
    assert answer.warnings == ("`claude.env.SM_SESSION_ID` has no effect: sm sets it itself",)


# ---------------------------------------------------------------------------------------------- refused values


def command(keys: str) -> str:
    return f"commands: {{A: {{{keys}}}}}"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("telegramm: 1", "1:1: telegramm: unknown key (did you mean `telegram`?)"),
        ("Tmux: {}", "1:1: Tmux: unknown key (did you mean `tmux`?)"),
        ("nothing_like_it: 1", "1:1: nothing_like_it: unknown key"),
        ("tmux:\n  widht: 3", "2:3: tmux.widht: unknown key (did you mean `width`?)"),
        ("history_limit: 3", "1:1: history_limit: unknown key (did you mean `tmux.history_limit`?)"),
        ("child-agents: {}", "1:1: child-agents: unknown key (did you mean `child_agents`?)"),
        ("child_agents: {cleanups: 1}", "1:16: child_agents.cleanups: unknown key (did you mean `cleanup`?)"),
        ("sessions: {naming: {patern: x}}", "1:21: sessions.naming.patern: unknown key (did you mean `pattern`?)"),
        (command("command: [x], inputs: tty"), "1:30: commands.A.inputs: unknown key (did you mean `input`?)"),
        ("<<: {tmux: {}}", "1:1: '<<' is not text: put the key in quotes"),
        ("? [a]\n: b", "1:3: this key is not text: put the key in quotes"),
        ("tmux: {on: 1}", "1:8: tmux: 'on' is not text: put the key in quotes"),
        ("tmux: {}\ndaemon: {}\ntmux: {}", "3:1: tmux: duplicate key, first given on line 1"),
        ("[]", "1:1: must be a mapping of keys to values, `key: value`"),
        ("text", "1:1: must be a mapping of keys to values, `key: value`"),
        (
            "default_trust: root",
            "1:16: default_trust: unknown trust level 'root': use sandboxed or direct",
        ),
        ("default_trust: true", "1:16: default_trust: must be text, not true: put it in quotes"),
        ("default_trust: 5", "1:16: default_trust: must be text, not 5: put it in quotes"),
        ("default_trust:", "1:15: default_trust: must be text, not null"),
        ("default_trust: [direct]", "1:16: default_trust: must be text"),
        ("tmux: []", "1:7: tmux: must be a mapping of keys to values, `key: value`"),
        ("tmux: {width: '5'}", "1:15: tmux.width: must be a whole number, not '5'"),
        ("tmux: {width: 80.0}", "1:15: tmux.width: must be a whole number, not 80.0"),
        ("tmux: {width: true}", "1:15: tmux.width: must be a whole number, not true"),
        ("tmux: {width: 19}", "1:15: tmux.width: must be at least 20, not 19"),
        ("tmux: {width: 2001}", "1:15: tmux.width: must be at most 2000, not 2001"),
        ("tmux: {height: 4}", "1:16: tmux.height: must be at least 5, not 4"),
        ("tmux: {height: 2001}", "1:16: tmux.height: must be at most 2000, not 2001"),
        ("tmux: {history_limit: -1}", "1:23: tmux.history_limit: must be at least 0, not -1"),
        ("tmux: {history_limit: 10000001}", "1:23: tmux.history_limit: must be at most 10000000, not 10000001"),
        ("commands: []", "1:11: commands: must be a mapping of keys to values, `key: value`"),
        ("commands: {A: }", "1:12: commands.A.command: is missing"),
        (command("prompt: tty"), "1:12: commands.A.command: is missing"),
        (command("command: python3"), "1:25: commands.A.command: must be a list: [one, two]"),
        (command("command: []"), "1:25: commands.A.command: must begin with the name or path of a program"),
        (command('command: [""]'), "1:25: commands.A.command: must begin with the name or path of a program"),
        (command("command: [-x]"), "1:25: commands.A.command: must begin with the name or path of a program"),
        (command("command: [a, 5]"), "1:29: commands.A.command[1]: must be text, not 5: put it in quotes"),
        (command('command: ["a\\0"]'), "1:26: commands.A.command[0]: must not contain a NUL character"),
        (
            command("command: [x], prompt: stdin"),
            "1:38: commands.A.prompt: must be one of argv, tty, file, not 'stdin'",
        ),
        (
            command("command: [x], prompt: Argv"),
            "1:38: commands.A.prompt: must be one of argv, tty, file, not 'Argv' (did you mean `argv`?)",
        ),
        (command("command: [x], env: {A: 12345}"), "1:39: commands.A.env.A: must be text: put it in quotes"),
        (command("command: [x], env: {A: yes}"), "1:39: commands.A.env.A: must be text: put it in quotes"),
        (command("command: [x], env: {A: 2026-01-27}"), "1:39: commands.A.env.A: must be text: put it in quotes"),
        (command('command: [x], env: {A: "\\0"}'), "1:39: commands.A.env.A: must not contain a NUL character"),
        (command("command: [x], env: []"), "1:35: commands.A.env: must be a mapping of keys to values, `key: value`"),
        (
            command('command: [x], env: {"A-B": x}'),
            "1:36: commands.A.env.A-B: is not a valid variable name: use letters, digits and underscore",
        ),
        (
            'commands: {"a b": {command: [x]}}',
            "1:12: commands.a b: is not a valid agent type: "
            "use letters, digits, dash and underscore, at most 64 characters",
        ),
        (
            "commands: {-a: {command: [x]}}",
            "1:12: commands.-a: is not a valid agent type: "
            "use letters, digits, dash and underscore, at most 64 characters",
        ),
        ("commands: {Ab: {command: [x]}, aB: {command: [x]}}", "1:32: commands.aB: differs from `Ab` only in case"),
        (
            "child_agents: {mode: automatic}",
            "1:22: child_agents.mode: must be one of auto, manual, supervised, not 'automatic' "
            "(did you mean `auto`?)",
        ),
        ("child_agents: {allow_args: 'no'}", "1:28: child_agents.allow_args: must be true or false, not 'no'"),
        (
            "child_agents: {on_parent_end: adapt}",
            "1:31: child_agents.on_parent_end: must be one of adopt, abandon, keep, not 'adapt' "
            "(did you mean `adopt`?)",
        ),
        (
            "child_agents: {cleanup: {auto_archive: true}}",
            "1:26: child_agents.cleanup.auto_archive: unknown key (did you mean `auto_archive_transcript`?)",
        ),
        (
            "child_agents: {cleanup: {archive_path: archive}}",
            "1:40: child_agents.cleanup.archive_path: must be an absolute path",
        ),
        (
            "child_agents: {notifications: {notify_parent_on_idle: 1}}",
            "1:55: child_agents.notifications.notify_parent_on_idle: must be true or false, not 1",
        ),
        (command("command: [x], input: stdin"), "1:37: commands.A.input: must be one of inbox, tty, not 'stdin'"),
        ("notify: {command: notify-send}", "1:19: notify.command: must be a list: [one, two]"),
        ("notify: {command: []}", "1:19: notify.command: must begin with the name or path of a program"),
        ("notify: {command: [-x]}", "1:19: notify.command: must begin with the name or path of a program"),
        ('notify: {command: ["a\\0"]}', "1:20: notify.command[0]: must not contain a NUL character"),
        ("notify: {webhooks: {url: x}}", "1:20: notify.webhooks: must be a list: [one, two]"),
        ("notify: {webhooks: [{}]}", "1:21: notify.webhooks[0].url: is missing"),
        (
            "notify: {webhooks: [{url: ftp://x}]}",
            "1:27: notify.webhooks[0].url: must be a URL that begins with http:// or https://",
        ),
        (
            "notify: {webhooks: [{url: 'http://x/#a'}]}",
            "1:27: notify.webhooks[0].url: must be a URL that begins with http:// or https://",
        ),
        (
            "notify: {webhooks: [{url: 'http://x', secret_file: key}]}",
            "1:52: notify.webhooks[0].secret_file: must be an absolute path",
        ),
        (
            "notify: {webhooks: [{url: 'http://x', events: [done]}]}",
            "1:48: notify.webhooks[0].events[0]: must be one of completed, error, abandoned, killed, request, idle, "
            "budget, digest, warning, message, program, not 'done' (did you mean `abandoned`?)",
        ),
        (
            "sessions: {inherit_environment_vars: PATH}",
            "1:38: sessions.inherit_environment_vars: must be a list: [one, two]",
        ),
        (
            "sessions: {inherit_environment_vars: [PATH, A B]}",
            "1:45: sessions.inherit_environment_vars[1]: "
            "is not a valid variable name: use letters, digits and underscore",
        ),
        (
            "daemon: {log_level: warn}",
            "1:21: daemon.log_level: must be one of debug, info, warning, error, not 'warn' "
            "(did you mean `warning`?)",
        ),
        ("claude: {defaultargs: []}", "1:10: claude.defaultargs: unknown key (did you mean `default_args`?)"),
        (
            "claude: {agent_configs: {A: {modell: x}}}",
            "1:30: claude.agent_configs.A.modell: unknown key (did you mean `model`?)",
        ),
        ("claude: {presets: {A: {prompt: x}}}", "1:24: claude.presets.A.prompt: unknown key"),
        (
            "claude: {prices: {m: {input: 1, outputs: 1}}}",
            "1:19: claude.prices.m.output: is missing | "
            "1:33: claude.prices.m.outputs: unknown key (did you mean `output`?)",
        ),
        (
            "claude: {default_command: npx claude}",
            "1:27: claude.default_command: must be a list if the program has arguments: [npx, claude]",
        ),
        (
            "claude: {default_command: []}",
            "1:27: claude.default_command: must begin with the name or path of a program",
        ),
        ("claude: {default_command: 5}", "1:27: claude.default_command: must be a list: [one, two]"),
        ("claude: {default_args: --verbose}", "1:24: claude.default_args: must be a list: [one, two]"),
        ("claude: {prompt_via: argv}", "1:22: claude.prompt_via: must be one of argument, file, not 'argv'"),
        ("claude: {env: {A: 12345}}", "1:19: claude.env.A: must be text: put it in quotes"),
        ("claude: {briefing: b.md}", "1:20: claude.briefing: must be an absolute path"),
        (
            "claude: {agent_configs: {A: {model: ''}}}",
            "1:37: claude.agent_configs.A.model: is not a valid model name: "
            "use opus, sonnet, haiku or a full model name",
        ),
        (
            "claude: {agent_configs: {A: {auto_allow: ['Bash(npm test:*)']}}}",
            "1:43: claude.agent_configs.A.auto_allow[0]: is not a valid rule: "
            "the suffix `:*` is not supported; use Bash(npm test *)",
        ),
        (
            "claude: {agent_configs: {A: {auto_allow: [AskUserQuestion]}}}",
            "1:43: claude.agent_configs.A.auto_allow[0]: cannot be allowed by a rule: questions need an answer",
        ),
        (
            "claude: {agent_configs: {A: {auto_deny: [Read, 'Read(~/.ssh/*)']}}}",
            "1:48: claude.agent_configs.A.auto_deny[1]: is not a valid rule: `~` is not expanded; use the full path",
        ),
        (
            f"claude: {{agent_configs: {{A: {{auto_deny: [{', '.join(['Read'] * 101)}]}}}}}}",
            "1:41: claude.agent_configs.A.auto_deny: must not contain more than 100 rules",
        ),
        (
            "claude: {agent_configs: {a b: {}}}",
            "1:26: claude.agent_configs.a b: is not a valid agent type: "
            "use letters, digits, dash and underscore, at most 64 characters",
        ),
        ("claude: {agent_configs: {Ab: {}, aB: {}}}", "1:34: claude.agent_configs.aB: differs from `Ab` only in case"),
        (
            "claude: {agent_configs: {Ab: {}}}\ncommands: {aB: {command: [x]}}",
            "1:26: claude.agent_configs.Ab: is also an agent type of `commands`",
        ),
        (
            "claude: {presets: {a b: {}}}",
            "1:20: claude.presets.a b: is not a valid name: "
            "use letters, digits, dot, dash and underscore, at most 64 characters",
        ),
        ("budgets: {daily_usd: 0}", "1:22: budgets.daily_usd: must be more than 0, not 0"),
        ("claude: {what: {timeout_s: 0}}", "1:28: claude.what.timeout_s: must be at least 1, not 0"),
        (
            "claude: {prices: {m: {input: a, output: -1}}}",
            "1:30: claude.prices.m.input: must be a number, not 'a' | "
            "1:41: claude.prices.m.output: must be at least 0, not -1",
        ),
        ("claude: {prices: {m: {input: .nan, output: 1}}}", "1:30: claude.prices.m.input: must be a number, not nan"),
        ("claude: {prices: {m: free}}", "1:22: claude.prices.m: must be a mapping of keys to values, `key: value`"),
        ("claude: {prices: {m: {input: .inf, output: 1}}}", "1:30: claude.prices.m.input: must be a number, not inf"),
        (
            "child_agents: {progress: {snapshot_interval: 0}}",
            "1:46: child_agents.progress.snapshot_interval: must be at least 1, not 0",
        ),
        ("tmux: &a {}", None),
        ("tmux: &a {}\ndaemon: *a", "2:9: aliases (*name) are not allowed"),
        ("a: b: c", "1:5: mapping values are not allowed here"),
        ("a: [1, 2", "1:9: while parsing a flow sequence: expected ',' or ']', but got '<stream end>'"),
        ("a:\n\tb: 3", "2:1: while scanning for the next token: found character '\\t' that cannot start any token"),
        ("a: 'x\n", "2:1: while scanning a quoted scalar: found unexpected end of stream"),
        ("---\na: 1\n---\nb: 2\n", "3:1: expected a single document in the stream: but found another document"),
        ("x: 1\nab\x07c: 1", "2:3: the character U+0007 is not allowed"),
        ("a: !!python/name:os.system x", "1:4: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/name:os.system'"),
        ("a: !mine x", "1:4: could not determine a constructor for the tag '!mine'"),
        ("a: " + "[" * 40, "1:35: nested more than 32 deep"),
    ],
)  # fmt: skip
def test_config_error_names_line_column_and_key(path: Path, text: str, mistake: str | None) -> None:
    if mistake is None:  # an unused anchor is harmless
        assert loaded(path, text) == LoadedConfig(Config())
    else:
        assert mistakes(path, text) == mistake.split(" | ")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x", "a b", "x" * 65, "ünï"])
def test_socket_name_must_be_a_plain_file_name(path: Path, name: str) -> None:
    [mistake] = mistakes(path, f"tmux: {{socket_name: '{name}'}}")
    assert mistake == (
        "1:21: tmux.socket_name: must be a plain file name: "
        "use letters, digits, dot, dash and underscore, at most 64 characters"
    )


@pytest.mark.parametrize(
    ("key", "pattern", "problem"),
    [
        ("pattern", "{agent_type}", "must contain {friendly_name}, to distinguish sessions"),
        (
            "pattern",
            "{agent_type}-{short_id}",
            "may contain only {agent_type} and {friendly_name} as placeholders, without a format",
        ),
        (
            "pattern",
            "{friendly_name!r}",
            "may contain only {agent_type} and {friendly_name} as placeholders, without a format",
        ),
        (
            "pattern",
            "{friendly_name:>9}",
            "may contain only {agent_type} and {friendly_name} as placeholders, without a format",
        ),
        (
            "pattern",
            "{friendly_name.x}",
            "may contain only {agent_type} and {friendly_name} as placeholders, without a format",
        ),
        (
            "pattern",
            "{}",
            "may contain only {agent_type} and {friendly_name} as placeholders, without a format",
        ),
        ("pattern", "{friendly_name", "is not a valid pattern: expected '}' before end of string"),
        ("pattern", "{friendly_name} x", None),
        ("pattern", "{{{friendly_name}", None),
        ("fallback", "{agent_type}", "must contain {short_id}, to distinguish sessions"),
        (
            "fallback",
            "{friendly_name}",
            "may contain only {agent_type} and {short_id} as placeholders, without a format",
        ),
    ],
)
def test_naming_pattern_is_refused_when_placeholders_or_characters_are_wrong(
    path: Path, key: str, pattern: str, problem: str | None
) -> None:
    problem = (
        problem or "may contain only letters, digits, dot, dash and underscore outside of {placeholders}"
    )
    [mistake] = mistakes(path, f"sessions: {{naming: {{{key}: '{pattern}'}}}}")
    assert mistake == f"1:{23 + len(key)}: sessions.naming.{key}: {problem}"


def test_config_error_lists_all_mistakes_in_file_order(path: Path) -> None:
    text = """\
tmux:
  width: wide
  hight: 3
commands:
  A: {prompt: tyt}
  a: {command: [x]}
  a: {command: [y]}
default_trust: none
telegram: {anything: goes}
5: x
"""
    assert [line.split(": ")[:2] for line in mistakes(path, text)] == [
        ["2:10", "tmux.width"],
        ["3:3", "tmux.hight"],
        ["5:3", "commands.A.command"],
        ["5:15", "commands.A.prompt"],
        ["6:3", "commands.a"],
        ["7:3", "commands.a"],
        ["8:16", "default_trust"],
        ["9:12", "telegram.anything"],
        ["10:1", "'5' is not text"],
    ]


def test_config_error_hints_at_the_example_and_omits_environment_values(path: Path) -> None:
    path.write_text(
        command("command: [x], env: {KEY: 123456789, OTHER: 'the secret\\0', BAD KEY: the secret}")
    )
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    assert caught.value.hint == "show every key with its default: sm config --example"
    assert "123456789" not in caught.value.message
    assert "the secret" not in caught.value.message


def test_config_error_shortens_a_long_value(path: Path) -> None:
    [mistake] = mistakes(path, "daemon: {log_level: " + "x" * 10_000 + "}")
    assert len(mistake) < 200


# ----------------------------------------------------------------------------------------------- refused files


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    return caught.value.message


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_config_refuses_directory_and_named_pipe(path: Path, make: Callable[[Path], None]) -> None:
    make(path)  # a pipe is refused without waiting for a writer
    assert refusal(path) == f"{path} is not a regular file"


def test_config_refuses_a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")
    assert refusal(path) == f"{path} is a link to a missing file"


def test_config_refuses_path_below_a_file(path: Path) -> None:
    path.touch()
    assert refusal(path / "config.yaml") == f"cannot read {path}/config.yaml: not a directory"


@pytest.mark.processes
def test_config_refuses_unreadable_file(path: Path) -> None:
    path.touch(0o000)
    if os.geteuid() == 0:  # root reads every file, so another user has to try
        code = (
            f"import os, sys; sys.path[:0] = {sys.path!r}\n"
            "from sm.config import load\n"
            "from sm.errors import ConfigError\n"
            f"os.chdir({str(path.parent)!r}); os.setegid(65534); os.seteuid(65534)\n"
            "try: load('config.yaml')\n"
            "except ConfigError as error: print(error.message)"
        )
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert answer.stdout == "cannot read config.yaml: permission denied\n"
    else:
        assert refusal(path) == f"cannot read {path}: permission denied"


def test_config_error_names_line_and_column_when_text_is_not_utf8(path: Path) -> None:
    path.write_bytes(b"# fine\ntmux: {}\n# caf\xe9\n")
    assert refusal(path) == f"{path}:3:6: invalid UTF-8"


def test_config_refuses_file_above_the_size_limit(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusal(path) == f"{path} is larger than 256 KiB"
    path.write_bytes(b"#" * MAX_BYTES)
    assert load(str(path)) == LoadedConfig(Config())


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o644, False), (0o664, False), (0o646, True)])
def test_config_warns_when_file_is_writable_by_other_users(path: Path, mode: int, warned: bool) -> None:
    path.touch()
    path.chmod(mode)
    warnings = load(str(path)).warnings
    expected = f"{path} can be changed by other users; chown it to yourself and chmod go-w it"
    assert warnings == ((expected,) if warned else ())


def test_config_warns_when_file_is_writable_by_another_group(path: Path) -> None:
    others = [group for group in os.getgroups() if group != os.getegid()]
    if os.geteuid() == 0:
        others = [65533]
    if not others:
        pytest.skip("this user is in one group only")
    path.touch()
    os.chown(path, -1, others[0])
    path.chmod(0o664)
    assert len(load(str(path)).warnings) == 1
    path.chmod(0o644)
    assert load(str(path)).warnings == ()


def test_config_warns_when_file_belongs_to_another_user(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path.touch()
    os.chown(path, 65533, -1)
    assert len(load(str(path)).warnings) == 1


# ---------------------------------------------------------------------------------------------------- example


def test_example_file_equals_the_generated_example() -> None:
    assert (ROOT / "config.yaml.example").read_text() == example()


@pytest.mark.processes
def test_config_module_prints_the_example_only_with_its_option() -> None:
    run = [sys.executable, "-m", "sm.config"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.run([*run, "--example"], capture_output=True, text=True, check=True, env=environment)
    assert answer.stdout == example()
    refused = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert (refused.returncode != 0, refused.stdout) == (True, "")


def test_example_loads_as_the_defaults(path: Path) -> None:
    assert loaded(path, example()) == LoadedConfig(Config())


def test_commented_agent_type_of_the_example_loads(path: Path) -> None:
    text = example().replace("commands: {}", "").replace("\n# for example:", "")
    lines = [
        line.removeprefix("# ") if line.startswith(("# commands:", "#   ")) else line
        for line in text.splitlines()
    ]
    config = loaded(path, "\n".join(lines)).config
    assert config.commands["Reviewer"] == Command(command=("python3", "review.py"), env={"REVIEW_DEPTH": "2"})


def test_every_key_of_the_model_is_in_the_example_with_a_comment() -> None:
    lines = [line.strip().removeprefix("#").strip() for line in example().splitlines()]

    def check(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            at = next(index for index, line in enumerate(lines) if line.startswith(f"{name}:"))
            assert lines[at - 1]
            assert descriptions(model)[name]
            if isinstance(field.default, BaseModel):
                check(type(field.default))

    for model in (Config, Command, AgentConfig, ModelArgs, ModelPrices):
        check(model)


# ---------------------------------------------------------------------------------------------------- fuzzing


FUZZED = settings(
    max_examples=settings().max_examples // 2,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_places(path: Path) -> None:
    """Check that the file loads, or that each named mistake has a line and a column."""
    try:
        load(str(path))
    except ConfigError as error:
        for line in error.message.splitlines()[:MISTAKES_MAX]:
            assert all(part.isdigit() for part in line.removeprefix(f"{path}:").split(":")[:2])


@FUZZED
@given(st.text(st.sampled_from("{}[]:,#'\"&*!|>-? \n\t0a%@`<" + string.ascii_letters[:8]), max_size=60))
def test_any_text_loads_or_is_refused_with_line_and_column(path: Path, text: str) -> None:
    path.write_text(text)
    check_places(path)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=8,
)
_OTHERS = "width mode naming pattern env A input limits agent_configs prices".split()
_KEYS = st.sampled_from([*Config.model_fields, *Command.model_fields, *_OTHERS])


@FUZZED
@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES) | _VALUES) | _VALUES))
def test_any_structure_loads_or_is_refused_with_line_and_column(path: Path, data: object) -> None:
    path.write_text(yaml.safe_dump(data, allow_unicode=False), encoding="utf-8")
    check_places(path)


def test_loading_config_does_not_modify_the_file(path: Path) -> None:
    path.write_text("tmux: {width: 100}\n")
    path.chmod(0o640)
    before = path.stat()
    load(str(path))
    after = path.stat()
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
    assert stat.S_IMODE(after.st_mode) == 0o640


@pytest.mark.parametrize(
    "text",
    ["2001-99-99", "0b_", "[" * 2000, "- " * 2000, "!!bool x", "!!timestamp x", "!!int x", "&a [*a]", "\0"],
)
def test_sandbox_setting_is_refused_when_yaml_value_is_invalid(text: str) -> None:
    """YAML recognizes dates and numbers that cannot exist: a month 99, a number without digits."""
    with pytest.raises(UsageError, match="invalid sandbox settings: host_access: "):
        sandbox_settings({"host_access": text})
