"""Words what became of a message that a person has sent in a browser."""

from collections.abc import Mapping
from typing import Any

from sm.client.http import TIMEOUT_S
from sm.core.message_lines import outcome
from sm.core.states import OPEN_STATES
from sm.web.daemon_link import DaemonLink
from sm.web.logins import WebLogin

_DELIVERY_S = 5


async def message_words(link: DaemonLink, login: WebLogin, message: Mapping[str, Any]) -> str:
    """The state of a sent message, after a short wait. Raises SmError for one that failed.

    `message`: with its number at least.
    """
    if message.get("status") in (None, *OPEN_STATES):
        path, query = f"/v1/messages/{message['message_id']}", {"wait_s": str(_DELIVERY_S)}
        followed = await link.get(path, query, login=login, timeout_s=TIMEOUT_S)
        message = {**message, **followed}
    return outcome(message, must_arrive=False)
