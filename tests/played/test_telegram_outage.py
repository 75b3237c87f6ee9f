"""A real daemon while Telegram fails: nothing waits for the bot, and afterwards the chat gets what is still true."""

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Fault, Person, TelegramApi
from tests.telegram_fixtures import bot_api, connected_instance, person
from tests.telegram_instance import rows

MORE = """
  Asker: {command: [sh, -c, "sm ask 'Which colour?' --option red --option blue --wait 600; sleep 1000"], prompt: file}
limits: {spawn_interval_s: 0}
"""

api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
home = connected_instance(MORE)


def test_card_of_a_request_that_was_answered_before_it_was_sent_never_comes(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.BAD_GATEWAY, times=1000)
    home.spawn("Asker")
    home.spawn("Asker")
    until(
        lambda: (
            len(
                rows(
                    home,
                    "SELECT 1 FROM outbox WHERE kind = 'telegram' AND json_extract(payload, '$.need') = 1",
                )
            )
            == 2
        ),
        "two cards wait",
    )
    api.wait_for(lambda: any(call.status == 502 for call in api.calls), "a failed call")
    home.sm("answer", "r1", "red")
    api.heal()
    card = api.wait_for_message(1001, "r2: ")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert card.keyboard is not None
    assert api.messages(1001, "r1: ") == []


def test_silence_is_followed_by_one_summary_and_the_open_card(
    home: Instance, api: TelegramApi, ann: Person
) -> None:
    api.fault("*", Fault.SILENCE, times=1000)
    ended = [home.spawn("Sh", "exit 3")["session_id"] for _ in range(25)]
    for id in ended:
        home.ended(id)
    home.spawn("Asker")
    until(
        lambda: len(rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'")) == 26,
        "all reports and the card wait",
    )
    api.heal()
    api.wait_for(lambda: api.messages(1001, "waited too long for Telegram"), "the summary")
    until(lambda: not rows(home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert len(api.messages(1001, "Which colour?")) == 1
    assert len(api.messages(1001, "waited too long")) == 1
    assert len(api.messages(1001, "crashed (exit code 3)")) <= 2
