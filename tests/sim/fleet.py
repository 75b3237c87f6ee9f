"""A random fleet: what its agents, its people and its faults do, and when. Pure data, from a seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.sim.parts import Part, parts_of

KINDS: Mapping[str, int] = {"Tty": 2, "Inbox": 2, "Plain": 3, "Limited": 1}
"""Agent types by how often they are spawned. The last two are claude."""
_LENGTH_S = 300.0
_ROUNDS = 2
_DAY_S = 86_400.0


class Act(StrEnum):
    SPAWN = "spawn"
    """The actor (the operator, or an agent) starts an agent."""
    SEND = "send"
    URGENT = "urgent"
    """A message that interrupts its recipient."""
    ASK = "ask"
    """The actor asks its parent or the operator; somebody answers later."""
    ANSWER = "answer"
    """The operator answers an open request, whatever it is about."""
    NOTE = "note"
    CHECKPOINT = "checkpoint"
    COMPLETE = "complete"
    EXIT = "exit"
    """The process of the agent ends with a code."""
    KILL = "kill"
    KILL_TREE = "kill tree"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    INTERRUPT = "interrupt"
    BUDGET = "budget"
    ARCHIVE = "archive"
    REMOVE = "remove"
    WAIT = "wait"
    """The actor waits until an agent has ended."""
    OVERSTEP = "overstep"
    """An agent tries what only somebody above may do."""
    HIRE = "hire"
    """A spawn with a lifecycle mode, a restart policy and a budget of its own."""
    FORK = "fork"
    """The operator starts a session from a copy of the conversation of another one."""
    JUDGE = "judge"
    """The actor answers an open request of a session that it has spawned."""
    GRANT = "grant"
    """The actor sets the budget of a session that it has spawned."""
    WRITE = "write"
    """The owner writes to an agent in Telegram."""
    PRESS = "press"
    """The owner presses a button in Telegram."""
    TOOL = "tool"
    """An agent calls a tool of MCP: it spawns, sends, waits or oversteps."""
    BOX = "box"
    """The operator starts an agent in a container."""
    SETTLE = "settle"
    """Nobody acts until the daemon has settled. The promises are checked then."""


class Fault(StrEnum):
    DROP = "drop"
    """The daemon is dropped some callbacks later, and started again some seconds after that."""
    DROP_TWICE = "drop twice"
    """The daemon is dropped, and the next one while it starts."""
    PROCESS = "process"
    """A process of an agent gets SIGKILL, between any two callbacks."""
    SERVER = "server"
    """The terminal server ends."""
    DEAF = "deaf"
    """The terminal server does not answer for a while."""
    SLOW = "slow"
    """Each call of the terminal server takes long for a while."""
    CLOCK = "clock"
    """The wall clock is stepped."""
    HOOKS = "hooks"
    """The next events of an agent come late, twice or never."""
    PERSON = "person"
    """A person types into the terminal of an agent."""
    DISK = "disk"
    """The disk is full for a while."""
    EVENTS = "events"
    """Events of files come late or never for a while, or their queue overflows."""
    CUT = "cut"
    """A live view loses its connection."""
    UNREAD = "unread"
    """A live view reads nothing for a while."""
    TELEGRAM = "telegram"
    """Telegram is away, refuses calls, or its answers are lost."""
    PUMP = "pump"
    """A process `sm mcp` gets SIGKILL."""
    ENGINE = "engine"
    """The engine of the containers is away for a while, or a container is removed."""
    RECEIVER = "receiver"
    """The receiver of webhooks refuses requests, or is away for a while."""


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
    Act.SPAWN: 7,
    Act.SEND: 14,
    Act.URGENT: 1,
    Act.ASK: 3,
    Act.ANSWER: 5,
    Act.NOTE: 1,
    Act.CHECKPOINT: 1,
    Act.COMPLETE: 2,
    Act.EXIT: 3,
    Act.KILL: 2,
    Act.KILL_TREE: 1,
    Act.PAUSE: 2,
    Act.RESUME: 3,
    Act.RESTORE: 3,
    Act.INTERRUPT: 1,
    Act.BUDGET: 1,
    Act.ARCHIVE: 1,
    Act.REMOVE: 1,
    Act.WAIT: 2,
    Act.OVERSTEP: 2,
}
_FAULTS = {
    Fault.DROP: 8,
    Fault.DROP_TWICE: 2,
    Fault.PROCESS: 3,
    Fault.SERVER: 1,
    Fault.DEAF: 2,
    Fault.SLOW: 1,
    Fault.CLOCK: 1,
    Fault.HOOKS: 4,
    Fault.PERSON: 2,
    Fault.DISK: 2,
}
_MORE: Mapping[Act | Fault, int] = {Act.HIRE: 3, Act.FORK: 3, Act.JUDGE: 4, Act.GRANT: 2, Fault.EVENTS: 2}
"""Further entries: with a chance of their own, so that an older seed still plays what it played, and more."""
_OF_PARTS: Mapping[Part, Mapping[Act | Fault, int]] = {
    Part.VIEWS: {Fault.CUT: 5, Fault.UNREAD: 3, Act.ARCHIVE: 3, Act.REMOVE: 2},
    Part.PHONE: {Act.WRITE: 4, Act.PRESS: 6, Fault.TELEGRAM: 5},
    Part.TOOLS: {Act.TOOL: 14, Fault.PUMP: 2},
    Part.SANDBOXES: {Act.BOX: 8, Fault.ENGINE: 4},
    Part.WEBHOOK: {Fault.RECEIVER: 3},
}


def script(seed: int, *, acts: int = 45, faults: int = 10) -> list[Entry]:
    """All entries in the order of their times."""
    chance = random.Random(seed)
    found = [Entry(0.1 * n, Act.SPAWN, -1, 0, chance.random()) for n in range(4)]
    chosen: list[Act | Fault] = []
    chosen += chance.choices(list(_ACTS), list(_ACTS.values()), k=acts)
    chosen += chance.choices(list(_FAULTS), list(_FAULTS.values()), k=faults)
    for act in chosen:
        actor = -1 if chance.random() < 0.4 else chance.randrange(20)
        at_s = round(chance.uniform(1, _LENGTH_S), 3)
        found.append(Entry(at_s, act, actor, chance.randrange(20), chance.random()))
    found += [Entry(n * _LENGTH_S / _ROUNDS, Act.SETTLE, -1, 0, 0.0) for n in range(1, _ROUNDS)]
    return sorted([*found, *_more(seed)], key=lambda entry: entry.at_s)


def _more(seed: int) -> list[Entry]:
    chance = random.Random(f"more {seed}")
    chosen: list[Act | Fault] = chance.choices(list(_MORE), list(_MORE.values()), k=8)
    for part in sorted(parts_of(seed)):
        weights = _OF_PARTS[part]
        chosen += chance.choices(list(weights), list(weights.values()), k=sum(weights.values()))
    found = []
    for act in chosen:
        at_s, actor = round(chance.uniform(1, _LENGTH_S), 3), chance.randrange(-8, 20)
        found.append(Entry(at_s, act, max(actor, -1), chance.randrange(20), chance.random()))
    return found


def days(seed: int, count: float, *, agents: int = 20) -> list[Entry]:
    """Days of claudes that each take a turn every ten minutes, with messages among them, and two faults an hour."""
    chance = random.Random(seed)
    plain = 0.5  # a claude without a budget, see `kind_of`
    found = [Entry(0.1 * n, Act.SPAWN, -1, 0, plain) for n in range(agents)]
    end_s = count * _DAY_S
    for agent in range(agents):
        at_s = chance.uniform(10, 600)
        while at_s < end_s:
            actor = -1 if chance.random() < 0.7 else chance.randrange(agents)
            found.append(Entry(round(at_s, 3), Act.SEND, actor, agent, chance.random()))
            at_s += chance.uniform(540, 660)
    found += [Entry(120.0 * n + 60, Act.ANSWER, -1, 0, chance.random()) for n in range(int(end_s / 120))]
    kinds = {fault: weight for fault, weight in _FAULTS.items() if fault is not Fault.SERVER}
    for fault in chance.choices(list(kinds), list(kinds.values()), k=int(end_s / 1800)):
        at_s = round(chance.uniform(60, end_s), 3)
        found.append(Entry(at_s, fault, -1, chance.randrange(agents), chance.random()))
        if fault is Fault.PROCESS:
            found.append(Entry(at_s + 60, Act.RESTORE, -1, found[-1].target, 0.0))
    found += [Entry(float(at), Act.SETTLE, -1, 0, 0.0) for at in range(21_600, int(end_s), 21_600)]
    return sorted(found, key=lambda entry: entry.at_s)


def kind_of(value: float) -> str:
    """The agent type for a number below 1."""
    names = [name for name, weight in KINDS.items() for _ in range(weight)]
    return names[int(value * len(names))]


def config_of(seed: int) -> str:
    """The settings of a run: those that change what an ending, a budget or a completion means come from the seed."""
    chance = random.Random(f"settings {seed}")
    on_end = chance.choice(("adopt", "adopt", "abandon", "keep"))
    on_limit = chance.choice(("ask", "pause", "kill", "notice"))
    mode = chance.choice(("auto", "auto", "supervised", "manual"))
    kills = chance.choice(("false", "false", "true"))
    closes = chance.choice(("false", "false", "true"))
    return f"""
default_trust: direct
limits: {{spawn_interval_s: 0}}
budgets: {{on_limit: {on_limit}, grace_s: 10}}
child_agents:
  mode: {mode}
  on_parent_end: {on_end}
  cleanup: {{auto_kill_on_complete: {kills}, close_tmux_session: {closes}}}
commands:
  Tty: {{command: [agent, tty], prompt: file, input: tty}}
  Inbox: {{command: [agent, inbox], prompt: file, input: inbox}}
claude:
  default_command: /usr/bin/stand-in
  agent_configs:
    Plain: {{}}
    Limited: {{budget: "tokens=4k"}}
"""
