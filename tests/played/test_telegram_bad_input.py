"""Hostile and broken input from chats: each is refused in the words of sm, or is nothing at all."""

import json

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Button, Person, SentMessage, TelegramApi
from tests.telegram_fixtures import bot_api, connected_instance, person
from tests.telegram_instance import rows

GROUP = -1_001_000_000_001
MARKUP = "_*[]()~>#+-=|{}.! <b> & </pre> `x`"
MORE = """
  Asker: {command: [sh, -c, "sm ask \\"$1\\" --option '<b>&' --option '_*[](' --wait 600; sleep 1000", sh]}
limits: {spawn_interval_s: 0}
"""
NOT_MINE = "This button is no longer valid."

api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
eve = person(6, "Eve")
home = connected_instance(MORE, f", groups: [{GROUP}]")


def reply_to(api: TelegramApi, person: Person, text: str) -> SentMessage:
    before = len(api.messages(person.id))
    person.says(text)
    api.wait_for(lambda: len(api.messages(person.id)) > before, f"the answer to {text!r}")
    return api.messages(person.id)[before]


def pressed(api: TelegramApi, person: Person, button: Button) -> str | None:
    press = person.presses(button)
    api.wait_for(lambda: press in api.world.answers, "the answer to the press")
    return api.world.answers[press]


def test_markup_in_foreign_words_is_shown_as_it_is(home: Instance, api: TelegramApi, ann: Person) -> None:
    id = home.spawn("Asker", MARKUP)["session_id"]
    card = api.wait_for_message(1001, "asks")
    assert f"  | {MARKUP}" in card.text
    home.sm("note", MARKUP, env=home.as_session(id))
    assert MARKUP in reply_to(api, ann, f"/status {id}").text
    group = api.group(GROUP, f"Fleet \x1b[31m{MARKUP}")
    ann.says("/list", group)
    assert "Active Sessions" in api.wait_for_message(GROUP, "Active").text
    assert "\x1b" not in home.sm("telegram", "status")
    ann.presses(card.button("1: <b>&"))
    api.wait_for(lambda: "<b>& by telegram:1001" in card.text, "the outcome")
    sent = [call for call in api.calls if call.method in ("sendMessage", "editMessageText")]
    assert {call.status for call in sent} == {200}, "no text needed a second try without markup"


def test_button_of_another_user_chat_or_request_does_nothing(
    home: Instance, api: TelegramApi, ann: Person, eve: Person
) -> None:
    eve.says("/start")
    api.wait_for_message(6, "request p1")
    home.sm("pair", "approve", "p1", "--trust", "direct")
    home.spawn("Asker", "Which?")
    home.spawn("Asker", "And which?")
    first = api.wait_for_message(1001, "| Which?")
    second = api.wait_for_message(1001, "| And which?")
    stolen = first.button("1: <b>&")
    assert pressed(api, eve, stolen) == NOT_MINE
    group = api.group(GROUP, "Fleet")
    ann.says("/list", group)
    listed = api.wait_for_message(GROUP, "Active")
    moved = Button(GROUP, listed.message_id, stolen.text, stolen.data)
    assert pressed(api, ann, moved) == NOT_MINE
    for data in ("x" * 65, "", "\x00", f"{stolen.data}x", stolen.data.swapcase()):
        assert pressed(api, ann, Button(1001, second.message_id, "x", data)) == NOT_MINE
    assert [r["state"] for r in home.json("requests", "--all")] == ["open", "open"]
    assert pressed(api, ann, Button(1001, second.message_id, "x", stolen.data)) == NOT_MINE
    assert [r["state"] for r in home.json("requests", "--all")] == ["open", "open"]
    # None of that has used up the button or taken it from its card.
    assert "r1" in (pressed(api, ann, stolen) or "")
    assert {r["request_id"]: r["state"] for r in home.json("requests", "--all")} == {
        "r1": "answered",
        "r2": "open",
    }
    lines = (home.state / "log" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    refused = [line for line in map(json.loads, lines) if line["what"] == "press"]
    assert {line["who"] for line in refused} == {"telegram:1001", "telegram:6"}
    assert len(refused) == 8


def test_broken_messages_are_answered_or_nothing(home: Instance, api: TelegramApi, ann: Person) -> None:
    id = home.spawn("Sleeper")["session_id"]
    assert reply_to(api, ann, "").text == "Reply to a message about a session, or: /help"
    said = reply_to(api, ann, f"/send {id} red \x1b[31m").text
    assert "U+001B" in said and "position 5" in said, said
    assert "U+202E" in reply_to(api, ann, f"/send {id} \u202eleft").text
    assert rows(home, "SELECT 1 FROM messages") == []
    status = reply_to(api, ann, f"/status {'x' * 4000}").text
    assert status.startswith("no such session: xxx")
    assert reply_to(api, ann, f"/events {id} 99999999999999999999").text
    for strange in (api.person(2**60, "Big"), api.person(-5, "Negative")):
        strange.says("/start")
        strange.says("/list")
    assert reply_to(api, ann, "/requests").text == "no open requests"
    assert home.json("pair", "list")["requests"] == []
    until(lambda: not api.world.updates, "all updates are confirmed")
