"""The real Claude Code, started by sm: what it is told, what it may, and what keeps it from starting."""

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

from tests import claude_cli
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi
from tests.scripted_api.conversation import texts
from tests.scripted_api.script import tool
from tests.scripted_api.server import Request

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
SURROUNDING = "of-the-surrounding-claude"
"""What a claude gives to all that it starts, `sm` included."""
LEFT_BY_A_CLAUDE = {
    "CLAUDECODE": SURROUNDING,
    "CLAUDE_CODE_CHILD_SESSION": "1",
    "CLAUDE_CODE_SESSION_ID": SURROUNDING,
    "CLAUDE_EFFORT": SURROUNDING,
    "AI_AGENT": SURROUNDING,
    "TMUX": f"/tmp/{SURROUNDING},1,1",
}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="claude refuses it to root only")


class Claude(ClaudeInstance):
    """claude is found on the PATH, as it is for people."""

    def __init__(self, api: ScriptedApi, *, claude_more: str = PRESETS) -> None:
        super().__init__(api, more=AGENTS, claude_more=claude_more)
        binary = claude_cli.binary()
        self.config.write_text(self.config.read_text().replace(f"command: {binary}", "command: claude"))
        self.env["PATH"] = f"{self.env['PATH']}:{Path(binary).parent}"
        self.claude_home = self.home / ".claude"

    def other_home(self, name: str, **seed: bool) -> dict[str, str]:
        """The environment of a person who has answered less of what claude asks at first."""
        config = claude_cli.seed(self.home / name, **seed)
        state = config / ".claude.json"
        state.write_text(state.read_text().replace(str(self.home / name), str(self.home)))
        return {"CLAUDE_CONFIG_DIR": str(config)}

    def screen(self, session_id: str) -> str:
        return self.tmux("capture-pane", "-p", "-S", "-", "-t", f"=claude-{session_id}:")

    def stuck(self, status: str, words: str, *arguments: str, **options: Any) -> dict[str, Any]:
        """The session that such a spawn makes, once its reason is told."""
        session_id = self.spawn(*arguments, **options)["session_id"]

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if (found["status"], words in found["status_reason"]) == (status, True) else None

        try:
            return until(look, f"{status}: {words}", RECOGNISED_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.why(session_id)}\n{self.screen(session_id)}") from None


api = scripted_api("module")
claude = claude_instance("module", Claude)


def then(*steps: str) -> str:
    return " [[then]] ".join(steps)


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def answered(api: ScriptedApi, prompt: str, count: int) -> Request:
    """The request with which claude hands over the results of `count` tools of this prompt."""
    return api.wait_for(
        lambda: next((one for one in api.turns(prompt) if len(one.results) >= count), None),
        f"{count} results: {prompt[:60]}",
    )


def user_text(request: Request) -> str:
    """What the user has said last, to the letter."""
    said = [one["content"] for one in request.body["messages"] if one["role"] == "user"]
    return texts(said[-1])[-1]


def of_agent(result: str) -> dict[str, str]:
    """What `env` printed."""
    return dict(line.split("=", 1) for line in result.splitlines() if "=" in line)


# ------------------------------------------------------------------------------------------------ what it is told


def test_agent_is_started_with_prompt_briefing_name_and_a_clean_environment(
    claude: Claude, api: ScriptedApi
) -> None:
    claude.tmux("new-session", "-d", "-s", "keeper", "sleep 1000")  # a server that a claude has started
    for name, value in LEFT_BY_A_CLAUDE.items():
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
    spawned = claude.spawn("Env", prompt, "--name", "scout", "--wait", "20", env=LEFT_BY_A_CLAUDE)
    session_id = spawned["session_id"]
    last = answered(api, "Look around", 5)
    session = claude.idle(session_id)
    requests = api.turns("Look around")

    assert user_text(requests[0]) == prompt
    assert session["model"] == "sonnet"
    assert {one.body["model"] for one in requests} == {"claude-sonnet-5"}
    assert f" {session['friendly_name']} ──" in claude.screen(session_id)
    assert session["friendly_name"] == "env-scout"

    briefing = requests[0].system[requests[0].system.index("You are env-scout") :]
    assert len(briefing.splitlines()) <= 25
    assert f"(session {session_id})" in briefing and str(claude.work) in briefing
    assert all(briefing in one.system for one in requests)
    helper = next(one for one in api.turns() if one.prompt == "You are the helper")
    assert "sm note" not in helper.system  # a sub-agent reports to the agent, not to sm

    said = last.results
    assert [failed for failed, _ in said] == [False] * 5
    environment = of_agent(said[0][1])
    assert not [name for name, value in environment.items() if SURROUNDING in value]
    assert not {"TMUX", "TMUX_PANE", "SM_HOME", "IS_SANDBOX", "XDG_RUNTIME_DIR"} & environment.keys()
    ours = {name: value for name, value in environment.items() if name.startswith("SM_")}
    assert ours == {
        "SM_SESSION_ID": session_id,
        "SM_PARENT_ID": "",
        "SM_WORKSPACE_ID": "",
        "SM_TRUST_LEVEL": "direct",
        "SM_SOCKET": str(claude.socket),
        "SM_TOKEN_FILE": str(claude.state / "launch" / f"{session_id}.token"),
    }
    assert said[1][1] == str(claude.state / "bin" / "sm")
    assert json.loads(said[3][1].partition("\n")[2])["session_id"] == session_id

    assert session["note"] == "reading; with care"
    assert [one["message"] for one in claude.json("checkpoints", session_id)] == ["halfway (1/2 tasks)"]
    # A claude that takes itself for a part of another writes none of these.
    assert claude.transcript(environment["CLAUDE_CODE_SESSION_ID"]).exists()
    assert (claude.claude_home / "sessions" / f"{session['pid']}.json").exists()
    assert claude.tmux("show-environment", "-g") == before
    claude.sm("kill", session_id)


