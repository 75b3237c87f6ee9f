"""The script of the night: what twenty agents and their operator do in ten hours. Pure data."""

import random
from dataclasses import dataclass
from enum import StrEnum

NIGHT_S = 10 * 3600.0
BEGIN_S = 1_795_813_200.0
"""2026-11-27 21:00 UTC, in seconds since the epoch."""
ACCOUNT = "command-night"
RESETS_S = BEGIN_S + 3 * 3600
LIMIT = "tokens=1000"


class Act(StrEnum):
    SPAWN = "spawn"
    USE = "use"
    """The agent uses 100 tokens, if it is not paused."""
    CRASH = "crash"
    """The process of the agent ends with exit code 3."""
    ASK = "ask"
    ANSWER = "answer"
    """The operator answers the open question of the agent."""
    APPROVE = "approve"
    """The operator approves the budget request of the agent."""
    REJECT = "reject"
    MEET_LIMIT = "meet_limit"
    """A turn of the agent meets the usage limit of its account."""
    SUCCEED = "succeed"
    """A turn of the agent ends without a fault."""
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Entry:
    at_s: float
    """Seconds since the epoch."""
    agent: str
    """The id of a session."""
    act: Act


def agent_ids(behaviour: str) -> list[str]:
    """The ids of the sessions of the four agents of a behaviour, which is four hexadecimal digits."""
    return [f"{behaviour}{number:04d}" for number in range(4)]


WORKERS = agent_ids("3004")
CRASHERS = agent_ids("c4a5")
ASKERS = agent_ids("a545")
SPENDERS = agent_ids("53ed")
LIMITED = agent_ids("1173")
AGENTS = [*WORKERS, *CRASHERS, *ASKERS, *SPENDERS, *LIMITED]
PARENTS = {SPENDERS[1]: SPENDERS[0], SPENDERS[3]: SPENDERS[2]}
BUDGETS = (SPENDERS[0], SPENDERS[2])
"""The sessions with a budget, which binds a child of each."""
LASTS = (SPENDERS[1], LIMITED[3], CRASHERS[3])
"""The agents that are still live in the morning, with the child of the rejected budget and its parent."""


def script(seed: int) -> list[Entry]:
    """All entries in the order of their times. No two agents act at the same time."""
    chance, found = random.Random(seed), list[Entry]()

    def add(minute: float, agent: str, act: Act) -> None:
        found.append(Entry(round(BEGIN_S + minute * 60 + chance.uniform(0, 20), 3), agent, act))

    for number, agent in enumerate(AGENTS):
        found.append(Entry(BEGIN_S + number, agent, Act.SPAWN))
    for agent in WORKERS:
        for minute in range(10, 590, 45):
            add(minute + chance.uniform(0, 20), agent, Act.USE)
        add(chance.uniform(300, 590), agent, Act.COMPLETE)
    for agent in CRASHERS[:2]:  # crash until sm gives up
        first = chance.uniform(30, 300)
        for number in range(4):
            add(first + 2 * number, agent, Act.CRASH)
    for agent in CRASHERS[2:]:  # crash now and then
        for hour in range(1, 9, 3):
            add(60 * hour + chance.uniform(0, 50), agent, Act.CRASH)
    add(580, CRASHERS[2], Act.COMPLETE)
    for agent in ASKERS:
        asked = chance.uniform(20, 400)
        add(asked, agent, Act.ASK)
        if agent != ASKERS[3]:
            add(asked + chance.choice((5, 60)), agent, Act.ANSWER)
            add(asked + 120, agent, Act.COMPLETE)
    for agent in SPENDERS:
        for minute in range(15, 560, 15):
            add(minute + chance.uniform(0, 9), agent, Act.USE)
    add(240, BUDGETS[0], Act.APPROVE)
    add(250, BUDGETS[1], Act.REJECT)
    add(585, BUDGETS[0], Act.COMPLETE)
    for number, agent in enumerate(LIMITED[:2]):
        add(120 + number, agent, Act.MEET_LIMIT)
    add(182, LIMITED[0], Act.SUCCEED)
    add(183, LIMITED[1], Act.SUCCEED)
    for agent in LIMITED[:3]:
        add(chance.uniform(300, 500), agent, Act.COMPLETE)
    return sorted(found, key=lambda entry: (entry.at_s, entry.agent, entry.act))
