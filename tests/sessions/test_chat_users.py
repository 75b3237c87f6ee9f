"""Users of chat networks without a capability that admits any."""

from pathlib import Path

import pytest

from sm.core.models import BridgeUser
from sm.core.states import BridgeLevel
from sm.errors import NotPermitted
from sm.sessions.chat_users import ChatUsers
from tests.samples import AT
from tests.state_parts import open_parts

OWNER, STRANGER = "telegram:1", "telegram:2"


async def test_only_owners_are_identified_when_nothing_admits_other_users(tmp_path: Path) -> None:
    lines: list[tuple[str, str, str | None, str, str | None]] = []

    def audit(who: str, what: str, target: str | None, decision: str, reason: str | None) -> None:
        lines.append((who, what, target, decision, reason))

    async with open_parts(tmp_path, lambda: AT, audit) as (store, _):
        users = ChatUsers(store, audit, [OWNER])
        assert users.caller(OWNER).user == BridgeUser(OWNER, BridgeLevel.OWNER)
        assert await users.ask(STRANGER, "A stranger") is None
        with pytest.raises(NotPermitted):
            users.caller(STRANGER)
        assert (users.admitted, lines) == ([], [(STRANGER, "call", None, "refused", "not paired")])
