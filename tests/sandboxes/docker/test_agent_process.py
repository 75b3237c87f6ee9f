"""The search for an agent's process, with processes of this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from sm.linux import processes
from sm.linux.cgroups import Cgroup
from sm.sandboxes.docker.agent_process import AgentSearch
from tests.waits import until


@pytest.mark.processes
@pytest.mark.parametrize("program", ["exec sleep 100000", "exec sh init"])
def test_runtime_that_starts_a_process_is_not_its_agent(tmp_path: Path, program: str) -> None:
    (tmp_path / "init").write_text(f"read line; export SM_SESSION_ID=deadbeef; {program}\n")
    started = subprocess.Popen(
        ("runc", "init"), executable="/bin/sh", cwd=tmp_path, env={"PATH": "/bin"}, stdin=subprocess.PIPE
    )
    try:
        search = AgentSearch(Cgroup(None, None, None), "deadbeef", "/run/launch", os.getpid())

        process = processes.identify(started.pid)
        assert process is not None
        search.know(process)
        until(lambda: processes.command_line(started.pid) == ("runc", "init"), "the runtime runs")
        assert search.look() == (process, False)
        assert started.stdin is not None
        started.stdin.write(b"\n")
        started.stdin.flush()
        until(lambda: search.look() == (process, True), "the agent runs")
    finally:
        started.kill()
        started.communicate()
