"""Cards of requests that take several steps: reasons, plans, ticks, pages, one question after the other."""

from collections.abc import Iterator

import pytest

from tests.sim.stage import Stage, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Button, Fault, Person, SentMessage, TelegramApi
from tests.telegram_fixtures import bot_api, person
from tests.telegram_instance import configure, connect, rows, start

VOID = "This button is no longer valid."
SIZE = {
    "question": "Which size?",
    "header": "Size",
    "options": [{"label": "2", "description": "two"}, {"label": "1", "description": "one"}],
    "multiSelect": False,
}
COLOURS = {
    "question": "Which colours?",
    "header": "Colours",
    "options": [{"label": "Red", "description": "r"}, {"label": "S, small", "description": "s"}],
    "multiSelect": True,
}


api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
bob = person(1002, "Bob")  # the second owner


@pytest.fixture
def stage(api: PlayedTelegramApi, ann: Person) -> Iterator[Stage]:
    """A stage whose owner Ann has written to the bot."""
    with Stage() as stage:
        stage.kill_daemon()
        api.serve(stage)
        configure(stage, api, owners=(1001, 1002))
        start(stage, api)
        connect(api, ann)
        yield stage


def labels(card: SentMessage) -> list[list[str]]:
    return [[button["text"] for button in row] for row in (card.keyboard or {}).get("inline_keyboard", ())]


def press(api: TelegramApi, person: Person, button: Button) -> str | None:
    """Press a button; return the words of the bot's answer."""
    callback = person.presses(button)
    api.wait_for(lambda: callback in api.world.answers, "the answer to the press")
    return api.world.answers[callback]


def known(stage: Stage, about: str) -> None:
    """Wait until the database has the id of the message that shows the object."""
    until(lambda: (about,) in rows(stage, "SELECT about FROM telegram_messages"), "the id of the message")


# Permissions and plans


def test_reply_to_a_card_is_the_reason_of_a_denial_only_after_the_button(
    stage: Stage, api: TelegramApi, ann: Person
) -> None:
    dialog = stage.agent().open_dialog("Bash", {"command": "deploy"})
    dialog.start_wait()
    card = api.wait_for_message(1001, "asks for permission to use Bash")
    assert labels(card) == [["Approve", "Deny"], ["Deny with a reason"]]
    known(stage, f"request {dialog.name}")
    ann.says("use staging", reply_to=card)
    api.wait_for_message(1001, "is not a question: a text does not decide it")
    assert dialog.request["answer"] is None
    assert press(api, ann, card.button("Deny with a reason")) == "Reply to the card with the reason."
    api.wait_for(lambda: "Reply to this message with the reason" in card.text, "the next state of the card")
    assert labels(card) == [["Approve", "Deny"]]
    ann.says("use staging", reply_to=card)
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "deny", "message": "telegram:1001 said no: use staging"}
    api.wait_for(lambda: "denied: use staging by telegram:1001" in card.text, "the outcome")
    assert not rows(stage, "SELECT 1 FROM telegram_drafts")
    assert not rows(stage, "SELECT 1 FROM telegram_buttons")


def test_reason_of_another_person_does_not_deny(
    stage: Stage, api: TelegramApi, ann: Person, bob: Person
) -> None:
    bob.says("/start")
    api.wait_for_message(1002, "connected")
    dialog = stage.agent().open_dialog("Bash", {"command": "deploy"})
    card = api.wait_for_message(1001, "asks for permission")
    other = api.wait_for_message(1002, "asks for permission")
    press(api, ann, card.button("Deny with a reason"))
    known(stage, f"request {dialog.name}")
    bob.says("no", reply_to=other)
    api.wait_for_message(1002, "a text does not decide it")
    assert dialog.request["answer"] is None
    assert press(api, bob, card.button("Approve")) == VOID
    assert press(api, ann, other.button("Approve")) == VOID
    assert dialog.request["answer"] is None


