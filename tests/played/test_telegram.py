"""The bot against the Bot API server of the tests: its first start, crashes, and a Telegram that fails."""

from collections.abc import Iterator

import pytest

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Fault, Person, TelegramApi
from tests.telegram_fixtures import bot_api, person
from tests.telegram_instance import configure, rows, start

WELCOME = "This chat is connected to sm. /help shows the commands."
AGAIN = "\n(again)"

api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")


@pytest.fixture
def instance(api: PlayedTelegramApi) -> Iterator[Instance]:
    """An instance with a bot whose first start was before the test."""
    with Instance() as instance:
        api.serve(instance)
        configure(instance, api)
        start(instance, api)
        yield instance


def shown(api: TelegramApi) -> list[str]:
    return [message.text for message in api.messages(1001)]


def troubles(instance: Instance) -> list[str]:
    found: list[str] = instance.json("status")["trouble"]
    return found


def test_bot_answers_its_owner(instance: Instance, api: TelegramApi, ann: Person) -> None:
    ann.says("/start")
    api.wait_for_message(1001, WELCOME)
    assert troubles(instance) == []


def test_message_from_the_time_without_a_daemon_is_answered_after_its_start(
    instance: Instance, api: TelegramApi, ann: Person
) -> None:
    instance.sm("daemon", "stop")
    ann.says("/start")
    ann.says("/start", age_s=3600)
    (instance.state / "stopped").unlink()
    instance.start_daemon()
    api.wait_for_message(1001, "too old")
    assert shown(api)[0] == WELCOME


@pytest.mark.parametrize(
    "point",
    [
        "TelegramWrites.record_update before 1",
        "TelegramWrites.record_update after 1",
        "TelegramWrites.queue after 1",
        "BotClient.updates after 1",
        "BotClient.updates before 2",
        "BotClient.make before 1",
        "BotClient.make after 1",
    ],
)
def test_update_is_handled_once_when_the_daemon_is_killed_on_its_way(
    instance: Instance, api: TelegramApi, ann: Person, point: str
) -> None:
    instance.kill_daemon()
    ann.says("/start")
    instance.start_crashing_daemon(point).wait()
    api.repeat_updates()
    instance.start_daemon()
    api.wait_for_message(1001, WELCOME)
    until(lambda: not rows(instance, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
    assert shown(api) in ([WELCOME], [WELCOME + AGAIN], [WELCOME, WELCOME + AGAIN])
    assert len(rows(instance, "SELECT 1 FROM telegram_updates")) == 1
    assert len(rows(instance, "SELECT 1 FROM telegram_chats")) == 1


def test_daemon_works_while_telegram_is_silent_and_while_it_refuses_the_token(api: PlayedTelegramApi) -> None:
    with Instance() as instance:
        api.serve(instance)
        configure(instance, api)
        api.fault("*", Fault.SILENCE, times=1000)
        instance.start_daemon()
        assert instance.json("all") == []
        instance.sm("daemon", "stop")
        api.heal()
        (instance.state / "stopped").unlink()
        api.token = "4242:another_token_of_the_same_bot_0123456789"
        instance.start_daemon()
        until(lambda: troubles(instance), "the trouble")
        assert troubles(instance) == [
            "telegram is off until the daemon restarts: telegram refuses the token of the bot (401)"
        ]
        assert instance.json("all") == []
