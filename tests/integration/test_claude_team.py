"""A coordinator that runs two children without a person: three real claudes."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi, tool
from tests.waits import explained

WITHIN_S = 100.0
LEAD = "Lead the work on the colour and the file."
CHOOSE = "Choose the colour."
MAKE = "Make the file."
MAKES = 'python3 -c \'open("made-by-the-child", "w")\''
OPTIONS = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
QUESTIONS = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": OPTIONS}]
HEADER = re.compile(r"\[sm\] from (\S+.*), message (\d+)\n")


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def coordinator(request: Request) -> str | None:
    """A model that runs each command its notices suggest once, and completes when both children have completed."""
    if not request.user_texts[0].startswith(LEAD):
        return None
    done = [used["command"] for name, used in request.tool_calls if name == "Bash"]
    notices = [text for text in request.user_texts if text.startswith("[sm] from sm, message ")]
    text = "\n".join(notices)
    commands = [f"sm spawn Editor '{CHOOSE}' --name asker", f"sm spawn Editor '{MAKE}' --name maker"]
    commands += [f"sm answer {name} blue" for name in re.findall(r"answer with: sm answer (r\d+) TEXT", text)]
    commands += [
        f"sm approve {name}" for name in re.findall(r"; answer with: sm approve (r\d+), or: sm deny", text)
    ]
    if len(re.findall(r"^child editor-(?:asker|maker) \(\w+\) completed: ", text, re.MULTILINE)) == 2:
        commands.append("sm complete 'both are done'")
    open_commands = [command for command in commands if command not in done]
    return bash(open_commands[0]) if open_commands else "[[text:I wait]]"


def asker(request: Request) -> str | None:
    if request.user_texts[0].strip() != CHOOSE:
        return None
    results = request.results
    if not results:
        return tool("AskUserQuestion", questions=QUESTIONS)
    if len(results) == 1:
        (chosen,) = re.findall(r'"Which colour\?"="(\w+)"', results[0][1])
        return bash(f"sm complete 'the colour is {chosen}'")
    return "[[text:that was all]]"


def maker(request: Request) -> str | None:
    if request.user_texts[0].strip() != MAKE:
        return None
    results = request.results
    if not results:
        return bash(MAKES)
    if len(results) == 1:
        return bash(f"sm complete 'it is {'not ' if results[0][0] else ''}made'")
    return "[[text:that was all]]"


api = scripted_api("function", coordinator, asker, maker)
claudes = claude_instance("function")


def describe(claudes: ClaudeInstance, api: ScriptedApi) -> str:
    """The state of all sessions, for the message of a failed test."""
    lines = [
        f"{turn.number} {turn.status} {turn.user_texts[-1][:200]!r} {turn.results[-1:]}"
        for turn in api.turns()
    ]
    for session in claudes.json("all"):
        shown = claudes.tmux("capture-pane", "-p", "-t", f"={session['tmux_session']}:", check=False)
        lines += [f"{session['name']} {session['status']} {session['status_reason']}", shown]
    return "\n".join([*lines, claudes.sm("requests", "--all"), claudes.sm("log"), claudes.sm("events")])


@pytest.mark.timeout(180)
def test_coordinator_answers_approves_and_completes_without_a_person(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    lead = claudes.spawn("Editor", LEAD, "--name", "lead")["session_id"]

    def over() -> dict[str, Any] | None:
        found = claudes.session(lead)
        return found if found["status"] in ("completed", "error") else None

    with explained(lambda: describe(claudes, api)):
        ended = until(over, "the coordinator has completed")
    assert (ended["status"], ended["completion_message"]) == ("completed", "both are done")
    children = {child["friendly_name"]: child for child in claudes.json("children", lead)}
    assert {name: (child["status"], child["completion_message"]) for name, child in children.items()} == {
        "editor-asker": ("completed", "the colour is blue"),
        "editor-maker": ("completed", "it is made"),
    }
    assert (claudes.work / "made-by-the-child").exists()

    # The coordinator answered the requests of its children.
    requests = {r["kind"]: r for r in claudes.json("requests", "--all")}
    assert {kind: (r["state"], r["answered_by"]) for kind, r in requests.items()} == {
        "question": ("answered", lead),
        "permission": ("answered", lead),
    }
    assert requests["question"]["questions"][0]["options"] == ["red", "blue"]
    assert requests["permission"]["arguments"]["command"] == MAKES

    # Only notices of sm woke the coordinator, each once and unchanged.
    last = until(last_request(claudes, api, lead), "the coordinator is idle")
    headers = [HEADER.match(text) for text in last.user_texts[1:]]
    assert all(header and header[1] == "sm" for header in headers), last.user_texts
    notices = {str(m["message_id"]): m for m in claudes.json("log", lead) if m["from"] == "sm"}
    assert sorted(header[2] for header in headers if header) == sorted(notices)
    for header, text in zip(headers, last.user_texts[1:], strict=True):
        assert header and text[header.end() :].rstrip() == notices[header[2]]["text"], text
    assert {notice["status"] for notice in notices.values()} <= {"submitted", "acknowledged"}, notices
    assert [result for failed, result in last.results if failed] == []


def last_request(claudes: ClaudeInstance, api: ScriptedApi, lead: str) -> Callable[[], Request | None]:
    """A check for the coordinator's last API request, once that and all notices are handled."""

    def look() -> Request | None:
        log = claudes.get("/v1/messages", session=lead)
        requests = [turn for turn in api.turns() if calling_session(turn) == lead]
        pending = [message for message in log if message["status"] in ("queued", "delivering")]
        with suppress(KeyError):
            resting = claudes.why(lead)["evidence"][0]["says"] == "idle"
            return requests[-1] if resting and not pending and all(r.over for r in requests) else None
        return None

    return look