def test_model_that_was_asked_for_last_reaches_the_api(claude: Claude, api: ScriptedApi) -> None:
    asked = {"preset": ("--preset", "deep"), "flag": ("--preset", "deep", "--model", "haiku")}
    sessions = {
        name: claude.spawn("Env", f"Which model: {name}?", *options)["session_id"]
        for name, options in asked.items()
    }
    found = {name: claude.idle(session_id)["model"] for name, session_id in sessions.items()}
    models = {name: api.turns(f"Which model: {name}?")[0].body["model"] for name in asked}
    assert models == {"preset": "claude-opus-4-8", "flag": "claude-haiku-4-5-20251001"}
    assert found == {"preset": "opus", "flag": "haiku"}
    claude.sm("kill", *sessions.values())


ODD_PROMPTS: Mapping[str, str | None] = {
    "/review the code": None,
    "!touch ran-it": None,
    "--help": None,
    "exit": "exit.",
    "doctor": None,
    "look at @data.txt": None,
    "several\n\n  lines /x\n\tünïcode 👩‍💻 e\u0301 \u202f中文 'q' \"d\" $HOME `id` $(id) %s ~ *\nends with \\": None,
    ("word " * 2000).strip() + "!": None,
}
"""Each prompt, and where it does not arrive to the letter (but for blanks around it) how it does."""


def test_odd_prompts_arrive_as_text(claude: Claude, api: ScriptedApi) -> None:
    (claude.work / "data.txt").write_text("the data")
    wanted = {
        unicodedata.normalize("NFC", instead or prompt).strip() for prompt, instead in ODD_PROMPTS.items()
    }
    first = len(api.requests)
    sessions = [claude.spawn("Plain", "-", stdin=prompt)["session_id"] for prompt in ODD_PROMPTS]
    for session_id in sessions:
        claude.idle(session_id)
    assert {user_text(one).strip() for one in api.turns() if one.number > first} == wanted
    assert not (claude.work / "ran-it").exists()
    told = claude.events()
    for session_id in sessions:  # none of them was idle before its turn
        own = [one["type"] for one in told if one["session_id"] == session_id]
        assert own == ["spawned", "started", "idle"]
    claude.sm("kill", "--force", *sessions)


def test_prompt_in_a_file_is_read_without_a_question(api: ScriptedApi) -> None:
    with Claude(api, claude_more="  prompt_via: file") as claude:
        session_id = claude.spawn("Plain", "The secret plan\nof two lines")["session_id"]
        claude.idle(session_id)
        (asked,) = api.turns("SM_PROMPT_FILE")
        path = claude.state / "launch" / f"{session_id}.prompt"
        assert user_text(asked) == f"Read the file {path} (SM_PROMPT_FILE names it): your task stands there."
        claude.prompt(session_id, "Now " + tool("Read", file_path=str(path)))
        ((failed, read),) = answered(api, "Now ", 1).results
        assert (failed, "The secret plan" in read, "of two lines" in read) == (False, True, True)
        assert "secret" not in Path(f"/proc/{claude.session(session_id)['pid']}/cmdline").read_text()


# --------------------------------------------------------------------------------------------- what it may, unasked

