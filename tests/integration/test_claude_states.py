"""The status of the real Claude Code, state by state: what a person or the API does, and what sm makes of it."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

ASKS = tool("Bash", command="python3 -c pass")
OPTIONS = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
COLOUR = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": OPTIONS}]

api = scripted_api("module")
claudes = claude_instance("module")


@pytest.fixture(scope="module")
def shared() -> dict[str, str]:
    """Sessions that tests leave for the next one. As short-lived as the instance: tests of a module may be split."""
    return {}


@pytest.fixture
def editor(claudes: ClaudeInstance, shared: dict[str, str]) -> str:
    """A session at its empty prompt: that of the test before, where it is as it should be."""
    session_id = shared.get("editor")
    if session_id is None or claudes.session(session_id)["status"] != "idle":
        session_id = claudes.spawn("Editor", "--wait", "60")["session_id"]
        shared["editor"] = session_id
    claudes.idle(session_id)
    return session_id


def moves(claudes: ClaudeInstance, session_id: str, since: int) -> list[str]:
    """The moves of a session after an event's seq."""
    kinds = ("running", "idle", "waiting_input", "completed", "error", "killed", "reopened")
    return [e["type"] for e in claudes.events(session_id) if e["seq"] > since and e["type"] in kinds]


def last_seq(claudes: ClaudeInstance, session_id: str) -> int:
    return max(int(event["seq"]) for event in claudes.events(session_id))


def answered(api: ScriptedApi, words: str, count: int = 1) -> None:
    """The API has answered `count` times in the turn of this prompt, each to its end."""
    api.wait_for(lambda: sum(one.over and one.status == 200 for one in api.turns(words)) >= count, words)


def idle_again(claudes: ClaudeInstance, session_id: str, since: int) -> list[str]:
    """Its moves once it is idle after the event `since`."""
    until(lambda: "idle" in moves(claudes, session_id, since), "idle again")
    claudes.idle(session_id)
    return moves(claudes, session_id, since)


def test_a_permission_that_a_person_grants(claudes: ClaudeInstance, api: ScriptedApi, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"granted-1 {ASKS}[[then]][[text:so]]")
    asks = claudes.says(editor, "waiting_input", "it asks for permission: Bash: python3 -c pass")
    assert asks["status_source"] == "hook"
    claudes.keys(editor, "Enter")
    assert idle_again(claudes, editor, since) == ["running", "waiting_input", "running", "idle"]


def test_a_permission_that_a_person_refuses(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"refused-1 {ASKS}[[then]][[text:so]]")
    claudes.says(editor, "waiting_input", "it asks for permission")
    claudes.keys(editor, "Escape")
    assert idle_again(claudes, editor, since) == ["running", "waiting_input", "idle"]


def test_a_question(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"asked-1 {tool('AskUserQuestion', questions=COLOUR)}[[then]][[text:red]]")
    claudes.says(editor, "waiting_input", "it asks: Which colour?")
    claudes.keys(editor, "Enter")
    assert idle_again(claudes, editor, since) == ["running", "waiting_input", "running", "idle"]


def test_a_plan(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn(
        "Planner", f"plan-1 {tool('ExitPlanMode', plan='1. do it')}[[then]][[text:x]]"
    )["session_id"]
    claudes.says(session_id, "waiting_input", "it asks to approve its plan")
    claudes.keys(session_id, "Escape")
    claudes.idle(session_id)
    claudes.sm("kill", session_id)


@pytest.mark.parametrize("begun", [True, False], ids=["streaming", "before the first token"])
def test_an_interrupt_ends_a_turn_without_any_hook(
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


def screen(claudes: ClaudeInstance, session_id: str) -> str:
    return claudes.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:", check=False)


def test_an_interrupted_tool(claudes: ClaudeInstance, api: ScriptedApi, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"tool-1 {tool('Bash', command='sleep 100')}[[then]][[text:never]]")
    until(lambda: claudes.progress(editor)["current_activity"] == "Bash: sleep 100", "the tool runs")
    claudes.keys(editor, "Escape")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


def test_a_turn_that_fails(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "fails-1 [[error:400:*]]")
    claudes.says(editor, "idle", "its turn failed")
    assert moves(claudes, editor, since) == ["running", "idle"]


def test_retries_are_work(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "retries-1 [[error:529:2]][[text:at last]]")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


def test_a_sub_agent_is_work_of_the_one_turn(claudes: ClaudeInstance, editor: str) -> None:
    part = tool(
        "Agent",
        description="d",
        prompt=f"part-1 {tool('Bash', command='echo x')}",
        subagent_type="general-purpose",
    )
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"whole-1 {part}[[then]][[text:all]]")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


def test_a_shell_in_the_background_is_told_and_its_end_is_a_turn(
    claudes: ClaudeInstance, editor: str
) -> None:
    shell = tool("Bash", command="sleep 3", run_in_background=True)
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"shell-1 {shell}[[then]][[text:started]]")
    claudes.says(editor, "idle", "shells in the background: 1")
    until(
        lambda: moves(claudes, editor, since) == ["running", "idle", "running", "idle"], "a turn of its own"
    )


