"""Writing down what has happened already: it cannot be refused, so it waits for room."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sm.core.backoff import Backoff
from sm.errors import StorageFull

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0

T = TypeVar("T")


async def persist(write: Callable[[], Awaitable[T]]) -> T:
    """What `write` returns, once the disk has room for it; `write` is repeated until then."""
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        try:
            return await write()
        except StorageFull as error:
            log.warning("put off what has to be written: %s", error.message)
        await asyncio.sleep(backoff.next_s())