REPORTS = (
    "sm note \"text; with && signs | and 'quotes'\"",
    "sm note 'it costs $5'",
    "sm checkpoint 'one (1/3)' && sm note two",
    'sm note "$(cat <<\'EOF\'\nit says "done"\nEOF\n)"',
    "sm me --json | head -c 20 && sm who && sm others && sm children 2>&1",
    "sm progress strict-reporter && sm inbox && sm requests && sm status",
    # claude runs `cat < FILE` in any mode and without a rule, too.
    "sm note - < /etc/hostname",
)
NOT_WITHOUT_A_QUESTION = (
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


def test_agent_reports_and_reads_without_a_question_and_does_no_more(
    claude: Claude, api: ScriptedApi
) -> None:
    impostor = claude.work / "sm"
    impostor.write_text("#!/bin/sh\ntouch ran-it\n")
    impostor.chmod(0o755)
    prompt = f"All of these {then(*map(bash, (*REPORTS, *NOT_WITHOUT_A_QUESTION)))}"
    # In this mode claude refuses what it would have asked a person about.
    session_id = claude.spawn("Strict", prompt, "--name", "reporter")["session_id"]
    said = answered(api, "All of these", len(REPORTS) + len(NOT_WITHOUT_A_QUESTION)).results
    outcomes = dict(zip((*REPORTS, *NOT_WITHOUT_A_QUESTION), said, strict=True))
    assert {command for command, (failed, _) in outcomes.items() if not failed} == set(REPORTS), outcomes
    assert not (claude.work / "ran-it").exists()
    claude.idle(session_id)
    claude.sm("kill", session_id)
    impostor.unlink()


def test_reporting_of_an_agent_that_asks_for_permissions_needs_none(claude: Claude, api: ScriptedApi) -> None:
    prompt = f"Carefully {then(bash('sm note first'), bash('sm note x; touch ran-it'))}"
    session_id = claude.spawn("Plain", prompt)["session_id"]
    asking = claude.says(session_id, "waiting_input", "touch ran-it")
    assert asking["note"] == "first"
    assert asking["model"] == "claude-opus-4-8[1m]"  # nobody chose one: what claude says that it is
    claude.keys(session_id, "Escape")
    claude.idle(session_id)
    assert not (claude.work / "ran-it").exists()
    claude.sm("kill", session_id)


def test_agent_that_asks_as_it_was_told_to_is_woken_by_the_answer(claude: Claude, api: ScriptedApi) -> None:
    ask = "sm ask 'red or blue?' --option red --option blue --wait 3600"
    asked = tool("Bash", command=ask, description="ask", run_in_background=True)
    session_id = claude.spawn("Planner", f"Choose {then(bash('sm note choosing'), asked)}")["session_id"]
    failed, said = answered(api, "Choose", 2).results[-1]
    assert not failed
    claude.says(session_id, "idle", "shells in the background: 1")
    claude.sm("answer", session_id, "blue")
    api.wait_for(lambda: api.turns("<task-notification>"), "the answer wakes it")
    claude.says(session_id, "idle", "its turn ended (Stop)")
    (output,) = re.findall(r"\S+\.output", said)
    claude.prompt(session_id, "Read it " + tool("Read", file_path=output))
    failed, said = answered(api, "Read it", 3).results[-1]
    assert (failed, "blue" in said) == (False, True)
    claude.sm("kill", session_id)


# -------------------------------------------------------------------------------------------- what is the user's own


def test_users_own_hooks_rules_and_files_stay_as_they_are(claude: Claude, api: ScriptedApi) -> None:
    touched = claude.home / "touched"
    state = claude.claude_home / ".claude.json"
    answers = json.loads(state.read_bytes())
    settings = claude.claude_home / "settings.json"
    own = {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"echo stopped >> {touched}"}]}]},
        "permissions": {"allow": ["Bash(which sm)"], "ask": ["Bash(sm checkpoint:*)"]},
    }
    settings.write_text(json.dumps(own, indent=4))
    try:
        steps = then(bash("which sm"), bash("sm note mine"), bash("sm checkpoint x"), "[[text:ok]]")
        session_id = claude.spawn("Plain", f"With settings {steps}")["session_id"]
        claude.says(session_id, "waiting_input", "sm checkpoint x")  # the user's rule wins over ours
        assert [failed for failed, _ in answered(api, "With settings", 2).results] == [False] * 2
        claude.keys(session_id, "Enter")
        claude.idle(session_id)
        until(touched.exists, "the user's own Stop hook has run")
        assert touched.read_text() == "stopped\n"
        assert settings.read_text() == json.dumps(own, indent=4)
        now = json.loads(state.read_bytes())  # claude writes there; sm does not
        for answer in ("hasCompletedOnboarding", "customApiKeyResponses"):
            assert now[answer] == answers[answer]
        assert now["projects"][str(claude.home)] == answers["projects"][str(claude.home)]
        assert b"sm hook" not in state.read_bytes()
        claude.sm("kill", session_id)
    finally:
        settings.unlink()


