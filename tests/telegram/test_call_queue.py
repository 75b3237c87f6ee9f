"""The transaction that adds a call also begins it, if the sender has nothing to do."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from sm.core.effects import EffectState
from sm.core.telegram_model import BotMethod, NewCall, Outgoing, TelegramChange
from sm.services.telegram_calls import CallQueue
from sm.store import Store


@asynccontextmanager
async def waiting(queue: CallQueue, *, may_call: bool = True) -> AsyncIterator[None]:
    """A sender without work. `may_call`: the limits of Telegram allow a call."""

    def choose(calls: Iterable[Outgoing]) -> Outgoing | None:
        return next(iter(calls), None) if may_call else None

    task = asyncio.create_task(queue.wait(queue.calls, choose, None))
    await asyncio.sleep(0)  # the task begins to wait
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def states(store: Store, queue: CallQueue, *texts: str) -> list[EffectState]:
    """The committed states of the calls, after one transaction that adds them all."""
    async with store.transaction() as tx:
        for text in texts:
            new = NewCall(1001, BotMethod.SEND_MESSAGE, {"text": text})
            await queue.add(tx, TelegramChange([new]))
    async with store.transaction() as tx:
        rows = await tx.read("SELECT state FROM outbox ORDER BY id", ())
    return [EffectState(row[0]) for row in rows]


async def test_call_is_begun_by_the_transaction_that_adds_it_when_the_sender_waits(store: Store) -> None:
    queue = CallQueue(store)
    async with waiting(queue):
        assert await states(store, queue, "one", "two") == [EffectState.TAKEN, EffectState.PENDING]
        assert queue.begun == queue.calls[min(queue.calls)]


async def test_call_waits_when_the_sender_works(store: Store) -> None:
    queue = CallQueue(store)
    async with waiting(queue):
        pass
    assert await states(store, queue, "one") == [EffectState.PENDING]
    assert queue.begun is None


async def test_call_waits_when_no_call_may_be_made_now(store: Store) -> None:
    queue = CallQueue(store)
    async with waiting(queue, may_call=False):
        assert await states(store, queue, "one") == [EffectState.PENDING]
