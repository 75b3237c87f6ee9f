"""For how long a daemon keeps ended sessions in memory: in a random fleet as short as its other intervals."""

import asyncio
import random
from dataclasses import dataclass

from sm.store import Store
from sm.store.session_memory import SessionMemory

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Memory:
    """The limits of `SessionMemory`, and how often sessions leave it beside the upkeep of the daemon."""

    lately_s: float = SessionMemory.lately_s
    unseen_s: float = SessionMemory.unseen_s
    every_s: float = _DAY_S

    async def limit(self, store: Store) -> None:
        while True:
            await asyncio.sleep(self.every_s)
            store.memory.forget_old()


def memory_of(seed: int) -> Memory:
    """The limits of a run: in two of three runs so short that many acts and faults meet forgotten sessions."""
    chance = random.Random(f"memory {seed}")
    short = Memory(chance.choice((0.0, 5.0, 40.0)), chance.choice((5.0, 60.0)), chance.choice((0.5, 7.0)))
    return short if chance.random() < 2 / 3 else Memory()
