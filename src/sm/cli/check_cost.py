"""Measures what a check costs this machine: processor time and memory of a private instance and of this command."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.errors import SmError
from sm.linux.process_usage import memory_of, read_table

_EVERY_S = 0.5


@dataclass(slots=True)
class CheckCost:
    """The cost so far. Both are complete when the measurement ends."""

    processor_s: float = 0.0
    memory_bytes: int = 0
    """The most that was used at one time. Shared memory counts once."""


@contextmanager
def measured(client: Client) -> Iterator[CheckCost]:
    """Measure the processes of the instance that `client` reaches, and this process, while the block runs."""
    cost, ended, began_s = CheckCost(), threading.Event(), _own_cpu_s()
    # Not the client of the contracts, which several threads use.
    follower = threading.Thread(target=_follow, args=(client, cost, ended), name="cost", daemon=True)
    follower.start()
    try:
        yield cost
    finally:
        ended.set()
        follower.join()
        cost.processor_s = round(cost.processor_s + _own_cpu_s() - began_s, 1)


def _follow(client: Client, cost: CheckCost, ended: threading.Event) -> None:
    """Look at the daemon, its tmux server and all below them until the end, and a last time then."""
    roots = list[int]()
    while True:
        is_last = ended.wait(_EVERY_S)
        if len(roots) < 2 or is_last:
            with suppress(SmError):
                status = client.get("/v1/status")
                roots = [
                    pid for pid in (status["daemon"]["pid"], status["terminal_server"]) if pid is not None
                ]
        table = read_table()
        cost.processor_s = max(cost.processor_s, table.tree_cpu_s(roots))
        memory = sum(memory_of(pid) for pid in {*table.tree(roots), os.getpid()})
        cost.memory_bytes = max(cost.memory_bytes, memory)
        if is_last:
            return


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
