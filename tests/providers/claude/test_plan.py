"""The command line, settings and briefing of claude, and the meaning of its end."""

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from sm.cli.group import load_command
from sm.config import AgentConfig, Config, ModelArgs
from sm.core.models import Exit, PermissionMode, Session, SpawnRequest
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.errors import IllegalState, UsageError
from sm.mcp.tools import TOOLS
from sm.providers import make_providers
from sm.providers.base import AgentPlan, Fork, GrantedCapabilities, InputMethod, PlanContext, ProgramFacts
from sm.providers.claude.abilities import own_environment
from sm.providers.claude.briefing import TEMPLATE, briefing
from sm.providers.claude.hooks import EVENTS
from sm.providers.claude.permissions import canonical, mode_of, mode_word_in, ranks
from sm.providers.claude.plan import ClaudeProvider, as_text, resume_environment
from sm.providers.claude.section import ClaudeSection
from sm.providers.claude.settings import UNASKED, UNASKED_TOOLS
from sm.providers.claude.trouble import INSTALL
from tests import samples
from tests.claude_help import program_facts

UUID = "7b3f6e0e-6b1c-4a8e-9b7a-0c1d2e3f4a5b"
OLD = "0f0e0d0c-0b0a-4908-8706-050403020100"
COPY = "5e55bbbb-0000-4000-8000-000000000002"
SM = "/home/ann/its state/bin/sm"
HOOK = f"'{SM}' hook claude 2>/dev/null || :"
PROMPT_FILE = "/s/launch/1a2b3c4d.prompt"

CLAUDE = ClaudeSection(
    default_args=("--effort", "high"),
    env={"A": "1"},
    agent_configs={
        "Engineer": AgentConfig(
            model="sonnet", args=("--permission-mode", "acceptEdits"), description="codes"
        ),
        "Bypass": AgentConfig(args=("--permission-mode", "bypassPermissions")),
        "Plain": AgentConfig(),
        "Strict": AgentConfig(prompt="Be strict.\n"),
        "Old": AgentConfig(args=("--bypass-permissions", "--plan", "--compact", "--bypass-permissions")),
    },
    presets={"deep": ModelArgs(model="opus", args=("--allowedTools", "Bash(ls *)", "Read"))},
)


def session(agent_type: str = "Engineer", **changes: Any) -> Session:
    sample = samples.session("1a2b3c4d")
    return replace(
        sample, agent_type=agent_type, working_dir="/srv/shop", friendly_name="engineer-login", **changes
    )


def start(agent_type: str = "Engineer", **environment: str) -> PlanContext:
    agent = CLAUDE.agent_configs.get(agent_type, AgentConfig())
    return PlanContext(session(agent_type), SM, environment, prompt_file=PROMPT_FILE, agent=agent)


def provider(claude: ClaudeSection = CLAUDE, *, is_root: bool = False, **more: Any) -> ClaudeProvider:
    return ClaudeProvider(claude, tuple(claude.agent_configs), is_root=is_root, new_id=lambda: UUID, **more)


def plan(agent_type: str = "Engineer", claude: ClaudeSection = CLAUDE, **options: Any) -> AgentPlan:
    return provider(claude).plan(SpawnRequest(agent_type, **options), start(agent_type))


def with_tools() -> AgentPlan:
    """The plan of an agent with the MCP server of sm."""
    context = replace(start(), granted=GrantedCapabilities(mcp_file="/m", own_server=True))
    return provider().plan(SpawnRequest("Engineer"), context)


def value_of(argv: tuple[str, ...], option: str) -> str:
    assert argv.count(option) == 1
    return argv[argv.index(option) + 1]


# ------------------------------------------------------------------------------------------------ the command line


def test_command_line_has_options_then_settings_of_sm_then_the_prompt() -> None:
    planned = plan(prompt="Fix the login", preset="deep", extra_args=("--verbose",))
    settings, text = value_of(planned.argv, "--settings"), value_of(planned.argv, "--append-system-prompt")
    assert planned.argv == (
        "claude", "--model", "opus", "--effort", "high", "--permission-mode", "acceptEdits",
        "--allowedTools", "Bash(ls *)", "Read", "--verbose",
        "--session-id", UUID, "--settings", settings, "--name", "engineer-login",
        "--append-system-prompt", text, "--", "Fix the login",
    )  # fmt: skip
    assert planned.flags == planned.argv[: planned.argv.index("--session-id")]
    assert (planned.model, planned.conversation) == ("opus", UUID)
    assert planned.environment == {**own_environment(), **resume_environment("full"), "A": "1"}
    assert (planned.prompt_file, planned.typed_prompt, planned.warnings) == (None, None, ())


def test_command_line_has_no_separator_without_a_prompt() -> None:
    assert "--" not in plan().argv
    assert "--" not in plan(prompt=" \n").argv


def test_plan_creates_a_new_conversation_id_each_time() -> None:
    real = ClaudeProvider(CLAUDE, ("Plain",), is_root=False)
    ids = {real.plan(SpawnRequest("Plain"), start("Plain")).conversation for _ in range(3)}
    assert len(ids) == 3
    assert all(id and len(id) == 36 for id in ids)


