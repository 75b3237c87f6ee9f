"""Permissions of the real Claude Code, decided with the buttons of a chat."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance, hook_pids
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.telegram_api import Person, SentMessage, TelegramApi
from tests.telegram_instance import configure, start

COMMAND = "python3 -c 'print(\"<b>&\", 6*7)' > seen.txt; cat seen.txt"

api = scripted_api("module")
claudes = claude_instance("module")


@pytest.fixture(scope="module")
def chats() -> Iterator[TelegramApi]:
    with TelegramApi() as chats:
        yield chats


@pytest.fixture(scope="module")
def ann(chats: TelegramApi, claudes: ClaudeInstance) -> Person:
    """The owner, who has written to the bot of the running daemon."""
    ann = chats.person(1001, "Ann", "ann")
    configure(claudes, chats)
    start(claudes, chats)
    ann.says("/start")
    chats.wait_for_message(1001, "connected")
    return ann


def asked(claudes: ClaudeInstance, chats: TelegramApi, word: str, command: str) -> tuple[str, SentMessage]:
    """Start an agent whose first prompt needs a permission; return its id and the card."""
    call = f"{word} {tool('Bash', command=command)}[[then]][[text:so]]"
    id = str(claudes.spawn("Plain", call)["session_id"])
    card = chats.wait_for_message(1001, f"plain-{id} ({id}) asks for permission to use Bash")
    return id, card


def result(api: ScriptedApi, word: str) -> tuple[bool, str]:
    """The result of the tool, as claude reports it to the API."""

    def look() -> tuple[bool, str] | None:
        turns = [turn for turn in api.turns(word) if turn.prompt and not turn.agent_id]
        return turns[-1].results[-1] if len(turns) > 1 else None

    return until(look, f"the tool of {word} has a result")


def test_press_of_approve_runs_the_command_that_the_card_shows(
    claudes: ClaudeInstance, chats: TelegramApi, api: ScriptedApi, ann: Person
) -> None:
    id, card = asked(claudes, chats, "granted", COMMAND)
    assert f"command:\n  | {COMMAND}" in card.text
    (request,) = claudes.json("requests")
    assert request["arguments"]["command"] == COMMAND
    assert not (claudes.work / "seen.txt").exists()
    ann.presses(card.button("Approve"))
    assert result(api, "granted") == (False, "<b>& 42")
    chats.wait_for(lambda: "approved by telegram:1001" in card.text, "the outcome on the card")
    assert card.keyboard is None
    assert COMMAND in card.text

    def confirmed() -> dict[str, Any] | None:
        (done,) = claudes.get("/v1/requests", all=True)
        return done if done["confirmed"] else None

    done = until(confirmed, "claude has reported the tool")
    assert (done["state"], done["answered_by"]) == ("answered", "telegram:1001")
    claudes.idle(id)
    assert len(chats.messages(1001, "asks for permission")) == 1


def test_long_command_is_a_file_before_the_card_and_a_press_of_deny_refuses_it(
    claudes: ClaudeInstance, chats: TelegramApi, api: ScriptedApi, ann: Person
) -> None:
    command = f"echo {'x' * 5000} > refused.txt"
    id, card = asked(claudes, chats, "refused", command)
    (file,) = [message for message in chats.messages(1001) if message.document is not None]
    assert file.message_id < card.message_id
    assert file.document is not None
    assert command in file.document[1].decode()
    ann.presses(card.button("Deny"))
    refused, words = result(api, "refused")
    assert refused and "telegram:1001 said no" in words
    chats.wait_for(lambda: "denied by telegram:1001" in card.text, "the outcome on the card")
    assert not (claudes.work / "refused.txt").exists()
    claudes.idle(id)


def test_press_without_a_waiting_hook_approves_nothing_and_names_the_terminal(
    claudes: ClaudeInstance, chats: TelegramApi, ann: Person
) -> None:
    id, card = asked(claudes, chats, "unheard", COMMAND)
    claudes.says(id, "waiting_input", "claude asks")
    for pid in until(lambda: hook_pids(id), "its hook waits"):
        os.kill(pid, signal.SIGKILL)
    press = ann.presses(card.button("Approve"))
    chats.wait_for(lambda: f"sm attach {id}" in (chats.world.answers.get(press) or ""), "the answer")
    assert "approved" not in card.text
    claudes.answer_dialog(id, "Enter")  # a person approves at the terminal
    chats.wait_for(lambda: "by terminal" in card.text, "the outcome on the card")
    assert card.keyboard is None
