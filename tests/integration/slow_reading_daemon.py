"""A real daemon that is slow to read events, as on a slow disk: what is committed meanwhile must not be lost."""

import asyncio
import sys
from typing import Any

from sm.core.models import Event
from sm.daemon import main as daemon
from sm.store import Store

DELAY_S = 0.6

read_at_once = Store.events


async def events(self: Store, **what: Any) -> list[Event]:
    await asyncio.sleep(DELAY_S)
    return await read_at_once(self, **what)


if __name__ == "__main__":
    Store.events = events  # type: ignore[method-assign]  # the rest of the store is the real one
    sys.exit(daemon.main())