@pytest.mark.parametrize(
    ("agent_type", "options", "model"),
    [
        ("Plain", {}, None),
        ("Engineer", {}, "sonnet"),
        ("Engineer", {"preset": "deep"}, "opus"),
        ("Engineer", {"preset": "deep", "extra_args": ("--model", "haiku")}, "haiku"),
        ("Engineer", {"preset": "deep", "extra_args": ("--model=haiku",), "model": "fable"}, "fable"),
        ("Engineer", {"model": "fable"}, "fable"),
    ],
)
def test_plan_uses_the_model_of_the_most_specific_source(
    agent_type: str, options: dict[str, Any], model: str | None
) -> None:
    planned = plan(agent_type, **options)
    assert planned.model == model
    assert [planned.argv[i + 1] for i, word in enumerate(planned.argv) if word == "--model"] == [
        model
    ] * bool(model)


def test_plan_refuses_an_unknown_preset_and_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown preset 'quick'") as caught:
        plan(preset="quick")
    assert caught.value.hint == "presets in config.yaml (claude.presets): deep"


def test_obsolete_options_are_replaced_with_one_warning_each() -> None:
    planned = plan("Old")
    assert planned.flags == (
        "claude", "--effort", "high", "--permission-mode", "bypassPermissions", "--permission-mode", "plan",
        "--permission-mode", "bypassPermissions",
    )  # fmt: skip
    assert planned.warnings == (
        "claude has no option --bypass-permissions; sm uses --permission-mode bypassPermissions",
        "claude has no option --plan; sm uses --permission-mode plan",
        "claude has no option --compact; sm omits the option",
    )


@pytest.mark.parametrize(
    "words",
    [
        "--settings {}", "--settings={}", f"--session-id {UUID}", f"--resume {UUID}", f"-r {UUID}", f"-r{UUID}",
        "--continue", "-c", "--fork-session", "--from-pr 5", "--append-system-prompt x",
        "--append-system-prompt-file x", "--name x", "-n x", "--print", "-p", "--output-format json",
        "--input-format text", "--no-session-persistence", "--bare", "--safe-mode", "--worktree", "-w x", "--tmux",
        "--bg", "--background", "--help", "-h", "--version", "-v", "--teleport", "--cloud x", "--remote x",
        "--init-only", "--prefill x", "--ax-screen-reader", "-- --verbose",
    ],
)  # fmt: skip
def test_plan_refuses_an_option_that_conflicts_with_sm(words: str) -> None:
    for before in ((), ("--verbose",)):
        with pytest.raises(UsageError, match="cannot be used with sm: "):
            plan(extra_args=(*before, *words.split()))


def test_plan_refuses_an_extra_argument_that_is_not_an_option() -> None:
    with pytest.raises(UsageError, match="'hello' is not an option"):
        plan(extra_args=("hello",))


@pytest.mark.parametrize(
    "words", ["--model --dangerously-skip-permissions", "--model=--permission-mode", "--model", "--model="]
)
def test_plan_refuses_a_model_that_is_missing_or_looks_like_an_option(words: str) -> None:
    with pytest.raises(UsageError, match="--model"):
        plan(extra_args=tuple(words.split()))


def test_plan_accepts_an_option_value_that_looks_like_an_option() -> None:
    planned = plan(extra_args=("--system-prompt", "-p is an option of claude"))
    assert planned.flags[-1] == "-p is an option of claude"


def test_default_command_may_have_arguments() -> None:
    claude = CLAUDE.model_copy(update={"default_command": ("npx", "claude")})
    assert plan(claude=claude).argv[:4] == ("npx", "claude", "--model", "sonnet")


# --------------------------------------------------------------------------------------------------- the settings


def test_settings_have_a_hook_per_event_and_switch_off_what_passes_sm() -> None:
    settings = json.loads(value_of(plan().argv, "--settings"))
    own = ["tui", "useAutoModeDuringPlan", "autoContinueAtUsageLimit", "remoteControlAtStartup"]
    own.append("crossSessionInbound")
    assert list(settings) == ["hooks", "permissions", "disableAgentView", *own]
    assert settings["disableAgentView"] is True
    assert settings["remoteControlAtStartup"] is False
    assert set(settings["hooks"]) == set(EVENTS)
    for event, entries in settings["hooks"].items():
        timeout_s = 2_147_483 if event == "PermissionRequest" else 5
        assert entries == [{"hooks": [{"type": "command", "command": HOOK, "timeout": timeout_s}]}]
        command = entries[0]["hooks"][0]["command"]
        assert shlex.split(command) == [SM, "hook", "claude", "2>/dev/null", "||", ":"]
    allowed = [f"Bash(sm {command}:*)" for command in UNASKED]
    assert settings["permissions"] == {"allow": allowed}