def test_an_agent_in_the_background_keeps_it_running(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    part = tool(
        "Agent", description="d", prompt="back-part [[hold:back]][[text:y]]", subagent_type="general-purpose",
        run_in_background=True,
    )  # fmt: skip
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"back-1 {part}[[then]][[text:waits]]")
    answered(api, "back-1", 2)
    until(lambda: "sub-agents in the background" in json.dumps(claudes.why(editor)), "its turn has ended")
    assert moves(claudes, editor, since) == ["running"]
    api.release("back")
    # Its end is a turn of its own; for a moment before that nothing may be going on.
    api.wait_for(
        lambda: any(one.over for one in api.turns("task-notification") if "agent" in one.prompt.lower()),
        "told",
    )
    until(lambda: moves(claudes, editor, since)[-1] == "idle", "idle again")


def test_a_message_that_is_read_within_the_turn(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"queue-1 {tool('Bash', command='sleep 2')}[[then]][[text:both]]")
    answered(api, "queue-1", 1)
    until(lambda: claudes.progress(editor)["current_activity"] == "Bash: sleep 2", "the tool runs")
    claudes.prompt(editor, "queue-2")
    assert idle_again(claudes, editor, since) == ["running", "idle"]


def test_what_a_person_opens_at_the_prompt_is_not_idle(claudes: ClaudeInstance, editor: str) -> None:
    for keys, closes in ((("Escape", "Escape"), "Escape"), (("C-o",), "C-o")):
        for _ in range(4):
            claudes.keys(editor, *keys)
            with suppress(AssertionError):  # a claude that is busy drawing loses keys of a person, too
                until(lambda: claudes.session(editor)["status"] == "waiting_input", "it is open", 10)
                break
        opened = claudes.says(editor, "waiting_input", "")
        assert opened["status_source"] == "screen"
        claudes.keys(editor, closes)
        claudes.idle(editor)
    claudes.prompt(editor, "/model")
    claudes.says(editor, "waiting_input", "it waits: dialog open")
    claudes.keys(editor, "Escape")
    claudes.idle(editor)


def test_a_compaction_and_a_clear_stay_one_session_of_ours(claudes: ClaudeInstance, editor: str) -> None:
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "before-1")
    idle_again(claudes, editor, since)
    before = claudes.session(editor)
    claudes.prompt(editor, "/compact")
    until(lambda: "Compacted" in screen(claudes, editor), "a compaction")
    claudes.idle(editor)
    claudes.prompt(editor, "/clear")
    until(lambda: "before-1" not in screen(claudes, editor), "an empty screen")
    claudes.says(editor, "idle", "its conversation was cleared")
    since = last_seq(claudes, editor)
    claudes.prompt(editor, "after-1")
    until(lambda: moves(claudes, editor, since)[-2:] == ["running", "idle"], "a turn of the new one")
    after = claudes.session(editor)
    assert (after["session_id"], after["pid"]) == (before["session_id"], before["pid"])


