import os
import subprocess
import sys

import pytest

from sm.core.models import Process
from sm.linux.process_usage import ProcessUsage, read_usage, tree_rss, usage_table
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
        root, table = identify(tree.pid), usage_table()
        assert root is not None
        total = tree_rss(table, root)
        assert total is not None
        assert total > table[tree.pid].rss
        tree.communicate(b"\n")


def test_memory_of_a_process_that_is_gone_is_unknown() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert tree_rss({}, own) is None
    other = Process(own.pid, own.started + "1")  # the kernel has reused the pid
    assert tree_rss(usage_table(), other) is None


def test_cycle_of_parents_ends() -> None:
    own = identify(os.getpid())
    assert own is not None
    ticks = int(own.started.partition("/")[2])
    table = {own.pid: ProcessUsage(2, ticks, 0, 5), 2: ProcessUsage(own.pid, 0, 0, 7)}
    assert tree_rss(table, own) == 12