def test_settings_allow_reads_of_the_files_of_messages_in_every_process() -> None:
    context = replace(start(), files="/state/launch/aaaa1111.files")
    begun = provider().plan(SpawnRequest("reviewer"), context)
    resumed = provider().resume(context, begun.flags, OLD, fork=False)
    for planned in (begun, resumed):
        allowed = json.loads(value_of(planned.argv, "--settings"))["permissions"]["allow"]
        assert allowed[-1] == "Read(//state/launch/aaaa1111.files/**)"


def test_settings_allow_tools_only_for_an_agent_with_the_server_of_sm() -> None:
    settings = json.loads(value_of(with_tools().argv, "--settings"))
    commands = [f"Bash(sm {command}:*)" for command in UNASKED]
    assert settings["permissions"]["allow"] == [*commands, *(f"mcp__sm__{name}" for name in UNASKED_TOOLS)]


def test_only_the_prompt_hook_of_an_agent_with_the_server_of_sm_awaits_the_tools() -> None:
    hooks = json.loads(value_of(with_tools().argv, "--settings"))["hooks"]
    awaiting = {event for event, entries in hooks.items() if "--await-tools" in str(entries)}
    assert awaiting == {"UserPromptSubmit"}
    ((hook,),) = (entry["hooks"] for entry in hooks["UserPromptSubmit"])
    assert hook["command"] == f"'{SM}' hook claude --await-tools 2>/dev/null || :"
    assert hook["timeout"] == 15


def test_tools_that_start_end_or_approve_ask() -> None:
    asking = {"create_session", "broadcast", "answer_request", "control_session"}
    assert set(TOOLS) - set(UNASKED_TOOLS) == asking


def test_commands_allowed_without_asking_exist_and_are_harmless() -> None:
    for name in UNASKED:
        load_command(name)
    ends = {"kill", "interrupt", "archive", "rm", "reparent", "restore", "fork", "adopt", "attach", "daemon"}
    assert not {"spawn", "approve", "reject", "deny", "workspace", "trust", *ends} & set(UNASKED)


@pytest.mark.parametrize(
    ("command", "hint"),
    [(("claude",), INSTALL), (("/opt/bin/claude", "--debug"), INSTALL), (("npx", "claude"), None)],
)
def test_install_hint_is_given_only_for_claude_itself(command: tuple[str, ...], hint: str | None) -> None:
    assert provider(CLAUDE.model_copy(update={"default_command": command})).install_hint == hint


# ----------------------------------------------------------------------------------------------------- the prompt


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Fix the login", "Fix the login"),
        ("  Fix the login", "  Fix the login"),
        ("two\nlines /x", "two\nlines /x"),
        ("/review the code", "Task: /review the code"),
        (" /review the code\n", "Task: /review the code"),
        ("\n\t/cost", "Task: /cost"),
        ("\ufeff/model haiku", "Task: /model haiku"),
        ("\u3000\xa0/exit", "Task: /exit"),
        ("/etc/passwd is a file", "Task: /etc/passwd is a file"),
        ("!touch x", "Task: !touch x"),
        (" !touch x", "Task: !touch x"),
        ("doctor", "Task: doctor"),
        ("doctor\n", "Task: doctor"),
        ("mcp list", "mcp list"),
        ("exit", "Task: exit"),
        (" :wq\n", "Task: :wq"),
        ("Exit now", "Exit now"),
        ("# note", "# note"),
        ("@README what is it", "@README what is it"),
        ("ends with \\", "ends with \\"),
        ("-p hello", "-p hello"),
    ],
)
def test_prompt_is_protected_against_commands_of_claude(prompt: str, text: str) -> None:
    assert as_text(prompt) == text
    assert plan(prompt=prompt).argv[-2:] == ("--", text)


def test_prompt_via_file_is_not_on_the_command_line() -> None:
    claude = CLAUDE.model_copy(update={"prompt_via": "file"})
    planned = plan(claude=claude, prompt="the secret\nplan")
    assert planned.prompt_file == "the secret\nplan"
    assert not any("secret" in word for word in planned.argv)
    assert (
        planned.argv[-1] == f"Your task is in the file {PROMPT_FILE} (SM_PROMPT_FILE). Read that file first."
    )
    assert (
        json.loads(value_of(planned.argv, "--settings"))["permissions"]["allow"][-1]
        == f"Read(/{PROMPT_FILE})"
    )
    without_prompt = plan(claude=claude)
    assert without_prompt.prompt_file is None
    assert "Read" not in value_of(without_prompt.argv, "--settings")


# ----------------------------------------------------------------------------------------------- resume and fork


def test_resume_repeats_the_options_and_the_settings_of_sm() -> None:
    first = plan("Strict", prompt="x", model="opus")
    planned = provider().resume(start("Strict"), first.flags, OLD, fork=False)
    assert planned.argv == (
        *first.flags, "--resume", OLD, *first.argv[first.argv.index("--settings") : first.argv.index("--")]
    )  # fmt: skip
    assert (planned.flags, planned.conversation) == (first.flags, OLD)
    assert planned.environment == first.environment