def test_the_context_limit_is_idle(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn(
        "Editor", "--model", "haiku", "limit-1 [[usage:input=199000,output=10]][[text:much]]"
    )["session_id"]
    claudes.idle(session_id)
    since = last_seq(claudes, session_id)
    claudes.prompt(session_id, "limit-2")
    assert idle_again(claudes, session_id, since)[-1] == "idle"
    claudes.sm("kill", session_id)


def test_an_exit_at_the_prompt_completes(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Plain", "exits-1")["session_id"]
    claudes.idle(session_id)
    claudes.prompt(session_id, "/exit")
    ended = claudes.ended(session_id)
    assert (ended["status"], ended["exit_code"]) == ("completed", 0)


def test_a_kill_lets_it_say_that_it_ends(claudes: ClaudeInstance) -> None:
    session_id = claudes.spawn("Plain", "killed-1")["session_id"]
    claudes.idle(session_id)
    claudes.sm("kill", session_id)
    ended = claudes.session(session_id)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("killed", 143, None)
    assert not (claudes.home / ".claude" / "sessions" / f"{ended['pid']}.json").exists()
    assert claudes.why(session_id)["facts"] == ["it said itself that it ends (SessionEnd: other)"]


def test_one_that_was_killed_by_another_is_an_error_whatever_it_still_publishes(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = claudes.spawn("Plain", "crash-1 [[text:x]][[hold:crash]]")["session_id"]
    api.wait_for_hold("crash")
    running = claudes.says(session_id, "running", "")
    os.kill(running["pid"], signal.SIGKILL)
    ended = claudes.ended(session_id)
    assert (ended["status"], ended["exit_signal"]) == ("error", 9)
    stale = claudes.home / ".claude" / "sessions" / f"{running['pid']}.json"
    assert json.loads(stale.read_text())["status"] == "busy"
    api.release("crash")


def test_a_completion_holds_over_the_end_of_its_turn_and_more_work_reopens(claudes: ClaudeInstance) -> None:
    done = tool("Bash", command='sm complete "all done"')
    session_id = claudes.spawn("Editor", f"complete-1 {done}[[then]][[text:bye]]")["session_id"]
    completed = claudes.in_status(session_id, "completed")
    assert completed["completion_message"] == "all done"
    until(lambda: "bye" in screen(claudes, session_id), "the end of its turn")
    claudes.prompt(session_id, "more-1")
    claudes.idle(session_id)
    assert claudes.session(session_id)["completion_message"] is None
    assert "reopened" in [event["type"] for event in claudes.events(session_id)]
    claudes.sm("kill", session_id)


def test_without_hooks_the_state_file_tells(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        (instance.home / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
        session_id = instance.spawn("Plain", "silent-1 [[text:x]][[hold:silent]]")["session_id"]
        api.wait_for_hold("silent")
        running = instance.says(session_id, "running", "")
        assert running["status_source"] == "state file"
        api.release("silent")
        assert instance.idle(session_id)["status_source"] == "state file"
        assert "no hook of this process was seen" in instance.why(session_id)["facts"]
        found: dict[str, Any] = until(
            lambda: instance.progress(session_id)["tokens"]["output"] and instance.progress(session_id),
            "tokens",
        )
        assert found["tokens"] == {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}
        done = tool("Bash", command="sm complete all-done")
        instance.prompt(session_id, f"silent-2 {done}[[then]][[text:bye]]")
        instance.in_status(session_id, "completed")
        until(lambda: "bye" in screen(instance, session_id), "the end of its turn")
        until(lambda: instance.why(session_id)["evidence"][0]["says"] == "idle", "it rests")
        instance.prompt(session_id, "silent-3 [[wait:1]][[text:more]]")
        assert instance.idle(session_id)["completion_message"] is None
        assert "reopened" in [event["type"] for event in instance.events(session_id)]


def test_a_sub_agent_that_asks_is_waited_for_while_another_works(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    echo = "[[then]]".join(tool("Bash", command=f"echo {number}") for number in range(4))
    works = tool("Agent", description="w", prompt=f"works-2 {echo}", subagent_type="general-purpose")
    asks = tool("Agent", description="a", prompt=f"asks-2 {ASKS}", subagent_type="general-purpose")
    since = last_seq(claudes, editor)
    claudes.prompt(editor, f"both-1 {asks}{works}[[then]][[text:all]]")
    claudes.says(editor, "waiting_input", "it asks for permission: Bash: python3 -c pass")
    answered(api, "works-2", 5)
    assert claudes.session(editor)["status"] == "waiting_input"
    assert moves(claudes, editor, since) == ["running", "waiting_input"]
    claudes.keys(editor, "Enter")
    assert idle_again(claudes, editor, since) == ["running", "waiting_input", "running", "idle"]


def test_a_stop_that_a_hook_of_the_users_forbids_is_no_end(api: ScriptedApi) -> None:
    with ClaudeInstance(api) as instance:
        goes_on = json.dumps({"decision": "block", "reason": "on-1 [[wait:1]][[text:more]]"})
        once = f"test -e once || {{ touch once; echo '{goes_on}'; }}"
        hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": once}]}]}}
        (instance.home / ".claude" / "settings.json").write_text(json.dumps(hook))
        session_id = instance.spawn("Plain", "forbidden-1 [[text:done]]")["session_id"]
        answered(api, "on-1")
        instance.idle(session_id)
        assert moves(instance, session_id, 0) == ["idle"]  # `started` is not a move of a turn


def test_a_coordinator_that_waits_in_the_background_is_woken_by_the_end_of_its_child(
    claudes: ClaudeInstance, api: ScriptedApi, editor: str
) -> None:
    """As the briefing has it wait."""
    spawn = tool("Bash", command="sm spawn Sh 'sm complete kid-is-done' --name kid")
    wait = tool("Bash", command="sm inbox --take --wait", run_in_background=True)
    claudes.prompt(editor, f"coordinator-1 {spawn}[[then]]{wait}[[then]][[text:waiting]]")

    def woken() -> str | None:
        told = [one.prompt for one in api.turns("sm inbox --take --wait") if "<output-file>" in one.prompt]
        return told[0] if told else None

    prompt = api.wait_for(woken, "it is woken")
    output = prompt.partition("<output-file>")[2].partition("</output-file>")[0]
    assert "sh-kid" in Path(output).read_text()
    claudes.idle(editor)
