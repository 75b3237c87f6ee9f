"""A conversation in which the daemon is killed at every step: each step happens once, and is told once."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Person, SentMessage, TelegramApi
from tests.telegram_fixtures import bot_api, connected_instance, person
from tests.telegram_instance import rows

AGENT = "sm ask 'Which colour?' --option red --option blue --wait 600; while :; do sm inbox --take --wait >> got; done"
MORE = f"""
  Agent: {{command: [sh, -c, "{AGENT}"], prompt: file}}
limits: {{spawn_interval_s: 0}}
"""
AGAIN = "\n(again)"

api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
eve = person(6, "Eve")
home = connected_instance(MORE)


class Crashes:
    """Acts of people that reach a daemon which is killed at `point` while it carries them out."""

    def __init__(self, home: Instance, api: TelegramApi, point: str) -> None:
        self.home, self.api, self.point = home, api, point

    def during(self, act: Callable[[], Any]) -> None:
        self.home.kill_daemon()
        act()
        self.home.start_crashing_daemon(self.point).wait()
        self.api.repeat_updates()
        self.home.start_daemon()

    def told(self, words: str, chat: int = 1001) -> SentMessage:
        """The first message with these words. It is the only one, but for a repetition that says so."""
        message = self.api.wait_for_message(chat, words)
        until(lambda: not rows(self.home, "SELECT 1 FROM outbox WHERE kind = 'telegram'"), "nothing waits")
        texts = [each.text for each in self.api.messages(chat, words)]
        assert [text for text in texts[1:] if not text.endswith(AGAIN)] == []
        assert len(texts) <= 2
        return message


@pytest.mark.parametrize(
    "point",
    [
        "TelegramWrites.record_update before 1",
        "Telegram.record_update after 1",
        "BotClient.make before 1",
    ],
)
def test_conversation_goes_on_when_the_daemon_is_killed_at_every_step(
    home: Instance, api: TelegramApi, ann: Person, eve: Person, point: str
) -> None:
    crashes = Crashes(home, api, point)

    eve.says("/start")
    asked = crashes.told("asks for access")
    crashes.during(lambda: ann.presses(asked.button("Approve")))
    api.wait_for(lambda: "Paired telegram:6 (Eve) as sandboxed" in asked.text, "the outcome")
    assert [user["user"] for user in home.json("pair", "list")["users"]] == ["telegram:6"]

    crashes.during(lambda: ann.says("/new Agent paint it"))
    started = crashes.told("Started agent-")
    (session,) = home.json("all")
    id = session["session_id"]

    card = crashes.told("Which colour?")
    crashes.during(lambda: ann.presses(card.button("2: blue")))
    api.wait_for(lambda: "blue by telegram:1001" in card.text, "the outcome")
    (request,) = home.json("requests", "--all")
    assert (request["state"], request["answered_by"]) == ("answered", "telegram:1001")

    until(lambda: (started.message_id,) in rows(home, "SELECT message_id FROM telegram_messages"), "its id")
    crashes.during(lambda: ann.says("paint the door", reply_to=started))
    until(lambda: "paint the door" in _got(home), "the message")
    assert _got(home).count("paint the door") == 1
    assert len(rows(home, "SELECT 1 FROM messages WHERE text LIKE '%paint the door%'")) == 1

    ann.says(f"/kill {id}")
    sure = crashes.told("The button works for a minute")
    crashes.during(lambda: ann.presses(sure.button(f"Kill agent-{id}")))
    crashes.told(f"Session {id} was killed (")
    assert home.session(id)["status"] == "killed"
    api.wait_for(lambda: sure.keyboard is None, "the button is gone")

    crashes.during(lambda: ann.says(f"/archive {id}"))
    crashes.told(f"Archived agent-{id}")
    assert home.json("all") == []
    crashes.during(lambda: ann.says(f"/unarchive {id}"))
    crashes.told(f"Unarchived agent-{id}")
    assert [s["session_id"] for s in home.json("all")] == [id]

    audit = (home.state / "log" / "audit.jsonl").read_text(encoding="utf-8")
    assert '"press"' not in audit, "no press was refused, also not one that was carried out before a crash"
    numbers = [number for (number,) in rows(home, "SELECT update_id FROM telegram_updates")]
    assert len(numbers) == len(set(numbers)) == 10


def _got(home: Instance) -> str:
    got = home.home / "got"
    return got.read_text() if got.exists() else ""