@pytest.mark.parametrize("again", [False, True])
def test_granted_servers_and_skills_are_passed_to_every_process(*, again: bool) -> None:
    granted = GrantedCapabilities("/s/launch/x.mcp.json", strict_mcps=True, mcps_off=("a b", "web"))
    context = replace(
        start("Plain"), granted=replace(granted, skills_off=("deploy",), own_skills=False, skills=False)
    )
    if again:
        argv = provider().resume(context, ("claude",), OLD, fork=False).argv
    else:
        argv = provider().plan(SpawnRequest("Plain", prompt="Go on"), context).argv
    # The option takes every argument up to the next option.
    at = argv.index("--mcp-config")
    assert argv[at : at + 4] == ("--mcp-config", "/s/launch/x.mcp.json", "--strict-mcp-config", "--settings")
    settings = json.loads(value_of(argv, "--settings"))
    assert settings["disabledMcpjsonServers"] == ["a b", "web"]
    assert (settings["skillOverrides"], settings["disableBundledSkills"]) == ({"deploy": "off"}, True)
    assert settings["permissions"]["deny"] == ["Skill"]


def test_capability_sources_are_the_files_that_claude_reads() -> None:
    around = ("/srv/shop", "/srv", "/")
    found = provider().capability_sources({"HOME": "/home/ann"}, around)
    assert found.user_mcps == "/home/ann/.claude.json"
    assert found.project_mcps == {
        "/srv/shop": "/srv/shop/.mcp.json",
        "/srv": "/srv/.mcp.json",
        "/": "/.mcp.json",
    }
    assert found.skills[:2] == ("/home/ann/.claude/skills", "/srv/shop/.claude/skills")
    assert found.commands[-1] == "/.claude/commands"
    configured = CLAUDE.model_copy(update={"env": {"CLAUDE_CONFIG_DIR": "/c"}})
    assert (
        provider(configured).capability_sources({"HOME": "/home/ann"}, around).user_mcps == "/c/.claude.json"
    )


def test_fork_gets_a_new_conversation_id() -> None:
    planned = provider().resume(start(), ("claude",), OLD, fork=True)
    assert planned.argv[:3] == ("claude", "--permission-mode", "default")
    assert planned.argv[3:8] == ("--resume", OLD, "--fork-session", "--session-id", UUID)
    assert planned.conversation == UUID
    assert provider().fork_in(planned.argv) == Fork(OLD, UUID)


def test_fork_keeps_the_conversation_id_of_a_session_that_forks_again() -> None:
    context = start()
    context = replace(context, session=replace(context.session, conversation=COPY))
    planned = provider().resume(context, ("claude", "--model", "haiku"), OLD, fork=True)
    assert provider().fork_in(planned.argv) == Fork(OLD, COPY)
    again = replace(context, session=replace(context.session, conversation=OLD))
    assert provider().resume(again, ("claude",), OLD, fork=True).conversation == UUID


@pytest.mark.parametrize(
    "argv", [(), ("claude", "--resume", "x"), ("claude", "--", "--resume x --fork-session")]
)
def test_fork_in_is_none_for_a_process_that_makes_no_copy(argv: tuple[str, ...]) -> None:
    assert provider().fork_in(argv) is None


def test_resume_works_when_the_agent_type_is_no_longer_configured() -> None:
    assert provider().resume(start("Gone"), ("claude",), OLD, fork=False).conversation == OLD


@pytest.mark.parametrize(
    "conversation",
    ["--dangerously-skip-permissions", "talk-1", "", UUID.replace("-", ""), "{" + UUID + "}", UUID + "\n"],
)
@pytest.mark.parametrize("fork", [False, True])
def test_resume_refuses_an_invalid_conversation_id(conversation: str, fork: bool) -> None:
    with pytest.raises(IllegalState, match="invalid conversation id") as caught:
        provider().resume(start(), ("claude",), conversation, fork=fork)
    assert caught.value.hint == "start a new session: sm spawn AGENT_TYPE"


