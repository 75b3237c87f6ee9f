"""The real Claude Code in a container: what sm sees of it, and what sm does to it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.linux.ttys import path_of_terminal
from tests.claude_container import OWNER
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import SM, until
from tests.person_terminal import PersonTerminal
from tests.scripted_api import ScriptedApi, tool
from tests.waits import PATIENT

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
}

COMPUTES = tool("Bash", command="python3 -c 'import time; time.sleep(3); print(6*7)'", description="x")

api = scripted_api("module")


@pytest.fixture(scope="module")
def claudes(api: ScriptedApi, engine: str, sandbox_image: str) -> Iterator[ClaudeInstance]:
    instance = ClaudeInstance(api, sandbox=(engine, sandbox_image))
    yield instance
    instance.end()


def start(claudes: ClaudeInstance, *arguments: str) -> str:
    """Start an agent of type Plain and return its id once it is idle."""
    spawned = claudes.spawn("Plain", *arguments, "--wait", PATIENT)
    assert spawned["effective_mode"] == "sandboxed"
    session_id = str(spawned["session_id"])
    claudes.idle(session_id)
    return session_id


def open_request(claudes: ClaudeInstance, session_id: str) -> dict[str, Any]:
    def look() -> list[dict[str, Any]]:
        found = claudes.get("/v1/requests", all=True)
        return [r for r in found if (r["session_id"], r["state"]) == (session_id, "open")]

    (request,) = until(look, "a request is open")
    return request


@pytest.mark.claude_core
def test_claude_starts_without_a_dialog_and_answers_its_prompt(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = start(claudes, "Look around. [[text:I see a box.]]")
    assert api.turns("Look around.")
    status_file = Path(f"/proc/{claudes.session(session_id)['pid']}/status").read_text()
    assert f"Uid:\t{OWNER}" in status_file
    until(lambda: claudes.progress(session_id)["tokens"], "the tokens are counted")
    assert f"Your project directory is {claudes.work}." in api.turns("Look around.")[0].system


def test_bypassed_permissions_need_no_consent_in_a_container(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    bash = tool("Bash", command="touch freely", description="x")
    session_id = claudes.spawn("Bypass", f"Act freely. {bash} [[then]] [[text:done]]")["session_id"]
    claudes.idle(session_id)
    assert (claudes.work / "freely").stat().st_uid == OWNER
    assert not [r for r in claudes.get("/v1/requests", all=True) if r["session_id"] == session_id]


def test_status_follows_the_turns(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes)
    claudes.prompt(session_id, f"Count. {COMPUTES} [[then]] [[text:done]]")
    claudes.says(session_id, "waiting_input", "claude asks")
    claudes.sm("approve", open_request(claudes, session_id)["request_id"])
    claudes.says(session_id, "running", "")
    claudes.idle(session_id)


def test_messages_arrive_once_while_claude_is_idle_and_busy(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    session_id = start(claudes)

    def arrived(letters: int) -> bool:
        """True if the last request to the API has each of the first `letters` letters exactly once."""
        texts = "\n".join(api.turns()[-1].user_texts)
        return [texts.count(f"Letter {number} of ten.") for number in range(letters)] == [1] * letters

    for number in range(5):
        claudes.sm("send", session_id, f"Letter {number} of ten. [[text:read]]")
    # Between two letters the session is idle too, and a prompt must not be typed into the box with a letter.
    until(lambda: api.turns() and arrived(5), "the first five are in the conversation once")
    claudes.idle(session_id)
    claudes.prompt(session_id, "Work. [[hold:work]] [[text:done]]")
    claudes.says(session_id, "running", "")
    for number in range(5, 10):
        claudes.sm("send", session_id, f"Letter {number} of ten. [[text:read]]")
    api.release("work")
    claudes.idle(session_id)
    until(lambda: arrived(10), "every message is in the conversation once")


def test_question_is_answered_through_sm(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes)
    claudes.prompt(
        session_id, f"Ask me. {tool('AskUserQuestion', questions=[COLOUR])} [[then]] [[text:thanks]]"
    )
    request = open_request(claudes, session_id)
    claudes.sm("answer", request["request_id"], "blue")
    claudes.idle(session_id)
    assert any("blue" in json.dumps(turn.results) for turn in api.turns("Ask me."))


def test_interrupt_stops_the_turn(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes)
    claudes.prompt(session_id, "Wait. [[hold:long]] [[text:over]]")
    claudes.says(session_id, "running", "")
    api.wait_for_hold("long")  # claude ignores Escape while it prepares the request
    claudes.sm("interrupt", session_id)
    claudes.idle(session_id)


def test_agent_spawns_a_child_and_is_told_of_its_end_once(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes)
    command = "sm spawn Sh 'sm complete child-is-done; sleep 1000' --json"
    claudes.prompt(
        session_id, f"Delegate. {tool('Bash', command=command, description='x')} [[then]] [[text:I wait]]"
    )
    claudes.sm("approve", open_request(claudes, session_id)["request_id"])

    def told() -> bool:
        return any("child-is-done" in text for turn in api.turns() for text in turn.user_texts)

    until(told, "the parent is told of the completion")


def test_restored_claude_goes_on_with_its_conversation(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes, "Remember the word marzipan. [[text:I do]]")
    claudes.sm("kill", session_id)
    claudes.sm("restore", session_id)
    claudes.idle(session_id)
    claudes.prompt(session_id, "Say it. [[text:marzipan]]")
    last = api.wait_for(
        lambda: next((turn for turn in api.turns("Say it.") if turn.prompt), None),
        "the prompt after the restore",
    )
    assert any("Remember the word marzipan." in text for text in last.user_texts)


def wait_drawn(claudes: ClaudeInstance, session_id: str, columns: int) -> None:
    """Wait until the agent's own terminal and its input box have this width."""

    def size() -> tuple[int, int]:
        path = path_of_terminal(claudes.session(session_id)["pid"])
        assert path is not None
        with open(os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)) as terminal:
            return os.get_terminal_size(terminal.fileno())

    def pane() -> tuple[int, int]:
        shown = "#{pane_width} #{pane_height}"
        width, height = claudes.tmux("display-message", "-p", "-t", f"=claude-{session_id}:", shown).split()
        return int(width), int(height)

    rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * columns
    until(lambda: size() == pane() and pane()[0] == columns, f"its terminal has {columns} columns")
    until(lambda: rule in claudes.screen(session_id).splitlines(), f"its box has {columns} columns")


def test_claude_follows_the_size_of_an_attached_terminal(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = start(claudes, "Be attached to. [[text:I am]]")
    wait_drawn(claudes, session_id, 120)
    with PersonTerminal([SM, "attach", session_id], claudes.env, columns=90, lines=30) as person:
        wait_drawn(claudes, session_id, 90)
        person.resize(150, 50)
        wait_drawn(claudes, session_id, 150)
        person.press("Typed by a person. [[text:read]]")
        until(lambda: "Typed by a person." in claudes.screen(session_id), "the box shows the text")
        person.press("\r")
        api.wait_for(lambda: api.turns("Typed by a person."), "the prompt of the person")
        claudes.idle(session_id)
        person.press("\x02d")
    claudes.prompt(session_id, "After the detach. [[text:here]]")
    api.wait_for(lambda: api.turns("After the detach."), "the prompt after the detach")
    claudes.idle(session_id)
