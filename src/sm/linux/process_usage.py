"""Memory and processor time of process trees, from one pass over /proc. Blocks: call it in a thread."""

import os
import re
from collections.abc import Iterable, Mapping

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.linux.kernel import kernel
from sm.linux.platform import boot_id
from sm.linux.processes import read_proc

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss: +(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    parent: int
    start: int
    """In ticks since the boot."""
    cpu_s: float
    """Processor time of the process itself, without its children."""
    rss: int
    """Resident memory in bytes. Memory that processes share counts for each of them."""
    children_cpu_s: float = 0.0
    """Processor time of its ended children, and of theirs."""


class ProcessTable:
    """The usage of processes, by pid."""

    def __init__(self, usages: Mapping[int, ProcessUsage]) -> None:
        self.usages = usages
        self._children: dict[int, list[int]] = {}
        for pid, usage in usages.items():
            self._children.setdefault(usage.parent, []).append(pid)

    def tree_rss(self, root: Process) -> int | None:
        """The resident memory of the process and its descendants in bytes; None when the process is gone."""
        own = self.usages.get(root.pid)
        if own is None or root.started != f"{boot_id()}/{own.start}":
            return None
        return sum(self.usages[pid].rss for pid in self.tree([root.pid]))

    def tree(self, roots: Iterable[int]) -> set[int]:
        """The pids of these processes and of all their descendants, as far as they run."""
        left, seen = [pid for pid in roots if pid in self.usages], set[int]()
        while left:
            pid = left.pop()
            if pid not in seen:
                seen.add(pid)
                left += self._children.get(pid, ())
        return seen

    def tree_cpu_s(self, roots: Iterable[int]) -> float:
        """The processor time of these processes and all their descendants, also of those that have ended."""
        return sum(self.usages[pid].cpu_s + self.usages[pid].children_cpu_s for pid in self.tree(roots))


def read_table() -> ProcessTable:
    """The usage of every process."""
    usages = {}
    for name in kernel().names("/proc"):
        if name.isdigit() and (usage := read_usage(int(name))) is not None:
            usages[int(name)] = usage
    return ProcessTable(usages)


def read_usage(pid: int) -> ProcessUsage | None:
    """The usage of one process; None when there is none."""
    text = read_proc(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # fields[0] is field 3 of proc(5)
    cpu_s, children_s = ((int(fields[n]) + int(fields[n + 1])) * _TICK_S for n in (11, 13))
    return ProcessUsage(int(fields[1]), int(fields[19]), cpu_s, int(fields[21]) * _PAGE, children_s)


def memory_of(pid: int) -> int:
    """The memory of a process in bytes, with its share of memory that processes share; 0 when there is none."""
    found = _PSS.search(read_proc(f"/proc/{pid}/smaps_rollup") or b"")
    return 0 if found is None else int(found[1]) * 1024
