"""Measures the processor time that the rules of warnings add for many sessions, at rest and at work."""

import time
from collections.abc import Iterator

from bench.instance import Instance
from bench.row import Effort, Row
from bench.watching import cpu_percent, settle
from sm.client.http import Client

_RULES = ("loop", "no_progress", "burn", "context", "unanswered", "memory", "silent")
_OFF = "warnings:\n" + "".join(f'  {rule}: {{do: "off"}}\n' for rule in _RULES)


def measure(effort: Effort) -> Iterator[Row]:
    for what, agent_type, status, gate in (
        ("supervising {} claudes at rest (a stand-in)", "Claude", "idle", 0.1),
        ("supervising {} programs at work", "Sleep", "running", None),
    ):
        with_rules = _cpu(effort, agent_type, status, "")
        without = _cpu(effort, agent_type, status, _OFF)
        name = f"{what.format(effort.sessions)}: CPU added, of a core"
        yield Row(name, "%", max(0.0, with_rules - without), gate=gate)
        yield Row("  of the daemon with the rules", "%", with_rules, without, "without")


def _cpu(effort: Effort, agent_type: str, status: str, config: str) -> float:
    count = effort.sessions
    with Instance(config=config) as instance:
        instance.spawn_many(count, agent_type)
        client = Client(instance.socket)
        deadline = time.monotonic() + 180
        while sum(s["status"] == status for s in client.get("/v1/sessions")) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all agents are {status}")
            time.sleep(0.1)
        settle()
        (percent,) = cpu_percent(effort.looks_s, [], instance.daemon.pid)
        return percent