def test_button_in_another_message_is_void(stage: Stage, api: TelegramApi, ann: Person) -> None:
    agent = stage.agent()
    first = agent.open_dialog("Bash", {"command": "one"})
    second = agent.open_dialog("Bash", {"command": "two"})
    one = api.wait_for_message(1001, "| one")
    two = api.wait_for_message(1001, "| two")
    known(stage, f"request {second.name}")
    stolen = one.button("Approve")
    assert press(api, ann, Button(two.chat_id, two.message_id, stolen.text, stolen.data)) == VOID
    assert first.request["answer"] is None
    assert second.request["answer"] is None
    assert labels(two) == [["Approve", "Deny"], ["Deny with a reason"]]


def test_plan_is_quoted_and_approved(stage: Stage, api: TelegramApi, ann: Person) -> None:
    dialog = stage.agent().open_dialog("ExitPlanMode", {"plan": "# Plan\n1. <look>\n2. leap", "x": 1})
    dialog.start_wait()
    card = api.wait_for_message(1001, "asks to approve its plan")
    assert card.text.split("\n")[1:] == ["  | # Plan", "  | 1. <look>", "  | 2. leap"]
    assert labels(card) == [["Approve", "Reject"]]
    ann.presses(card.button("Approve"))
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "allow", "updatedInput": {"x": 1}}
    api.wait_for(lambda: "approved by telegram:1001" in card.text, "the outcome")
    assert "2. leap" in card.text


# Questions


def test_questions_come_one_after_the_other_with_ticks(stage: Stage, api: TelegramApi, ann: Person) -> None:
    dialog = stage.agent().open_dialog("AskUserQuestion", {"questions": [SIZE, COLOURS]})
    dialog.start_wait()
    card = api.wait_for_message(1001, "Which size?")
    assert "Question 1 of 2" in card.text
    assert "Which colours?" not in card.text
    assert labels(card) == [["1: 2"], ["2: 1"]]
    early = card.button("1: 2")
    press(api, ann, card.button("2: 1"))
    api.wait_for(lambda: "Which colours?" in card.text, "the second question")
    assert "Answer 1: 1" in card.text
    assert labels(card) == [["☐ 1: Red"], ["☐ 2: S, small"], ["Done"], ["Start again"]]
    assert press(api, ann, early) == "This question has been answered."
    assert press(api, ann, card.button("Done")) == "Tick at least one option, or reply to the card."
    red, small = card.button("☐ 1: Red"), card.button("☐ 2: S, small")
    press(api, ann, red)
    press(api, ann, small)  # the buttons that the card had before the first tick still work
    api.wait_for(lambda: labels(card)[:2] == [["☑ 1: Red"], ["☑ 2: S, small"]], "both ticks")
    assert press(api, ann, red) == VOID
    assert labels(card)[:2] == [["☑ 1: Red"], ["☑ 2: S, small"]]
    ann.presses(card.button("Done"))
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision["updatedInput"]["answers"] == {"Which size?": "1", "Which colours?": "Red, S, small"}
    api.wait_for(lambda: "1 / Red, S, small by telegram:1001" in card.text, "the outcome")
    assert card.keyboard is None
    assert not rows(stage, "SELECT 1 FROM telegram_buttons")


def test_replies_answer_questions_one_after_the_other(stage: Stage, api: TelegramApi, ann: Person) -> None:
    dialog = stage.agent().open_dialog("AskUserQuestion", {"questions": [SIZE, COLOURS]})
    dialog.start_wait()
    card = api.wait_for_message(1001, "Which size?")
    known(stage, f"request {dialog.name}")
    ann.says("enormous", reply_to=card)
    api.wait_for_message(1001, f"{dialog.name}: answer 1 of 2: enormous")
    api.wait_for(lambda: "Which colours?" in card.text, "the second question")
    press(api, ann, card.button("Start again"))
    api.wait_for(lambda: "Which size?" in card.text, "the first question")
    ann.says("2", reply_to=card)
    api.wait_for_message(1001, f"{dialog.name}: answer 1 of 2: 1")
    ann.says("1,2", reply_to=card)
    decision = dialog.take_decision()["hookSpecificOutput"]["decision"]
    assert decision["updatedInput"]["answers"] == {"Which size?": "1", "Which colours?": "Red, S, small"}


