"""Fetches updates, and lets each one be handled exactly once.

The answer to an update is written in one transaction with the row of its id, and the next poll confirms the update to
Telegram. Telegram repeats an update that was not confirmed: the row makes the repetition harmless, and before the row
exists, the idempotency key of the update does. A poll confirms every older update too. So while the work of an update
is long, short polls read the next ones and confirm only the updates before the oldest one at work.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from sm.core.backoff import Backoff
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramChange
from sm.errors import StorageFull
from sm.services import Telegram, TelegramLink
from sm.telegram.client import BotClient
from sm.telegram.commands import COMMAND_MENU
from sm.telegram.outcome import NO_SUCH_BOT, CallFailed, Conflict, Flooded, Unauthorized
from sm.telegram.update_tasks import UpdateTasks
from sm.telegram.updates import IncomingUpdate, UpdateKind

log = logging.getLogger(__name__)

POLL_WAIT_S = 25
ANSWER_WITHIN_S = 60.0
CONFLICT_PAUSE_S = 60.0
FORGET_OFFSET_AFTER_S = 24 * 3600.0
"""Telegram may number updates anew after a week without updates, so the offset of an older one is not used."""
LONG_WORK_S = 0.5
"""After this time the poller reads the next updates, although others are at work. Telegram answers at once then."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class UpdateHandler(Protocol):
    """Carries out updates."""

    async def handle(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
        """Carry out the update; return everything that follows, or None if the update means nothing.

        After a crash the same update may come again: `key` is the idempotency key of every change.
        """


class Poller:
    """One task that polls, and one for each update at work. `clock` is monotonic."""

    def __init__(
        self,
        records: Telegram,
        client: BotClient,
        link: TelegramLink,
        owners: Sequence[int],
        handler: UpdateHandler,
        groups: Sequence[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._client = client
        self._link = link
        self._owners = owners
        self._handler = handler
        self._groups = groups
        self._clock = clock
        self._offset: int | None = None
        self._offset_at = clock()
        self._tasks = UpdateTasks(self._carry_out)
        self._backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    async def run(self) -> None:
        """Poll until cancelled, or until Telegram refuses the token."""
        async with asyncio.TaskGroup() as group:
            await self._run(group)

    async def _run(self, group: asyncio.TaskGroup) -> None:
        while self._link.off is None:
            try:
                await self._poll(group)
            except CallFailed as failed:
                pause_s = self._pause_after(failed)
            except TimeoutError:
                pause_s = self._backoff.next_s()
                log.warning("telegram did not answer a poll within %d s: new connections", ANSWER_WITHIN_S)
                await self._client.renew()
            except StorageFull as error:  # of the first start
                pause_s = self._backoff.next_s()
                log.warning("postponed updates of telegram: %s", error.message)
            await asyncio.sleep(pause_s)

    def _pause_after(self, failed: CallFailed) -> float:
        match failed.failure:
            case Unauthorized():
                self._link.off = NO_SUCH_BOT
                return 0.0
            case Conflict(reason):
                self._link.conflict = reason
                return CONFLICT_PAUSE_S
            case Flooded(retry_after_s):
                return retry_after_s
            case failure:
                log.info("could not poll telegram: %s", failure)
                return self._backoff.next_s()

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        if self._link.bot is None:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                self._link.bot = await self._client.user_name()
            await self._client.announce(COMMAND_MENU, self._groups)
            await self._read_rights()
        if not await self._records.begin(self._client.bot_id):
            await self._discard()
        while True:
            oldest = self._tasks.oldest
            updates = await self._updates(POLL_WAIT_S if oldest is None else 0, oldest)
            for update in updates:
                self._tasks.start(update, group)
            self._received(updates)
            await self._tasks.wait(LONG_WORK_S)

    async def _read_rights(self) -> None:
        self._link.groups = [await self._client.group_rights(group) for group in self._groups]

    async def _updates(self, wait_s: int, oldest: int | None = None) -> list[IncomingUpdate]:
        """The updates of one poll, oldest first. `oldest`: the first one at work, which the poll must not confirm."""
        if self._clock() - self._offset_at > FORGET_OFFSET_AFTER_S:
            self._offset = None
        async with asyncio.timeout(ANSWER_WITHIN_S):
            updates = await self._client.updates(self._offset if oldest is None else oldest, wait_s)
        self._link.answered()
        self._backoff.reset()
        return sorted(updates, key=lambda update: update.update_id)

    def _received(self, updates: Sequence[IncomingUpdate]) -> None:
        """Let a later poll confirm these updates, when none of them is at work."""
        if updates:
            newest = updates[-1].update_id + 1
            self._offset = newest if self._offset is None else max(self._offset, newest)
            self._offset_at = self._clock()

    async def _carry_out(self, update: IncomingUpdate) -> None:
        """Handle the update, as soon as the disk has room. Later texts of its chat wait."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await self._handle(update)
                return
            except StorageFull as error:
                log.warning("postponed an update of telegram: %s", error.message)
            await asyncio.sleep(backoff.next_s())

    async def _handle(self, update: IncomingUpdate) -> None:
        bot_id, number = self._client.bot_id, update.update_id
        if await self._records.is_handled(bot_id, number):
            return
        change: TelegramChange | None = TelegramChange()
        try:
            change = await self._handler.handle(update, f"telegram:{bot_id}:{number}")
        except StorageFull:
            raise
        except Exception:
            # A defect must not stop all later updates. The update counts as handled, so that it is not tried for ever.
            log.exception("failed to handle an update of telegram")
        if update.kind is UpdateKind.MY_CHAT_MEMBER and update.chat_id in self._groups:
            await self._read_rights()
        if change is not None:  # an update of a stranger, which changed nothing, needs no row
            await self._records.record_update(bot_id, number, change)

    async def _discard(self) -> None:
        """Throw away what waited before the first start of the bot, and tell the owners how much."""
        while updates := await self._updates(0):
            await self._records.discard_updates(self._client.bot_id, [u.update_id for u in updates])
            self._received(updates)
        await self._records.finish_first_start(self._client.bot_id, self._first_start)

    def _first_start(self, count: int) -> list[NewCall]:
        was = "1 message or press that waited was" if count == 1 else f"{count} messages and presses were"
        text = f"This is the first start of the bot. {was} thrown away: please send them again."
        return [NewCall(owner, BotMethod.SEND_MESSAGE, {"text": text}, Need.ENDING) for owner in self._owners]
