"""Starts of the real Claude Code: its prompt, briefing, permissions and settings, and start failures."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sm.providers.claude.check.scripted_api.conversation import texts
from sm.providers.claude.check.scripted_api.script import tool
from tests import claude_cli
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import SM, until
from tests.scripted_api import Request, ScriptedApi
from tests.waits import PATIENT, explained

RECOGNISED_S = 15.0
AGENTS = """
    Env: {model: sonnet, args: ["--allowedTools", "Bash(env),Bash(which sm)"]}
    Strict: {args: ["--permission-mode", "dontAsk"]}
    BadFlag: {args: ["--no-such-flag"]}
    BadMode: {args: ["--permission-mode", "wild"]}
    Waiter: {args: ["--permission-mode", "bypassPermissions"]}
sessions: {inherit_environment_vars: [PATH, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, CLAUDE_CONFIG_DIR, IS_SANDBOX,
  CLAUDECODE, CLAUDE_CODE_CHILD_SESSION, CLAUDE_CODE_SESSION_ID, CLAUDE_EFFORT, AI_AGENT, TMUX]}
"""
PRESETS = """
  presets: {deep: {model: opus}}
"""
OUTER_CLAUDE = "of-the-surrounding-claude"
"""A value in the variables that a claude sets for its child processes, `sm` included."""
OUTER_VARIABLES = {
    "CLAUDECODE": OUTER_CLAUDE,
    "CLAUDE_CODE_CHILD_SESSION": "1",
    "CLAUDE_CODE_SESSION_ID": OUTER_CLAUDE,
    "CLAUDE_EFFORT": OUTER_CLAUDE,
    "AI_AGENT": OUTER_CLAUDE,
    "TMUX": f"/tmp/{OUTER_CLAUDE},1,1",
}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="claude refuses it to root only")


class Claude(ClaudeInstance):
    """An instance that finds claude on the PATH."""

    def __init__(self, api: ScriptedApi, *, claude_more: str = PRESETS) -> None:
        super().__init__(api, more=AGENTS, claude_more=claude_more)
        binary = claude_cli.binary()
        self.config.write_text(self.config.read_text().replace(f"command: {binary}", "command: claude"))
        self.env["PATH"] = f"{self.env['PATH']}:{claude_cli.directory_on_path(self.home)}"

    def spawn_until(self, status: str, words: str, *arguments: str, **options: Any) -> dict[str, Any]:
        """Spawn a session and return it once it has this status and a reason with these words."""
        session_id = self.spawn(*arguments, **options)["session_id"]

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if (found["status"], words in found["status_reason"]) == (status, True) else None

        with explained(lambda: f"{self.why(session_id)}\n{self.screen(session_id, '-S', '-')}"):
            return until(look, f"{status}: {words}")


api = scripted_api("module")
claude = claude_instance("module", Claude)


def then(*steps: str) -> str:
    return " [[then]] ".join(steps)


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def request_with_results(api: ScriptedApi, prompt: str, count: int) -> Request:
    """Wait for the API request with the results of `count` tools of this prompt."""
    return api.wait_for(
        lambda: next((turn for turn in api.turns(prompt) if len(turn.results) >= count), None),
        f"{count} results: {prompt[:60]}",
    )


def user_text(request: Request) -> str:
    """The last text of the user, unchanged."""
    contents = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
    return texts(contents[-1])[-1]


def parse_env(result: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in result.splitlines() if "=" in line)


# ------------------------------------------------------------------------------ prompt, briefing and environment


@pytest.mark.claude_core
def test_spawn_gives_claude_its_prompt_briefing_name_and_a_clean_environment(
    claude: Claude, api: ScriptedApi
) -> None:
    claude.tmux("new-session", "-d", "-s", "keeper", "sleep 1000")  # a tmux server that a claude has started
    for name, value in OUTER_VARIABLES.items():
        claude.tmux("set-environment", "-g", name, value)
    before = claude.tmux("show-environment", "-g")
    work = then(
        bash("env"),
        bash("which sm"),
        bash('sm note "reading; with care"'),
        bash("sm checkpoint 'halfway (1/2 tasks)' && sm me --json"),
        tool("Agent", description="look", subagent_type="general-purpose", prompt="You are the helper"),
        "[[text:over]]",
    )
    prompt = f"Look around in here.\nThen report, ünïcode & all. {work}"
    spawned = claude.spawn("Env", prompt, "--name", "scout", "--wait", PATIENT, env=OUTER_VARIABLES)
    session_id = spawned["session_id"]
    last = request_with_results(api, "Look around", 5)
    session = claude.idle(session_id)
    requests = api.turns("Look around")

    assert user_text(requests[0]) == prompt
    assert session["model"] == "sonnet"
    # The alias is that of the version.
    assert {request.body["model"] for request in requests} in ({"claude-sonnet-5"}, {"claude-sonnet-5-5"})
    assert session["friendly_name"] == "env-scout"
    # 2.1.197 shows the name above its box, a later claude publishes it.
    published = json.loads(claude.state_file(session).read_text(encoding="utf-8"))
    assert published.get("name") == "env-scout" or " env-scout ──" in claude.screen(session_id, "-S", "-")

    briefing = requests[0].system[requests[0].system.index("You are env-scout") :]
    assert len(briefing.splitlines()) <= 25
    assert f"(session {session_id})" in briefing and str(claude.work) in briefing
    assert all(briefing in request.system for request in requests)
    helper = next(turn for turn in api.turns() if turn.prompt == "You are the helper")
    assert "sm note" not in helper.system  # a sub-agent reports to the agent, not to sm

    results = last.results
    assert [failed for failed, _ in results] == [False] * 5
    environment = parse_env(results[0][1])
    assert not [name for name, value in environment.items() if OUTER_CLAUDE in value]
    assert not {"TMUX", "TMUX_PANE", "SM_HOME", "IS_SANDBOX", "XDG_RUNTIME_DIR"} & environment.keys()
    sm_variables = {name: value for name, value in environment.items() if name.startswith("SM_")}
    slug = claude.container.slug if claude.container else ""
    assert sm_variables == claude.identity(session_id, slug)
    assert results[1][1] == ("/opt/sm/bin/sm" if claude.container else str(claude.state / "bin" / "sm"))
    assert json.loads(results[3][1].partition("\n")[2])["session_id"] == session_id

    assert session["note"] == "reading; with care"
    assert [point["message"] for point in claude.json("checkpoints", session_id)] == ["halfway (1/2 tasks)"]
    # A nested claude would write neither of these files.
    assert claude.transcript(environment["CLAUDE_CODE_SESSION_ID"]).exists()
    assert claude.state_file(session).exists()
    assert claude.tmux("show-environment", "-g") == before
    claude.sm("kill", session_id)


def test_model_option_overrides_the_model_of_the_preset(claude: Claude, api: ScriptedApi) -> None:
    options_by_case = {"preset": ("--preset", "deep"), "flag": ("--preset", "deep", "--model", "haiku")}
    sessions = {
        name: claude.spawn("Env", f"Which model: {name}?", *options)["session_id"]
        for name, options in options_by_case.items()
    }
    shown_models = {name: claude.idle(session_id)["model"] for name, session_id in sessions.items()}
    models = {name: api.turns(f"Which model: {name}?")[0].body["model"] for name in options_by_case}
    families = {name: model.split("-")[1] for name, model in models.items()}
    assert families == {"preset": "opus", "flag": "haiku"}
    assert shown_models == {"preset": "opus", "flag": "haiku"}
    claude.sm("kill", *sessions.values())


SPECIAL_PROMPTS: Mapping[str, str | None] = {
    "/review the code": "Task: /review the code",
    " /cost": "Task: /cost",
    "\ufeff/exit": "Task: /exit",
    "!touch ran-it": "Task: !touch ran-it",
    "--help": "Task: --help",
    "exit": "Task: exit",
    "doctor": "Task: doctor",
    "look at @data.txt": None,
    "several\n\n  lines /x\n\tünïcode 👩‍💻 e\u0301 \u202f中文 'q' \"d\" $HOME `id` $(id) %s ~ *\nends with \\": None,
    ("word " * 2000).strip() + "!": None,
}
"""Each prompt, and the text that arrives if it differs in more than the blanks around it."""


def test_special_prompts_arrive_as_text(claude: Claude, api: ScriptedApi) -> None:
    (claude.work / "data.txt").write_text("the data")
    expected = {
        unicodedata.normalize("NFC", instead or prompt).strip() for prompt, instead in SPECIAL_PROMPTS.items()
    }
    first = len(api.requests)
    sessions = [claude.spawn("Plain", "-", stdin=prompt)["session_id"] for prompt in SPECIAL_PROMPTS]
    for session_id in sessions:
        claude.idle(session_id)
    assert {user_text(turn).strip() for turn in api.turns() if turn.number > first} == expected
    assert not (claude.work / "ran-it").exists()
    events = claude.events()
    for session_id in sessions:  # no session was idle before its turn
        own = [event for event in events if event["session_id"] == session_id]
        # On a busy machine a warning may say that the tools of sm are late.
        types = [event["type"] for event in own if event["type"] != "warning"]
        assert types == ["spawned", "started", "idle"], f"{own}"
    claude.sm("kill", "--force", *sessions)


def test_claude_runs_its_own_command_at_the_start_when_the_operator_asks_for_it(
    claude: Claude, api: ScriptedApi
) -> None:
    first = len(api.requests)
    session_id = claude.spawn("Plain", "/context", "--as-command", "--wait", PATIENT)["session_id"]
    until(lambda: "context usage" in claude.screen(session_id).lower(), "claude shows its context")
    assert not [turn for turn in api.turns() if turn.number > first and turn.prompt]
    claude.sm("kill", "--force", session_id)


def test_claude_reads_its_prompt_file_without_a_permission_dialog(api: ScriptedApi) -> None:
    with Claude(api, claude_more="  prompt_via: file") as claude:
        session_id = claude.spawn("Plain", "The secret plan\nof two lines")["session_id"]
        claude.idle(session_id)
        (turn,) = api.turns("SM_PROMPT_FILE")
        path = Path("/run/sm/launch" if claude.container else claude.launch_dir) / f"{session_id}.prompt"
        assert user_text(turn) == f"Your task is in the file {path} (SM_PROMPT_FILE). Read that file first."
        claude.prompt(session_id, "Now " + tool("Read", file_path=str(path)))
        ((failed, read),) = request_with_results(api, "Now ", 1).results
        assert (failed, "The secret plan" in read, "of two lines" in read) == (False, True, True)
        assert "secret" not in Path(f"/proc/{claude.session(session_id)['pid']}/cmdline").read_text()


# ------------------------------------------------------------------------- commands that need no permission

ALLOWED_COMMANDS = (
    "sm note \"text; with && signs | and 'quotes'\"",
    "sm note 'it costs $5'",
    "sm checkpoint 'one (1/3)' && sm note two",
    'sm note "$(cat <<\'EOF\'\nit says "done"\nEOF\n)"',
    "sm me --json | head -c 20 && sm who && sm others && sm children 2>&1",
    "sm progress strict-reporter && sm inbox && sm requests && sm status",
    # Reading a file here is no escape: claude runs `cat < FILE` in any mode without a rule.
    "sm note - < note.txt",
)
COMMANDS_THAT_ASK = (
    "sm note x; touch ran-it",
    "sm note x && touch ran-it",
    "sm note x\ntouch ran-it",
    "sm note x | tee ran-it",
    "sm note x > ran-it",
    "sm note x & touch ran-it",
    'sm note "$(touch ran-it)"',
    "sm note `touch ran-it`",
    "sm note <(touch ran-it)",
    "./sm note x",
    "LD_PRELOAD=./x.so sm note x",
    "PATH=.:$PATH sm note x",
    "sm notes x",
    "sm spawn Plain x",
    "sm kill operator",
)


def test_only_report_and_read_commands_of_sm_need_no_permission(claude: Claude, api: ScriptedApi) -> None:
    impostor = claude.work / "sm"
    impostor.write_text("#!/bin/sh\ntouch ran-it\n")
    impostor.chmod(0o755)
    (claude.work / "note.txt").write_text("from a file")
    prompt = f"All of these {then(*map(bash, (*ALLOWED_COMMANDS, *COMMANDS_THAT_ASK)))}"
    # In this mode claude refuses commands instead of asking a person.
    session_id = claude.spawn("Strict", prompt, "--name", "reporter")["session_id"]
    results = request_with_results(
        api, "All of these", len(ALLOWED_COMMANDS) + len(COMMANDS_THAT_ASK)
    ).results
    outcomes = dict(zip((*ALLOWED_COMMANDS, *COMMANDS_THAT_ASK), results, strict=True))
    assert {command for command, (failed, _) in outcomes.items() if not failed} == set(ALLOWED_COMMANDS), (
        outcomes
    )
    assert not (claude.work / "ran-it").exists()
    claude.idle(session_id)
    claude.sm("kill", session_id)
    impostor.unlink()


def test_sm_note_needs_no_permission_in_the_default_mode(claude: Claude, api: ScriptedApi) -> None:
    prompt = f"Carefully {then(bash('sm note first'), bash('sm note x; touch ran-it'))}"
    session_id = claude.spawn("Plain", prompt)["session_id"]
    session = claude.says(session_id, "waiting_input", "touch ran-it")
    assert session["note"] == "first"
    (turn, *_) = api.turns("Carefully")  # no model was chosen: the model that claude reports
    assert session["model"].removesuffix("[1m]") == turn.body["model"]
    claude.answer_dialog(session_id, "Escape")
    claude.idle(session_id)
    assert not (claude.work / "ran-it").exists()
    claude.sm("kill", session_id)


def test_background_sm_ask_wakes_claude_when_the_answer_comes(claude: Claude, api: ScriptedApi) -> None:
    ask = "sm ask 'red or blue?' --option red --option blue --wait 3600"
    ask_tool = tool("Bash", command=ask, description="ask", run_in_background=True)
    session_id = claude.spawn("Planner", f"Choose {then(bash('sm note choosing'), ask_tool)}")["session_id"]
    failed, result = request_with_results(api, "Choose", 2).results[-1]
    assert not failed
    claude.says(session_id, "idle", "shells in the background: 1")
    claude.sm("answer", session_id, "blue")
    api.wait_for(lambda: api.turns("<task-notification>"), "the answer wakes it")
    claude.says(session_id, "idle", "the turn ended (Stop)")
    (output,) = re.findall(r"\S+\.output", result)
    claude.prompt(session_id, "Read it " + tool("Read", file_path=output))
    failed, result = request_with_results(api, "Read it", 3).results[-1]
    assert (failed, "blue" in result) == (False, True)
    claude.sm("kill", session_id)


# ------------------------------------------------------------------------------------- the user's own settings


def test_users_hooks_rules_and_settings_stay_in_force(claude: Claude, api: ScriptedApi) -> None:
    claude.sm("kill", claude.spawn("Plain", "--wait", PATIENT)["session_id"])  # a container has a home now
    touched = claude.shared / "touched"
    state = (
        claude.claude_home / ".claude.json"
        if not claude.container
        else claude.claude_home.parent / ".claude.json"
    )
    answers = json.loads(state.read_bytes())
    settings = claude.claude_home / "settings.json"
    before = settings.read_bytes() if settings.exists() else None
    own = {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"echo stopped >> {touched}"}]}]},
        "permissions": {"allow": ["Bash(which sm)"], "ask": ["Bash(sm checkpoint:*)"]},
    }
    claude.write_settings(json.dumps(own, indent=4))
    try:
        steps = then(bash("which sm"), bash("sm note mine"), bash("sm checkpoint x"), "[[text:ok]]")
        session_id = claude.spawn("Plain", f"With settings {steps}")["session_id"]
        claude.says(
            session_id, "waiting_input", "sm checkpoint x"
        )  # the user's rule wins over the rule of sm
        assert [failed for failed, _ in request_with_results(api, "With settings", 2).results] == [False] * 2
        claude.answer_dialog(session_id, "Enter")
        claude.idle(session_id)
        until(lambda: touched.read_text().endswith("\n"), "the user's own Stop hook has run")
        assert touched.read_text() == "stopped\n"
        assert settings.read_text() == json.dumps(own, indent=4)
        current = json.loads(state.read_bytes())  # claude writes this file, sm does not
        for answer in ("hasCompletedOnboarding", "customApiKeyResponses"):
            assert current.get(answer) == answers.get(answer)
        for directory, entry in answers.get("projects", {}).items():
            trusted = current["projects"][directory].get("hasTrustDialogAccepted")
            assert trusted == entry.get("hasTrustDialogAccepted")
        assert b"sm hook" not in state.read_bytes()
        claude.sm("kill", session_id)
    finally:
        settings.unlink()
        if before is not None:
            claude.write_settings(before.decode())


def test_hooks_are_silent_while_sm_is_being_replaced(claude: Claude, api: ScriptedApi) -> None:
    session_id = claude.spawn("Env", "First [[text:one]]")["session_id"]
    pid = claude.idle(session_id)["pid"]
    argv = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    hooks = json.loads(argv[argv.index("--settings") + 1])["hooks"]
    commands = {h["command"] for entries in hooks.values() for entry in entries for h in entry["hooks"]}
    link = claude.state / "bin" / "sm"
    away = link.rename(link.with_name("away"))
    try:
        for command in commands:
            done = subprocess.run(
                ["sh", "-c", command], input="{}", capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        claude.prompt(session_id, f"Second {then(bash('env'), '[[text:two]]')}")
        assert request_with_results(api, "Second", 1).results[-1][0] is False
        claude.idle(session_id)  # other evidence than hooks shows it
        until(lambda: "● two" in claude.screen(session_id, "-S", "-"), "its turn is over")
        assert "hook" not in claude.screen(session_id, "-S", "-").lower()
    finally:
        away.rename(link)
    claude.prompt(session_id, "Third [[text:three]]")
    claude.says(session_id, "idle", "the turn ended (Stop)")
    claude.sm("kill", session_id)


# ----------------------------------------------------------------------------------------------- start failures


def test_spawn_error_says_how_to_install_claude_when_it_is_missing(claude: Claude) -> None:
    path = "/usr/bin:/bin"
    assert shutil.which("claude", path=path) is None
    error = claude.refused("spawn", "Plain", "hi", "--name", "no-program", exit_code=9, env={"PATH": path})
    assert "cannot run claude: no such program on the agent's PATH" in error
    assert "hint: npm install -g --prefix ~/.local @anthropic-ai/claude-code" in error
    (session,) = [s for s in claude.json("all") if s["friendly_name"] == "plain-no-program"]
    assert session["status"] == "error"
    assert "npm install -g --prefix ~/.local @anthropic-ai/claude-code" in session["status_reason"]


@pytest.mark.parametrize(
    ("agent_type", "arguments", "names", "hint"),
    [
        ("BadFlag", (), "it does not know an option: --no-such-flag", "remove --no-such-flag"),
        ("Plain", ("--args", "--wild"), "it does not know an option: --wild", "remove --wild"),
        (
            "BadMode",
            (),
            "it does not accept the value of an option: --permission-mode wild",
            "claude --help shows the allowed values of --permission-mode",
        ),
    ],
)
def test_spawn_error_names_the_option_that_claude_does_not_know(
    claude: Claude, agent_type: str, arguments: Sequence[str], names: str, hint: str
) -> None:
    error = claude.refused("spawn", agent_type, "hi", *arguments, "--wait", PATIENT, exit_code=9)
    assert "claude has ended: " in error and names in error and hint in error
    session = claude.json("all")[-1]
    assert (session["status"], session["exit_code"]) == ("error", 1)
    assert names in session["status_reason"] and hint in session["status_reason"]


@pytest.mark.parametrize(
    ("seed", "names", "hint"),
    [
        ({"onboarded": False}, "it asks for its first-time setup", "run claude once yourself, in a terminal"),
        ({"approved": False}, "whether to use the API key", "choose Yes once"),
        ({"trusted": False}, "whether the directory is trusted", "sm trust "),
    ],
    ids=["onboarding", "key", "trust"],
)
def test_spawn_error_names_the_first_start_question_and_how_to_answer_it(
    claude: Claude, seed: Mapping[str, bool], names: str, hint: str
) -> None:
    env = claude.other_home(f"without-{next(iter(seed))}", **seed)
    start = ("spawn", "Plain", "hi", "--skip-checks", "--wait", PATIENT)
    error = claude.refused(*start, exit_code=9, env=env)
    assert names in error and hint in error
    session = claude.json("all")[-1]
    assert (session["status"], session["status_source"]) == ("waiting_input", "screen")
    assert names in session["status_reason"] and hint in session["status_reason"]
    claude.sm("kill", "--force", session["session_id"])


@pytest.mark.parametrize(
    ("seed", "names", "hint"),
    [
        ({"onboarded": False}, "has not finished its first-time setup", "run claude once in a terminal"),
        ({"approved": False}, "has not been allowed to use ANTHROPIC_API_KEY", "run claude once"),
        ({"trusted": False}, "claude does not trust ", "sm trust "),
    ],
    ids=["onboarding", "key", "trust"],
)
def test_spawn_is_refused_when_claude_would_ask_a_first_start_question(
    claude: Claude, seed: Mapping[str, bool], names: str, hint: str
) -> None:
    env = claude.other_home(f"refused-{next(iter(seed))}", **seed)
    before = claude.json("all")
    error = claude.refused("spawn", "Plain", "hi", exit_code=9, env=env)
    assert names in error and f"hint: {hint}" in error
    assert claude.json("all") == before


def test_agent_is_told_to_ask_the_operator_when_claude_would_ask_a_first_start_question(
    claude: Claude,
) -> None:
    env = claude.other_home("refused-agent", trusted=False)
    parent = claude.spawn("Sh", "sleep 1000", env=env)["session_id"]
    error = claude.refused("spawn", "Plain", "hi", exit_code=9, env=claude.as_session(parent))
    assert "hint: ask the operator: sm trust " in error
    claude.sm("kill", "--force", parent)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_spawn_on_a_terminal_asks_whether_claude_may_trust_the_directory(
    claude: Claude, api: ScriptedApi, tmp_path: Path, answer: str
) -> None:
    env = claude.env | claude.other_home(f"asked-{answer}", trusted=False)
    words = [f"{name}={value}" for name, value in env.items()]
    name = f"asks-{answer}"
    line = [
        SM,
        "spawn",
        "Plain",
        f"Asked {answer} [[text:hello]]",
        "--name",
        name,
        "--working-dir",
        str(tmp_path),
    ]
    shell = f"{shlex.join(['env', '-i', *words, *line])}; echo exit $?; exec sleep 1000"
    claude.tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "120", "-y", "40", shell)

    def shows(text: str) -> None:
        until(lambda: text in claude.tmux("capture-pane", "-p", "-J", "-t", f"={name}:"), text)

    shows(f"Trust {tmp_path} for claude?")
    claude.tmux("send-keys", "-t", f"={name}:", answer, "Enter")
    sessions = []
    if answer == "y":
        shows("Spawned")
        shows("exit 0")
        sessions = [s for s in claude.json("all") if s["friendly_name"] == f"plain-{name}"]
        claude.idle(sessions[0]["session_id"])
        claude.sm("kill", "--force", sessions[0]["session_id"])
    else:
        shows("exit 9")
    assert len(sessions) == len(api.turns(f"Asked {answer}")) == (answer == "y")
    claude.tmux("kill-session", "-t", f"={name}")


def test_dialog_before_the_start_is_shown_and_can_be_answered(claude: Claude) -> None:
    """claude opens this dialog for a settings file with errors. sm names it, and presses no key in it."""
    if claude.container:
        env = {}
        settings = claude.claude_home / "settings.json"
        claude.write_settings('{"model": 5, "skipDangerousModePermissionPrompt": true}')
    else:
        env = claude.other_home("broken-settings")
        settings = Path(env["CLAUDE_CONFIG_DIR"]) / "settings.json"
        settings.write_text('{"model": 5}')
    session = claude.spawn_until(
        "waiting_input", "it reports an error in a settings file", "Plain", "hi", env=env
    )
    assert session["status_source"] == "screen"
    session_id = session["session_id"]
    assert "cannot be interrupted during its start" in claude.refused("interrupt", session_id, exit_code=4)
    claude.keys(session_id, "3")  # continue without these settings
    claude.idle(session_id)
    claude.sm("kill", session_id)
    if claude.container:
        claude.write_settings('{"skipDangerousModePermissionPrompt": true}')


def _says_in(claude: Claude, session_id: str, statuses: Sequence[str], words: str) -> dict[str, Any] | None:
    """The session, if it has one of these statuses with `words` in its reason."""
    found: dict[str, Any] = claude.session(session_id)
    return found if found["status"] in statuses and words in found["status_reason"] else None


@pytest.mark.claude_core
def test_spawn_reports_a_missing_login_with_and_without_a_prompt(claude: Claude, api: ScriptedApi) -> None:
    env = {"ANTHROPIC_API_KEY": ""}
    for prompt in ((), ("Never delivered",)):
        start = ("spawn", "Plain", *prompt, "--skip-checks", "--wait", PATIENT)
        started = claude.run(*start, env=env)
        session_id = claude.json("all")[-1]["session_id"]
        # A later claude may begin the turn of its prompt, so that it is ready. It fails that turn at once.
        is_ready = bool(prompt) and started.returncode == 0
        assert is_ready or (started.returncode == 9 and "it is not logged in" in started.stderr), started
        statuses = ("idle", "waiting_input") if prompt else ("waiting_input",)
        session = until(lambda: _says_in(claude, session_id, statuses, "not logged in"), "the reason")  # noqa: B023
        assert "/login" in session["status_reason"]
        claude.sm("kill", "--force", session_id)
    assert not api.turns("Never delivered")


def test_status_reason_names_the_model_when_it_does_not_exist(claude: Claude) -> None:
    names = "the model no-such-model does not exist or is not available to this account"
    session = claude.spawn_until(
        "waiting_input", names, "Plain", "Hello [[error:404:*]]", "--model", "no-such-model"
    )
    assert "/model in its terminal" in session["status_reason"]
    claude.prompt(session["session_id"], "Hello again [[text:hello]]")  # as if the model existed now
    claude.idle(session["session_id"])
    claude.sm("kill", session["session_id"])


@as_root
def test_spawn_refuses_to_bypass_permissions_as_root_outside_a_sandbox(
    claude: Claude, api: ScriptedApi
) -> None:
    count = len(claude.json("all"))
    error = claude.refused("spawn", "Waiter", "hi", exit_code=2)
    assert "claude refuses to bypass permissions as root" in error
    assert "IS_SANDBOX" in error
    assert "refuses" in claude.refused("spawn", "Waiter", "hi", exit_code=2, env={"IS_SANDBOX": "yes"})
    assert len(claude.json("all")) == count

    sandbox = {"IS_SANDBOX": "1"}
    session = claude.spawn_until(
        "waiting_input",
        "accept the risks of bypassing permissions",
        "Waiter",
        "hi",
        "--skip-checks",
        env=sandbox,
    )
    assert "sm trust --bypass" in session["status_reason"]
    error = claude.refused("spawn", "Waiter", "hi", exit_code=9, env=sandbox)
    assert "sm trust --bypass" in error
    settings = claude.claude_home / "settings.json"
    assert str(settings) in claude.sm("trust", "--bypass", env=sandbox)
    try:
        free = claude.spawn("Waiter", f"Freely {bash('touch freely')}", env=sandbox)["session_id"]
        request_with_results(api, "Freely", 1)
        assert (claude.work / "freely").exists()
        claude.sm("kill", "--force", session["session_id"], free)
    finally:
        settings.unlink()


def test_untrusted_directory_can_be_trusted_by_a_key_press_or_by_sm_trust(
    claude: Claude, api: ScriptedApi, tmp_path: Path
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="untrusted-"))
    where = ("--working-dir", str(directory))
    try:
        env = claude.other_home("answers-by-key")
        hint = f"sm trust {shlex.quote(str(directory))}"
        prompt = "By key [[hold:key]][[text:done]]"
        by_key = claude.spawn_until("waiting_input", hint, "Plain", prompt, "--skip-checks", *where, env=env)
        claude.trust_by_key(by_key["session_id"])
        api.wait_for_hold("key")
        claude.says(by_key["session_id"], "running", "")
        api.release("key")
        claude.idle(by_key["session_id"])
        assert [turn.prompt for turn in api.turns("By key")] == [prompt]

        env = claude.other_home("answers-by-command")
        output = claude.sm("trust", str(directory), env=env)
        assert output.startswith(f"claude trusts {directory} and all directories below it (written to ")
        (directory / "below").mkdir()
        where = ("--working-dir", str(directory / "below"))
        by_command = claude.spawn("Plain", "By command", *where, env=env)
        claude.idle(by_command["session_id"])
        assert len(api.turns("By command")) == 1
        assert "already" in claude.sm("trust", str(directory / "below"), env=env)
        # The entry survives when running claudes write the same file.
        where = ("--working-dir", str(tmp_path))
        start = ("Plain", "Waits", "--skip-checks", *where)
        waiting = claude.spawn_until("waiting_input", "sm trust", *start, env=env)
        output = claude.sm("trust", str(tmp_path), env=env)
        assert f" ({waiting['session_id']}) goes on (r" in output
        assert "; claude is running (pid " in output and output.splitlines()[0].endswith(
            ") and has not overwritten the entry"
        ), output
        claude.sm("kill", "--force", waiting["session_id"])
        claude.prompt(by_command["session_id"], "Once more")
        api.wait_for(lambda: [turn for turn in api.turns("Once more") if turn.over], "the answer")
        again = claude.spawn("Plain", "No question", *where, env=env)
        claude.idle(again["session_id"])
        assert len(api.turns("No question")) == 1
        claude.sm("kill", "--force", again["session_id"])
        claude.sm("kill", "--force", by_key["session_id"], by_command["session_id"])
    finally:
        shutil.rmtree(directory)


def test_doctor_reports_ok_when_claude_can_start(claude: Claude) -> None:
    output = claude.run("doctor").stdout
    claude_lines = [line for line in output.splitlines() if "claude" in line]
    for part in (
        f"claude {claude_cli.version()} at ",
        "claude is set up",
        "claude logs in with ANTHROPIC_API_KEY",
        f"claude trusts {claude.work}",
    ):
        assert [line for line in claude_lines if part in line and line.startswith("ok ")], output
