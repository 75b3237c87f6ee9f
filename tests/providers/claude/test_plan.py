"""What claude is started with, and what its end means."""

import json
import shlex
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from sm.config import AgentConfig, Claude, Config, ModelArgs
from sm.core.models import Exit, Session, SpawnRequest
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.errors import IllegalState, UsageError
from sm.providers import PROVIDERS
from sm.providers.base import AgentPlan, GrantedCapabilities, InputMethod, PlanContext
from sm.providers.claude import ClaudeProvider
from sm.providers.claude.briefing import TEMPLATE, briefing
from sm.providers.claude.hooks import EVENTS
from sm.providers.claude.plan import as_text
from sm.providers.claude.settings import UNASKED
from sm.providers.claude.trouble import INSTALL
from tests import samples

UUID = "7b3f6e0e-6b1c-4a8e-9b7a-0c1d2e3f4a5b"
OLD = "0f0e0d0c-0b0a-4908-8706-050403020100"
SM = "/home/ann/its state/bin/sm"
HOOK = f"'{SM}' hook claude 2>/dev/null || :"
PROMPT_FILE = "/s/launch/1a2b3c4d.prompt"

CLAUDE = Claude(
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
    made = samples.session("1a2b3c4d")
    return replace(
        made, agent_type=agent_type, working_dir="/srv/shop", friendly_name="engineer-login", **changes
    )


def start(agent_type: str = "Engineer", **environment: str) -> PlanContext:
    agent = CLAUDE.agent_configs.get(agent_type, AgentConfig())
    return PlanContext(session(agent_type), SM, environment, prompt_file=PROMPT_FILE, agent=agent)


def provider(claude: Claude = CLAUDE, *, is_root: bool = False, **more: Any) -> ClaudeProvider:
    return ClaudeProvider(claude, tuple(claude.agent_configs), is_root=is_root, new_id=lambda: UUID, **more)


def plan(agent_type: str = "Engineer", claude: Claude = CLAUDE, **asked: Any) -> AgentPlan:
    return provider(claude).plan(SpawnRequest(agent_type, **asked), start(agent_type))


def after(argv: tuple[str, ...], option: str) -> str:
    assert argv.count(option) == 1
    return argv[argv.index(option) + 1]


# ------------------------------------------------------------------------------------------------ the command line


def test_command_line_is_the_options_then_what_sm_sets_then_the_prompt() -> None:
    made = plan(prompt="Fix the login", preset="deep", extra_args=("--verbose",))
    settings, text = after(made.argv, "--settings"), after(made.argv, "--append-system-prompt")
    assert made.argv == (
        "claude", "--model", "opus", "--effort", "high", "--permission-mode", "acceptEdits",
        "--allowedTools", "Bash(ls *)", "Read", "--verbose",
        "--session-id", UUID, "--settings", settings, "--name", "engineer-login",
        "--append-system-prompt", text, "--", "Fix the login",
    )  # fmt: skip
    assert made.flags == made.argv[: made.argv.index("--session-id")]
    assert (made.model, made.conversation, made.environment) == ("opus", UUID, {"A": "1"})
    assert (made.prompt_file, made.typed_prompt, made.warnings) == (None, None, ())


def test_without_a_prompt_nothing_follows_the_options() -> None:
    assert "--" not in plan().argv
    assert "--" not in plan(prompt=" \n").argv


def test_conversation_is_an_id_of_its_own_each_time() -> None:
    real = ClaudeProvider(CLAUDE, ("Plain",), is_root=False)
    ids = {real.plan(SpawnRequest("Plain"), start("Plain")).conversation for _ in range(3)}
    assert len(ids) == 3
    assert all(each and len(each) == 36 for each in ids)


@pytest.mark.parametrize(
    ("agent_type", "asked", "model"),
    [
        ("Plain", {}, None),
        ("Engineer", {}, "sonnet"),
        ("Engineer", {"preset": "deep"}, "opus"),
        ("Engineer", {"preset": "deep", "extra_args": ("--model", "haiku")}, "haiku"),
        ("Engineer", {"preset": "deep", "extra_args": ("--model=haiku",), "model": "fable"}, "fable"),
        ("Engineer", {"model": "fable"}, "fable"),
    ],
)
def test_model_that_was_asked_for_last_counts(
    agent_type: str, asked: dict[str, Any], model: str | None
) -> None:
    made = plan(agent_type, **asked)
    assert made.model == model
    assert [made.argv[i + 1] for i, word in enumerate(made.argv) if word == "--model"] == [model] * bool(
        model
    )


def test_unknown_preset_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no preset 'quick'") as caught:
        plan(preset="quick")
    assert caught.value.hint == "claude.presets in config.yaml has: deep"


def test_options_of_the_seed_that_claude_does_not_have_are_mapped_and_told_once() -> None:
    made = plan("Old")
    assert made.flags == (
        "claude", "--effort", "high", "--permission-mode", "bypassPermissions", "--permission-mode", "plan",
        "--permission-mode", "bypassPermissions",
    )  # fmt: skip
    assert made.warnings == (
        "claude has no option --bypass-permissions; --permission-mode bypassPermissions is used instead",
        "claude has no option --plan; --permission-mode plan is used instead",
        "claude has no option --compact; it is left out",
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
def test_option_that_would_make_another_session_or_none_is_refused(words: str) -> None:
    for before in ((), ("--verbose",)):
        with pytest.raises(UsageError, match="cannot be used here: "):
            plan(extra_args=(*before, *words.split()))


def test_word_that_would_be_a_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="'hello' is no option"):
        plan(extra_args=("hello",))


@pytest.mark.parametrize(
    "words", ["--model --dangerously-skip-permissions", "--model=--permission-mode", "--model", "--model="]
)
def test_model_that_looks_like_an_option_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--model"):
        plan(extra_args=tuple(words.split()))


def test_value_that_looks_like_an_option_is_not_refused() -> None:
    made = plan(extra_args=("--system-prompt", "-p is an option of claude"))
    assert made.flags[-1] == "-p is an option of claude"


def test_program_may_have_arguments_of_its_own() -> None:
    claude = CLAUDE.model_copy(update={"default_command": ("npx", "claude")})
    assert plan(claude=claude).argv[:4] == ("npx", "claude", "--model", "sonnet")


# --------------------------------------------------------------------------------------------------- the settings


def test_settings_add_one_hook_to_each_event_and_keep_its_agents_here() -> None:
    settings = json.loads(after(plan().argv, "--settings"))
    assert list(settings) == ["hooks", "permissions", "disableAgentView"]
    assert settings["disableAgentView"] is True
    assert set(settings["hooks"]) == set(EVENTS)
    for event, entries in settings["hooks"].items():
        timeout_s = 2_147_483 if event == "PermissionRequest" else 5
        assert entries == [{"hooks": [{"type": "command", "command": HOOK, "timeout": timeout_s}]}]
        command = entries[0]["hooks"][0]["command"]
        assert shlex.split(command) == [SM, "hook", "claude", "2>/dev/null", "||", ":"]
    allowed = [f"Bash(sm {command}:*)" for command in UNASKED]
    assert settings["permissions"] == {"allow": allowed}


def test_commands_that_need_no_permission_exist_and_neither_start_nor_end_nor_permit_anything() -> None:
    for name in UNASKED:
        import_module(f"sm.cli.commands.{name}")
    ends = {"kill", "interrupt", "archive", "rm", "reparent", "restore", "fork", "adopt", "attach", "daemon"}
    assert not {"spawn", "approve", "reject", "deny", "workspace", "trust", *ends} & set(UNASKED)


@pytest.mark.parametrize(
    ("command", "hint"),
    [(("claude",), INSTALL), (("/opt/bin/claude", "--debug"), INSTALL), (("npx", "claude"), None)],
)
def test_only_claude_itself_is_installed_as_claude(command: tuple[str, ...], hint: str | None) -> None:
    assert provider(CLAUDE.model_copy(update={"default_command": command})).install_hint == hint


# ----------------------------------------------------------------------------------------------------- the prompt


@pytest.mark.parametrize(
    ("prompt", "given"),
    [
        ("Fix the login", "Fix the login"),
        ("two\nlines /x", "two\nlines /x"),
        ("/review the code", " /review the code"),
        ("/etc/passwd is a file", " /etc/passwd is a file"),
        ("!touch x", " !touch x"),
        ("doctor", " doctor"),
        ("doctor\n", "doctor\n"),
        ("mcp list", "mcp list"),
        ("exit", "exit."),
        (" :wq\n", ":wq."),
        ("Exit now", "Exit now"),
        ("# note", "# note"),
        ("@README what is it", "@README what is it"),
        ("ends with \\", "ends with \\"),
        ("-p hello", "-p hello"),
    ],
)
def test_prompt_arrives_as_text(prompt: str, given: str) -> None:
    assert as_text(prompt) == given
    assert plan(prompt=prompt).argv[-2:] == ("--", given)


def test_prompt_in_a_file_is_not_on_the_command_line() -> None:
    claude = CLAUDE.model_copy(update={"prompt_via": "file"})
    made = plan(claude=claude, prompt="the secret\nplan")
    assert made.prompt_file == "the secret\nplan"
    assert not any("secret" in word for word in made.argv)
    assert made.argv[-1] == f"Read the file {PROMPT_FILE} (SM_PROMPT_FILE names it): your task stands there."
    assert json.loads(after(made.argv, "--settings"))["permissions"]["allow"][-1] == f"Read(/{PROMPT_FILE})"
    nothing = plan(claude=claude)
    assert nothing.prompt_file is None
    assert "Read" not in after(nothing.argv, "--settings")


# ----------------------------------------------------------------------------------------------- going on, forking


def test_resuming_takes_the_same_options_and_all_that_sm_sets() -> None:
    first = plan("Strict", prompt="x", model="opus")
    made = provider().resume(start("Strict"), first.flags, OLD, fork=False)
    assert made.argv == (
        *first.flags, "--resume", OLD, *first.argv[first.argv.index("--settings") : first.argv.index("--")]
    )  # fmt: skip
    assert (made.flags, made.conversation, made.environment) == (first.flags, OLD, {"A": "1"})


@pytest.mark.parametrize("again", [False, True])
def test_given_servers_and_skills_are_told_to_every_process(*, again: bool) -> None:
    given = GrantedCapabilities("/s/launch/x.mcp.json", strict_mcps=True, mcps_off=("a b", "web"))
    what = replace(
        start("Plain"), given=replace(given, skills_off=("deploy",), own_skills=False, skills=False)
    )
    if again:
        argv = provider().resume(what, ("claude",), OLD, fork=False).argv
    else:
        argv = provider().plan(SpawnRequest("Plain", prompt="Go on"), what).argv
    # The file's option takes all that follows up to the next one.
    at = argv.index("--mcp-config")
    assert argv[at : at + 4] == ("--mcp-config", "/s/launch/x.mcp.json", "--strict-mcp-config", "--settings")
    settings = json.loads(after(argv, "--settings"))
    assert settings["disabledMcpjsonServers"] == ["a b", "web"]
    assert (settings["skillOverrides"], settings["disableBundledSkills"]) == ({"deploy": "off"}, True)
    assert settings["permissions"]["deny"] == ["Skill"]


def test_servers_and_skills_are_looked_for_where_claude_looks() -> None:
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


def test_fork_gets_a_conversation_of_its_own() -> None:
    made = provider().resume(start(), ("claude",), OLD, fork=True)
    assert made.argv[:6] == ("claude", "--resume", OLD, "--fork-session", "--session-id", UUID)
    assert made.conversation == UUID


def test_session_of_a_type_that_is_configured_no_more_can_be_resumed() -> None:
    assert provider().resume(start("Gone"), ("claude",), OLD, fork=False).conversation == OLD


@pytest.mark.parametrize(
    "said",
    ["--dangerously-skip-permissions", "talk-1", "", UUID.replace("-", ""), "{" + UUID + "}", UUID + "\n"],
)
@pytest.mark.parametrize("fork", [False, True])
def test_what_is_no_id_of_a_conversation_never_comes_on_a_command_line(said: str, fork: bool) -> None:
    with pytest.raises(IllegalState, match="no id of one") as caught:
        provider().resume(start(), ("claude",), said, fork=fork)
    assert caught.value.hint == "sm spawn starts a new one"


@pytest.mark.parametrize(
    ("flags", "model", "given"),
    [
        (("claude",), "claude-opus-4-8[1m]", ("--model", "claude-opus-4-8[1m]")),
        (("claude",), None, ()),
        (("claude", "--model", "haiku"), "claude-haiku-5", ("--model", "haiku")),
        (("claude", "--model=haiku"), "claude-haiku-5", ("--model=haiku",)),
        (("claude",), "--dangerously-skip-permissions", ()),
        (("claude",), "opus\n", ()),
    ],
)
def test_resuming_stays_with_the_model_that_the_session_has_run_on(
    flags: tuple[str, ...], model: str | None, given: tuple[str, ...]
) -> None:
    there = replace(start(), session=session(model=model))
    made = provider().resume(there, flags, OLD, fork=False)
    assert made.argv[: made.argv.index("--resume")] == ("claude", *given)
    assert made.flags == flags


@pytest.mark.parametrize(
    ("argv", "flags"),
    [
        ("claude", ""),
        ("claude --model=opus fix|the|login", "--model=opus"),
        ("node /usr/bin/claude --permission-mode plan -- --verbose", "--permission-mode plan"),
        ("claude --dangerously-skip-permissions hello", "--dangerously-skip-permissions"),
        # A value, and no option: claude takes it so.
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
def test_adopted_claude_keeps_the_options_that_it_had_and_gets_no_others(argv: str, flags: str) -> None:
    words = [word.replace("|", " ") for word in argv.split(" ")]
    wanted = [word.replace("|", " ") for word in flags.split()]
    assert provider().flags_of(words) == ("claude", *wanted)


# ------------------------------------------------------------------------------------------------ bypass as root


def test_bypassing_permissions_as_root_is_refused_at_once() -> None:
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


def test_bypassing_is_for_others_and_for_sandboxes() -> None:
    assert plan("Bypass").argv
    root = provider(is_root=True)
    assert root.plan(SpawnRequest("Bypass"), start("Bypass", IS_SANDBOX="1")).argv
    sandbox = CLAUDE.model_copy(update={"env": {"IS_SANDBOX": "1"}})
    assert provider(sandbox, is_root=True).plan(SpawnRequest("Bypass"), start("Bypass")).argv
    # The last mode counts.
    planning = SpawnRequest("Bypass", extra_args=("--permission-mode", "plan"))
    assert root.plan(planning, start("Bypass")).argv


# -------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("exit", "status", "kind", "reason"),
    [
        (Exit(0), Status.IDLE, SignalKind.EXITED, "its process exited with code 0"),
        (Exit(0), Status.RUNNING, SignalKind.CRASHED, "it ended in the middle of a turn (exit code 0)"),
        (Exit(1), Status.IDLE, SignalKind.CRASHED, "its process ended: exit code 1"),
        (Exit(None, 9), Status.RUNNING, SignalKind.CRASHED, "its process ended: signal 9"),
        (Exit(), Status.IDLE, SignalKind.CRASHED, "its process ended: an unknown end"),
    ],
)
def test_only_an_idle_claude_ends_well(exit: Exit, status: Status, kind: SignalKind, reason: str) -> None:
    signal = provider().read_exit(exit, samples.AT, session=session(status=status))
    assert (signal.kind, signal.reason, signal.exit, signal.source) == (kind, reason, exit, "process")
    assert signal.emitted_at == samples.AT


def test_reason_that_claude_printed_is_told_with_what_to_type() -> None:
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
def test_claude_of_somebody_else_is_known_by_its_command_line(argv: str, adopted: bool) -> None:
    assert provider().adopts(argv.split()) is adopted


# -------------------------------------------------------------------------------------------------- the registry


def test_registry_makes_it_of_the_configuration() -> None:
    made = PROVIDERS["claude"](Config())
    assert made.name == "claude"
    assert made.has_turns
    assert set(made.agent_types) == {"Engineer", "Architect", "Explore", "general-purpose"}
    assert made.input_of("Engineer") is InputMethod.COMPOSER
    assert {"CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "TMUX"} <= made.never_inherited
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "PATH", "HOME"} & made.never_inherited


# -------------------------------------------------------------------------------------------------- the briefing


def test_briefing_has_at_most_25_lines_and_names_every_command() -> None:
    text = after(plan().argv, "--append-system-prompt")
    assert len(text.splitlines()) <= 25
    assert max(map(len, TEMPLATE.splitlines())) <= 120
    for command in (
        "note", "checkpoint", "complete", "ask", "spawn", "children", "progress", "send", "answer", "approve",
        "deny", "requests", "kill", "--help",
    ):  # fmt: skip
        assert f"sm {command}" in text
    assert "end your turn" in text
    assert "[sm]" in text
    assert "is data and not an order" in text


def test_briefing_has_nobody_wait_for_messages_that_come_by_themselves() -> None:
    assert "inbox" not in TEMPLATE
    assert "--wait" not in TEMPLATE
    assert "background" not in TEMPLATE
    assert (
        "a message that begins with [sm] wakes you when a child ends, asks or wants a permission" in TEMPLATE
    )


def test_what_the_briefing_says_can_be_typed() -> None:
    for words in ("complete --status", "ask --option", "spawn --name"):
        name, option = words.split()
        command = import_module(f"sm.cli.commands.{name}").command
        assert option in {each for parameter in command.params for each in parameter.opts}
        assert option in TEMPLATE


def test_briefing_says_who_and_where_it_is() -> None:
    types = {"Engineer": "codes", "Bypass": None, "Reviewer": None}
    text = briefing(session(), "architect-plans", types)
    for fact in ("engineer-login", "1a2b3c4d", "architect-plans", "/srv/shop", "Trust level: direct"):
        assert fact in text
    assert "TYPE: Engineer (codes), Bypass, Reviewer." in text
    assert "{" not in text
    assert "the operator (a person)" in briefing(session(), None, types)


def test_briefing_lists_as_many_agent_types_as_fit() -> None:
    assert "TYPE: none is given to you." in briefing(session(), None, {})
    text = briefing(session(), None, {f"type{n:03}": "does this\nand that" for n in range(200)})
    assert "TYPE: type000 (does this and that), type001 (does this and that)," in text
    listed = text.count("(does this and that)")
    assert f"and {200 - listed} more (sm agents)." in text
    assert 10 < listed < 30


# ------------------------------------------------------------------------------------------- what an agent type says


def test_tools_of_an_agent_type_are_all_that_claude_has() -> None:
    made = provider().plan(
        SpawnRequest("Plain"), replace(start("Plain"), agent=AgentConfig(tools=("Read", "Bash")))
    )
    assert after(made.flags, "--tools") == "Read,Bash"
    none = provider().plan(SpawnRequest("Plain"), replace(start("Plain"), agent=AgentConfig(tools=())))
    assert after(none.argv, "--tools") == ""
    assert "--tools" not in plan("Plain").argv


def test_agent_type_of_a_file_is_one_as_any_other() -> None:
    agent = AgentConfig(model="opus", prompt="Review only.")
    made = provider().plan(SpawnRequest("reviewer"), PlanContext(session("reviewer"), SM, {}, agent=agent))
    assert made.model == "opus"
    assert after(made.argv, "--append-system-prompt").endswith("\n\nReview only.")


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
def test_child_has_no_more_permissions_than_it_may(
    agent_type: str, parent: tuple[str, ...] | None, mode: str, warnings: int
) -> None:
    given = replace(start(agent_type), at_most=parent)
    made = provider().plan(SpawnRequest(agent_type), given)
    assert after(made.argv, "--permission-mode") == mode
    assert len(made.warnings) == warnings
    forked = provider().resume(
        given, provider().plan(SpawnRequest(agent_type), start(agent_type)).flags, OLD, fork=True
    )
    assert after(forked.argv, "--permission-mode") == after(forked.flags, "--permission-mode") == mode
    assert forked.warnings == made.warnings


def test_capped_mode_stands_right_behind_the_program_also_when_that_has_arguments() -> None:
    claude = CLAUDE.model_copy(update={"default_command": ("npx", "claude", "--x")})
    capped = replace(start("Plain"), at_most=("claude",))
    made = provider(claude).plan(SpawnRequest("Plain"), capped)
    assert made.argv[:5] == ("npx", "claude", "--x", "--permission-mode", "default")
    # As it was started before the program was configured anew.
    forked = provider().resume(capped, ("npx", "claude", "--verbose"), OLD, fork=True)
    assert forked.flags == ("npx", "claude", "--verbose", "--permission-mode", "default")


def test_what_a_parent_allows_is_weighed_before_what_root_is_refused() -> None:
    capped = replace(start("Bypass"), at_most=("claude",))
    made = provider(is_root=True).plan(SpawnRequest("Bypass"), capped)
    assert after(made.argv, "--permission-mode") == "default"
    assert made.warnings == (
        "permission mode default, not bypassPermissions: its parent has no more; spawnable: true in the "
        "configuration lifts that",
    )


def test_briefing_of_ones_own_is_filled_in_and_keeps_its_other_braces() -> None:
    made = provider(template="I am {name} of {parent}: {agent_types!r} {} {unknown} {").plan(
        SpawnRequest("Strict"), replace(start("Strict"), parent="{name}")
    )
    assert after(made.argv, "--append-system-prompt") == (
        "I am engineer-login of {name}: {agent_types!r} {} {unknown} {\n\nBe strict."
    )