def test_agent_sees_nothing_of_an_sm_that_is_being_replaced(claude: Claude, api: ScriptedApi) -> None:
    session_id = claude.spawn("Env", "First [[text:one]]")["session_id"]
    pid = claude.idle(session_id)["pid"]
    argv = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    hooks = json.loads(argv[argv.index("--settings") + 1])["hooks"]
    commands = {one["command"] for entries in hooks.values() for entry in entries for one in entry["hooks"]}
    link = claude.state / "bin" / "sm"
    away = link.rename(link.with_name("away"))
    try:
        (command,) = commands
        done = subprocess.run(["sh", "-c", command], input="{}", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        claude.prompt(session_id, f"Second {then(bash('env'), '[[text:two]]')}")
        assert answered(api, "Second", 1).results[-1][0] is False
        claude.idle(session_id)  # its other evidence tells
        until(lambda: "● two" in claude.screen(session_id), "its turn is over")
        assert "hook" not in claude.screen(session_id).lower()
    finally:
        away.rename(link)
    claude.prompt(session_id, "Third [[text:three]]")
    claude.says(session_id, "idle", "its turn ended (Stop)")
    claude.sm("kill", session_id)


# ---------------------------------------------------------------------------------- what keeps it from starting


def test_claude_that_is_not_installed_is_told_with_what_to_type(claude: Claude) -> None:
    path = "/usr/bin:/bin"
    assert shutil.which("claude", path=path) is None
    said = claude.refused("spawn", "Plain", "hi", "--name", "no-program", exit_code=9, env={"PATH": path})
    assert "cannot run claude: there is no such program on the agent's PATH" in said
    assert "hint: npm install -g @anthropic-ai/claude-code" in said
    (session,) = [one for one in claude.json("all") if one["friendly_name"] == "plain-no-program"]
    assert session["status"] == "error"
    assert "npm install -g @anthropic-ai/claude-code" in session["status_reason"]


@pytest.mark.parametrize(
    ("agent_type", "arguments", "names", "hint"),
    [
        ("BadFlag", (), "it does not know an option: --no-such-flag", "take --no-such-flag out"),
        ("Plain", ("--args", "--wild"), "it does not know an option: --wild", "take --wild out"),
        (
            "BadMode",
            (),
            "it does not know: --permission-mode wild",
            "claude --help shows what --permission-mode may be",
        ),
    ],
)
def test_option_that_claude_does_not_know_is_named(
    claude: Claude, agent_type: str, arguments: Sequence[str], names: str, hint: str
) -> None:
    said = claude.refused("spawn", agent_type, "hi", *arguments, "--wait", "20", exit_code=9)
    assert "claude has ended: " in said and names in said and hint in said
    session = claude.json("all")[-1]
    assert (session["status"], session["exit_code"]) == ("error", 1)
    assert names in session["status_reason"] and hint in session["status_reason"]


@pytest.mark.parametrize(
    ("seed", "names", "hint"),
    [
        ({"onboarded": False}, "it wants to be set up", "run claude once yourself, in a terminal"),
        ({"approved": False}, "whether to use the API key", "choose Yes once"),
        ({"trusted": False}, "whether the directory is trusted", "sm trust "),
    ],
    ids=["onboarding", "key", "trust"],
)
def test_question_of_the_first_start_is_told_with_what_to_type(
    claude: Claude, seed: Mapping[str, bool], names: str, hint: str
) -> None:
    env = claude.other_home(f"without-{next(iter(seed))}", **seed)
    said = claude.refused("spawn", "Plain", "hi", "--wait", "20", exit_code=9, env=env)
    assert names in said and hint in said
    session = claude.json("all")[-1]
    assert (session["status"], session["status_source"]) == ("waiting_input", "screen")
    assert names in session["status_reason"] and hint in session["status_reason"]
    claude.sm("kill", "--force", session["session_id"])


def test_missing_login_is_told_with_and_without_a_prompt(claude: Claude, api: ScriptedApi) -> None:
    env = {"ANTHROPIC_API_KEY": ""}
    for prompt in ((), ("Nobody hears this",)):
        said = claude.refused("spawn", "Plain", *prompt, "--wait", "20", exit_code=9, env=env)
        assert "it is not logged in" in said and "/login" in said
        session_id = claude.json("all")[-1]["session_id"]
        session = claude.says(session_id, "waiting_input", "it is not logged in")
        assert "/login" in session["status_reason"]
        claude.sm("kill", "--force", session_id)
    assert not api.turns("Nobody hears this")


def test_model_that_does_not_exist_is_named(claude: Claude) -> None:
    names = "the model no-such-model does not exist or is not for this account"
    session = claude.stuck(
        "waiting_input", names, "Plain", "Hello [[error:404:*]]", "--model", "no-such-model"
    )
    assert "/model in its terminal" in session["status_reason"]
    claude.prompt(session["session_id"], "Hello again [[text:hello]]")  # as if there was one now
    claude.idle(session["session_id"])
    claude.sm("kill", session["session_id"])


@as_root
def test_bypassing_permissions_as_root_is_refused_at_once_unless_this_is_a_sandbox(
    claude: Claude, api: ScriptedApi
) -> None:
    count = len(claude.json("all"))
    said = claude.refused("spawn", "Waiter", "hi", exit_code=2)
    assert "claude refuses to bypass permissions as root" in said
    assert "IS_SANDBOX" in said
    assert "refuses" in claude.refused("spawn", "Waiter", "hi", exit_code=2, env={"IS_SANDBOX": "yes"})
    assert len(claude.json("all")) == count

    sandbox = {"IS_SANDBOX": "1"}
    session = claude.stuck(
        "waiting_input", "accept what bypassing permissions means", "Waiter", "hi", env=sandbox
    )
    assert "skipDangerousModePermissionPrompt" in session["status_reason"]
    settings = claude.claude_home / "settings.json"
    settings.write_text('{"skipDangerousModePermissionPrompt": true}')
    try:
        free = claude.spawn("Waiter", f"Freely {bash('touch freely')}", env=sandbox)["session_id"]
        answered(api, "Freely", 1)
        assert (claude.work / "freely").exists()
        claude.sm("kill", "--force", session["session_id"], free)
    finally:
        settings.unlink()


def test_untrusted_directory_is_trusted_by_a_key_or_by_sm_trust(
    claude: Claude, api: ScriptedApi, tmp_path: Path
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="untrusted-"))
    where = ("--working-dir", str(directory))
    try:
        env = claude.other_home("answers-by-key")
        hint = f"sm trust {shlex.quote(str(directory))}, as the operator"
        by_key = claude.stuck("waiting_input", hint, "Plain", "By key [[hold:key]]", *where, env=env)
        claude.keys(by_key["session_id"], "Enter")
        api.wait_for_hold("key")
        claude.says(by_key["session_id"], "running", "")
        api.release("key")
        claude.idle(by_key["session_id"])
        assert [one.prompt for one in api.turns("By key")] == ["By key [[hold:key]]"]

        env = claude.other_home("answers-by-command")
        told = claude.sm("trust", str(directory), env=env)
        assert told.startswith(f"claude trusts {directory} and all below it (written to ")
        (directory / "below").mkdir()
        where = ("--working-dir", str(directory / "below"))
        by_command = claude.spawn("Plain", "By command", *where, env=env)
        claude.idle(by_command["session_id"])
        assert len(api.turns("By command")) == 1
        assert "already" in claude.sm("trust", str(directory / "below"), env=env)
        # While a claude runs, and another waits at the question: it lasts beyond what either writes.
        where = ("--working-dir", str(tmp_path))
        waits = claude.stuck("waiting_input", "sm trust", "Plain", "Waits", *where, env=env)
        told = claude.sm("trust", str(tmp_path), env=env)
        assert "; claudes are running (pid " in told and told.endswith("), and the entry stands\n"), told
        claude.sm("kill", "--force", waits["session_id"])
        claude.prompt(by_command["session_id"], "Once more")
        api.wait_for(lambda: [one for one in api.turns("Once more") if one.over], "it has answered")
        again = claude.spawn("Plain", "No question", *where, env=env)
        claude.idle(again["session_id"])
        assert len(api.turns("No question")) == 1
        claude.sm("kill", "--force", again["session_id"])
        claude.sm("kill", "--force", by_key["session_id"], by_command["session_id"])
    finally:
        shutil.rmtree(directory)


def test_doctor_finds_a_home_in_which_agents_can_start(claude: Claude) -> None:
    said = claude.run("doctor").stdout
    of_claude = [line for line in said.splitlines() if "claude" in line]
    for part in (
        f"claude {claude_cli.VERSION} at ",
        "claude has been set up",
        "claude logs in with ANTHROPIC_API_KEY",
        f"claude trusts {claude.work}",
    ):
        assert [line for line in of_claude if part in line and line.startswith("ok ")], said
