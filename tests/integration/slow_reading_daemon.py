"""A real daemon that reads events slowly, as on a slow disk: events committed meanwhile must not be lost.

It reads the event FIRST only after the event LAST is committed, and creates the file READING when it starts to wait.
"""

import os
import sys
from pathlib import Path
from typing import Any

from sm.core.models import Event
from sm.daemon import main as daemon
from sm.store import Store

FIRST, LAST = 3, 6
READING = "reading"

read_events = Store.events


async def events(self: Store, **filters: Any) -> list[Event]:
    if FIRST <= self.last_seq < LAST:
        Path(os.environ["SM_HOME"], READING).touch()
        await self.wait_until(lambda: self.last_seq >= LAST)
    return await read_events(self, **filters)


if __name__ == "__main__":
    Store.events = events  # type: ignore[method-assign]  # the rest of the store is the real one
    sys.exit(daemon.main())
