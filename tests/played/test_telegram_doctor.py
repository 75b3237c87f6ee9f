"""`sm doctor` on the bot: its rights in groups, and the clock of the machine."""

import pytest

from sm.cli.mcp.check import PumpTimes
from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_instance import configure, start

FORUM, MISSING = -1_001_000_000_001, -1_001_000_000_002


def test_doctor_names_missing_rights_in_groups_and_a_wrong_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm.cli.mcp.check.measure", lambda _: PumpTimes(100, 10))  # of a real process
    with Instance() as home, PlayedTelegramApi(now=lambda: home.world.clocks.wall() + 300) as api:
        api.serve(home)
        ann = api.person(1001, "Ann")
        forum = api.group(FORUM, "Fleet", is_forum=True)
        configure(home, api, section=f", groups: [{FORUM}, {MISSING}]")
        start(home, api)

        def said() -> list[str]:
            return [line for line in home.run("doctor").stdout.splitlines() if " telegram: " in line]

        # The bot tells the group about its missing right, and the time of that message may be known already.
        assert [line for line in said() if "clock" not in line] == [
            "ok       telegram: bot @sm_test_bot",
            "warning  telegram: owner telegram:1001 has not written to the bot  -> send /start to the bot from this "
            "account",
            f"warning  telegram: group {FORUM}: the bot cannot manage topics  -> make the bot an administrator with "
            "the right to manage topics",
            f"warning  telegram: group {MISSING}: Chat not found  -> add the bot to the group",
        ]
        forum.bot_is_admin = forum.can_manage_topics = True
        ann.adds_bot(forum)  # Telegram reports every change of the bot's rights
        ann.says("/start")
        api.wait_for_message(1001, "connected")
        until(
            lambda: f"ok       telegram: group {FORUM}: the bot reads every message" in said(),
            "the new rights",
        )
        (clock,) = [line for line in said() if "clock" in line]
        assert clock.startswith("warning  telegram: the clock of this machine is ")
        assert "s behind Telegram's  -> set the clock" in clock