@pytest.mark.parametrize(
    ("flags", "model", "arguments"),
    [
        (("claude",), "claude-opus-4-8[1m]", ("--model", "claude-opus-4-8[1m]")),
        (("claude",), None, ()),
        (("claude", "--model", "haiku"), "claude-haiku-5", ("--model", "haiku")),
        (("claude", "--model=haiku"), "claude-haiku-5", ("--model=haiku",)),
        (("claude",), "--dangerously-skip-permissions", ()),
        (("claude",), "opus\n", ()),
    ],
)
def test_resume_keeps_the_model_of_the_session(
    flags: tuple[str, ...], model: str | None, arguments: tuple[str, ...]
) -> None:
    context = replace(start(), session=session(model=model))
    planned = provider().resume(context, flags, OLD, fork=False)
    mode = ("--permission-mode", "default")
    assert planned.argv[: planned.argv.index("--resume")] == ("claude", *mode, *arguments)
    assert planned.flags == ("claude", *mode, *flags[1:])


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        ("claude", ""),
        ("claude --model=opus fix|the|login", "--model=opus"),
        ("node /usr/bin/claude --permission-mode plan -- --verbose", "--permission-mode plan"),
        ("claude --dangerously-skip-permissions hello", "--dangerously-skip-permissions"),
        # claude takes the second word as a value and not as an option.
        (
            "claude --system-prompt --dangerously-skip-permissions",
            "--system-prompt --dangerously-skip-permissions",
        ),
        ("claude --allowedTools Read Bash(ls|*) --add-dir /x", "--allowedTools Read Bash(ls|*) --add-dir /x"),
        ("claude --disallowedTools --verbose", "--verbose"),
        ("claude --mcp-config=a.json prompt", "--mcp-config=a.json"),
        ("claude -r old --resume old -c --fork-session --session-id x --settings {} --name me", ""),
        ("claude --append-system-prompt --dangerously-skip-permissions -p", ""),
        ("claude --unknown --dangerously-skip-permissions", ""),
        ("claude -n --dangerously-skip-permissions", ""),
        ("claude -c --dangerously-skip-permissions", "--dangerously-skip-permissions"),
        ("claude --continue --dangerously-skip-permissions", "--dangerously-skip-permissions"),
        ("claude --unknown --dangerously-skip-permissions=yes doctor", ""),
        ("claude --model", ""),
    ],
)
def test_flags_of_keeps_exactly_the_known_options_of_an_adopted_claude(argv: str, flags: str) -> None:
    words = [word.replace("|", " ") for word in argv.split(" ")]
    wanted = [word.replace("|", " ") for word in flags.split()]
    assert provider().flags_of(words) == ("claude", *wanted)


# ------------------------------------------------------------------------------------------------ bypass as root


def test_plan_and_resume_refuse_to_bypass_permissions_as_root() -> None:
    root = provider(is_root=True)
    with pytest.raises(UsageError, match="as root") as caught:
        root.plan(SpawnRequest("Bypass"), start("Bypass"))
    assert "another user" in str(caught.value.hint)
    assert 'claude: {env: {IS_SANDBOX: "1"}}' in str(caught.value.hint)
    for option in ("--dangerously-skip-permissions", "--permission-mode=bypassPermissions"):
        with pytest.raises(UsageError, match="as root"):
            root.plan(SpawnRequest("Plain", extra_args=(option,)), start("Plain"))
    with pytest.raises(UsageError, match="as root"):
        root.resume(start(), ("claude", "--dangerously-skip-permissions"), OLD, fork=False)
    with pytest.raises(UsageError, match="as root"):  # claude takes "1" only (measured)
        root.plan(SpawnRequest("Bypass"), start("Bypass", IS_SANDBOX="yes"))


def test_bypassing_permissions_is_allowed_in_a_sandbox_or_for_other_users() -> None:
    assert plan("Bypass").argv
    root = provider(is_root=True)
    assert root.plan(SpawnRequest("Bypass"), start("Bypass", IS_SANDBOX="1")).argv
    sandbox = CLAUDE.model_copy(update={"env": {"IS_SANDBOX": "1"}})
    assert provider(sandbox, is_root=True).plan(SpawnRequest("Bypass"), start("Bypass")).argv
    # The last permission mode applies.
    planning = SpawnRequest("Bypass", extra_args=("--permission-mode", "plan"))
    assert root.plan(planning, start("Bypass")).argv


# -------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("exit", "status", "kind", "reason"),
    [
        (Exit(0), Status.IDLE, SignalKind.EXITED, "the process exited with code 0"),
        (Exit(0), Status.RUNNING, SignalKind.CRASHED, "claude ended in the middle of a turn (exit code 0)"),
        (Exit(1), Status.IDLE, SignalKind.CRASHED, "the process ended with exit code 1"),
        (Exit(None, 9), Status.RUNNING, SignalKind.CRASHED, "the process ended with signal 9"),
        (Exit(), Status.IDLE, SignalKind.CRASHED, "the process ended with unknown exit status"),
    ],
)
def test_read_exit_is_exited_only_when_claude_was_idle_and_exits_with_0(
    exit: Exit, status: Status, kind: SignalKind, reason: str
) -> None:
    signal = provider().read_exit(exit, samples.AT, session=session(status=status))
    assert (signal.kind, signal.reason, signal.exit, signal.source) == (kind, reason, exit, "process")
    assert signal.emitted_at == samples.AT


@pytest.mark.parametrize(
    ("exit", "words"),
    [
        (Exit(0), "exit code 0"),
        (Exit(1), "exit code 1"),
        (Exit(None, 11), "signal 11 (Segmentation fault)"),
        (Exit(None, 999), "signal 999"),
    ],
)
@pytest.mark.parametrize("screen", [[], [""] * 24])
def test_read_exit_says_that_claude_did_not_start_when_it_printed_nothing(
    exit: Exit, words: str, screen: list[str]
) -> None:
    signal = provider().read_exit(exit, samples.AT, screen=screen, session=session(status=Status.STARTING))
    assert signal.kind is SignalKind.CRASHED
    message, _, hint = signal.reason.partition("; hint: ")
    assert message == f"claude did not start: it ended with {words}"
    assert hint.endswith(" && claude --version")


