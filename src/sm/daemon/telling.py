"""Passes on what agents say beside what they do, each to whoever waits for it."""

from dataclasses import dataclass

from sm.core.observation import Source
from sm.messaging.composer import Composing
from sm.messaging.receipts import Receipts
from sm.providers.readers import AcceptedInput
from sm.requests.dialogs import Dialogs


@dataclass(frozen=True, slots=True)
class Telling:
    """The observer's `News`."""

    receipts: Receipts
    composing: Composing
    dialogs: Dialogs

    async def heard(self, session_id: str, heard: AcceptedInput, source: Source) -> None:
        await self.receipts.heard(session_id, heard, source)

    async def tool_begins(self, session_id: str) -> None:
        await self.composing.tool_begins(session_id)

    async def turn_ends(self, session_id: str) -> None:
        await self.composing.turn_ends(session_id)

    async def tool_ended(self, session_id: str, tool_use: str, allowed: bool) -> None:
        await self.dialogs.tool_ended(session_id, tool_use, allowed)

    async def turn_ended(self, session_id: str, at: float) -> None:
        await self.receipts.turn_ended(session_id, at)

    def gone(self, session_id: str) -> None:
        self.receipts.forget(session_id)
