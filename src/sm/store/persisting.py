"""Writing down what has happened already: it cannot be refused, so it waits for room."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sm.errors import StorageFull

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0

T = TypeVar("T")


async def persist(write: Callable[[], Awaitable[T]]) -> T:
    """What `write` returns, once the disk has room for it; `write` is repeated until then."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await write()
        except StorageFull as error:
            log.warning("put off what has to be written: %s", error.message)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
