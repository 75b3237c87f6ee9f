"""A Bot API server of Telegram on loopback, with scripted people and faults, for tests without a network.

Written from the public documentation of the Bot API. It refuses what Telegram refuses, in the words of Telegram, and
`test_contract.py` proves with the library's own client that the answers have the right form.

    with TelegramApi() as api:
        ann = api.person(1001, "Ann")
        ann.says("/start")                      # an update, which getUpdates returns until it is confirmed
        ...                                     # a bot with base_url=f"{api.url}/bot" and api.token
        card = api.wait_for_message(ann.id, "Approve?")
        ann.presses(card.button("Approve"))
        api.fault("sendMessage", Fault.CUT_AFTER)
"""

from tests.telegram_api.faults import ALWAYS, Fault
from tests.telegram_api.people import Person
from tests.telegram_api.server import TelegramApi
from tests.telegram_api.world import Button, Chat, SentMessage

__all__ = ["ALWAYS", "Button", "Chat", "Fault", "Person", "SentMessage", "TelegramApi"]
