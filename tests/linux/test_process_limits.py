"""Limits of processes, as the kernel shows them in /proc."""

import os
import resource
import subprocess

import pytest

from sm.linux.process_limits import RESOURCES, hard_limits, niceness, soft_limits

GONE = 1 << 30
"""Larger than any pid (proc(5), pid_max)."""


def test_limits_are_those_of_getrlimit() -> None:
    numbers = {name: getattr(resource, f"RLIMIT_{name.upper()}") for name in RESOURCES}
    found = soft_limits()
    os.umask(umask := os.umask(0))
    assert found.pop("umask") == umask
    assert found == {name: resource.getrlimit(number)[0] for name, number in numbers.items()}
    assert hard_limits() == {name: resource.getrlimit(number)[1] for name, number in numbers.items()}


@pytest.mark.processes
def test_limits_of_another_process_are_read_by_its_pid() -> None:
    words = ["sh", "-c", "umask 031; ulimit -S -n 77; ulimit -S -c 2; echo; exec sleep 1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        found = soft_limits(process.pid)
        assert (found["umask"], found["nofile"], found["core"]) == (0o031, 77, 1024)
        assert niceness(process.pid) == niceness()
        process.kill()


def test_soft_limits_of_a_process_that_is_gone_are_empty() -> None:
    assert soft_limits(GONE) == {}
