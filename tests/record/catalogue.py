"""The scenes that are recorded of each version of Claude Code. The name of a function is that of its scene."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from sm.providers.claude.check.scripted_api import ModelRequest, tool
from sm.providers.claude.check.scripted_api.conversation import newest_prompt
from tests.record.stage import NARROW, WIDE, ClaudeStage

Play = Callable[[ClaudeStage], None]
SCENES: dict[str, Play] = {}

_ASKED = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": label, "description": f"{label} as ever"} for label in ("red", "blue")],
}
_PLAN = "1. Read the code\n2. Change it\n"
_PLAN_FILE = re.compile(r"/[\w./-]+/plans/[\w-]+\.md")
FORTY_LINES = "\n".join(f"text40 line {line} of 40" for line in range(40))
_EPOCH_FAR = 4_070_908_800  # 2099-01-01
_TOKEN = "sk-ant-oat01-none-of-any-account"


def _scene(play: Play) -> Play:
    SCENES[play.__name__.strip("_").replace("_", "-")] = play
    return play


# Start and end


@_scene
def _start(stage: ClaudeStage) -> None:
    stage.begin()
    stage.look("idle", NARROW, WIDE)


@_scene
def _start_with_prompt(stage: ClaudeStage) -> None:
    stage.start("prompted [[text:so]][[hold:prompted]][[text: it is]]")
    stage.hold("prompted")
    stage.look("working", NARROW, WIDE)
    stage.release("prompted")
    stage.hooked("Stop")
    stage.idle()
    stage.look("answered")


@_scene
def _exit(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.type("/exit")
    stage.enter()
    stage.ended()
    stage.look("ended")


@_scene
def _kill(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.kill()
    stage.look("ended")


@_scene
def _resume(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.idle()
    stage.kill()
    stage.resume()
    stage.idle()
    stage.look("resumed")
    stage.message("again [[text:and so]]")


@_scene
def _fork(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.idle()
    stage.kill()
    stage.resume(fork=True)
    stage.idle()
    stage.look("forked")
    stage.message("copied [[text:and so]]")


# Dialogs before the first input


def _first_question(stage: ClaudeStage, name: str, **answers: bool) -> None:
    """A claude for each size: 2.1.197 does not draw such a dialog again."""
    stage.prepare(**answers)
    for width, height in (NARROW, WIDE):
        stage.start(size=(width, height))
        stage.until(lambda: len(stage.rows()) > 5, "a dialog is drawn")
        stage.settled()
        stage.view(name, f"{width}x{height}")


SCENES["trust"] = partial(_first_question, name="trust", trusted=False)
SCENES["api-key"] = partial(_first_question, name="api key", approved=False)
SCENES["theme"] = partial(_first_question, name="theme", onboarded=False)


@_scene
def _bypass_warning(stage: ClaudeStage) -> None:
    stage.start("", "--permission-mode", "bypassPermissions")
    stage.shown("Bypass")
    stage.look("bypass warning", NARROW, WIDE)


@_scene
def _no_login(stage: ClaudeStage) -> None:
    stage.without = ("ANTHROPIC_API_KEY",)
    stage.begin()
    stage.look("idle")
    stage.say("nobody [[text:so]]")
    stage.hooked("StopFailure")
    stage.idle()
    stage.look("refused")


@_scene
def _unknown_option(stage: ClaudeStage) -> None:
    stage.start("", "--no-such-option")
    stage.ended()
    stage.look("ended")


# Messages


@_scene
def _text(stage: ClaudeStage) -> None:
    stage.begin()
    for text in ("text1 of one line", "text3 of\nthree\nlines", FORTY_LINES):
        stage.message(text)
    stage.look("answered")


@_scene
def _paste(stage: ClaudeStage) -> None:
    """A person pastes ten lines at once, which claude may mark as pasted."""
    stage.begin()
    stage.paste(stage.message_text("\n".join(f"pasted line {line}" for line in range(10))))
    stage.shown("asted ")
    stage.look("folded")
    stage.enter()
    stage.turn("pasted line 9")
    stage.idle()


@_scene
def _draft(stage: ClaudeStage) -> None:
    stage.begin()
    stage.paste("a draft of\ntwo lines")
    stage.look("draft", NARROW, WIDE)
    stage.keys("C-s")
    stage.look("put aside")
    stage.keystrokes("!echo hi")
    stage.look("shell mode")
    stage.keys("C-u", "Escape")
    stage.keystrokes("/comp")
    stage.look("command list")


@_scene
def _queue(stage: ClaudeStage) -> None:
    """Messages to a busy claude: one waits for the end of the turn, one goes in after a tool."""
    stage.begin()
    stage.say("work1 [[text:begun]][[hold:first]][[text: done]]")
    stage.hold("first")
    stage.say("later1 [[text:yes]]")
    stage.shown("later1")
    stage.look("queued", NARROW, WIDE)
    stage.release("first")
    stage.turn("later1")
    stage.idle()
    wait = tool("Bash", command="echo hi", description="speak")
    stage.say(f"work2 [[text:begun]][[hold:second]]{wait}[[then]][[text:done]]")
    stage.hold("second")
    stage.say("later2")
    stage.shown("later2")
    stage.settled()
    stage.release("second")
    stage.hooked("Stop", 3)
    stage.idle()
    stage.look("read between")


@_scene
def _recall(stage: ClaudeStage) -> None:
    stage.begin()
    stage.say("work [[text:begun]][[hold:first]][[text: done]]")
    stage.hold("first")
    stage.say("taken back")
    stage.shown("taken back")
    stage.settled()
    stage.keys("Up")
    stage.look("recalled")
    stage.keys("C-u")
    stage.release("first")
    stage.idle()


@_scene
def _urgent(stage: ClaudeStage) -> None:
    """A message that waits in the queue begins its turn when Escape ends the turn before."""
    stage.begin()
    stage.say("work [[text:begun]][[hold:first]][[text: done]]")
    stage.hold("first")
    stage.say("urgent [[text:yes]]")
    stage.shown("urgent")
    stage.settled()
    stage.keys("Escape")
    stage.turn("urgent")
    stage.idle()
    stage.look("answered")


# Dialogs of a turn


@_scene
def _permission(stage: ClaudeStage) -> None:
    command = tool("Bash", command="python3 -c 'print(6*7)'", description="count")
    stage.begin()
    stage.say(f"allowed {command}[[then]][[text:so]]")
    stage.dialog()
    stage.look("permission to run", NARROW, WIDE)
    stage.answer()
    stage.turn("allowed", results=1)
    stage.idle()
    stage.say(f"denied {command}[[then]][[text:so]]")
    stage.dialog()
    stage.answer(approved=False, message="count by hand")
    stage.turn("denied", results=1)
    stage.idle()
    stage.look("after both")


@_scene
def _permission_at_the_terminal(stage: ClaudeStage) -> None:
    write = tool("Write", file_path=str(stage.project / "made.txt"), content="one\ntwo\n")
    stage.begin()
    stage.say(f"writes {write}[[then]][[text:so]]")
    stage.dialog()
    stage.look("permission to write", NARROW, WIDE)
    stage.keys("Enter")
    stage.turn("writes", results=1)
    stage.idle()
    fetch = tool("WebFetch", url="http://127.0.0.1:9/page", prompt="read")
    stage.say(f"fetches {fetch}[[then]][[text:so]]")
    stage.shown("Fetch")
    stage.settled()
    stage.look("permission to fetch", NARROW, WIDE)
    stage.keys("Escape")
    stage.idle()
    stage.look("refused")


@_scene
def _question(stage: ClaudeStage) -> None:
    stage.begin()
    stage.say(f"asks {tool('AskUserQuestion', questions=[_ASKED])}[[then]][[text:so]]")
    stage.dialog()
    stage.look("question", NARROW, WIDE)
    stage.answer(answers=["blue"])
    stage.turn("asks", results=1)
    stage.idle()
    several = [{**_ASKED, "multiSelect": True}, {**_ASKED, "question": "Which size?", "header": "Size"}]
    stage.say(f"asks-two {tool('AskUserQuestion', questions=several)}[[then]][[text:so]]")
    stage.dialog()
    stage.look("two questions")
    stage.answer(approved=False, message="decide yourself")
    stage.turn("asks-two", results=1)
    stage.idle()
    stage.look("answered")


def _planner(request: ModelRequest) -> str | None:
    """Write the plan into the file that claude names, and ask for approval, as a model does."""
    prompt, step = newest_prompt(request.body)
    if "plan-" not in prompt:
        return None
    file = _PLAN_FILE.search(json.dumps(request.body["messages"]))
    steps = [tool("Write", file_path=file[0], content=_PLAN)] if file else []
    steps += [tool("ExitPlanMode", plan=_PLAN), "[[text:so]]"]
    return steps[min(step, len(steps) - 1)]


@_scene
def _plan(stage: ClaudeStage) -> None:
    stage.api.when(_planner)
    stage.begin("", "--permission-mode", "plan")
    stage.look("plan mode")
    stage.say("plan-no first")
    stage.dialog()
    stage.look("plan", NARROW, WIDE)
    stage.answer(approved=False, message="not like this")
    stage.hooked("Stop")
    stage.idle()
    stage.say("plan-yes second")
    stage.dialog()
    stage.answer()
    stage.hooked("Stop", 2)
    stage.idle()
    stage.look("after the plan")


@_scene
def _modes(stage: ClaudeStage) -> None:
    """A person presses shift+tab."""
    stage.begin()
    for number in range(1, 4):
        stage.keys("BTab")
        stage.look(f"after {number}")
    stage.message("now [[text:so]]")


# Turns


@_scene
def _interrupt(stage: ClaudeStage) -> None:
    stage.begin("", "--allowedTools", "Bash(python3 *)")
    stage.say("stop-text [[text:begun]][[hold:text]][[text:never]]")
    stage.hold("text")
    stage.look("streaming")
    stage.keys("Escape")
    stage.idle()
    stage.look("stopped in a text")
    sleeps = tool("Bash", command="python3 -c 'import time; time.sleep(60)'", description="wait")
    stage.say(f"stop-tool [[text:begun]]{sleeps}[[then]][[text:never]]")
    stage.hooked("PreToolUse")
    stage.look("running a tool")
    stage.keys("Escape")
    stage.idle()
    stage.look("stopped in a tool")
    stage.say("stop-first [[hold:first]][[text:never]]")
    stage.hold("first")
    stage.keys("Escape")
    stage.idle()
    stage.look("stopped before the first word")


@_scene
def _tools(stage: ClaudeStage) -> None:
    """Tools that succeed and fail without a question."""
    path = stage.project / "read.txt"
    path.write_text("one\n")
    calls = [
        tool("Read", file_path=str(path)),
        tool("Bash", command="echo hi; exit 3", description="fail"),
        tool("TodoWrite", todos=[{"content": "look", "status": "in_progress", "activeForm": "looking"}]),
        tool("TaskCreate", subject="look", description="look around"),
        tool("Edit", file_path=str(path), old_string="one", new_string="two"),
        "[[think:hm]][[text:so]]",
    ]
    stage.begin("", "--permission-mode", "acceptEdits", "--allowedTools", "Bash(echo *),Bash(exit *)")
    stage.say("uses " + "[[then]]".join(calls))
    stage.turn("uses", results=len(calls) - 1)
    stage.idle()
    stage.look("used")


@_scene
def _sub_agent(stage: ClaudeStage) -> None:
    prompt = "helper [[text:x]][[hold:helper]][[text: done]]"
    helper = tool("Agent", description="look", subagent_type="general-purpose", prompt=prompt)
    stage.begin()
    stage.say(f"leads {helper}[[then]][[text:so]]")
    stage.hold("helper")
    stage.look("working", NARROW, WIDE)
    stage.release("helper")
    stage.hooked("SubagentStop")
    stage.settled()
    stage.idle()
    stage.look("ended")


@_scene
def _shell(stage: ClaudeStage) -> None:
    """A shell in the background, whose end begins a turn."""
    waits = "while [ ! -e go ]; do sleep 0.2; done; echo gone"
    call = tool("Bash", command=waits, description="wait", run_in_background=True)
    stage.begin("", "--allowedTools", "Bash")
    stage.say(f"waits {call}[[then]][[text:so]]")
    stage.turn("waits", results=1)
    stage.hooked("Stop")
    stage.idle()
    stage.look("one shell", NARROW, WIDE)
    (stage.project / "go").touch()
    stage.hooked("Stop", 2)
    stage.idle()
    stage.look("ended")


@_scene
def _compact(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.message("second [[text:and so]]")
    stage.keystrokes("/compact")
    stage.enter()
    stage.hooked("PostCompact")
    stage.idle()
    stage.look("compacted")
    stage.message("third [[text:still]]")


@_scene
def _clear(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.idle()
    stage.keystrokes("/clear")
    stage.enter()
    stage.hooked("SessionStart", 2)
    stage.idle()
    stage.look("cleared")
    stage.message("anew [[text:so]]")


# Failures


@_scene
def _api_error(stage: ClaudeStage) -> None:
    stage.more = {"CLAUDE_CODE_MAX_RETRIES": "1"}
    stage.begin()
    for number, script in enumerate(
        ("[[refuse:400:scripted]]", "[[refuse:401:Revoked]]", "[[refuse:404:No model]]"), 1
    ):
        stage.say(f"fails{number} {script}")
        stage.hooked("StopFailure", number)
        stage.idle()
        stage.look(f"error {number}")


@_scene
def _retry(stage: ClaudeStage) -> None:
    stage.begin()
    stage.say("busy-api [[error:529:2]][[text:so]]")
    stage.until(lambda: any("etrying in" in row for row in stage.rows()), "claude says that it tries again")
    stage.view("retrying")
    stage.hooked("Stop")
    stage.idle()


@_scene
def _usage_limit(stage: ClaudeStage) -> None:
    stage.more = {"CLAUDE_CODE_MAX_RETRIES": "1", "CLAUDE_CODE_OAUTH_TOKEN": _TOKEN}
    stage.without = ("ANTHROPIC_API_KEY",)
    stage.begin()
    stage.say(f"limited [[limit:five_hour:{_EPOCH_FAR}]]")
    stage.hooked("StopFailure")
    stage.look("usage limit", NARROW, WIDE)
    stage.keys("Escape")
    stage.look("after Escape")


# Menus and views of a person


_MENUS: Mapping[str, str] = {
    "model": "/model",
    "help": "/help",
    "config": "/config",
    "status": "/status",
    "permissions": "/permissions",
    "resume": "/resume",
    "memory": "/memory",
    "mcp": "/mcp",
    "agents": "/agents",
    "tasks": "/tasks",
}


@_scene
def _menus(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.idle()
    for name, command in _MENUS.items():
        stage.keystrokes(command)
        stage.settled()
        stage.enter()
        stage.settled()
        stage.look(name, *((NARROW, WIDE) if name == "model" else ()))
        stage.close_menu()


@_scene
def _views(stage: ClaudeStage) -> None:
    stage.begin("prompted [[text:so]]")
    stage.hooked("Stop")
    stage.idle()
    for name, key, back in (
        ("transcript", "C-o", "C-o"),
        ("search", "C-r", "Escape"),
        ("shortcuts", "?", "BSpace"),
    ):
        stage.keys(key)
        stage.look(name)
        stage.keys(back)
    stage.press("Escape", "Escape")
    stage.look("rewind")