def test_many_options_have_pages(stage: Stage, api: TelegramApi, ann: Person) -> None:
    options = [word for n in range(1, 18) for word in ("--option", f"colour {n}")]
    command = " ".join(["sm ask Which? --wait 600", *(f"'{word}'" for word in options), "; sleep 1000"])
    stage.spawn("Sh", command)
    card = api.wait_for_message(1001, "Which?")
    assert labels(card) == [*([f"{n}: colour {n}"] for n in range(1, 9)), ["More options"]]
    first = card.button("1: colour 1")
    press(api, ann, card.button("More options"))
    api.wait_for(lambda: labels(card)[-1] == ["Previous options", "More options"], "the second page")
    press(api, ann, card.button("More options"))
    api.wait_for(lambda: labels(card) == [["17: colour 17"], ["Previous options"]], "the last page")
    ann.presses(card.button("17: colour 17"))
    api.wait_for(lambda: "colour 17 by telegram:1001" in card.text, "the outcome")
    assert (press(api, ann, first) or "").startswith("r1: colour 17 by telegram:1001, ")


def test_option_whose_text_is_the_number_of_another_one_is_chosen(
    stage: Stage, api: TelegramApi, ann: Person
) -> None:
    stage.spawn("Sh", "sm ask Which? --option 2 --option 1 --wait 600; sleep 1000")
    card = api.wait_for_message(1001, "Which?")
    ann.presses(card.button("1: 2"))
    api.wait_for(lambda: "by telegram:1001" in card.text, "the outcome")
    assert stage.json("requests", "--all")[0]["answer"]["answers"] == ["2"]


@pytest.mark.parametrize(
    "point", ["TelegramWrites.record_update before 1", "TelegramWrites.record_update after 1"]
)
def test_step_on_a_card_is_made_once_when_the_daemon_is_killed_on_its_way(
    stage: Stage, api: TelegramApi, ann: Person, point: str
) -> None:
    dialog = stage.agent().open_dialog("AskUserQuestion", {"questions": [SIZE, COLOURS]})
    card = api.wait_for_message(1001, "Which size?")
    known(stage, f"request {dialog.name}")
    stage.kill_daemon()
    ann.presses(card.button("2: 1"))
    stage.start_crashing_daemon(point).wait()
    api.repeat_updates()
    stage.start_daemon()
    api.wait_for(lambda: "Which colours?" in card.text, "the second question")
    assert "Answer 1: 1" in card.text
    assert rows(stage, "SELECT answers FROM telegram_drafts") == [('["2"]',)]


def test_cards_of_all_people_show_an_answer_from_elsewhere(
    stage: Stage, api: TelegramApi, ann: Person, bob: Person
) -> None:
    bob.says("/start")
    api.wait_for_message(1002, "connected")
    dialog = stage.agent().open_dialog("Bash", {"command": "make"})
    dialog.start_wait()
    cards = [api.wait_for_message(id, "asks for permission") for id in (1001, 1002)]
    late = cards[0].button("Approve")
    press(api, ann, cards[0].button("Deny with a reason"))
    api.fault("answerCallbackQuery", Fault.CUT_BEFORE)
    bob.presses(cards[1].button("Approve"))
    dialog.take_decision()
    for card in cards:
        api.wait_for(lambda: "approved by telegram:1002" in card.text, "the outcome")  # noqa: B023
        assert card.keyboard is None
    assert not rows(stage, "SELECT 1 FROM telegram_drafts")
    assert (press(api, ann, late) or "").startswith(f"{dialog.name}: approved by telegram:1002, ")
