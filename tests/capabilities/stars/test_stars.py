"""Stars: a mark of a session that ends, at every door."""

from tests.fixtures import context_fixture
from tests.played.test_telegram_chat import reply_to
from tests.sim.live_board import board
from tests.sim.stage import Instance
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Person, TelegramApi
from tests.telegram_fixtures import bot_api, connected_instance, person

instance = context_fixture("function", lambda: Instance("stars: {hours: 2}"))
api = bot_api(PlayedTelegramApi)
ann = person(1001, "Ann")
home = connected_instance("")


def test_star_is_listed_until_its_time_is_over(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    with board(instance) as shown:
        assert "Starred until" in instance.sm("star", session_id, "--reason", "review")
        shown.shows(session_id, lambda row: row["star"] is not None)
    instance.restart()
    assert instance.json("status", session_id)["star"]["reason"] == "review"
    assert "★ review" in instance.sm("ls")
    instance.wait(2 * 3600 + 60)
    assert instance.json("status", session_id)["star"] is None


def test_star_is_set_and_removed_in_a_chat(home: Instance, api: TelegramApi, ann: Person) -> None:
    session_id = home.spawn("Sleeper", "x")["session_id"]
    assert "/star ID [TEXT] - mark a session with a star" in reply_to(api, ann, "/help").text
    assert "Starred until" in reply_to(api, ann, f"/star {session_id} review me").text
    assert home.json("status", session_id)["star"]["by"] == "telegram:1001"
    assert "Done." in reply_to(api, ann, f"/unstar {session_id}").text
    assert "has no star" in reply_to(api, ann, f"/unstar {session_id}").text
