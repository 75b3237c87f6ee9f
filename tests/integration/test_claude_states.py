"""The status that sm shows for the real Claude Code after actions of a person, an agent or the API."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api, shared_sessions
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT, repeat_until

ASKS = tool("Bash", command="python3 -c pass")
OPTIONS = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
COLOUR = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": OPTIONS}]

EDITING = "the-editor-is-open"

api = scripted_api("module")
claudes = claude_instance("module")
shared = shared_sessions()


@pytest.fixture
def editor(claudes: ClaudeInstance, shared: dict[str, str]) -> str:
    """An idle session: the one of the previous test if possible."""
    session_id = shared.get("editor")
    if session_id is None or claudes.session(session_id)["status"] != "idle":
        session_id = claudes.spawn("Editor", "--wait", PATIENT)["session_id"]
        shared["editor"] = session_id
    claudes.idle(session_id)
    return session_id


def moves(claudes: ClaudeInstance, session_id: str, since: int) -> list[str]:
    """Status changes of a session after the event number `since`."""
    kinds = ("running", "idle", "waiting_input", "completed", "error", "killed", "reopened")
    return [e["type"] for e in claudes.events(session_id) if e["seq"] > since and e["type"] in kinds]


def last_seq(claudes: ClaudeInstance, session_id: str) -> int:
    return max(int(event["seq"]) for event in claudes.events(session_id))


def wait_answers(api: ScriptedApi, words: str, count: int = 1) -> None:
    """Wait until the API has completed `count` answers in the turn of this prompt."""
    api.wait_for(lambda: sum(turn.over and turn.status == 200 for turn in api.turns(words)) >= count, words)


def idle_again(claudes: ClaudeInstance, session_id: str, since: int) -> list[str]:
    """Wait until the session is idle again; return its status changes after the event number `since`."""
    until(lambda: "idle" in moves(claudes, session_id, since), "idle again")
    claudes.idle(session_id)
    return moves(claudes, session_id, since)


@pytest.mark.parametrize(
    ("call", "reason", "key", "after"),
    [
        (ASKS, "claude asks for permission: Bash: python3 -c pass", "Enter", ["running", "idle"]),
        (ASKS, "claude asks for permission", "Escape", ["idle"]),
        (
            tool("AskUserQuestion", questions=COLOUR),
            "claude asks: Which colour?",
            "Enter",
            ["running", "idle"],
        ),
    ],
    ids=["permission granted", "permission refused", "question answered"],
)
def test_status_is_waiting_input_until_a_person_answers_the_dialog(
    claudes: ClaudeInstance, editor: str, call: str, reason: str, key: str, after: list[str]
) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"dialog-1 {call}[[then]][[text:so]]")
    assert claudes.says(editor, "waiting_input", reason)["status_source"] == "hook"
    claudes.answer_dialog(editor, key)
    seen = idle_again(claudes, editor, since)
    assert seen == ["running", "waiting_input", *after], claudes.sm("events", editor, "--json")


def test_status_is_waiting_input_while_a_plan_awaits_approval(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn(
        "Planner", f"plan-1 {tool('ExitPlanMode', plan='1. do it')}[[then]][[text:x]]"
    )["session_id"]
    claudes.says(session_id, "waiting_input", "claude asks for approval of its plan")
    claudes.answer_dialog(session_id, "Escape")
    claudes.idle(session_id)
    claudes.sm("kill", session_id)


@pytest.mark.parametrize("begun", [True, False], ids=["streaming", "before the first token"])
def test_status_is_idle_after_an_interrupt_that_no_hook_reports(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str, begun: bool
) -> None:
    since, name = last_seq(claudes, editor), f"interrupted-{begun}"
    claudes.prompt(editor, f"{name} {'[[text:first words]]' if begun else ''}[[hold:{name}]]")
    api.wait_for_hold(name)
    claudes.says(editor, "running", "")
    claudes.keys(editor, "Escape")
    assert idle_again(claudes, editor, since) == ["running", "idle"]
    api.release(name)
    if not begun:  # the prompt is back in the box
        claudes.keys(editor, "C-u", "C-u")


@pytest.mark.claude_core
def test_status_is_idle_after_a_tool_is_interrupted(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"tool-1 {tool('Bash', command='echo a; sleep 100')}[[then]][[text:never]]")
    until(lambda: claudes.progress(editor)["current_activity"] == "Bash: echo a; sleep 100", "the tool runs")
    claudes.keys(editor, "Escape")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


@pytest.mark.claude_core
def test_status_is_idle_when_a_turn_fails(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "fails-1 [[error:400:*]]")
    claudes.says(editor, "idle", "the turn failed")
    assert moves(claudes, editor, since) == ["running", "idle"]


PART = f"part-1 {tool('Bash', command='echo x')}"


@pytest.mark.claude_core
def test_retries_belong_to_one_turn(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "whole-1 [[error:529:2]][[text:all]]")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


@pytest.mark.claude_core
def test_sub_agent_belongs_to_the_turn_that_starts_it(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    sub_agent = tool("Agent", description="d", prompt=PART, subagent_type="general-purpose")
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"whole-1 {sub_agent}[[then]][[text:all]]")
    wait_answers(api, "whole-1", 2)
    idle_again(claudes, editor, since)
    # A later claude runs it in the background. Its end then starts a turn, before which claude may be idle.
    assert moves(claudes, editor, since)[:3] in (["running", "idle"], ["running", "idle", "running"])


@pytest.mark.claude_core
def test_status_counts_background_shells_and_their_end_starts_a_turn(
    claudes: ClaudeInstance, editor: str
) -> None:
    shell_s = 10.0  # it outlives the turn
    shell = tool("Bash", command=f"sleep {shell_s:.1f}", run_in_background=True)
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"shell-1 {shell}[[then]][[text:started]]")
    claudes.says(editor, "idle", "shells in the background: 1")
    twice = ["running", "idle"] * 2
    until(lambda: moves(claudes, editor, since) == twice, "a second turn")


def test_status_is_running_while_a_background_sub_agent_works(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    part = tool(
        "Agent", description="d", prompt="back-part [[hold:back]][[text:y]]", subagent_type="general-purpose",
        run_in_background=True,
    )  # fmt: skip
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"back-1 {part}[[then]][[text:waits]]")
    wait_answers(api, "back-1", 2)
    until(lambda: "sub-agents in the background" in json.dumps(claudes.why(editor)), "its turn has ended")
    assert moves(claudes, editor, since) == ["running"]
    api.release("back")
    # The end of the sub-agent starts another turn. claude may be idle for a moment before.
    api.wait_for(
        lambda: any(t.over for t in api.turns("task-notification") if "agent" in t.prompt.lower()),
        "the notification",
    )
    until(lambda: moves(claudes, editor, since)[-1] == "idle", "idle again")


def test_queued_prompt_is_handled_within_the_running_turn(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    since = last_seq(claudes, editor)
    tool_s = 10.0  # the next prompt comes before its end
    command = f"sleep {tool_s:.1f}"
    claudes.prompt(editor, f"queue-1 {tool('Bash', command=command)}[[then]][[text:both]]")
    wait_answers(api, "queue-1", 1)
    until(lambda: claudes.progress(editor)["current_activity"] == f"Bash: {command}", "the tool runs")
    claudes.prompt(editor, "queue-2")
    until(lambda: "idle" in moves(claudes, editor, since), "idle again")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


@pytest.mark.claude_core
def test_status_is_waiting_input_while_a_person_has_a_menu_open(claudes: ClaudeInstance, editor: str) -> None:
    for keys, closes in ((("Escape", "Escape"), "Escape"), (("C-o",), "C-o")):
        claudes.open_view(editor, *keys)
        opened = claudes.says(editor, "waiting_input", "transcript view" if closes == "C-o" else "")
        assert opened["status_source"] in ("screen", "state file")  # a later claude publishes a menu
        claudes.keys(editor, closes)
        claudes.idle(editor)
    claudes.prompt(editor, "/model")
    claudes.says(editor, "waiting_input", "claude waits: dialog open")
    claudes.keys(editor, "Escape")
    claudes.idle(editor)


def press_until_shown(claudes: ClaudeInstance, session_id: str, key: str, words: str) -> None:
    # Claude loses keys while it draws.
    repeat_until(lambda: claudes.keys(session_id, key), lambda: words in claudes.screen(session_id), words)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "working"])
def test_status_is_waiting_input_while_an_external_editor_has_the_terminal(
    api: ScriptedApi, busy: bool
) -> None:
    with ClaudeInstance(api, claude_more="    EDITOR: ./editor") as claudes:
        editor = claudes.work / "editor"
        editor.write_text(f"#!/bin/sh\necho {EDITING}\nread -r line\n")
        editor.chmod(0o755)
        name = f"edits-{busy}"
        prompt = f"{name} [[text:x]][[hold:{name}]][[text:y]]" if busy else name
        session_id = claudes.spawn("Plain", prompt)["session_id"]
        if busy:
            api.wait_for_hold(name)
            claudes.says(session_id, "running", "")
        else:
            claudes.idle(session_id)
        press_until_shown(claudes, session_id, "C-g", EDITING)
        waiting = claudes.says(session_id, "waiting_input", "has its terminal; hint: leave ")
        assert waiting["status_source"] == "process"
        assert f"sm attach {session_id}" in waiting["status_reason"]
        assert claudes.sm("send", session_id, "later-1").startswith("queued (busy: ")
        assert "has its terminal" in claudes.refused("interrupt", session_id, exit_code=4)
        claudes.kill_daemon()
        claudes.sm("daemon", "start")
        since = last_seq(claudes, session_id)
        if busy:
            api.release(name)
        claudes.keys(session_id, "Enter")
        wait_answers(api, "later-1")
        claudes.idle(session_id)
        assert "waiting_input" not in moves(claudes, session_id, since)


def test_status_is_waiting_input_while_claude_is_suspended(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    """tmux continues claude immediately, but claude does not read its terminal until it gets another SIGCONT."""
    session_id = claudes.spawn("Plain", "--wait", PATIENT)["session_id"]
    press_until_shown(claudes, session_id, "C-z", "Run `fg` to bring")
    hint = f"it is suspended; hint: continue it: sm interrupt {session_id}"
    waiting = claudes.says(session_id, "waiting_input", hint)
    assert waiting["status_source"] == "process"
    assert claudes.sm("interrupt", session_id) == f"Continued {waiting['name']}: it was suspended\n"
    assert claudes.session(session_id)["status"] == "idle"
    claudes.prompt(session_id, "continued-1")
    wait_answers(api, "continued-1")
    claudes.sm("kill", session_id)


@pytest.mark.claude_core
def test_compact_and_clear_keep_the_session_and_its_process(claudes: ClaudeInstance, editor: str) -> None:
    for prompt in ("before-1", "before-2"):  # claude 2.1.197 does not compact a single turn
        since = last_seq(claudes, editor)
        claudes.prompt(editor, prompt)
        idle_again(claudes, editor, since)
    before = claudes.session(editor)
    claudes.prompt(editor, "/compact")
    until(lambda: "Compacted" in claudes.screen(editor), "a compaction")
    claudes.idle(editor)
    claudes.prompt(editor, "/clear")
    until(lambda: "before-1" not in claudes.screen(editor), "an empty screen")
    claudes.says(editor, "idle", "the conversation was cleared")
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "after-1")
    until(lambda: moves(claudes, editor, since)[-2:] == ["running", "idle"], "a turn of the new conversation")
    after = claudes.session(editor)
    assert (after["session_id"], after["pid"]) == (before["session_id"], before["pid"])


def test_status_is_idle_when_the_context_limit_is_reached(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn(
        "Editor", "--model", "haiku", "limit-1 [[usage:input=199000,output=10]][[text:much]]"
    )["session_id"]
    claudes.idle(session_id)
    since = last_seq(claudes, session_id)
    claudes.prompt(session_id, "limit-2")
    assert idle_again(claudes, session_id, since)[-1] == "idle"
    claudes.sm("kill", session_id)


def test_session_is_completed_when_a_person_types_exit(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Plain", "exits-1")["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "/exit")
    ended = claudes.ended(session_id)
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)


@pytest.mark.claude_core
def test_kill_lets_claude_run_its_session_end_hook(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Plain", "killed-1")["session_id"]
    state_file = claudes.state_file(claudes.idle(session_id))
    claudes.sm("kill", session_id)
    ended = claudes.session(session_id)
    # claude exits with 128 + 15. The engine reports the same number for a signal, so sm cannot tell them apart.
    code = (None, signal.SIGTERM) if claudes.container else (128 + signal.SIGTERM, None)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("killed", *code)
    assert not state_file.exists()
    assert "the agent announced its end (SessionEnd: other)" in claudes.why(session_id)["facts"]


def test_status_is_error_when_claude_is_killed_though_its_state_file_says_busy(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "crash-1 [[text:x]][[hold:crash]]")["session_id"]
    api.wait_for_hold("crash")
    running = claudes.says(session_id, "running", "")
    stale = claudes.state_file(running)
    os.kill(running["pid"], signal.SIGKILL)
    ended = claudes.ended(session_id)
    assert (ended["status"], ended["exit_signal"]) == ("error", 9)
    assert json.loads(stale.read_text())["status"] == "busy"
    api.release("crash")


def test_completed_session_is_reopened_by_a_new_prompt_only(claudes: ClaudeInstance) -> None:
    done = tool("Bash", command='sm complete "all done"')
    session_id = claudes.spawn("Editor", f"complete-1 {done}[[then]][[text:bye]]")["session_id"]
    completed = claudes.in_status(session_id, "completed")
    assert completed["completion_message"] == "all done"
    until(lambda: claudes.why(session_id)["evidence"][0]["says"] == "idle", "the end of its turn")
    claudes.prompt(session_id, "more-1")
    claudes.idle(session_id)
    assert claudes.session(session_id)["completion_message"] is None
    assert "reopened" in [event["type"] for event in claudes.events(session_id)]
    claudes.sm("kill", session_id)


def test_completed_session_is_not_idle_before_the_turn_of_the_message_that_reopens_it(
    claudes: ClaudeInstance,
) -> None:
    done = tool("Bash", command='sm complete "all done"')
    session_id = claudes.spawn("Editor", f"complete-2 {done}[[then]][[text:bye]]")["session_id"]
    claudes.in_status(session_id, "completed")
    until(lambda: claudes.why(session_id)["evidence"][0]["says"] == "idle", "the end of its turn")
    claudes.sm("send", session_id, "more-2")
    claudes.idle(session_id)
    types = [event["type"] for event in claudes.events(session_id)]
    moves = [kind for kind in types[types.index("reopened") :] if kind in ("reopened", "running", "idle")]
    assert moves == ["reopened", "idle"]
    claudes.sm("kill", session_id)


@pytest.mark.claude_core
def test_status_comes_from_the_state_file_when_hooks_are_disabled(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        instance.write_settings('{"disableAllHooks": true}')
        spawned = instance.spawn("Plain", "silent-1 [[text:x]][[hold:silent]]")
        session_id = spawned["session_id"]
        (warning,) = spawned["warnings"]
        assert "hooks are turned off in" in warning and "sm cannot answer permissions" in warning
        assert "may have no tools of sm" in warning
        api.wait_for_hold("silent")
        assert any(
            name.startswith("mcp__sm__") for name in api.turns()[0].tools
        )  # it was typed when they were there
        running = instance.says(session_id, "running", "")
        assert running["status_source"] == "state file"
        api.release("silent")
        assert instance.idle(session_id)["status_source"] == "state file"
        assert {"no hook of this process has reported yet", warning} <= {*instance.why(session_id)["facts"]}
        progress: dict[str, Any] = until(
            lambda: instance.progress(session_id)["tokens"]["output"] and instance.progress(session_id),
            "tokens",
        )
        assert progress["tokens"] == {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}
        done = tool("Bash", command="sm complete all-done")
        instance.prompt(session_id, f"silent-2 {done}[[then]][[text:bye]]")
        instance.in_status(session_id, "completed")
        until(lambda: "bye" in instance.screen(session_id), "the end of its turn")
        until(lambda: instance.why(session_id)["evidence"][0]["says"] == "idle", "claude is idle")
        instance.prompt(session_id, "silent-3 [[wait:1]][[text:more]]")
        assert instance.idle(session_id)["completion_message"] is None
        assert "reopened" in [event["type"] for event in instance.events(session_id)]


def test_status_is_waiting_input_when_one_of_two_sub_agents_asks(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    echo = "[[then]]".join(tool("Bash", command=f"echo {number}") for number in range(4))
    works = tool("Agent", description="w", prompt=f"works-2 {echo}", subagent_type="general-purpose")
    asks = tool("Agent", description="a", prompt=f"asks-2 {ASKS}", subagent_type="general-purpose")
    claudes.prompt(editor, f"both-1 {asks}{works}[[then]][[text:all]]")
    (request,) = until(lambda: claudes.get("/v1/requests", session=editor), "a request is open")
    wait_answers(api, "both-1", 1)
    behind = "Backgrounded" in claudes.screen(editor) or "background agents" in claudes.screen(editor)
    # A later claude runs sub-agents in the background, and works while one of them asks without a dialog.
    status = "running" if behind else "waiting_input"
    # The state file may report the dialog before its hook does, and a hook of the other sub-agent come in between.
    claudes.says(editor, status, "" if behind else "claude asks for permission: Bash: python3 -c pass")
    since = last_seq(claudes, editor)
    wait_answers(api, "works-2", 5)
    assert claudes.session(editor)["status"] == status
    assert moves(claudes, editor, since) == []
    if behind:
        claudes.sm("approve", request["request_id"])
        claudes.idle(editor)
    else:
        claudes.answer_dialog(editor, "Enter")
        assert idle_again(claudes, editor, since) == ["running", "idle"]


def test_hooks_are_off_as_the_warning_says_when_a_project_disables_them(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        settings = instance.work / ".claude" / "settings.local.json"
        settings.parent.mkdir()
        settings.write_text('{"disableAllHooks": true}')
        spawned = instance.spawn("Plain", "project-1 [[text:x]]")
        assert str(settings) in spawned["warnings"][0]
        wait_answers(api, "project-1")
        assert instance.idle(spawned["session_id"])["status_source"] == "state file"
        assert any(str(settings) in fact for fact in instance.why(spawned["session_id"])["facts"])


def test_turn_continues_when_a_users_stop_hook_blocks_its_end(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        goes_on = json.dumps({"decision": "block", "reason": "on-1 [[wait:1]][[text:more]]"})
        once = f"test -e once || {{ touch once; echo '{goes_on}'; }}"
        hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": once}]}]}}
        instance.write_settings(json.dumps(hook))
        session_id = instance.spawn("Plain", "forbidden-1 [[text:done]]")["session_id"]
        wait_answers(api, "on-1")
        instance.idle(session_id)
        assert moves(instance, session_id, 0) == ["idle"]  # `started` is not a move of a turn


def waits_for_inbox(claudes: ClaudeInstance) -> bool:
    """True when an `sm inbox --wait` of this instance has connected to the daemon."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_waiter = b"\0inbox\0--take\0--wait\0" in (process / "cmdline").read_bytes()
            if is_waiter and str(claudes.home).encode() in (process / "environ").read_bytes():
                return any(os.readlink(fd).startswith("socket:") for fd in (process / "fd").iterdir())
    return False


def test_background_inbox_wait_wakes_claude_when_its_child_ends(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    """The agent waits as its briefing says."""
    script = "while [ ! -e kid-may-end ]; do sleep 0.05; done; sm complete kid-is-done"
    spawn = tool("Bash", command=f"sm spawn Sh '{script}' --name kid")
    wait = tool("Bash", command="sm inbox --take --wait", run_in_background=True)
    claudes.prompt(editor, f"coordinator-1 {spawn}[[then]]{wait}[[then]][[text:waiting]]")

    # An ending before the wait would be typed into claude's input box.
    until(lambda: waits_for_inbox(claudes), "claude waits in the background")
    (claudes.work / "kid-may-end").touch()

    def woken() -> str | None:
        notifications = [t.prompt for t in api.turns("sm inbox --take --wait") if "<output-file>" in t.prompt]
        return notifications[0] if notifications else None

    prompt = api.wait_for(woken, "claude is woken")
    output = prompt.partition("<output-file>")[2].partition("</output-file>")[0]
    assert "sh-kid" in claudes.path_of(editor, output).read_text()
    claudes.idle(editor)