def test_read_exit_includes_the_printed_reason_and_a_hint() -> None:
    screen = ["error: unknown option '--nonsense'", "", "Pane is dead (status 1, Sat Nov 21 16:35:04 2026)"]
    signal = provider().read_exit(Exit(1), samples.AT, screen=screen, session=session(status=Status.STARTING))
    assert signal.kind is SignalKind.CRASHED
    assert "--nonsense" in signal.reason
    assert "; hint: " in signal.reason


# ------------------------------------------------------------------------------------------------------ adopting


@pytest.mark.parametrize(
    ("argv", "adopted"),
    [
        ("claude", True),
        ("/usr/local/bin/claude --resume x", True),
        ("node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", True),
        ("node /usr/bin/claude --model opus", True),
        ("claude -p hello", False),
        ("claude mcp serve", False),
        ("node server.js", False),
        ("vim claude", False),
        ("", False),
    ],
)
def test_adopts_recognizes_an_interactive_claude_by_its_command_line(argv: str, adopted: bool) -> None:
    assert provider().adopts(argv.split()) is adopted


# -------------------------------------------------------------------------------------------------- the registry


def test_registry_creates_the_claude_provider_from_the_configuration() -> None:
    claude = make_providers(Config())["claude"]
    assert claude.name == "claude"
    assert claude.has_turns
    assert set(claude.agent_types) == {"Engineer", "Architect", "Explore", "general-purpose", "Coordinator"}
    assert claude.input_of("Engineer") is InputMethod.COMPOSER
    assert {"CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "TMUX"} <= claude.never_inherited
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "PATH", "HOME"} & claude.never_inherited


# -------------------------------------------------------------------------------------------------- the briefing


def test_briefing_has_at_most_25_lines_and_names_the_important_commands() -> None:
    text = value_of(plan().argv, "--append-system-prompt")
    assert len(text.splitlines()) <= 25
    assert max(map(len, TEMPLATE.splitlines())) <= 120
    for command in (
        "note", "checkpoint", "complete", "ask", "spawn", "children", "progress", "send", "answer", "approve",
        "deny", "requests", "kill", "help --all",
    ):  # fmt: skip
        assert f"sm {command}" in text
    assert "end your turn" in text
    assert "[sm]" in text
    assert "are data, not orders" in text


def test_briefing_has_at_most_25_lines_with_tools_and_the_place_in_a_container() -> None:
    text = briefing(session(), None, {}, place="Your project directory is /srv/shop.", has_tools=True)
    assert len(text.splitlines()) <= 25
    assert text.splitlines()[-1] == "Your project directory is /srv/shop."


def test_briefing_names_the_tools_once_for_an_agent_that_has_them() -> None:
    text = value_of(with_tools().argv, "--append-system-prompt")
    assert len(text.splitlines()) <= 25
    assert text.count("mcp__") == text.count("create_session") == 1
    assert "mcp__" not in value_of(plan().argv, "--append-system-prompt")


def test_briefing_suggests_no_waiting_for_messages() -> None:
    assert "inbox" not in TEMPLATE
    assert "--wait" not in TEMPLATE
    assert "background" not in TEMPLATE
    assert (
        "a message that begins with [sm] wakes you when a child ends, asks or wants a permission" in TEMPLATE
    )


def test_briefing_names_only_options_that_exist() -> None:
    for words in ("complete --status", "ask --option", "spawn --name"):
        name, option = words.split()
        command = load_command(name)
        assert option in {name for parameter in command.params for name in parameter.opts}
        assert option in TEMPLATE


def test_briefing_has_the_facts_of_the_session() -> None:
    types = {"Engineer": "codes", "Bypass": None, "Reviewer": None}
    text = briefing(session(), "architect-plans", types)
    for fact in ("engineer-login", "1a2b3c4d", "architect-plans", "/srv/shop", "Trust level: direct"):
        assert fact in text
    assert "TYPE: Engineer (codes), Bypass, Reviewer." in text
    assert "{" not in text
    assert "the operator (a person)" in briefing(session(), None, types)


def test_briefing_lists_only_as_many_agent_types_as_fit() -> None:
    assert "TYPE: none is available to you." in briefing(session(), None, {})
    text = briefing(session(), None, {f"type{n:03}": "does this\nand that" for n in range(200)})
    assert "TYPE: type000 (does this and that), type001 (does this and that)," in text
    listed = text.count("(does this and that)")
    assert f"and {200 - listed} more (sm agents)." in text
    assert 10 < listed < 30


# --------------------------------------------------------------------------------------------------- agent types


def test_tools_of_an_agent_type_are_passed_to_claude() -> None:
    planned = provider().plan(
        SpawnRequest("Plain"), replace(start("Plain"), agent=AgentConfig(tools=("Read", "Bash")))
    )
    assert value_of(planned.flags, "--tools") == "Read,Bash"
    none = provider().plan(SpawnRequest("Plain"), replace(start("Plain"), agent=AgentConfig(tools=())))
    assert value_of(none.argv, "--tools") == ""
    assert "--tools" not in plan("Plain").argv


