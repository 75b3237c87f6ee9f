"""A random fleet: what its agents, its people and its faults do, and when. Pure data, from a seed."""

import random
from dataclasses import dataclass
from enum import StrEnum

TYPES = ("Tty", "Inbox")
_LENGTH_S = 900.0


class Act(StrEnum):
    SPAWN = "spawn"
    """The actor (the operator, or an agent) starts an agent."""
    SEND = "send"
    ASK = "ask"
    """The actor asks its parent or the operator; somebody answers later."""
    NOTE = "note"
    COMPLETE = "complete"
    EXIT = "exit"
    """The process of the agent ends with a code."""
    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    OVERSTEP = "overstep"
    """An agent tries to kill an agent that is not below it."""


class Fault(StrEnum):
    DROP = "drop"
    """The daemon is dropped some callbacks later, and started again some seconds after that."""
    PROCESS = "process"
    """A process of an agent gets SIGKILL."""
    SERVER = "server"
    """The terminal server ends."""
    DEAF = "deaf"
    """The terminal server does not answer for a while."""
    CLOCK = "clock"
    """The wall clock is stepped."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a script. Agents are numbers: their order of spawning, modulo those that exist."""

    at_s: float
    act: Act | Fault
    actor: int
    """-1: the operator."""
    target: int
    value: float


_ACTS = {
    Act.SPAWN: 6,
    Act.SEND: 12,
    Act.ASK: 3,
    Act.NOTE: 2,
    Act.COMPLETE: 2,
    Act.EXIT: 3,
    Act.KILL: 2,
    Act.PAUSE: 2,
    Act.RESUME: 3,
    Act.RESTORE: 3,
    Act.OVERSTEP: 1,
}
_FAULTS = {Fault.DROP: 8, Fault.PROCESS: 3, Fault.SERVER: 1, Fault.DEAF: 2, Fault.CLOCK: 1}


def script(seed: int, *, acts: int = 40, faults: int = 8) -> list[Entry]:
    """All entries in the order of their times."""
    chance = random.Random(seed)
    found = [Entry(0.1 * n, Act.SPAWN, -1, 0, chance.random()) for n in range(3)]
    chosen: list[Act | Fault] = []
    chosen += chance.choices(list(_ACTS), list(_ACTS.values()), k=acts)
    chosen += chance.choices(list(_FAULTS), list(_FAULTS.values()), k=faults)
    for act in chosen:
        actor = -1 if chance.random() < 0.4 else chance.randrange(20)
        at_s = round(chance.uniform(1, _LENGTH_S), 3)
        found.append(Entry(at_s, act, actor, chance.randrange(20), chance.random()))
    return sorted(found, key=lambda entry: entry.at_s)
