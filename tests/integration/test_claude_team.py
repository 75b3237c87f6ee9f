"""A coordinator that runs two others by itself: three real claudes, and nobody at a keyboard."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, whose
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi, tool

WITHIN_S = 100.0
LEAD = "Lead the work on the colour and the file."
CHOOSE = "Choose the colour."
MAKE = "Make the file."
MAKES = 'python3 -c \'open("made-by-the-child", "w")\''
OPTIONS = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
QUESTIONS = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": OPTIONS}]
LETTER = re.compile(r"\[sm\] from (\S+.*), message (\d+)\n")


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def coordinator(asked: Request) -> str | None:
    """Does what its notices end with, each once, and says that all is done when both children have."""
    if not asked.said[0].startswith(LEAD):
        return None
    done = [used["command"] for name, used in asked.called if name == "Bash"]
    notices = [text for text in asked.said if text.startswith("[sm] from sm, message ")]
    told = "\n".join(notices)
    wanted = [f"sm spawn Editor '{CHOOSE}' --name asker", f"sm spawn Editor '{MAKE}' --name maker"]
    wanted += [f"sm answer {name} blue" for name in re.findall(r"answer with: sm answer (r\d+) TEXT", told)]
    wanted += [f"sm approve {name}" for name in re.findall(r"; sm approve (r\d+) or: sm deny", told)]
    if len(re.findall(r"^child editor-(?:asker|maker) \(\w+\) completed: ", told, re.MULTILINE)) == 2:
        wanted.append("sm complete 'both are done'")
    left = [command for command in wanted if command not in done]
    return bash(left[0]) if left else "[[text:I wait to be woken]]"


def asker(asked: Request) -> str | None:
    if asked.said[0].strip() != CHOOSE:
        return None
    results = asked.results
    if not results:
        return tool("AskUserQuestion", questions=QUESTIONS)
    if len(results) == 1:
        (chosen,) = re.findall(r'"Which colour\?"="(\w+)"', results[0][1])
        return bash(f"sm complete 'the colour is {chosen}'")
    return "[[text:that was all]]"


def maker(asked: Request) -> str | None:
    if asked.said[0].strip() != MAKE:
        return None
    results = asked.results
    if not results:
        return bash(MAKES)
    if len(results) == 1:
        return bash(f"sm complete 'it is {'not ' if results[0][0] else ''}made'")
    return "[[text:that was all]]"


api = scripted_api("function", coordinator, asker, maker)
claudes = claude_instance("function")


def story(claudes: ClaudeInstance, api: ScriptedApi) -> str:
    """What a reader of a failure needs."""
    lines = [f"{one.number} {one.status} {one.said[-1][:200]!r} {one.results[-1:]}" for one in api.turns()]
    for session in claudes.json("all"):
        shown = claudes.tmux("capture-pane", "-p", "-t", f"={session['tmux_session']}:", check=False)
        lines += [f"{session['name']} {session['status']} {session['status_reason']}", shown]
    return "\n".join([*lines, claudes.sm("requests", "--all"), claudes.sm("log"), claudes.sm("events")])


@pytest.mark.timeout(180)
def test_coordinator_is_woken_answers_approves_and_completes_with_nobody_at_the_keyboard(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    lead = claudes.spawn("Editor", LEAD, "--name", "lead")["session_id"]

    def over() -> dict[str, Any] | None:
        found = claudes.session(lead)
        return found if found["status"] in ("completed", "error") else None

    try:
        ended = until(over, "the coordinator has completed", WITHIN_S)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{story(claudes, api)}") from None
    assert (ended["status"], ended["completion_message"]) == ("completed", "both are done")
    children = {one["friendly_name"]: one for one in claudes.json("children", lead)}
    assert {name: (one["status"], one["completion_message"]) for name, one in children.items()} == {
        "editor-asker": ("completed", "the colour is blue"),
        "editor-maker": ("completed", "it is made"),
    }
    assert (claudes.work / "made-by-the-child").exists()

    # What they asked of it was answered by it, and they were given that through their hooks.
    requests = {one["kind"]: one for one in claudes.json("requests", "--all")}
    assert {kind: (one["state"], one["answered_by"]) for kind, one in requests.items()} == {
        "question": ("answered", lead),
        "permission": ("answered", lead),
    }
    assert requests["question"]["questions"][0]["options"] == ["red", "blue"]
    assert requests["permission"]["arguments"]["command"] == MAKES

    # It was woken by what sm typed and by nothing else, each notice once and as it was written.
    last = until(settled(claudes, api, lead), "its turn is over", 30)
    heard = [LETTER.match(text) for text in last.said[1:]]
    assert all(letter and letter[1] == "sm" for letter in heard), last.said
    notices = {str(one["message_id"]): one for one in claudes.json("log", lead) if one["from"] == "sm"}
    assert sorted(letter[2] for letter in heard if letter) == sorted(notices)
    for letter, text in zip(heard, last.said[1:], strict=True):
        assert letter and text[letter.end() :].rstrip() == notices[letter[2]]["text"], text
    assert {one["status"] for one in notices.values()} <= {"submitted", "acknowledged"}, notices
    assert [one for one in last.results if one[0]] == []


def settled(claudes: ClaudeInstance, api: ScriptedApi, lead: str) -> Callable[[], Request | None]:
    """The last thing that it asked the API, once it and all its notices are through."""

    def look() -> Request | None:
        log = claudes.json("log", lead)
        asked = [one for one in api.turns() if whose(one) == lead]
        open = [one for one in log if one["status"] in ("queued", "delivering")]
        with suppress(KeyError):
            resting = claudes.why(lead)["evidence"][0]["says"] == "idle"
            return asked[-1] if resting and not open and all(one.over for one in asked) else None
        return None

    return look
