"""A real daemon that records the process of an agent late, as on a busy machine: after the agent's own report."""

import sys
from typing import Any

from sm.core.statuses import Status
from sm.daemon import main as daemon
from sm.sessions.spawn import Spawner
from sm.store import Effect

record_at_once = Spawner.record_start


async def record_start(self: Spawner, effect: Effect, *facts: Any, **more: Any) -> None:
    sessions = self._store.sessions
    await self._store.wait_until(lambda: sessions[effect.session_id].status is Status.COMPLETED)
    await record_at_once(self, effect, *facts, **more)


if __name__ == "__main__":
    Spawner.record_start = record_start  # type: ignore[method-assign]  # the rest of the daemon is the real one
    sys.exit(daemon.main())