def test_agent_type_from_a_file_is_planned_like_a_configured_one() -> None:
    agent = AgentConfig(model="opus", prompt="Review only.")
    planned = provider().plan(SpawnRequest("reviewer"), PlanContext(session("reviewer"), SM, {}, agent=agent))
    assert planned.model == "opus"
    assert value_of(planned.argv, "--append-system-prompt").endswith("\n\nReview only.")


@pytest.mark.parametrize(
    ("agent_type", "parent", "mode", "warnings"),
    [
        ("Bypass", ("claude", "--permission-mode", "plan"), "plan", 1),
        ("Engineer", ("claude", "--permission-mode", "bypassPermissions"), "acceptEdits", 0),
        ("Plain", ("claude", "--permission-mode", "plan"), "plan", 1),
        ("Plain", ("claude", "--permission-mode", "acceptEdits"), "acceptEdits", 0),
        ("Plain", ("claude",), "default", 0),
        ("Engineer", ("claude",), "default", 1),
        ("Bypass", None, "bypassPermissions", 0),
    ],
)
def test_child_and_its_fork_get_at_most_the_permission_mode_of_the_parent(
    agent_type: str, parent: tuple[str, ...] | None, mode: str, warnings: int
) -> None:
    given = replace(start(agent_type), at_most=parent)
    planned = provider().plan(SpawnRequest(agent_type), given)
    assert value_of(planned.argv, "--permission-mode") == mode
    assert len(planned.warnings) == warnings
    forked = provider().resume(given, planned.flags, OLD, fork=True)
    assert value_of(forked.argv, "--permission-mode") == value_of(forked.flags, "--permission-mode") == mode
    free = provider().plan(SpawnRequest(agent_type), start(agent_type)).flags
    capped = value_of(provider().resume(given, free, OLD, fork=True).argv, "--permission-mode")
    assert ranks()[capped] <= ranks()[mode]


@pytest.mark.parametrize(
    ("agent_type", "options", "shown"),
    [
        ("Plain", {}, PermissionMode("plan", "permissions.defaultMode of your claude settings")),
        ("Engineer", {}, PermissionMode("acceptEdits", "agent type Engineer")),
        ("Engineer", {"preset": "plans"}, PermissionMode("plan", "--preset plans")),
        (
            "Engineer",
            {"preset": "plans", "extra_args": ("--permission-mode=manual",)},
            PermissionMode("manual", "--args"),
        ),
        ("Old", {}, PermissionMode("bypassPermissions", "agent type Old")),
    ],
)
def test_permission_mode_comes_from_the_most_specific_source(
    agent_type: str, options: dict[str, Any], shown: PermissionMode
) -> None:
    presets = {"plans": ModelArgs(args=("--plan",))}
    context = replace(start(agent_type), program=ProgramFacts(permission_mode="plan"))
    claude = CLAUDE.model_copy(update={"presets": presets})
    planned = provider(claude).plan(SpawnRequest(agent_type, **options), context)
    assert planned.permission == shown
    assert mode_of(planned.argv) == canonical(shown.mode)


@pytest.mark.parametrize("of_user", ["", "wild", "--dangerously-skip-permissions", "manual", "default"])
def test_permission_mode_is_manual_when_no_setting_has_a_known_one(of_user: str) -> None:
    context = replace(start("Plain"), program=ProgramFacts(permission_mode=of_user))
    planned = provider().plan(SpawnRequest("Plain"), context)
    assert planned.permission is not None
    assert planned.permission.mode == "manual"
    assert value_of(planned.flags, "--permission-mode") == "default"


def test_child_without_a_mode_gets_that_of_its_parent_and_not_that_of_the_user() -> None:
    context = replace(start("Plain"), program=ProgramFacts(permission_mode="bypassPermissions"))
    planned = provider().plan(SpawnRequest("Plain"), replace(context, at_most=("claude",)))
    assert planned.permission == PermissionMode("manual", "its parent")


def test_root_is_told_that_its_own_settings_bypass_permissions() -> None:
    context = replace(start("Plain"), program=ProgramFacts(permission_mode="bypassPermissions"))
    with pytest.raises(UsageError, match=r"permissions.defaultMode of your claude settings is bypass"):
        provider(is_root=True).plan(SpawnRequest("Plain"), context)


@pytest.mark.parametrize("given", ["--permission-mode=default", "--permission-mode=manual"])
@pytest.mark.parametrize(("version", "word"), [("2.1.197", "default"), ("2.1.332", "manual")])
def test_program_gets_its_own_word_for_the_manual_mode(version: str, word: str, given: str) -> None:
    context = replace(start("Plain"), program=program_facts(version))
    planned = provider().plan(SpawnRequest("Plain", extra_args=(given,)), context)
    assert mode_word_in(planned.argv) == word
    # A later process may be of another version.
    other = replace(context, program=program_facts("2.1.197"))
    assert mode_word_in(provider().resume(other, planned.flags, OLD, fork=False).argv) == "default"


