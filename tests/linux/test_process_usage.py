import os
import subprocess
import sys

import pytest

from sm.core.models import Process
from sm.linux.process_usage import ProcessTable, ProcessUsage, read_table, read_usage
from sm.linux.processes import identify


def test_usage_of_a_process_includes_its_memory_and_processor_time() -> None:
    usage = read_usage(os.getpid())
    assert usage is not None
    assert usage.parent == os.getppid()
    assert usage.rss > 1_000_000
    while (later := read_usage(os.getpid())) is not None and later.cpu_s == usage.cpu_s:
        pass
    assert later is not None
    assert later.cpu_s > usage.cpu_s


@pytest.mark.processes
def test_memory_of_a_tree_includes_children_and_grandchildren() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tree:
        assert tree.stdout is not None
        assert tree.stdout.readline() == b"1\n"
        root, table = identify(tree.pid), read_table()
        assert root is not None
        total = table.tree_rss(root)
        assert total is not None
        assert total > table.usages[tree.pid].rss
        tree.communicate(b"\n")


def test_memory_of_a_process_that_is_gone_is_unknown() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert ProcessTable({}).tree_rss(own) is None
    other = Process(own.pid, own.started + "1")  # the kernel has reused the pid
    assert read_table().tree_rss(other) is None


def test_cycle_of_parents_ends() -> None:
    own = identify(os.getpid())
    assert own is not None
    ticks = int(own.started.partition("/")[2])
    table = {own.pid: ProcessUsage(2, ticks, 0, 5), 2: ProcessUsage(own.pid, 0, 0, 7)}
    assert ProcessTable(table).tree_rss(own) == 12