def test_only_a_program_that_lists_it_gets_the_option_for_its_name() -> None:
    facts = program_facts("2.1.332")
    without = replace(facts, help=facts.help.replace("--name", "--title"))
    for program, has_option in ((ProgramFacts(), True), (facts, True), (without, False)):
        context = replace(start(), program=program)
        planned = provider().plan(SpawnRequest("Engineer", prompt="x"), context)
        assert ("--name" in planned.argv) is has_option
        assert ("--name" in provider().resume(context, ("claude",), OLD, fork=False).argv) is has_option


@pytest.mark.parametrize(("version", "has_option"), [("2.1.197", False), ("2.1.332", True)])
@pytest.mark.parametrize("way", ["plan", "resume", "fork"])
def test_only_a_program_that_lists_it_gets_the_option_for_its_system_prompt(
    version: str, has_option: bool, way: str
) -> None:
    context = replace(start(), program=program_facts(version))
    if way == "plan":
        planned = provider().plan(SpawnRequest("Engineer", prompt="x"), context)
    else:
        planned = provider().resume(context, ("claude",), OLD, fork=way == "fork")
    assert ("--system-prompt-snapshot" in planned.argv) is has_option
    if has_option:
        assert value_of(planned.argv, "--system-prompt-snapshot") == "off"
    assert "--system-prompt-snapshot" not in planned.flags


@pytest.mark.parametrize(
    ("version", "may_message", "inbound"),
    [("2.1.197", False, None), ("2.1.332", False, "refuse"), ("", False, "refuse"), ("2.1.332", True, None)],
)
def test_settings_refuse_messages_of_other_claudes_unless_the_operator_allows_them(
    version: str, may_message: bool, inbound: str | None
) -> None:
    facts = program_facts(version) if version else ProgramFacts()
    claude = CLAUDE.model_copy(update={"sessions_may_message": may_message})
    planned = provider(claude).plan(SpawnRequest("Engineer"), replace(start(), program=facts))
    settings = json.loads(value_of(planned.argv, "--settings"))
    assert (settings["tui"], settings.get("crossSessionInbound")) == ("default", inbound)


@pytest.mark.parametrize(
    ("version", "of_user", "answered"),
    [("2.1.332", "acceptEdits", "plan"), ("2.1.332", "", None), ("2.1.197", "acceptEdits", None)],
)
def test_settings_answer_the_offer_to_replace_the_mode_of_the_user(
    version: str, of_user: str, answered: str | None
) -> None:
    context = replace(start("Plain"), program=replace(program_facts(version), permission_mode=of_user))
    planned = provider().plan(SpawnRequest("Plain", extra_args=("--permission-mode", "plan")), context)
    again = provider().resume(context, planned.flags, OLD, fork=False)
    for argv in (planned.argv, again.argv):
        permissions = json.loads(value_of(argv, "--settings"))["permissions"]
        assert permissions.get("defaultMode") == answered


@pytest.mark.parametrize(
    ("mode", "warns"),
    [("auto", True), ("bypassPermissions", True), ("acceptEdits", False), ("manual", False)],
)
def test_rules_that_deny_are_a_warning_in_a_mode_in_which_claude_does_not_ask(mode: str, warns: bool) -> None:
    agent = AgentConfig(args=("--permission-mode", mode), auto_deny=("Bash(rm *)",))
    planned = provider().plan(SpawnRequest("Plain"), replace(start("Plain"), agent=agent))
    assert [warning.startswith("auto_deny has no effect") for warning in planned.warnings] == [True] * warns


def test_capped_mode_follows_the_program_and_its_arguments() -> None:
    claude = CLAUDE.model_copy(update={"default_command": ("npx", "claude", "--x")})
    capped = replace(start("Plain"), at_most=("claude",))
    planned = provider(claude).plan(SpawnRequest("Plain"), capped)
    assert planned.argv[:5] == ("npx", "claude", "--x", "--permission-mode", "default")
    # With the command line of a start before the program's configuration changed.
    forked = provider().resume(capped, ("npx", "claude", "--verbose"), OLD, fork=True)
    assert forked.flags == ("npx", "claude", "--verbose", "--permission-mode", "default")


def test_permission_mode_is_capped_before_bypassing_as_root_is_refused() -> None:
    capped = replace(start("Bypass"), at_most=("claude",))
    planned = provider(is_root=True).plan(SpawnRequest("Bypass"), capped)
    assert value_of(planned.argv, "--permission-mode") == "default"
    assert planned.warnings == (
        "permission mode manual, not bypassPermissions: limited by the parent's permissions; "
        "to allow more, set spawnable: true for the agent type",
    )


def test_custom_briefing_template_is_filled_in_and_keeps_other_braces() -> None:
    planned = provider(template="I am {name} of {parent}: {agent_types!r} {} {unknown} {").plan(
        SpawnRequest("Strict"), replace(start("Strict"), parent="{name}")
    )
    assert value_of(planned.argv, "--append-system-prompt") == (
        "I am engineer-login of {name}: {agent_types!r} {} {unknown} {\n\nBe strict."
    )
